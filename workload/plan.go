package workload

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/assay-bench/assay/arrival"
	"github.com/assay-bench/assay/record"
)

// Plan draws the requests of a run: their lengths by Next, their times by
// Arrivals, the rests of slots by ThinkTime. Each of the three may be called from
// a goroutine of its own, but none from two at once.
type Plan struct {
	spec    Spec
	seed    uint64
	next    int64
	prompts *rand.Rand
	outputs *rand.Rand
	think   *rand.Rand
	lengths func() (prompt, output int)
	rest    func(*rand.Rand) time.Duration

	prefixes *prefixDraws // nil without shared prefixes
	known    *knownTokens
	sharing  *SharingCounter // nil if nothing is shared on purpose
	sessions *sessionDraws   // nil without sessions

	own   *PromptFile // prompts of a file; nil without
	texts *promptReader

	open    func() (Rows, error)
	trace   *traceReader // where lengths are; nil without a trace
	summary TraceSummary
	err     error
}

// NewPlan starts the plan of a seed. It fails if the workload is not valid, or
// follows a trace: then see [NewTracePlan].
func NewPlan(spec Spec, seed uint64) (*Plan, error) {
	if err := spec.Validate(); err != nil {
		return nil, fmt.Errorf("planning the workload: %w", err)
	}
	if spec.NeedsTrace() {
		return nil, errors.New("planning the workload: it follows a trace, which was not opened")
	}
	return newPlan(spec.Resolve(), seed)
}

// NewTracePlan is NewPlan for a workload that follows a trace. open starts at the
// first row at every call: there are three passes over it, one now, to check and
// to sum up every row, and one each for lengths and times, as they are needed.
// The plan is over with the trace.
func NewTracePlan(spec Spec, seed uint64, open func() (Rows, error)) (*Plan, error) {
	if err := spec.Validate(); err != nil {
		return nil, fmt.Errorf("planning the workload: %w", err)
	}
	if spec.Sessions.FollowTrace() {
		return nil, errors.New("planning the workload: its sessions follow the trace, of which only rows were opened")
	}
	if spec.Sessions == nil && spec.CacheSalt == SaltSession {
		return nil, errors.New("planning the workload: cache_salt: the requests are of no session: want run or request")
	}
	p, err := newPlan(spec.Resolve(), seed)
	if err != nil {
		return nil, err
	}
	p.open = open
	rows, err := open()
	if err == nil {
		p.summary, err = Summarize(rows)
	}
	if err == nil {
		rows, err = open()
	}
	if err != nil {
		return nil, fmt.Errorf("planning the workload: %w", err)
	}
	p.trace = &traceReader{rows: rows}
	if p.Shares() {
		p.sharing = NewSharingCounter(sharingBlock)
	}
	return p, nil
}

func newPlan(spec Spec, seed uint64) (*Plan, error) {
	p := &Plan{
		spec:    spec,
		seed:    seed,
		prompts: rand.New(stream(seed, "prompt lengths")),
		outputs: rand.New(stream(seed, "output lengths")),
		think:   rand.New(stream(seed, "think times")),
		rest:    spec.ThinkTime.sampler(),
	}
	if err := p.setLengths(); err != nil {
		return nil, err
	}
	var err error
	if p.prefixes, err = newPrefixDraws(spec.Prefix, seed); err != nil {
		return nil, err
	}
	p.known = newKnownTokens()
	if p.prefixes != nil || spec.Sessions != nil {
		p.sharing = NewSharingCounter(sharingBlock)
	}
	return p, p.setSessions()
}

// UsePrompts takes the prompts of a workload that has its own from the file. Call
// it before the first request is drawn.
func (p *Plan) UsePrompts(f *PromptFile) {
	p.own, p.texts = f, f.reader(p.seed)
}

// PromptFile has the prompts of the plan; nil if they are synthetic. The prompt
// lengths of its requests are estimates then.
func (p *Plan) PromptFile() *PromptFile { return p.own }

// setLengths makes the draw of a pair of lengths; 0 where a trace has it.
func (p *Plan) setLengths() error {
	if pairs := p.spec.LengthPairs; len(pairs) > 0 {
		p.lengths = func() (int, int) {
			pair := pairs[p.prompts.IntN(len(pairs))]
			return pair[0], pair[1]
		}
		return nil
	}
	prompt, err := p.spec.PromptTokens.drawer()
	if err != nil {
		return fmt.Errorf("planning the workload: prompt_tokens: %w", err)
	}
	output, err := p.spec.OutputTokens.drawer()
	if err != nil {
		return fmt.Errorf("planning the workload: output_tokens: %w", err)
	}
	p.lengths = func() (int, int) { return prompt.draw(p.prompts), output.draw(p.outputs) }
	if c := p.spec.LengthCorrelation; c != 0 {
		p.lengths = p.correlated(c, prompt, output)
	}
	return nil
}

// drawer is the sampler; one of zeros where a trace has the lengths.
func (l Length) drawer() (*sampler, error) {
	if l.Dist == FromTrace {
		return &sampler{draw: func(*rand.Rand) int { return 0 }}, nil
	}
	return l.sampler()
}

// correlated draws both lengths from one pair of normal numbers. Their own
// correlation 2·sin(π·ρ/6) gives the ranks the correlation ρ (Pearson 1907).
func (p *Plan) correlated(ranks float64, prompt, output *sampler) func() (int, int) {
	c := 2 * math.Sin(math.Pi*ranks/6)
	rest := math.Sqrt(max(1-c*c, 0))
	// Below 1 for every normal number that is drawn.
	phi := func(z float64) float64 { return min(math.Erfc(-z/math.Sqrt2)/2, 1-1e-16) }
	return func() (int, int) {
		a, b := p.prompts.NormFloat64(), p.outputs.NormFloat64()
		return prompt.quantile(phi(a)), output.quantile(phi(c*a + rest*b))
	}
}

// stream is the random source of one purpose. Sources of different purposes or
// seeds are independent.
func stream(seed uint64, purpose string) rand.Source {
	sum := sha256.Sum256(fmt.Appendf(nil, "assay %d %s", seed, purpose))
	return rand.NewPCG(binary.LittleEndian.Uint64(sum[:]), binary.LittleEndian.Uint64(sum[8:]))
}

// Spec is the workload as resolved.
func (p *Plan) Spec() Spec { return p.spec }

// Shares reports whether prompts share parts on purpose: prefixes, the blocks of a
// trace. Histories of sessions are not of these.
func (p *Plan) Shares() bool {
	if p.ReplaysBlocks() {
		return true
	}
	if p.trace == nil {
		return p.prefixes != nil
	}
	_, blocks := p.trace.rows.(blockRows)
	return blocks || p.prefixes != nil
}

// sharingBlock is the block of the planned sharing, in tokens: vLLM's default.
const sharingBlock = 16

// Due counts a request of the plan that is due, for [Plan.Sharing].
func (p *Plan) Due(r *record.Request) {
	if p.sharing != nil {
		p.sharing.Add(r)
	}
}

// Sharing is what an infinite prefix cache would have found of the requests that
// were [Plan.Due]; nil if they share nothing on purpose, or if the lengths of what
// they share are not known.
func (p *Plan) Sharing() *Sharing {
	if p.sharing == nil {
		return nil
	}
	s := p.sharing.Sharing()
	return &s
}

// Trace is what a pass over the trace found; zero without one.
func (p *Plan) Trace() TraceSummary { return p.summary }

// PromptBounds are the shortest and the longest prompt that may be asked for, in
// tokens; of sessions those of what a turn adds, without a system prompt.
func (p *Plan) PromptBounds() (shortest, longest int) {
	if p.sessions != nil {
		return p.turnBounds()
	}
	return p.promptBounds()
}

func (p *Plan) promptBounds() (shortest, longest int) {
	switch {
	case p.own != nil:
		return 1, max(p.own.Longest/bytesPerToken, 1)
	case p.spec.Prompts != nil:
		return 1, 1
	case p.spec.PromptTokens.Dist == FromTrace:
		return p.summary.ShortestPrompt, p.summary.LongestPrompt
	case len(p.spec.LengthPairs) == 0:
		return p.spec.PromptTokens.Bounds()
	}
	for i, pair := range p.spec.LengthPairs {
		if i == 0 || pair[0] < shortest {
			shortest = pair[0]
		}
		longest = max(longest, pair[0])
	}
	return shortest, longest
}

// Next is the next request in planned order, without its prompt. ok is false
// when the workload is over: after a burst or the end of a trace. Of sessions it
// gives the turns one after the other, as if all went as planned; see
// [Plan.NextSession] for when they come.
func (p *Plan) Next() (r record.Request, ok bool) {
	if p.sessions != nil {
		return p.nextTurn()
	}
	if a := &p.spec.Arrival; a.Process == Burst && a.Every == 0 && p.next >= int64(a.Size) {
		return record.Request{}, false
	}
	r = record.Request{Index: p.next, ExactOutput: p.spec.ExactOutput}
	r.PromptTokens, r.MaxTokens = p.lengths()
	if p.trace != nil && !p.fromTrace(&r) {
		return record.Request{}, false
	}
	if p.spec.Prompts != nil && !p.fromPrompts(&r) {
		return record.Request{}, false
	}
	p.next++
	r.CacheSalt = p.spec.CacheSalt
	if p.prefixes != nil {
		var n int
		r.PrefixPool, n = p.prefixes.draw(r.Index)
		r.PrefixTokens = min(n, r.PromptTokens)
	}
	r.KnownTokens = p.known.request(&r)
	return r, true
}

// fromTrace gives r the lengths that the trace has; false at its end.
func (p *Plan) fromTrace(r *record.Request) bool {
	row, ok, err := p.trace.next()
	if err != nil || !ok {
		p.err = err
		return false
	}
	if p.spec.PromptTokens.Dist == FromTrace {
		r.PromptTokens = row.prompt
	}
	if p.spec.OutputTokens.Dist == FromTrace {
		r.MaxTokens = row.output
	}
	if b, ok := p.trace.rows.(blockRows); ok {
		r.Blocks, r.BlockTokens = b.Blocks()
	}
	return true
}

// fromPrompts gives r a prompt of the file, and about its length; the reply's too,
// if the file has it. A recorded body says itself how long its reply may be.
func (p *Plan) fromPrompts(r *record.Request) bool {
	if p.texts == nil {
		p.err = errors.New("its prompts were not opened")
		return false
	}
	own, err := p.texts.next()
	if err != nil {
		p.err = err
		return false
	}
	r.Prompt, r.PromptTokens = own.prompt, own.tokens
	switch {
	case own.prompt.Body != nil:
		r.MaxTokens, r.ExactOutput = max(own.output, 0), false
	case p.spec.OutputTokens.Dist == FromTrace && p.spec.Trace == nil:
		r.MaxTokens = max(own.output, 1)
	}
	return true
}

// Err is why a trace ended early, if it did: a row that could be read when the
// plan was made, and no longer.
func (p *Plan) Err() error {
	if p.err == nil {
		return nil
	}
	if p.spec.Prompts != nil {
		return fmt.Errorf("reading the workload's files: %w", p.err)
	}
	return fmt.Errorf("reading the trace: %w", p.err)
}

// Arrivals is the arrival process of an open loop, from its start at every
// call; nil for a closed loop.
func (p *Plan) Arrivals() arrival.Process {
	switch p.spec.Arrival.Process {
	case Closed:
		return nil
	case ByTrace:
		if p.sessions != nil && p.sessions.trace != nil {
			next, _ := p.sessions.trace.open(new(int64)) // it could be opened before
			return &sessionArrivals{next: next}
		}
		rows, err := p.open()
		// It could be opened twice before.
		return &traceArrivals{t: traceReader{rows: rows}, over: err != nil}
	}
	process, err := p.spec.Arrival.process(stream(p.seed, "arrivals"))
	if err != nil {
		// The parameters were checked.
		panic(err)
	}
	return process
}

// ThinkTime is how long a slot of a closed loop waits before its next request,
// drawn anew at every call. Slots take them in the order in which requests end.
func (p *Plan) ThinkTime() time.Duration { return p.rest(p.think) }
