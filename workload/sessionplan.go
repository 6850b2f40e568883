package workload

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/assay-bench/assay/record"
)

// Session is one planned conversation.
type Session struct {
	// Index counts sessions from 0, First is the index of the first turn's request:
	// requests are numbered in planned order, whenever they come.
	Index, First int64
	// User who speaks, from 0, and the length of the prefix that is the user's own.
	User       int64
	UserTokens int
	// PrefixPool is the shared prefix that the first prompt begins with, from 1, 0 for
	// none; PrefixTokens is its length.
	PrefixPool, PrefixTokens int
	// System prompt, if a trace has it.
	System string
	Turns  []Turn
}

// Turn is one request of a session.
type Turn struct {
	// PromptTokens is what the prompt has beyond the one before and its reply: what
	// the user says. Of the first turn it is the whole prompt, prefixes included.
	PromptTokens int
	// MaxTokens caps the reply.
	MaxTokens int
	// Delay from the end of the turn before, think time or a tool's; 0 for the first.
	Delay time.Duration
	// Tool: the delay is a tool's.
	Tool bool
	// At, if it is not 0, is when the turn is due after the first one was: not
	// before, and not before the end of the turn before. Delay is not used then.
	At time.Duration
	// Text to say, if a trace has it; PromptTokens are then not known.
	Text string
	// Blocks of BlockTokens each, if a trace has them and prompts are made of them:
	// PromptTokens are then the whole prompt of every turn.
	Blocks      []uint64
	BlockTokens int
	// KnownTokens of the prompt as planned; see [record.Request].
	KnownTokens int
}

// sessionDraws draws sessions. What is drawn for one depends on the seed and its
// index alone: each has random streams of its own, one for each purpose.
type sessionDraws struct {
	spec    *Sessions
	turns   *sampler
	first   *sampler // nil: as the rest
	user    *sampler // length of users' prefixes; nil without
	delay   func(*rand.Rand) time.Duration
	streams [5]sessionStream // of turns, delays, prompts, outputs; of users' prefixes

	trace    *sessionTrace // nil without one
	recorded func() (*traceSession, bool, error)
	system   string // of the session that was read last

	next, request int64
	buffer        []Turn
	current       Session // whose turns Plan.Next gives one by one
	turn          int
	history       int
}

// The streams.
const (
	drawTurns = iota
	drawDelays
	drawPrompts
	drawOutputs
	drawUsers
)

// sessionStream is a random source that starts anew at every session.
type sessionStream struct {
	hi, lo uint64
	pcg    rand.PCG
	rand   *rand.Rand
}

func (s *sessionStream) set(seed uint64, purpose string) {
	sum := sha256.Sum256(fmt.Appendf(nil, "assay %d sessions %s", seed, purpose))
	s.hi, s.lo = binary.LittleEndian.Uint64(sum[:]), binary.LittleEndian.Uint64(sum[8:])
	s.rand = rand.New(&s.pcg)
}

func (s *sessionStream) start(index int64) {
	s.pcg.Seed(s.hi^spreadBits(uint64(index)), s.lo+uint64(index))
}

// spreadBits is the finaliser of SplitMix64 (Steele, Lea and Flood 2014).
func spreadBits(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// setSessions prepares the draws of a plan with sessions.
func (p *Plan) setSessions() error {
	spec := p.spec.Sessions
	if spec == nil {
		return nil
	}
	d := &sessionDraws{spec: spec}
	var err error
	if d.turns, err = spec.Turns.drawer(); err != nil {
		return fmt.Errorf("planning the workload: sessions.turns: %w", err)
	}
	if spec.FirstPromptTokens != nil {
		if d.first, err = spec.FirstPromptTokens.drawer(); err != nil {
			return fmt.Errorf("planning the workload: sessions.first_prompt_tokens: %w", err)
		}
	}
	if spec.UserPrefixTokens != nil {
		if d.user, err = spec.UserPrefixTokens.sampler(); err != nil {
			return fmt.Errorf("planning the workload: sessions.user_prefix_tokens: %w", err)
		}
	}
	if spec.Tool != nil {
		d.delay = spec.Tool.Delay.sampler()
	}
	for i, purpose := range [...]string{"turns", "delays", "prompt lengths", "output lengths", "user prefixes"} {
		d.streams[i].set(p.seed, purpose)
	}
	// The lengths of turns are drawn as those of requests are, from other streams.
	p.prompts, p.outputs = d.streams[drawPrompts].rand, d.streams[drawOutputs].rand
	p.sessions = d
	return nil
}

// NextSession is the next session in planned order; its turns are valid until the
// next call. ok is false when the workload is over. A plan gives either sessions or
// requests (Next), not both.
func (p *Plan) NextSession() (s Session, ok bool) {
	d := p.sessions
	if d == nil {
		return Session{}, false
	}
	if a := &p.spec.Arrival; a.Process == Burst && a.Every == 0 && d.next >= int64(a.Size) {
		return Session{}, false
	}
	s = Session{Index: d.next, First: d.request, User: d.next}
	for i := range d.streams[:drawUsers] {
		d.streams[i].start(s.Index)
	}
	if users := d.spec.Users; users > 0 {
		s.User = d.streams[drawTurns].rand.Int64N(int64(users))
	}
	d.buffer = d.buffer[:0]
	if d.trace != nil {
		ok = p.replaySession()
	} else {
		ok = p.drawSession()
	}
	if !ok {
		return Session{}, false
	}
	if d.user != nil {
		// Drawn again each time, so that a billion users take no memory.
		d.streams[drawUsers].start(s.User)
		s.UserTokens = d.user.draw(d.streams[drawUsers].rand)
	}
	s.PrefixPool, s.PrefixTokens = p.prefixes.draw(s.Index)
	d.buffer[0].PromptTokens += d.spec.SystemPromptTokens + d.spec.SharedPrefixTokens + s.PrefixTokens + s.UserTokens
	s.Turns, s.System = d.buffer, d.system
	p.learn(&s)
	d.next++
	d.request += int64(len(s.Turns))
	return s, true
}

// learn sets what is known of the prompts of a session, histories as planned.
func (p *Plan) learn(s *Session) {
	salt, spec := p.spec.CacheSalt, p.spec.Sessions
	if salt == SaltRequest {
		return
	}
	if p.ReplaysBlocks() {
		chain := saltOf(&record.Request{Session: s.Index, CacheSalt: salt})
		for i := range s.Turns {
			t := &s.Turns[i]
			t.KnownTokens = p.known.recorded(chain, t.Blocks, t.BlockTokens, t.PromptTokens)
		}
		return
	}
	if salt != SaltSession {
		s.Turns[0].KnownTokens = p.known.opening(s, spec.SystemPromptTokens+spec.SharedPrefixTokens, spec.Users > 0)
	}
}

// drawSession fills the buffer; false when a trace that has the lengths is over.
func (p *Plan) drawSession() bool {
	d := p.sessions
	n := d.turns.draw(d.streams[drawTurns].rand)
	for i := range n {
		var t Turn
		t.PromptTokens, t.MaxTokens = p.lengths()
		if p.trace != nil {
			var r record.Request
			if !p.fromTrace(&r) {
				return false
			}
			t.PromptTokens, t.MaxTokens = max(t.PromptTokens, r.PromptTokens), max(t.MaxTokens, r.MaxTokens)
		}
		if i == 0 && d.first != nil {
			t.PromptTokens = d.first.draw(p.prompts)
		}
		if i > 0 {
			t.Delay, t.Tool = p.drawDelay()
		}
		d.buffer = append(d.buffer, t)
	}
	return true
}

// drawDelay is the rest before a later turn.
func (p *Plan) drawDelay() (delay time.Duration, tool bool) {
	d := p.sessions
	r := d.streams[drawDelays].rand
	if d.spec.Tool != nil && r.Float64() < d.spec.Tool.Share {
		return d.delay(r), true
	}
	return p.rest(r), false
}

// nextTurn is Next for a plan of sessions: their turns one after the other, with
// histories as long as they are planned.
func (p *Plan) nextTurn() (r record.Request, ok bool) {
	d := p.sessions
	if d.turn == len(d.current.Turns) {
		if d.current, ok = p.NextSession(); !ok {
			return record.Request{}, false
		}
		d.turn, d.history = 0, 0
	}
	r = p.turnOf(&d.current, d.turn, d.history, d.history-1)
	d.history = r.PromptTokens + r.MaxTokens
	d.turn++
	return r, true
}

// turnOf is the i-th turn from 0 as a request, after so many tokens were said, of
// which so many are known from the start on.
func (p *Plan) turnOf(s *Session, i, said, known int) record.Request {
	t := &s.Turns[i]
	r := record.Request{
		Index: s.First + int64(i), Session: s.Index, Turn: i + 1, Turns: len(s.Turns),
		PromptTokens: t.PromptTokens, MaxTokens: t.MaxTokens, ExactOutput: p.spec.ExactOutput,
		KnownTokens: t.KnownTokens, Blocks: t.Blocks, BlockTokens: t.BlockTokens, CacheSalt: p.spec.CacheSalt,
	}
	if i == 0 || p.ReplaysBlocks() {
		return r
	}
	r.PromptTokens += said
	if r.CacheSalt != SaltRequest {
		r.KnownTokens = known
	}
	return r
}

// ReplaysBlocks reports whether the turns of sessions have the blocks of a trace for
// prompts, and not what was said before.
func (p *Plan) ReplaysBlocks() bool {
	return p.sessions != nil && p.sessions.trace != nil && p.sessions.trace.f.blocks
}

// clone is the session with turns of its own.
func (s Session) clone() Session {
	s.Turns = slices.Clone(s.Turns)
	return s
}

// turnBounds are the shortest and longest of what a turn adds to its prompt.
func (p *Plan) turnBounds() (shortest, longest int) {
	shortest, longest = p.promptBounds()
	d := p.sessions
	if d.trace != nil && p.spec.PromptTokens.Dist == FromTrace {
		shortest, longest = p.summary.ShortestPrompt, p.summary.LongestPrompt
	}
	low, high := shortest, longest
	if d.first != nil {
		low, high = d.spec.FirstPromptTokens.Bounds()
	}
	least, most := p.prefixes.bounds()
	if u := d.spec.UserPrefixTokens; u != nil {
		a, b := u.Bounds()
		least, most = least+a, most+b
	}
	return min(shortest, low+d.spec.SharedPrefixTokens+least), max(longest, high+d.spec.SharedPrefixTokens+most)
}
