package workload

import (
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"slices"
	"time"

	"github.com/assay-bench/assay/arrival"
	"github.com/assay-bench/assay/dataset"
)

// sessionTrace has the sessions of a trace, in the order in which they start. Where
// the rows of a session follow each other in the file, sessions are read one by
// one; else all of them are held, without their texts if there are too many.
type sessionTrace struct {
	f        *TraceFile
	sessions []*traceSession // nil if they are read one by one
	// cumulative: the prompt of a later turn has those before it inside.
	cumulative bool
	found      SessionSummary
}

// SessionSummary is what one pass over the sessions of a trace finds.
type SessionSummary struct {
	TraceSummary
	// Sessions, and the longest of them, in turns.
	Sessions int64
	MaxTurns int
	// Timing of later turns, as asked for or as the trace has it.
	Timing string
	// Cut turns have prompts shorter than what was said before: the recording's
	// client had dropped some of it, the replay does not.
	Cut int64
	// Branches are turns whose parent had an answer already, or is not in the trace:
	// each begins a session of its own, with its whole prompt.
	Branches int64
	// Texts: prompts are what the trace says, their lengths estimated.
	Texts bool
}

// bytesPerToken is what a length in tokens is estimated by where a trace has a text
// and no count: about that of English in most vocabularies.
const bytesPerToken = 4

// Bounds of what is held of a trace whose sessions are mixed with each other.
const (
	maxHeldTurns = 5_000_000
	maxHeldText  = 256 << 20 // and blocks, 8 bytes each
)

// traceSession is a session as recorded.
type traceSession struct {
	line   int64 // of the file
	at     time.Duration
	timed  bool
	system string
	points []tracePoint
}

// tracePoint is a turn as recorded.
type tracePoint struct {
	at, delay      time.Duration
	prompt, output int32         // at most MaxTokens
	says           *pointContent // nil for lengths alone: millions of points are held
}

// pointContent is what a turn says, where the trace has it.
type pointContent struct {
	text        string
	blocks      []uint64
	blockTokens int
}

// content of the turn.
func (p *tracePoint) content() pointContent {
	if p.says == nil {
		return pointContent{}
	}
	return *p.says
}

// openSessions reads the sessions of a trace through.
func (f *TraceFile) openSessions() (*sessionTrace, error) {
	t := &sessionTrace{f: f}
	if s := f.trace.Scale; s != nil && s.By != Compression {
		return nil, fmt.Errorf("trace.scale.by: %s would take sessions apart: use %s, or give the sessions an arrival process", s.By, Compression)
	}
	if err := t.load(); err != nil {
		return nil, err
	}
	if err := t.survey(); err != nil {
		return nil, err
	}
	return t, nil
}

// HasSessions reports whether some rows are later turns of sessions.
func (f *TraceFile) HasSessions() bool {
	return f.Summary.MaxTurn > 1 || f.Summary.Sessions > 0 && f.Summary.Sessions < f.Summary.Rows
}

// contiguous reports whether a format has the turns of a session behind each other.
func contiguous(f dataset.Format) bool {
	return f == dataset.ShareGPT || f == dataset.MultiTurn || f == dataset.Weka
}

// load holds the sessions of a trace that has them mixed.
func (t *sessionTrace) load() error {
	if contiguous(t.f.Summary.Format) {
		return nil
	}
	g := newGrouper(t.f, &t.found.Failed)
	src, done, err := t.f.scaled(0)
	if err != nil {
		return err
	}
	defer done()
	var all []*traceSession
	turns, text := 0, 0
	for {
		row, err := src.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		p, err := g.point(row)
		if err != nil {
			return err
		}
		s, fresh := g.place(row, p)
		if fresh {
			all = append(all, s)
		}
		turns++
		if c := p.content(); turns > maxHeldTurns || text+len(c.text)+8*len(c.blocks) > maxHeldText {
			return fmt.Errorf("%s: the turns of its sessions are mixed, and more than %d turns or %d MB of text or hash ids cannot be held: cut the file",
				t.f.trace.File, maxHeldTurns, maxHeldText>>20)
		} else {
			text += len(c.text) + 8*len(c.blocks)
		}
	}
	t.found.Branches = g.branches
	t.sessions = slices.DeleteFunc(all, func(s *traceSession) bool { return len(s.points) == 0 })
	if t.sessions == nil {
		t.sessions = []*traceSession{}
	}
	slices.SortStableFunc(t.sessions, func(a, b *traceSession) int { return int(max(-1, min(1, a.at-b.at))) })
	return nil
}

// grouper puts rows into sessions.
type grouper struct {
	f         *TraceFile
	seed      maphash.Seed             // of hashes, which are kept in place of ids
	bySession map[uint64]*traceSession // by its id
	byTip     map[uint64]*traceSession // by the id of the latest turn
	branches  int64
	failed    *int64 // counts the rows that failed
}

func newGrouper(f *TraceFile, failed *int64) *grouper {
	return &grouper{f: f, failed: failed, seed: maphash.MakeSeed(), bySession: make(map[uint64]*traceSession), byTip: make(map[uint64]*traceSession)}
}

// key is the hash of an id. Of five million, two are the same once in a million files.
func (g *grouper) key(id string) uint64 { return maphash.String(g.seed, id) }

// place appends the turn to its session: that whose latest turn is its parent, else
// that of its id; or to a new one.
func (g *grouper) place(row *dataset.Row, p tracePoint) (s *traceSession, fresh bool) {
	switch {
	case row.Turn == 1: // also of an agent that another one started
	case row.Parent != "":
		if s = g.byTip[g.key(row.Parent)]; s == nil {
			g.branches++
		}
	case row.SessionID != "":
		s = g.bySession[g.key(row.SessionID)]
	}
	if s == nil {
		s, fresh = &traceSession{line: row.Line, at: row.At, timed: row.Timed, system: row.System}, true
		if row.SessionID != "" && row.Parent == "" {
			g.bySession[g.key(row.SessionID)] = s
		}
	}
	if row.ID != "" {
		if !fresh {
			delete(g.byTip, g.key(row.Parent))
		}
		g.byTip[g.key(row.ID)] = s
	}
	if p.output > 0 {
		s.points = append(s.points, p)
	}
	return s, fresh
}

// point is what is kept of a row; a failed one has no output.
func (g *grouper) point(row *dataset.Row) (tracePoint, error) {
	if row.Failed {
		*g.failed++
		return tracePoint{}, nil
	}
	p := tracePoint{at: row.At, delay: row.Delay}
	prompt, output := row.PromptTokens, row.OutputTokens
	var says pointContent
	if g.f.blocks {
		says.blocks, says.blockTokens = g.f.blocksOf(row)
	}
	if prompt == dataset.Unknown && g.f.prompt {
		if prompt = estimate(row.Text); prompt > 0 {
			says.text = row.Text
		}
		for _, m := range row.Messages {
			prompt += estimate(m.Content) // only their length: they have their history inside
		}
	}
	if output == dataset.Unknown {
		output = estimate(row.Reply)
	}
	if says.text != "" || says.blocks != nil {
		p.says = &says
	}
	missing := ""
	switch {
	case prompt < 1 && g.f.prompt:
		missing = "neither a number of prompt tokens nor a text"
	case output < 1 && g.f.output:
		missing = "neither a number of output tokens nor a reply: give output_tokens"
	case max(prompt, output) > MaxTokens:
		return p, fmt.Errorf("%s:%d: %d prompt and %d output tokens: more than %d", g.f.trace.File, row.Line, prompt, output, MaxTokens)
	}
	if missing != "" {
		return p, fmt.Errorf("%s:%d: the row has %s", g.f.trace.File, row.Line, missing)
	}
	p.prompt, p.output = int32(max(prompt, 1)), int32(max(output, 1))
	return p, nil
}

// estimate is about how many tokens a text has.
func estimate(text string) int { return (len(text) + bytesPerToken - 1) / bytesPerToken }

// open starts at the first session, and counts the failed rows on the way. next's
// result is valid until the next call.
func (t *sessionTrace) open(failed *int64) (next func() (*traceSession, bool, error), err error) {
	if t.sessions != nil {
		i := 0
		return func() (*traceSession, bool, error) {
			if i == len(t.sessions) {
				return nil, false, nil
			}
			i++
			return t.sessions[i-1], true, nil
		}, nil
	}
	src, done, err := t.f.scaled(0)
	if err != nil {
		return nil, err
	}
	r := &sessionReader{g: newGrouper(t.f, failed), src: src, done: done}
	return r.next, nil
}

// sessionReader reads sessions whose rows follow each other.
type sessionReader struct {
	g    *grouper
	src  dataset.Source
	done func()

	ready []*traceSession // complete, in order of their first rows
	open  []*traceSession // of the session id that is being read
	id    string
	over  bool
}

func (r *sessionReader) next() (*traceSession, bool, error) {
	for len(r.ready) == 0 && !r.over {
		if err := r.read(); err != nil {
			return nil, false, err
		}
	}
	if len(r.ready) == 0 {
		return nil, false, nil
	}
	s := r.ready[0]
	r.ready = r.ready[1:]
	return s, true, nil
}

// read takes one row. A session id has several sessions where agents start others.
func (r *sessionReader) read() error {
	row, err := r.src.Next()
	if err != nil {
		r.over = true
		r.flush()
		r.done()
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	}
	if row.SessionID != r.id || row.Turn == 1 && row.Parent == "" {
		r.flush()
		r.id = row.SessionID
		r.g = newGrouper(r.g.f, r.g.failed)
	}
	p, err := r.g.point(row)
	if err != nil {
		return err
	}
	s, fresh := r.g.place(row, p)
	if fresh {
		r.open = append(r.open, s)
	}
	return nil
}

func (r *sessionReader) flush() {
	for _, s := range r.open {
		if len(s.points) > 0 {
			r.ready = append(r.ready, s)
		}
	}
	r.open = r.open[:0]
}

// survey passes over the sessions, to see what is in them.
func (t *sessionTrace) survey() error {
	s := &t.found
	failed := s.Failed
	if t.sessions == nil {
		failed = 0
	}
	next, err := t.open(&failed)
	if err != nil {
		return err
	}
	var last time.Duration
	delays, timed, fit, unfit := false, false, int64(0), int64(0)
	for {
		one, ok, err := next()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if t.f.time && !one.timed {
			return fmt.Errorf("%s:%d: the session has no stamp, and is to come at its time: give an arrival process, or a concurrency", t.f.trace.File, one.line)
		}
		if t.f.time && one.at < last {
			return fmt.Errorf("%s: session %d begins at %v, before the one ahead of it at %v: give an arrival process, or a concurrency", t.f.trace.File, s.Sessions+1, one.at, last)
		}
		if s.Sessions == 0 {
			s.Span = -one.at
		}
		last = one.at
		s.Sessions++
		s.Rows += int64(len(one.points))
		s.MaxTurns = max(s.MaxTurns, len(one.points))
		for i, p := range one.points {
			delays = delays || i > 0 && p.delay > 0
			timed = timed || p.at != one.points[0].at
			s.Texts = s.Texts || p.content().text != ""
			if i > 0 && p.prompt > one.points[i-1].prompt+one.points[i-1].output {
				fit++
			} else if i > 0 {
				unfit++
			}
		}
	}
	if s.Sessions == 0 {
		return fmt.Errorf("%s: it has no request with both lengths", t.f.trace.File)
	}
	if s.MaxTurns > maxTurns {
		return fmt.Errorf("%s: a session of %d turns: want at most %d", t.f.trace.File, s.MaxTurns, maxTurns)
	}
	s.Span += last
	s.Failed = failed
	// Where prompts have the history inside, nearly all are longer than it.
	if t.cumulative = fit > unfit && !s.Texts && !t.f.blocks; t.cumulative {
		s.Cut = unfit
	}
	s.Timing = t.f.timing
	switch {
	case s.Timing == ByDelays && !delays, s.Timing == ByTimes && !timed:
		return fmt.Errorf("sessions.timing: %s has no %s", t.f.trace.File, s.Timing)
	case s.Timing != "":
	case delays:
		s.Timing = ByDelays
	case timed:
		s.Timing = ByTimes
	default:
		s.Timing = AtOnce
	}
	return t.bounds()
}

// bounds finds the shortest and longest of what turns add, which depends on whether
// prompts have the history inside.
func (t *sessionTrace) bounds() error {
	next, err := t.open(new(int64))
	if err != nil {
		return err
	}
	s := &t.found
	s.ShortestPrompt, s.ShortestOutput = MaxTokens, MaxTokens
	var turns []Turn
	for {
		one, ok, err := next()
		if err != nil || !ok {
			return err
		}
		turns = t.turnsOf(turns[:0], one)
		for _, x := range turns {
			s.ShortestPrompt, s.LongestPrompt = min(s.ShortestPrompt, x.PromptTokens), max(s.LongestPrompt, x.PromptTokens)
			s.ShortestOutput, s.LongestOutput = min(s.ShortestOutput, x.MaxTokens), max(s.LongestOutput, x.MaxTokens)
		}
	}
}

// turnsOf appends the turns of a recorded session.
func (t *sessionTrace) turnsOf(turns []Turn, s *traceSession) []Turn {
	for i, p := range s.points {
		c := p.content()
		x := Turn{PromptTokens: int(p.prompt), MaxTokens: int(p.output), Text: c.text, Blocks: c.blocks, BlockTokens: c.blockTokens}
		if i > 0 {
			before := &s.points[i-1]
			if t.cumulative {
				x.PromptTokens = max(1, int(p.prompt-before.prompt-before.output))
			}
			switch t.found.Timing {
			case ByTimes:
				// 0 would be no time: a nanosecond after the first is as good.
				x.At = max(p.at-s.points[0].at, 1)
			case ByDelays:
				x.Delay = p.delay
			}
		}
		turns = append(turns, x)
	}
	return turns
}

// NewSessionPlan is [NewTracePlan] for a workload whose sessions are those of its
// trace. The plan is over with the trace.
func NewSessionPlan(spec Spec, seed uint64, f *TraceFile) (*Plan, error) {
	if err := spec.Validate(); err != nil {
		return nil, fmt.Errorf("planning the workload: %w", err)
	}
	if !spec.Sessions.FollowTrace() {
		return nil, errors.New("planning the workload: its sessions follow no trace")
	}
	p, err := newPlan(spec.Resolve(), seed)
	if err != nil {
		return nil, err
	}
	t, err := f.openSessions()
	if err != nil {
		return nil, fmt.Errorf("planning the workload: %w", err)
	}
	p.summary = t.found.TraceSummary
	talks := *p.spec.Sessions
	talks.Timing, p.spec.Sessions = t.found.Timing, &talks
	p.sessions.spec = &talks
	p.sessions.trace = t
	if t.found.Texts {
		p.sharing = nil
	}
	if p.sessions.recorded, err = t.open(new(int64)); err != nil {
		return nil, fmt.Errorf("planning the workload: %w", err)
	}
	return p, nil
}

// SessionTrace is what a pass over the sessions of a trace found; zero without.
func (p *Plan) SessionTrace() SessionSummary {
	if p.sessions == nil || p.sessions.trace == nil {
		return SessionSummary{}
	}
	return p.sessions.trace.found
}

// replaySession fills the buffer from the trace; false at its end.
func (p *Plan) replaySession() bool {
	d := p.sessions
	s, ok, err := d.recorded()
	if err != nil || !ok {
		p.err = err
		return false
	}
	d.system = s.system
	d.buffer = d.trace.turnsOf(d.buffer, s)
	for i := range d.buffer {
		t := &d.buffer[i]
		prompt, output := p.lengths()
		if p.spec.PromptTokens.Dist != FromTrace {
			t.PromptTokens, t.Text = prompt, ""
		}
		if p.spec.OutputTokens.Dist != FromTrace {
			t.MaxTokens = output
		}
		if i > 0 && !p.spec.ThinkTime.IsZero() {
			t.At = 0
			t.Delay, t.Tool = p.drawDelay()
		}
	}
	return true
}

// sessionArrivals are the times at which the sessions of a trace begin.
type sessionArrivals struct {
	next func() (*traceSession, bool, error)
	last time.Duration
	some bool
}

// Next implements arrival.Process. What is wrong with a row was found when the
// plan was made.
func (a *sessionArrivals) Next() time.Duration {
	if a.next == nil {
		return arrival.Never
	}
	s, ok, err := a.next()
	if err != nil || !ok {
		a.next = nil
		return arrival.Never
	}
	if !a.some {
		a.some, a.last = true, s.at
	}
	gap := s.at - a.last
	a.last = s.at
	return gap
}

func (a *sessionArrivals) String() string { return "at the times of a trace" }
