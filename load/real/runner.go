package real

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/assay-bench/assay/internal/clock"
	"github.com/assay-bench/assay/load/sched"
	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/wire"
	"github.com/assay-bench/assay/workload"
)

// Observer is told what happens in a stage. Due is called where requests are
// dispatched, the other two from one goroutine at a time. See package
// experiment, which implements it.
type Observer interface {
	Due(scheduled record.Stamp)
	Ended(a *record.Attempt, events []record.Event)
	Tick(now record.Stamp, inFlight int, oldest record.Stamp) (stop, abandon bool)
}

// tick is how often the observer is asked whether to go on.
const tick = 250 * time.Millisecond

// endedAhead is how many ended attempts may wait for the observer before streams
// wait for it. At 64 the disk could stall them; this is seconds of load.
const endedAhead = 1 << 13

// none is the scheduled time of the oldest request when there is none.
const none = record.Stamp(math.MaxInt64)

// Runner applies one load to one target.
type Runner struct {
	target *Target
	source *lookAhead
	clock  *clock.Clock
	pacer  *clock.Pacer

	mu      sync.Mutex
	sched   *sched.Scheduler
	started bool
	asleep  record.Stamp // until when the pacer sleeps
	freed   record.Stamp // when a slot was freed last
	quit    bool         // the load was stopped: nothing is sent any more
	// When it was stopped, and what was due then and held back.
	stoppedAt record.Stamp
	held      []sched.Action

	obs   Observer
	ended chan *exchange
	pool  sync.Pool
	// streams counts the goroutines that may still send on ended.
	streams sync.WaitGroup
	// unreached counts the attempts in a row that found nobody to talk to.
	unreached atomic.Int64
	slots     int // of a closed loop

	talks     *workload.Conversations // nil without sessions
	following *promise                // of the turn that the latest step made wait
	broken    chan error              // a body that could not be built
}

// NewRunner prepares a load on the target. requests yields planned requests with
// their prompts; it is called from a goroutine of the runner, ahead of need.
func NewRunner(t *Target, cfg sched.Config, promptTokens int, requests func() (record.Request, bool)) (*Runner, error) {
	r := newRunner(t, cfg, promptTokens, requests)
	return r, r.schedule(cfg)
}

func newRunner(t *Target, cfg sched.Config, promptTokens int, requests func() (record.Request, bool)) *Runner {
	r := &Runner{target: t, clock: t.clock, pacer: clock.NewPacer(t.clock), ended: make(chan *exchange, endedAhead), slots: cfg.Concurrency}
	r.source = newLookAhead(t, promptTokens, requests)
	r.pool.New = func() any { return t.newExchange() }
	return r
}

func (r *Runner) schedule(cfg sched.Config) (err error) {
	if r.sched, err = sched.New(cfg, r.source); err != nil {
		return fmt.Errorf("preparing the load: %w", err)
	}
	return nil
}

// CappedTime is how long an in-flight cap held arrivals back.
func (r *Runner) CappedTime() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	ns, _ := r.sched.Capped()
	return time.Duration(ns)
}

// Run applies the load until the observer stops it and nothing is in flight.
// When ctx ends, everything in flight is cut off and the observer is told.
func (r *Runner) Run(ctx context.Context, obs Observer) error {
	r.obs = obs
	cut, cutOff := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cutOff(nil)
	// First nothing new, then the cut: a slot that the cut frees must not be due again.
	defer context.AfterFunc(ctx, func() {
		r.stopSending(cut)
		cutOff(errInterrupted)
	})()

	build := make(chan struct{})
	buildErr := make(chan error, 1)
	go func() { buildErr <- r.source.build(build) }()
	defer close(build)
	<-r.source.primed

	paced := make(chan struct{})
	go func() {
		defer close(paced)
		r.pace(cut)
	}()
	err := r.collect(ctx, cut, cutOff, buildErr)
	r.pacer.Wake()
	<-paced
	return err
}

// pace starts the load and sends what becomes due with time: arrivals of an open
// loop, ends of think times. It has a thread of its own.
func (r *Runner) pace(cut context.Context) {
	defer r.pacer.Pin()()
	var out []sched.Action
	var batch []*due
	for {
		r.mu.Lock()
		if r.quit {
			r.mu.Unlock()
			return
		}
		now := r.now()
		if r.started {
			out = r.sched.Wake(now, out[:0])
		} else {
			r.started = true
			out = r.sched.Start(now, out[:0])
		}
		next := r.nextWake()
		r.asleep = next
		batch = batch[:0]
		for _, a := range out {
			batch = append(batch, r.launched(a))
		}
		r.mu.Unlock()
		r.send(cut, batch)
		r.pacer.SleepUntil(int64(next))
	}
}

// A pacer sends by itself what is due when it wakes: a goroutine would first have
// to be run by another thread, which takes as long as several sends. Of a burst it
// sends the first few; and what may not fit into a socket's buffer is not its to
// wait for.
const (
	sentByPacer  = 4
	smallRequest = 12 << 10
)

// send sends what is due now. It is called by the pacer.
func (r *Runner) send(cut context.Context, batch []*due) {
	for i, d := range batch {
		if len(batch)-i > sentByPacer || len(d.body) > smallRequest || d.promise != nil {
			go r.attempt(cut, d)
			continue
		}
		x, req := r.begin(cut, d)
		done := func(err error) {
			r.target.conclude(cut, x, err)
			r.attempted(cut, d, x)
		}
		rest, ok := r.target.transport.start(cut, &x.a, req, x, done)
		switch {
		case !ok:
			go r.target.transport.exchange(cut, &x.a, req, x, done)
		case rest != nil:
			go rest()
		}
	}
}

// nextWake is when the pacer is needed next, none if nothing is due by time
// alone. r.mu is held.
func (r *Runner) nextWake() record.Stamp {
	if at, ok := r.sched.NextWake(); ok {
		return at
	}
	return none
}

func (r *Runner) now() record.Stamp { return record.Stamp(r.clock.Now()) }

// due is a request that is to be sent.
type due struct {
	sched.Action
	body []byte // encoded
	try  int
	// promise of the body, while that is not there yet.
	promise *promise
}

// launch sends every action from a goroutine of its own. r.mu is held, so that a
// stop is either before or after all of them.
func (r *Runner) launch(cut context.Context, actions []sched.Action) {
	for _, a := range actions {
		go r.attempt(cut, r.launched(a))
	}
}

// launched counts a request that is sent from now on. r.mu is held.
func (r *Runner) launched(a sched.Action) *due {
	r.obs.Due(a.Scheduled)
	r.streams.Add(1)
	d := &due{Action: a}
	d.body, d.promise = r.source.take(a.Request.Index)
	return d
}

// attempt makes an attempt of a request, and perhaps another after it. It may
// return before they end; if not, it is thousands of stacks that wait here, and
// they are to be small: what is large is behind calls that are over by then.
func (r *Runner) attempt(cut context.Context, d *due) {
	d.await(cut)
	x, req := r.begin(cut, d)
	r.target.transport.exchange(cut, &x.a, req, x, func(err error) {
		r.target.conclude(cut, x, err)
		r.attempted(cut, d, x)
	})
}

// begin prepares an attempt.
func (r *Runner) begin(cut context.Context, d *due) (*exchange, *wire.Request) {
	x := r.pool.Get().(*exchange)
	freed := false
	x.reset(d.body, func() {
		if freed {
			return
		}
		freed = true
		ended := r.free(cut, r.now(), d, x)
		if x.a.Ended == 0 {
			x.a.Ended = ended
		}
	})
	d.body = nil // the exchange has it, for as long as it is needed
	x.a = record.Attempt{
		Request: d.Request.Index, Try: d.try, Session: d.Request.Session, Turn: d.Request.Turn, Turns: d.Request.Turns, Streamed: r.target.Options.Stream,
		PromptTokensAsked: d.Request.PromptTokens, MaxTokens: d.Request.MaxTokens, Choices: r.target.Options.Choices,
		Scheduled: d.Scheduled, Dispatched: r.now(),
	}
	if d.try > 0 {
		first := record.Attempt{Request: d.Request.Index}
		r.target.identify(&first)
		x.a.RetryOf = first.ID
	}
	return x, r.target.request(x, d.try > 0)
}

// attempted takes an attempt that has ended.
func (r *Runner) attempted(cut context.Context, d *due, x *exchange) {
	if x.a.Outcome == record.StaleConnection && d.try == 0 && cut.Err() == nil {
		x.a.Retried = true
		d.try, d.body = d.try+1, x.request
		r.ended <- x
		r.attempt(cut, d)
		return
	}
	r.rest(cut, x.a.Outcome)
	x.over()
	r.ended <- x
	r.streams.Done()
}

// A slot of a closed loop rests after an attempt that found nobody to talk to,
// for restStep and longer the more slots have found the same, up to restMax:
// a target that is gone would else be asked ten thousand times a second, for
// nothing but rows of the ledger. Arrivals of an open loop know no such mercy.
const (
	restStep = 100 * time.Millisecond
	restMax  = time.Second
)

// rest lets the slot of an attempt with this outcome rest, until cut at most.
func (r *Runner) rest(cut context.Context, o record.Outcome) {
	if o != record.ConnectDNS && o != record.ConnectTCP && o != record.ConnectTLS {
		r.unreached.Store(0)
		return
	}
	n := r.unreached.Add(1)
	if r.slots == 0 {
		return
	}
	timer := time.NewTimer(min(restMax, restStep*time.Duration(1+(n-1)/int64(r.slots))))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-cut.Done():
	}
}

// free gives the slot back and sends what that allows. It returns the moment of the
// end, by which what follows was scheduled.
func (r *Runner) free(cut context.Context, now record.Stamp, d *due, x *exchange) record.Stamp {
	r.mu.Lock()
	defer r.mu.Unlock()
	// Slots that are freed at the same moment may come here in any order. What is
	// scheduled by that goes up strictly, or a window could not hold exactly so
	// many requests; it moves a stamp by no more than the wait for the lock.
	now = max(now, r.freed+1)
	r.freed = now
	var buf [4]sched.Action
	var out []sched.Action
	if r.talks != nil {
		out = r.endTurn(now, d, x, buf[:0])
	} else {
		out = r.sched.Ended(now, d.Slot, buf[:0])
	}
	r.launch(cut, out)
	if next := r.nextWake(); next < r.asleep {
		r.asleep = next
		r.pacer.Wake()
	}
	return now
}

// collect hands ended attempts to the observer and asks it whether to go on.
func (r *Runner) collect(ctx, cut context.Context, cutOff context.CancelCauseFunc, buildErr <-chan error) error {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	var err error
	over := make(chan struct{})
	stopped := false
	stop := func() {
		if stopped {
			return
		}
		stopped = true
		r.stop(cut)
		go func() {
			r.streams.Wait()
			close(over)
		}()
	}
	interrupted := ctx.Done()
	for {
		select {
		case x := <-r.ended:
			r.deliver(x)
		case <-ticker.C:
			halt, abandon := r.tick()
			if halt {
				stop()
			}
			if abandon {
				cutOff(errCensored)
			}
		case <-interrupted:
			interrupted = nil // what follows is the observer's: it was told to halt
			stop()
		case err = <-buildErr:
			buildErr = nil
			if err != nil {
				stop()
				cutOff(err)
			}
		case err = <-r.broken:
			stop()
			cutOff(err)
		case <-over:
			for len(r.ended) > 0 {
				r.deliver(<-r.ended)
			}
			return err
		}
	}
}

func (r *Runner) tick() (stop, abandon bool) {
	now := r.now()
	r.mu.Lock()
	n := r.sched.InFlight()
	oldest, ok := r.sched.Oldest(now)
	r.mu.Unlock()
	if !ok {
		oldest = none
	}
	return r.obs.Tick(now, n, oldest)
}

func (r *Runner) deliver(x *exchange) {
	r.obs.Ended(&x.a, x.events)
	r.pool.Put(x)
}

// stopSending ends the load: nothing becomes due any more. What was due and held
// back is kept, to be told as never sent.
func (r *Runner) stopSending(cut context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.quit {
		return
	}
	r.quit, r.stoppedAt = true, r.now()
	if r.started && cut.Err() == nil {
		r.launch(cut, r.sched.Wake(r.stoppedAt, nil)) // what the pacer would have sent by now
	}
	r.source.end()
	r.held = r.sched.Stop(r.stoppedAt, nil)
	for _, h := range r.held {
		r.obs.Due(h.Scheduled)
	}
}

// stop ends the load, and tells of what was never sent.
func (r *Runner) stop(cut context.Context) {
	r.stopSending(cut)
	for _, h := range r.held {
		a := record.Attempt{
			Request: h.Request.Index, Session: h.Request.Session, Turn: h.Request.Turn, Turns: h.Request.Turns, PromptTokensAsked: h.Request.PromptTokens, MaxTokens: h.Request.MaxTokens,
			Streamed: r.target.Options.Stream, Scheduled: h.Scheduled, Ended: r.stoppedAt,
			Outcome: record.NeverSent, Error: "held back until the run ended",
		}
		r.target.identify(&a)
		r.obs.Ended(&a, nil)
	}
}
