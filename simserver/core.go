package simserver

import (
	"sync"
	"sync/atomic"

	"github.com/assay-bench/assay/engine"
	"github.com/assay-bench/assay/internal/clock"
)

// letter is what connections tell an engine's loop. Letters are stamped and
// queued under one lock, so that their order is that of their stamps.
type letter struct {
	at     int64
	add    *stream
	cancel *stream
	call   func() // run between steps
}

// core is one engine with the loop that runs it.
type core struct {
	srv   *Server
	index int
	eng   *engine.Engine
	pacer *clock.Pacer
	met   engineMetrics
	// inFlight counts requests from submission to their end.
	inFlight atomic.Int64
	done     chan struct{} // closed when the loop has ended

	mu      sync.Mutex
	inbox   []letter
	idle    bool // the loop sleeps until it is woken
	stopped bool
	waiting int // sequences that wait in the engine, after the latest step
	queued  int // sequences in the inbox

	// The loop's own.
	steps  int
	live   map[*stream]struct{}
	taken  []letter
	buf    []byte // events of the step
	event  []byte // one event before it is framed
	frames []frame
}

func newCore(s *Server, index int, eng *engine.Engine) *core {
	c := &core{
		srv: s, index: index, eng: eng, pacer: clock.NewPacer(s.clk),
		done: make(chan struct{}), live: make(map[*stream]struct{}),
	}
	if spec := eng.Config().Spec; spec != nil {
		c.met.perPosition = make([]uint64, spec.DraftTokens)
	}
	return c
}

// submit queues a request, or refuses it.
func (c *core) submit(st *stream) *apiError {
	c.mu.Lock()
	limit := c.srv.cfg.MaxQueued
	switch {
	case c.stopped:
		c.mu.Unlock()
		return &apiError{503, "ServiceUnavailableError", "The server is shutting down.", ""}
	case limit > 0 && c.waiting+c.queued >= limit:
		c.mu.Unlock()
		return &apiError{503, "ServiceUnavailableError", "The server is overloaded: too many queued requests.", ""}
	}
	c.queued += len(st.seqs)
	c.inFlight.Add(1)
	c.srv.load.Add(1)
	c.post(letter{add: st})
	return nil
}

// cancel tells the loop that the client of a submitted request has left.
func (c *core) cancel(st *stream) {
	c.mu.Lock()
	c.post(letter{cancel: st})
}

// resetPrefixCache runs between two steps; ok is false if blocks were in use.
func (c *core) resetPrefixCache() (ok bool) {
	answer := make(chan bool, 1)
	c.mu.Lock()
	c.post(letter{call: func() { answer <- c.eng.ResetPrefixCache() }})
	select {
	case ok = <-answer:
	case <-c.done:
	}
	return ok
}

// post stamps and queues a letter, and wakes an idle loop. It is called with
// c.mu held and gives it back.
func (c *core) post(l letter) {
	l.at = c.srv.clk.Now()
	c.inbox = append(c.inbox, l)
	wake := c.idle
	c.idle = false
	c.mu.Unlock()
	if wake {
		c.pacer.Wake()
	}
}

// shut asks the loop to end.
func (c *core) shut() {
	c.mu.Lock()
	c.stopped = true
	c.mu.Unlock()
	c.pacer.Wake()
}

// run is the engine's loop: plan a step, encode its events, sleep to its planned
// end, write.
func (c *core) run() {
	defer close(c.done)
	unpin := c.pacer.Pin()
	defer unpin()
	defer c.abandon()
	plan := int64(0) // end of the latest step
	for {
		start, ok := c.next(plan)
		if !ok {
			return
		}
		c.take(start)
		if !c.eng.HasWork() {
			c.rest()
			continue
		}
		step := c.eng.Step(start)
		plan = step.End
		c.encode(step)
		if !c.sleep(plan) {
			return
		}
		c.deliver(step)
	}
}

// next is when the next step starts: at the end of the one before, or, for an
// idle engine, at the stamp of the first letter. It waits for one.
func (c *core) next(plan int64) (start int64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.stopped {
		if c.eng.HasWork() {
			return plan, true
		}
		if len(c.inbox) > 0 {
			return max(plan, c.inbox[0].at), true
		}
		c.idle = true
		c.mu.Unlock()
		c.pacer.SleepUntil(clock.Never)
		c.mu.Lock()
	}
	return 0, false
}

// take hands the engine every letter that is not later than start.
func (c *core) take(start int64) {
	c.mu.Lock()
	n := 0
	for n < len(c.inbox) && c.inbox[n].at <= start {
		if st := c.inbox[n].add; st != nil {
			c.queued -= len(st.seqs)
		}
		n++
	}
	c.taken = append(c.taken[:0], c.inbox[:n]...)
	rest := copy(c.inbox, c.inbox[n:])
	clear(c.inbox[rest:])
	c.inbox = c.inbox[:rest]
	c.mu.Unlock()
	for _, l := range c.taken {
		switch {
		case l.add != nil:
			c.begin(l.at, l.add)
		case l.cancel != nil:
			c.end(l.at, l.cancel, "aborted")
		default:
			l.call()
		}
	}
	clear(c.taken)
	c.mu.Lock()
	c.waiting = c.eng.Waiting()
	c.mu.Unlock()
}

// begin gives the sequences of a request to the engine.
func (c *core) begin(at int64, st *stream) {
	c.live[st] = struct{}{}
	st.left = len(st.seqs)
	for _, q := range st.seqs {
		if err := c.eng.Add(at, &q.req); err != nil {
			// The request was checked against the same limits before.
			panic("simserver: the engine refused a checked request: " + err.Error())
		}
	}
}

// end takes a request out and logs it. It does nothing for one that has ended.
func (c *core) end(at int64, st *stream, outcome string) {
	if _, ok := c.live[st]; !ok {
		return
	}
	delete(c.live, st)
	st.ended = true
	st.countHTTP(c.srv)
	for _, q := range st.seqs {
		if !q.done {
			c.eng.Abort(at, &q.req)
		}
	}
	c.inFlight.Add(-1)
	c.srv.load.Add(-1)
	c.log(at, st, outcome)
}

// abandon ends what is in flight when the server stops.
func (c *core) abandon() {
	now := c.srv.clk.Now()
	c.take(now)
	for st := range c.live {
		c.end(now, st, "shutdown")
		k := st.conn
		k.mu.Lock()
		if k.current == st {
			k.current = nil
			st.close = true
			k.shut()
			close(st.over)
		}
		k.mu.Unlock()
	}
}

// sleep returns at the stamp; ok is false if the server stops first.
func (c *core) sleep(until int64) (ok bool) {
	for c.pacer.SleepUntil(until) {
		c.mu.Lock()
		stopped := c.stopped
		c.mu.Unlock()
		if stopped {
			return false
		}
	}
	return true
}

// rest brings the gauges to what an engine without requests shows.
func (c *core) rest() {
	c.met.mu.Lock()
	defer c.met.mu.Unlock()
	c.met.running, c.met.waiting, c.met.kvUsage = 0, 0, c.eng.KVUsage()
}

// deliver makes the outputs of a step visible: counters first, so that no client
// that has an answer can scrape counters without it.
func (c *core) deliver(step *engine.Step) {
	woken := c.srv.clk.Now()
	c.count(step, woken)
	for i := range c.frames {
		c.write(&c.frames[i], step.End)
		c.frames[i] = frame{}
	}
	if c.srv.truth != nil && c.srv.truth.steps {
		c.srv.truth.add(TruthLine{Step: &TruthStep{
			Engine: c.index, Number: c.steps,
			Start: c.srv.monotonic(step.Start), End: c.srv.monotonic(step.End),
			Woken: c.srv.monotonic(woken), Written: c.srv.monotonic(c.srv.clk.Now()),
			Outputs: len(step.Outputs), ScheduledTokens: step.ScheduledTokens, PrefillTokens: step.PrefillTokens,
			Running: step.Running, Waiting: step.Waiting, KVUsage: step.KVUsage,
		}})
	}
	c.steps++
}

// count does vLLM's accounting of a step; woken is when its outputs reach the
// frontend.
func (c *core) count(step *engine.Step, woken int64) {
	m := &c.met
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running, m.waiting, m.kvUsage = step.Running, step.Waiting, step.KVUsage
	m.prefixQueries += uint64(step.PrefixQueries)
	m.prefixHits += uint64(step.PrefixHits)
	m.drafts += uint64(step.Drafts)
	m.draftTokens += uint64(step.DraftTokens)
	m.acceptedTokens += uint64(step.AcceptedTokens)
	for i, n := range step.AcceptedPerPos {
		m.perPosition[i] += uint64(n)
	}
	tokens, outputs := 0, 0
	for i := range step.Outputs {
		o := &step.Outputs[i]
		q := o.Request.Data.(*sequence)
		if q.st.gone.Load() {
			continue // the frontend has forgotten it
		}
		outputs++
		tokens += o.NewTokens
		m.generationTokens += uint64(o.NewTokens)
		if n := o.Request.Preemptions - q.preempt; n > 0 {
			m.preemptions += uint64(n)
			q.preempt += n
		}
		if o.First {
			q.first = woken
			tokens += o.Request.PromptTokens - o.Request.CachedTokens
			m.countFirst(o.Request, seconds(woken-q.st.arrival))
		} else {
			m.interToken.observe(seconds(step.End - q.last))
		}
		q.last = step.End
		if o.Finished {
			m.countFinished(q, seconds(woken-q.st.arrival))
			c.traced(q, woken)
		}
	}
	if outputs > 0 {
		m.iteration.observe(float64(tokens))
	}
}

func (m *engineMetrics) countFirst(r *engine.Request, ttft float64) {
	m.promptTokens += uint64(r.PromptTokens)
	m.promptBySource[0] += uint64(r.PromptTokens - r.CachedTokens)
	m.promptBySource[1] += uint64(r.CachedTokens)
	m.promptCached += uint64(r.CachedTokens)
	m.ttft.observe(ttft)
}

func (m *engineMetrics) countFinished(q *sequence, e2e float64) {
	r := &q.req
	if r.Stop {
		m.finished[0]++
	} else {
		m.finished[1]++
	}
	decode := seconds(r.LastToken - r.FirstToken)
	m.e2e.observe(e2e)
	m.queue.observe(seconds(r.FirstScheduled - r.Queued))
	m.prefill.observe(seconds(r.FirstToken - r.FirstScheduled))
	m.decode.observe(decode)
	m.inference.observe(seconds(r.LastToken - r.FirstScheduled))
	perToken := 0.0 // observed for one token, too
	if r.Generated > 1 {
		perToken = decode / float64(r.Generated-1)
	}
	m.perToken.observe(perToken)
	m.promptLength.observe(float64(r.PromptTokens))
	m.generationLength.observe(float64(r.Generated))
	m.prefillComputed.observe(float64(r.PromptTokens - r.CachedTokens))
	m.maxTokens.observe(float64(q.st.gen.maxTokens))
	m.numPreemptions.observe(float64(r.Preemptions))
	st := q.st
	st.longest = max(st.longest, r.Generated)
	if st.counted++; st.counted == len(st.seqs) {
		m.paramN.observe(float64(st.gen.n))
		m.maxGeneration.observe(float64(st.longest))
	}
}

func seconds(ns int64) float64 { return float64(ns) / 1e9 }

// log writes the truth of a request that has ended.
func (c *core) log(at int64, st *stream, outcome string) {
	t := c.srv.truth
	if t == nil {
		return
	}
	mono := c.srv.monotonic
	line := &TruthRequest{
		XRequestID: st.requestID, ID: st.gen.id, Path: st.path, Engine: c.index, Stream: st.gen.stream,
		Fault: st.fault.String(), Outcome: outcome, PromptTokens: st.prompts, OutputTokens: st.tokens,
		WallOffset: c.srv.wallOffset - c.srv.mono, Received: mono(st.received), Arrival: mono(st.arrival), Ended: mono(at), Events: st.truth,
	}
	for _, q := range st.seqs {
		r := &q.req
		seq := TruthSequence{
			Index: q.index, Queued: mono(r.Queued), Scheduled: mono(r.FirstScheduled),
			FirstToken: mono(r.FirstToken), LastToken: mono(r.LastToken),
			PromptTokens: r.PromptTokens, CachedTokens: r.CachedTokens, OutputTokens: r.Generated,
			MaxTokens: st.gen.maxTokens, Preemptions: r.Preemptions,
			Planned: r.OutputTokens, Stop: r.Stop, Priority: r.Priority,
		}
		if t.steps {
			seq.BlockHashes = r.BlockHashes
		}
		if q.done {
			seq.FinishReason = q.finishReason()
		}
		line.Sequences = append(line.Sequences, seq)
	}
	t.add(TruthLine{Request: line})
}
