package sched

import (
	"errors"
	"fmt"
	"math"

	"github.com/assay-bench/assay/record"
)

// Source gives the planned requests in order; ok is false when there are no
// more. It must not block: it is called on the dispatch path, always one request
// ahead of the one that is sent.
type Source interface {
	Next() (r record.Request, ok bool)
}

// SourceFunc makes a Source of a function.
type SourceFunc func() (record.Request, bool)

// Next implements [Source].
func (f SourceFunc) Next() (record.Request, bool) { return f() }

// Config says what loop to run. Exactly one of Concurrency and Gap is set.
type Config struct {
	// Concurrency > 0 makes a closed loop with so many slots.
	Concurrency int
	// Think gives the nanoseconds that a slot rests after its request ended; nil
	// is none. Closed loop only.
	Think func() int64
	// Ramp spreads the first requests of a closed loop evenly over so many
	// nanoseconds, instead of starting with a burst; 0 starts all at once.
	Ramp int64

	// Gap makes an open loop: the nanoseconds from one arrival to the next, and
	// from the start to the first. It may be 0 (a burst), but not for ever: a step
	// gives out all that is due.
	Gap func() int64
	// MaxInFlight caps the requests in flight of an open loop, or the sessions in
	// progress; 0 is no cap.
	MaxInFlight int

	// MaxRequests ends the load after so many requests, or sessions; 0 is no end.
	MaxRequests int64

	// After makes sessions: the requests of the source are first turns, and After
	// gives the turn that follows r, and when that is due: at its end, if at lies
	// before. first is when the first turn of the session was scheduled. ok is false
	// if r was the last. It is called when r ends, and must not block.
	After func(r *record.Request, first, ended record.Stamp) (next record.Request, at record.Stamp, ok bool)

	// Due is told of each request that is due: when it is given out to be sent, or
	// given back by [Scheduler.Stop]. It must not block. nil is nobody.
	Due func(r *record.Request)
}

func (c Config) check() error {
	open, closed := c.Gap != nil, c.Concurrency > 0
	switch {
	case c.Concurrency < 0:
		return fmt.Errorf("concurrency %d is negative", c.Concurrency)
	case open && closed:
		return errors.New("both a concurrency (closed loop) and gaps (open loop) are given")
	case !open && !closed:
		return errors.New("neither a concurrency (closed loop) nor gaps (open loop) are given")
	case open && c.Think != nil:
		return errors.New("an open loop has no think time")
	case open && c.Ramp != 0:
		return errors.New("an open loop has no ramp")
	case closed && c.MaxInFlight != 0:
		return errors.New("a closed loop has no in-flight cap but its concurrency")
	case c.MaxInFlight < 0:
		return fmt.Errorf("in-flight cap %d is negative", c.MaxInFlight)
	case c.MaxRequests < 0:
		return fmt.Errorf("request limit %d is negative", c.MaxRequests)
	case c.Ramp < 0:
		return fmt.Errorf("ramp %d ns is negative", c.Ramp)
	}
	return nil
}

// NoSlot is the Slot of an action that [Scheduler.Stop] gave back unsent.
const NoSlot = -1

// Action tells the runner to send a request now.
type Action struct {
	Request record.Request
	// Scheduled is when the request was due; at or before the step's now.
	Scheduled record.Stamp
	// Slot is handed back to [Scheduler.Ended]. Slots are small integers: from 0
	// to the concurrency or to the most requests ever in flight, exclusive.
	Slot int
}

// Scheduler is the state machine. It is not safe for concurrent use: the runner
// serialises the steps. Every step appends its actions to out and returns it;
// steady state allocates nothing if out has room.
//
// The now of Wake and of Stop should not go back. That of Ended is the moment at
// which the request was over, which may lie a little before the latest Wake.
type Scheduler struct {
	cfg Config
	src Source

	// next is the request to send next, drawn one ahead so that the end of the
	// source is known before its time comes.
	next  record.Request
	have  bool
	drawn int64
	given int64

	slots   slots
	waiting queue        // closed loop: free slots by when they are due
	arrival record.Stamp // open loop: when next is due

	turns    turns // of sessions
	sessions int   // that have a slot
	stopped  bool

	fullSince record.Stamp // when the in-flight cap was last reached
	cappedTo  record.Stamp // up to when cappedNS is counted
	cappedNS  int64
	held      int64
}

// New makes a scheduler that has not started yet. The error says which settings
// contradict each other.
func New(cfg Config, src Source) (*Scheduler, error) {
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("load schedule: %w", err)
	}
	s := &Scheduler{cfg: cfg, src: src}
	if cfg.Concurrency > 0 {
		s.slots = makeSlots(cfg.Concurrency)
		s.waiting = make(queue, 0, cfg.Concurrency)
	}
	return s, nil
}

// Start begins the load at now, which must be a known stamp. It is the first
// step and called once.
func (s *Scheduler) Start(now record.Stamp, out []Action) []Action {
	s.arrival = now
	s.draw()
	for k := range s.cfg.Concurrency {
		// In floating point, since ramp times slot number may overflow.
		offset := float64(s.cfg.Ramp) * float64(k) / float64(s.cfg.Concurrency)
		s.waiting.push(due{at: after(now, int64(offset)), slot: k})
	}
	return s.release(now, out)
}

// Wake sends everything that is due at now. It is to be called at NextWake; a
// late call sends late, and a call too early does nothing.
func (s *Scheduler) Wake(now record.Stamp, out []Action) []Action {
	return s.release(now, out)
}

// Ended says that the request in the slot was over at now: its terminal marker
// was seen, or it failed. It panics if the slot is not busy, since then the
// runner's count of requests in flight is wrong. In a session the next turn
// follows; see [Scheduler.Abandoned].
func (s *Scheduler) Ended(now record.Stamp, slot int, out []Action) []Action {
	return s.ended(now, slot, true, out)
}

// Abandoned is Ended for a turn that failed: what would have been said next
// depends on its reply, so its session ends with it, and its slot is free.
func (s *Scheduler) Abandoned(now record.Stamp, slot int, out []Action) []Action {
	return s.ended(now, slot, false, out)
}

func (s *Scheduler) ended(now record.Stamp, slot int, well bool, out []Action) []Action {
	wasFull, fullSince := s.full(), s.fullSince
	held := s.countCapped(now)
	scheduled := s.slots.vacate(slot)
	if !well || !s.follow(max(now, scheduled), slot) {
		s.leave(max(now, scheduled), slot)
		if held {
			s.held++
		}
	}
	out = s.release(now, out)
	if wasFull && s.full() {
		s.fullSince = fullSince // for no time at all was there room
	}
	return out
}

// leave gives the slot back.
func (s *Scheduler) leave(now record.Stamp, slot int) {
	s.sessions--
	if s.open() {
		s.slots.recycle(slot)
		return
	}
	think := int64(0)
	if s.cfg.Think != nil {
		think = s.cfg.Think()
	}
	s.waiting.push(due{at: after(now, think), slot: slot})
}

// Stop ends the load: no later step sends anything. It returns the requests that
// were due by now and have not been sent, with Slot [NoSlot], so that none
// disappears: each is an attempt that was never sent. A runner that can still
// send calls Wake first; what is left was held back by the in-flight cap.
func (s *Scheduler) Stop(now record.Stamp, out []Action) []Action {
	s.countCapped(now)
	for {
		at, turn, ok := s.nextDue(true)
		if !ok || at > now {
			break
		}
		if turn {
			out = append(out, Action{Request: s.turns.pop(), Scheduled: at, Slot: NoSlot})
			s.sessions--
		} else {
			if s.full() {
				s.held++
			}
			out = append(out, s.take(at, NoSlot))
		}
		s.due(&out[len(out)-1].Request)
	}
	s.sessions -= s.turns.clear()
	s.have, s.stopped = false, true
	return out
}

// NextWake is when the next request is due, if that is known: ok is false when
// nothing can be sent before a request ends, or ever. It may lie in the past,
// after an Ended whose moment did: then wake at once.
func (s *Scheduler) NextWake() (at record.Stamp, ok bool) {
	at, _, ok = s.nextDue(!s.full())
	return at, ok
}

// InFlight is the number of requests that were sent and are not over.
func (s *Scheduler) InFlight() int { return s.slots.inFlight }

// Sessions is the number of those in progress: with a turn in flight, or between
// two. Without sessions it is InFlight.
func (s *Scheduler) Sessions() int { return s.sessions }

// Scheduled is the number of requests that were given out to be sent.
func (s *Scheduler) Scheduled() int64 { return s.given }

// Capped says for how many nanoseconds the in-flight cap held at least one due
// arrival back, and how many arrivals it held. It counts up to the last Ended or
// Stop.
func (s *Scheduler) Capped() (ns, held int64) { return s.cappedNS, s.held }

// Oldest is the scheduled time of the oldest request that is due by now and not
// over: in flight, or held back. All requests scheduled before it have ended. It
// costs a pass over the slots.
func (s *Scheduler) Oldest(now record.Stamp) (at record.Stamp, ok bool) {
	at, ok = s.slots.oldest()
	if next, _, some := s.nextDue(true); some && next <= now && (!ok || next < at) {
		return next, true
	}
	return at, ok
}

// Idle reports whether the load is over: nothing is in flight and nothing will
// be sent. It is true before the start too.
func (s *Scheduler) Idle() bool {
	return s.slots.inFlight == 0 && !s.have && len(s.turns.waiting) == 0
}

func (s *Scheduler) open() bool { return s.cfg.Gap != nil }

// full reports whether the cap is reached: without sessions they are as many as
// the requests in flight.
func (s *Scheduler) full() bool {
	return s.cfg.MaxInFlight > 0 && s.sessions >= s.cfg.MaxInFlight
}

// nextDue is when the next request is due: a later turn of a session, which no cap
// holds back, or else, if wanted, a new one.
func (s *Scheduler) nextDue(fresh bool) (at record.Stamp, turn, ok bool) {
	if fresh {
		at, ok = s.nextNew()
	}
	if w := s.turns.waiting; len(w) > 0 && (!ok || w[0].at <= at) {
		return w[0].at, true, true
	}
	return at, false, ok
}

// nextNew is when the next request of the source is due, cap or not.
func (s *Scheduler) nextNew() (at record.Stamp, ok bool) {
	switch {
	case !s.have:
		return 0, false
	case s.open():
		return s.arrival, true
	case len(s.waiting) > 0:
		return s.waiting[0].at, true
	}
	return 0, false
}

// release gives out all that is due and that the cap lets through.
func (s *Scheduler) release(now record.Stamp, out []Action) []Action {
	for {
		at, turn, ok := s.nextDue(!s.full())
		if !ok || at > now {
			return out
		}
		var a Action
		switch {
		case turn:
			slot := s.turns.waiting[0].slot
			a = Action{Request: s.turns.pop(), Scheduled: at, Slot: slot}
		case s.open():
			a = s.take(at, s.slots.free())
			s.sessions++
		default:
			a = s.take(at, s.waiting[0].slot)
			s.sessions++
		}
		s.slots.occupy(a.Slot, at)
		if s.cfg.After != nil {
			s.turns.sent(&a, turn)
		}
		s.given++
		out = append(out, a)
		s.due(&out[len(out)-1].Request)
		if !turn && s.full() {
			s.fullSince = now
		}
	}
}

func (s *Scheduler) due(r *record.Request) {
	if s.cfg.Due != nil {
		s.cfg.Due(r)
	}
}

// take removes the next due request and draws the one after it.
func (s *Scheduler) take(at record.Stamp, slot int) Action {
	a := Action{Request: s.next, Scheduled: at, Slot: slot}
	if !s.open() {
		s.waiting.pop()
	}
	s.draw()
	return a
}

// draw fetches the next request and, in an open loop, when it is due.
func (s *Scheduler) draw() {
	s.have = false
	if s.cfg.MaxRequests > 0 && s.drawn >= s.cfg.MaxRequests {
		return
	}
	if s.next, s.have = s.src.Next(); !s.have {
		return
	}
	s.drawn++
	if s.open() {
		s.arrival = after(s.arrival, s.cfg.Gap())
	}
}

// countCapped closes the time up to now in which the cap held an arrival back,
// and reports whether it held the next one.
func (s *Scheduler) countCapped(now record.Stamp) bool {
	at, ok := s.nextNew()
	if !s.full() || !ok {
		return false
	}
	heldSince := max(at, s.fullSince)
	if heldSince >= now {
		return false
	}
	if from := max(heldSince, s.cappedTo); from < now {
		s.cappedNS += int64(now - from)
		s.cappedTo = now
	}
	return true
}

// after adds ns >= 0 to a stamp; a sum beyond the range of stamps is its end,
// 292 years on, which never comes.
func after(at record.Stamp, ns int64) record.Stamp {
	if ns <= 0 {
		return at
	}
	if int64(at) > math.MaxInt64-ns {
		return math.MaxInt64
	}
	return at + record.Stamp(ns)
}
