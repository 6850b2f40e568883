package engine

// Step is one pass of the model: what was scheduled, how long it took, and
// what it yielded. It and its slices belong to the engine and are reused by
// the next call of Engine.Step.
type Step struct {
	// Start is when the batch was formed, End when its outputs become
	// visible, ns.
	Start, End int64
	// Outputs are the requests that advanced, in order of admission. Partial
	// prefills have none.
	Outputs []Output
	// ScheduledTokens = PrefillTokens + DecodeTokens: computed in this step.
	// Recomputation after a preemption is prefill; drafts to verify are decode.
	ScheduledTokens, PrefillTokens, DecodeTokens int
	// Scheduled is the number of requests in the batch.
	Scheduled int
	// Running and Waiting are as after the step: those that finished with it
	// are gone.
	Running, Waiting int
	// Preempted requests lost their memory in this step.
	Preempted int
	// KVUsage is the share of blocks held after the step, 0 to 1.
	KVUsage float64
	// PrefixQueries and PrefixHits are prompt tokens of first admissions,
	// looked up and found in the prefix cache. Both 0 if it is off.
	PrefixQueries, PrefixHits int
	// Drafts is the number of requests whose drafts were verified,
	// DraftTokens how many were, AcceptedTokens how many held.
	Drafts, DraftTokens, AcceptedTokens int
	// AcceptedPerPos counts accepted drafts by position; nil without
	// speculative decoding.
	AcceptedPerPos []int
	// Batch is every scheduled request with its share, if Config.LogBatch.
	Batch []Share
}

// Output is what one request got out of a step.
type Output struct {
	Request *Request
	// NewTokens is 0 only for a request with OutputTokens 0, and above 1 only
	// with speculative decoding.
	NewTokens int
	// First and Finished mark the first and the last output of the request.
	First, Finished bool
	// FinishReason is FinishLength or FinishStop, empty until finished.
	FinishReason string
}

// Share is the part of one request in a batch.
type Share struct {
	Request *Request
	Tokens  int // computed in this step
	Context int // already in the KV cache
}

// Step forms one batch at now and returns its result. It starts later than
// now only if the previous step ends, or a request was added, later. Without
// work it returns a step of no length and no tokens.
//
// Whenever there is work, at least one token is computed: no configuration or
// load can make it spin (see Add, which refuses what could never fit).
func (e *Engine) Step(now int64) *Step {
	e.begin(now)
	end := e.step.Start
	if e.batch.tokens > 0 {
		end += e.duration()
	}
	return e.finish(end)
}

// begin forms the batch of the next step.
func (e *Engine) begin(now int64) {
	e.last = max(e.last, now)
	s := &e.step
	*s = Step{Start: e.last, Outputs: s.Outputs[:0], Batch: s.Batch[:0], AcceptedPerPos: s.AcceptedPerPos}
	clear(s.AcceptedPerPos)
	e.batch = batch{}
	if e.HasWork() {
		e.schedule()
	}
}

// finish ends the step then and hands out what it computed.
func (e *Engine) finish(end int64) *Step {
	s := &e.step
	s.End, e.last = end, end
	e.emit()
	s.ScheduledTokens = e.batch.tokens
	s.PrefillTokens = s.ScheduledTokens - s.DecodeTokens
	s.Scheduled = e.batch.requests
	s.Running, s.Waiting, s.KVUsage = len(e.running), e.waiting.len(), e.KVUsage()
	return s
}

// emit hands out the tokens of the batch and drops finished requests.
func (e *Engine) emit() {
	kept := e.running[:0]
	for _, r := range e.running {
		if r.sched > 0 {
			e.advance(r)
		}
		if r.state == stateRunning {
			kept = append(kept, r)
		}
	}
	clear(e.running[len(kept):])
	e.running = kept
}

// advance stores the computed tokens of r and, if its sequence is complete,
// samples the next.
func (e *Engine) advance(r *Request) {
	s := &e.step
	if e.cfg.LogBatch {
		s.Batch = append(s.Batch, Share{Request: r, Tokens: r.sched, Context: r.computed})
	}
	wasFirst := r.Generated == 0
	r.computed += r.sched - r.drafts
	r.sched = 0
	if r.computed < r.tokens() {
		return // a chunk of prefill
	}
	accepted := 0
	if r.drafts > 0 {
		accepted = e.accept(r.drafts)
		r.drafts = 0
	}
	n := min(1+accepted, r.OutputTokens-r.Generated)
	r.computed += max(n-1, 0)
	r.Generated += n
	r.LastToken = s.End
	if wasFirst {
		r.FirstToken = s.End
	}
	out := Output{Request: r, NewTokens: n, First: wasFirst}
	if r.Generated == r.OutputTokens {
		out.Finished, out.FinishReason = true, FinishLength
		if r.Stop {
			out.FinishReason = FinishStop
		}
		e.free(r)
		r.state = stateDone
	}
	s.Outputs = append(s.Outputs, out)
}

// accept draws how many of k drafts hold: each only if all before it did.
func (e *Engine) accept(k int) int {
	s := &e.step
	if s.AcceptedPerPos == nil {
		s.AcceptedPerPos = make([]int, e.cfg.Spec.DraftTokens)
	}
	n := 0
	for n < k && e.rng.Float64() < e.cfg.Spec.Acceptance {
		s.AcceptedPerPos[n]++
		n++
	}
	s.AcceptedTokens += n
	return n
}
