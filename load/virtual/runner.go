package virtual

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/assay-bench/assay/engine"
	"github.com/assay-bench/assay/load/sched"
	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/workload"
)

// Observer is told what happens in a stage, from the goroutine that called Run.
// See package experiment, which implements it.
type Observer interface {
	// Due tells of a request at the moment that it is dispatched.
	Due(scheduled record.Stamp)
	// Ended tells of an attempt that is over. Both values are valid only during
	// the call.
	Ended(a *record.Attempt, events []record.Event)
	// Tick is called every 250 ms of virtual time and after each 25th end, with
	// the scheduled time of the oldest request that is not over (the largest
	// Stamp if there is none). stop: send nothing new. abandon: cut off what runs.
	Tick(now record.Stamp, inFlight int, oldest record.Stamp) (stop, abandon bool)
}

const (
	tickEvery = record.Stamp(250 * time.Millisecond)
	tickEnds  = 25
	// refusalTime is how long the server takes to refuse a request. It must not be
	// 0: a closed loop of refused requests would never let time pass.
	refusalTime = record.Stamp(time.Millisecond)

	never = record.Stamp(math.MaxInt64)
)

// Config of a load in virtual time.
type Config struct {
	// Engine is what serves. Its Seed draws all of its noise.
	Engine engine.Config
	// Engines is the number of such engines that share the load, as in vLLM's data
	// parallelism; 0 is 1. A request goes to the least loaded, in turn among equals.
	// The i-th has a Seed higher by i.
	Engines int
	// Load is the loop, Requests what it sends. All their draws must be seeded.
	Load     sched.Config
	Requests sched.Source
	// Shape completes what the engine is to do for a request: its output length,
	// whether that ends by a stop token, its prefix-cache hashes, its priority.
	// PromptTokens is set, and OutputTokens to MaxTokens, ended by length. nil
	// leaves it so.
	Shape func(r *record.Request, e *engine.Request)
	// Talks are the sessions of the load, if it has any; they are the source then.
	Talks *workload.Conversations
	// Start is when the load begins; 0 stands for 1 ns after the epoch.
	Start record.Stamp
	// IDPrefix, followed by the request's index, is the ID of an attempt.
	IDPrefix string
}

// Runner applies one load to one engine, or to several that share it, once.
type Runner struct {
	cfg      Config
	replicas []*replica
	turn     int // requests handed to an engine so far
	sched    *sched.Scheduler
	obs      Observer

	now     record.Stamp
	tickAt  record.Stamp
	ends    int // since the last tick
	started bool
	stopped bool

	actions  []sched.Action
	flights  []*flight // by slot; nil where none
	pool     []*flight
	refusals []refusal // in the order of their times
}

// refusal is a reply that will say that the engine cannot serve the request.
type refusal struct {
	at   record.Stamp
	slot int
}

// New prepares a load. The error says what the engine or the load refuses.
func New(cfg Config) (*Runner, error) {
	if cfg.Engines < 0 {
		return nil, fmt.Errorf("virtual load: %d engines", cfg.Engines)
	}
	engines, err := replicas(cfg.Engine, max(cfg.Engines, 1))
	if err != nil {
		return nil, err
	}
	if cfg.Talks != nil {
		cfg.Requests, cfg.Load.After = cfg.Talks, cfg.Talks.After
	}
	s, err := sched.New(cfg.Load, cfg.Requests)
	if err != nil {
		return nil, fmt.Errorf("virtual load: %w", err)
	}
	if cfg.Start < 0 {
		return nil, fmt.Errorf("virtual load: the start, %d ns, is before the epoch", cfg.Start)
	}
	return &Runner{cfg: cfg, replicas: engines, sched: s, now: max(cfg.Start, 1)}, nil
}

// Now is the virtual moment, for the observer during a run and for its
// conclusions after it.
func (r *Runner) Now() record.Stamp { return r.now }

// CappedTime is how long an in-flight cap held arrivals back.
func (r *Runner) CappedTime() time.Duration {
	ns, _ := r.sched.Capped()
	return time.Duration(ns)
}

// errUsed: a Runner has one run in it; its requests are used up.
var errUsed = errors.New("virtual load: it has run already")

// Run applies the load until the observer stops it or the requests are used up,
// and nothing is in flight; or until the observer abandons it. When ctx ends,
// everything in flight is cut off and the observer is told: that is no error.
func (r *Runner) Run(ctx context.Context, obs Observer) error {
	if r.started {
		return errUsed
	}
	r.started, r.obs = true, obs
	r.tickAt = r.now + tickEvery
	r.actions = r.sched.Start(r.now, r.actions[:0])
	r.dispatch()
	r.startSteps()
	for !r.over() {
		r.now = r.nextMoment()
		r.endSteps()
		r.refuse()
		if at, ok := r.sched.NextWake(); ok && at <= r.now {
			r.actions = r.sched.Wake(r.now, r.actions[:0])
			r.dispatch()
		}
		r.startSteps()
		if r.now < r.tickAt && r.ends < tickEnds {
			continue
		}
		if ctx.Err() != nil {
			r.stop()
			r.cutOff(record.Interrupted, "cut off: the run was interrupted")
			return nil
		}
		if abandon := r.tick(); abandon {
			r.stop()
			r.cutOff(record.Censored, "cut off at the cooldown bound")
			return nil
		}
	}
	if !r.stopped {
		r.tick() // the observer sees the last ends too
	}
	return nil
}

func (r *Runner) over() bool {
	return r.sched.InFlight() == 0 && (r.stopped || r.sched.Idle())
}

// nextMoment is the earliest at which anything happens.
func (r *Runner) nextMoment() record.Stamp {
	at := r.tickAt
	for _, p := range r.replicas {
		if p.step != nil {
			at = min(at, record.Stamp(p.step.End))
		}
	}
	if len(r.refusals) > 0 {
		at = min(at, r.refusals[0].at)
	}
	if wake, ok := r.sched.NextWake(); ok {
		at = min(at, wake)
	}
	return max(at, r.now)
}

// startSteps forms the next batches of the engines that rest.
func (r *Runner) startSteps() {
	for _, p := range r.replicas {
		p.start(r.now)
	}
}

// endSteps delivers the outputs of the steps that end now. The requests that are
// sent because of that arrive after the next batches were formed.
func (r *Runner) endSteps() {
	r.actions = r.actions[:0]
	for _, p := range r.replicas {
		if !p.ends(r.now) {
			continue
		}
		for i := range p.step.Outputs {
			o := &p.step.Outputs[i]
			f := o.Request.Data.(*flight)
			f.output(o, r.now)
			if o.Finished {
				r.end(f)
			}
		}
		p.step = nil
		p.start(r.now)
	}
	r.dispatch()
}

// refuse answers the requests whose refusal is due.
func (r *Runner) refuse() {
	n := 0
	r.actions = r.actions[:0]
	for n < len(r.refusals) && r.refusals[n].at <= r.now {
		f := r.flights[r.refusals[n].slot]
		f.refused(r.now)
		r.end(f)
		n++
	}
	r.refusals = r.refusals[:copy(r.refusals, r.refusals[n:])]
	r.dispatch()
}

// end hands an attempt over, frees its slot and adds to r.actions what that
// allows to be sent.
func (r *Runner) end(f *flight) {
	slot := f.slot
	well := r.replied(f)
	r.land(f)
	r.ends++
	if well {
		r.actions = r.sched.Ended(r.now, slot, r.actions)
	} else {
		r.actions = r.sched.Abandoned(r.now, slot, r.actions)
	}
}

// replied tells the session of an attempt how it ended; true if it goes on.
func (r *Runner) replied(f *flight) bool {
	if r.cfg.Talks == nil {
		return true
	}
	q := record.Request{Session: f.attempt.Session, Turn: f.attempt.Turn}
	if f.attempt.Outcome != record.Completed {
		r.cfg.Talks.Over(q.Session)
		return false
	}
	r.cfg.Talks.Replied(&q, f.attempt.Usage)
	return true
}

// land hands an attempt over and forgets it.
func (r *Runner) land(f *flight) {
	r.flights[f.slot] = nil
	if f.at != nil {
		f.at.inFlight--
	}
	r.obs.Ended(&f.attempt, f.events)
	r.pool = append(r.pool, f)
}

// dispatch sends r.actions.
func (r *Runner) dispatch() {
	for i := range r.actions {
		a := &r.actions[i]
		r.obs.Due(a.Scheduled)
		f := r.takeOff(a)
		p := r.pick()
		if err := p.engine.Add(int64(r.now), &f.serve); err != nil {
			f.attempt.Error = err.Error()
			r.refusals = append(r.refusals, refusal{r.now + refusalTime, a.Slot})
			continue
		}
		f.at = p
		p.inFlight++
		r.turn++
	}
	r.actions = r.actions[:0]
}

// takeOff makes the flight of a request that is sent now.
func (r *Runner) takeOff(a *sched.Action) *flight {
	var f *flight
	if n := len(r.pool); n > 0 {
		f = r.pool[n-1]
		r.pool = r.pool[:n-1]
	} else {
		f = new(flight)
	}
	f.begin(a, r.now, &r.cfg)
	for len(r.flights) <= a.Slot {
		r.flights = append(r.flights, nil)
	}
	r.flights[a.Slot] = f
	return f
}

// tick asks the observer whether to go on, and stops the load if not.
func (r *Runner) tick() (abandon bool) {
	r.ends = 0
	if r.now >= r.tickAt {
		r.tickAt += tickEvery
	}
	oldest, ok := r.sched.Oldest(r.now)
	if !ok {
		oldest = never
	}
	stop, abandon := r.obs.Tick(r.now, r.sched.InFlight(), oldest)
	if stop {
		r.stop()
	}
	return abandon
}

// stop ends the load. What was due and held back is told as never sent.
func (r *Runner) stop() {
	if r.stopped {
		return
	}
	r.stopped = true
	for _, a := range r.sched.Stop(r.now, nil) {
		r.obs.Due(a.Scheduled)
		attempt := planned(&a, &r.cfg)
		attempt.Ended, attempt.Outcome = r.now, record.NeverSent
		attempt.Error = "held back by the in-flight cap until the run ended"
		r.obs.Ended(&attempt, nil)
	}
}

// cutOff ends everything in flight.
func (r *Runner) cutOff(o record.Outcome, why string) {
	for _, f := range r.flights {
		if f == nil {
			continue
		}
		slot := f.slot
		if f.at != nil {
			f.at.engine.Abort(int64(r.now), &f.serve)
		}
		f.attempt.Ended, f.attempt.Outcome, f.attempt.Error = r.now, o, why
		r.land(f)
		r.sched.Ended(r.now, slot, nil)
	}
}
