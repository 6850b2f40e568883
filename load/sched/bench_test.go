package sched

import (
	"testing"

	"github.com/assay-bench/assay/record"
)

// stepper drives a scheduler with one end a step, in the order of dispatch.
type stepper struct {
	s    *Scheduler
	now  record.Stamp
	ring []int // slots in flight, oldest first
	out  []Action
}

func newStepper(tb testing.TB, cfg Config, inFlight int) *stepper {
	s, err := New(cfg, &counter{left: -1})
	if err != nil {
		tb.Fatal(err)
	}
	p := &stepper{s: s, now: 1, out: make([]Action, 0, inFlight), ring: make([]int, 0, 2*inFlight)}
	p.send(s.Start(p.now, p.out[:0]))
	for len(p.ring) < inFlight {
		p.wake()
	}
	return p
}

func (p *stepper) send(actions []Action) {
	for _, a := range actions {
		p.ring = append(p.ring, a.Slot)
	}
}

func (p *stepper) wake() {
	if at, ok := p.s.NextWake(); ok {
		p.now = at
		p.send(p.s.Wake(at, p.out[:0]))
	}
}

// step ends the oldest request, and sends the next one.
func (p *stepper) step() {
	slot, n := p.ring[0], len(p.ring)
	p.ring = p.ring[:copy(p.ring, p.ring[1:])]
	p.now++
	p.send(p.s.Ended(p.now, slot, p.out[:0]))
	for len(p.ring) < n {
		p.wake()
	}
}

var loops = map[string]Config{
	"closed": {Concurrency: 256},
	"think":  {Concurrency: 256, Think: func() int64 { return 1000 }},
	"open":   {Gap: func() int64 { return 10 }},
	"capped": {Gap: func() int64 { return 10 }, MaxInFlight: 256},
	"sessions": {Concurrency: 256, After: func(r *record.Request, _, ended record.Stamp) (record.Request, record.Stamp, bool) {
		next := *r
		next.Turn++
		return next, ended + 1000, next.Turn <= 5
	}},
}

func TestStepsDoNotAllocate(t *testing.T) {
	for name, cfg := range loops {
		t.Run(name, func(t *testing.T) {
			p := newStepper(t, cfg, 256)
			p.step()
			if n := testing.AllocsPerRun(1000, p.step); n != 0 {
				t.Errorf("%v allocations a step", n)
			}
		})
	}
}

// BenchmarkStep is the cost of one request: its end and the next one's start.
func BenchmarkStep(b *testing.B) {
	for name, cfg := range loops {
		b.Run(name, func(b *testing.B) {
			p := newStepper(b, cfg, 256)
			b.ReportAllocs()
			for b.Loop() {
				p.step()
			}
		})
	}
}
