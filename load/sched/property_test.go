package sched

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/assay-bench/assay/record"
)

// draws a configuration; gaps is nil for a closed loop.
func anyConfig(t *rapid.T) (cfg Config, gaps, thinks []int64) {
	cfg.MaxRequests = rapid.SampledFrom([]int64{0, 1, 7, 40}).Draw(t, "max")
	times := rapid.SliceOfN(rapid.Int64Range(0, 30), 1, 12)
	if rapid.Bool().Draw(t, "open") {
		gaps = append(times.Draw(t, "gaps"), 1) // not all 0: that is an endless burst
		cfg.Gap = cycle(gaps)
		cfg.MaxInFlight = rapid.IntRange(0, 4).Draw(t, "cap")
		return cfg, gaps, nil
	}
	cfg.Concurrency = rapid.IntRange(1, 5).Draw(t, "concurrency")
	cfg.Ramp = rapid.Int64Range(0, 50).Draw(t, "ramp")
	if rapid.Bool().Draw(t, "thinks") {
		thinks = times.Draw(t, "think")
		cfg.Think = cycle(thinks)
	}
	return cfg, nil, thinks
}

// watcher checks what must hold after any step, in any order of steps.
type watcher struct {
	cfg   Config
	gaps  []int64
	start record.Stamp

	busy   map[int]bool
	last   map[int]record.Stamp // latest scheduled time by slot
	index  int64                // of the next request
	sum    record.Stamp         // open loop: scheduled time of the next request
	sent   int64
	latest record.Stamp
}

func (w *watcher) see(t *rapid.T, s *Scheduler, now record.Stamp, actions []Action, stopping bool) {
	w.latest = max(w.latest, now)
	for _, a := range actions {
		if a.Request.Index != w.index {
			t.Fatalf("request %d was given out where %d is next", a.Request.Index, w.index)
		}
		if a.Scheduled > now || a.Scheduled < w.start {
			t.Fatalf("request %d scheduled at %d, given out at %d", a.Request.Index, a.Scheduled, now)
		}
		if w.gaps != nil {
			w.sum += record.Stamp(w.gaps[w.index%int64(len(w.gaps))])
			if a.Scheduled != w.sum {
				t.Fatalf("arrival %d scheduled at %d; the gaps say %d", w.index, a.Scheduled, w.sum)
			}
		}
		w.index++
		if stopping != (a.Slot == NoSlot) {
			t.Fatalf("request %d has slot %d", a.Request.Index, a.Slot)
		}
		if stopping {
			continue
		}
		w.sent++
		if w.busy[a.Slot] {
			t.Fatalf("slot %d was busy", a.Slot)
		}
		if a.Scheduled < w.last[a.Slot] && w.gaps == nil {
			t.Fatalf("slot %d scheduled at %d after %d", a.Slot, a.Scheduled, w.last[a.Slot])
		}
		w.busy[a.Slot], w.last[a.Slot] = true, a.Scheduled
	}
	w.counts(t, s)
	oldest, ok := s.Oldest(0) // nothing is due by 0, so: of those in flight
	if ok != (len(w.busy) > 0) {
		t.Fatalf("Oldest says %v with %d in flight", ok, len(w.busy))
	}
	for slot := range w.busy {
		if w.last[slot] < oldest {
			t.Fatalf("Oldest is %d, slot %d is from %d", oldest, slot, w.last[slot])
		}
	}
}

func (w *watcher) counts(t *rapid.T, s *Scheduler) {
	if s.InFlight() != len(w.busy) || s.Scheduled() != w.sent {
		t.Fatalf("says %d in flight of %d; seen %d of %d", s.InFlight(), s.Scheduled(), len(w.busy), w.sent)
	}
	if most := max(w.cfg.Concurrency, w.cfg.MaxInFlight); most > 0 && len(w.busy) > most {
		t.Fatalf("%d in flight, at most %d are allowed", len(w.busy), most)
	}
	if w.cfg.MaxRequests > 0 && w.index > w.cfg.MaxRequests {
		t.Fatalf("%d requests of at most %d", w.index, w.cfg.MaxRequests)
	}
}

// slots that are busy, in order.
func (w *watcher) slots() []int {
	var all []int
	for slot := range w.busy {
		all = append(all, slot)
	}
	slices.Sort(all)
	return all
}

func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg, gaps, thinks := anyConfig(t)
		s, err := New(cfg, &counter{left: rapid.SampledFrom([]int64{-1, 0, 1, 25}).Draw(t, "source")})
		if err != nil {
			t.Fatal(err)
		}
		now := record.Stamp(1 + rapid.IntRange(0, 5).Draw(t, "start"))
		w := &watcher{cfg: cfg, gaps: gaps, start: now, sum: now, busy: map[int]bool{}, last: map[int]record.Stamp{}}
		w.see(t, s, now, s.Start(now, nil), false)
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			now += record.Stamp(rapid.IntRange(0, 25).Draw(t, "later"))
			busy := w.slots()
			if len(busy) == 0 || rapid.Bool().Draw(t, "wake") {
				w.see(t, s, now, s.Wake(now, nil), false)
				if at, ok := s.NextWake(); ok && at <= now {
					t.Fatalf("after the wake at %d the next one is at %d", now, at)
				}
				continue
			}
			slot := rapid.SampledFrom(busy).Draw(t, "slot")
			delete(w.busy, slot)
			at := max(now-record.Stamp(rapid.IntRange(0, 10).Draw(t, "seen late")), w.start)
			w.see(t, s, at, s.Ended(at, slot, nil), false)
			if cfg.Concurrency > 0 && thinks == nil && at == now {
				checkSaturated(t, s, w, now)
			}
		}
		finish(t, s, w, now)
	})
}

// checkSaturated holds a closed loop without think time to its word: after the
// ramp, and while there are requests, all slots are busy.
func checkSaturated(t *rapid.T, s *Scheduler, w *watcher, now record.Stamp) {
	if s.have && now >= after(w.start, w.cfg.Ramp) && len(w.busy) != w.cfg.Concurrency {
		t.Fatalf("%d in flight in a closed loop of %d", len(w.busy), w.cfg.Concurrency)
	}
}

// finish stops the load, ends what is in flight and checks that all is settled.
func finish(t *rapid.T, s *Scheduler, w *watcher, now record.Stamp) {
	hadMore := s.have
	w.see(t, s, now, s.Stop(now, nil), true)
	if w.gaps != nil && hadMore && !s.have {
		// Every arrival up to now was sent or given back, unless the load ran out.
		next := w.sum + record.Stamp(w.gaps[w.index%int64(len(w.gaps))])
		exhausted := w.cfg.MaxRequests > 0 && w.index == w.cfg.MaxRequests || s.src.(*counter).left == 0
		if next <= now && !exhausted {
			t.Fatalf("stopped at %d; arrival %d of %d is lost", now, w.index, next)
		}
	}
	for _, slot := range w.slots() {
		if s.Idle() {
			t.Fatal("idle with requests in flight")
		}
		delete(w.busy, slot)
		now += 3
		if got := s.Ended(now, slot, nil); len(got) != 0 {
			t.Fatalf("%d requests after the stop", len(got))
		}
	}
	if !s.Idle() {
		t.Fatal("not idle after the last end")
	}
	if got := s.Wake(now+1_000_000, nil); len(got) != 0 {
		t.Fatalf("%d requests from a wake after the end", len(got))
	}
}

// TestOpenLoopIgnoresEnds replays the same gaps with two orders of ends.
func TestOpenLoopIgnoresEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		gaps := rapid.SliceOfN(rapid.Int64Range(0, 20), 1, 20).Draw(t, "gaps")
		n := rapid.Int64Range(1, 50).Draw(t, "n")
		run := func(label string) []Action {
			service := rapid.SliceOfN(rapid.Int64Range(0, 100), 1, 10).Draw(t, label)
			maxInFlight := rapid.IntRange(0, 3).Draw(t, label+" cap")
			s, err := New(Config{Gap: cycle(gaps), MaxRequests: n, MaxInFlight: maxInFlight}, &counter{left: -1})
			if err != nil {
				t.Fatal(err)
			}
			var all []Action
			for _, d := range simulate(s, 1, service) {
				d.Slot = 0 // which slot is free does depend on the ends
				all = append(all, d.Action)
			}
			return all
		}
		a, b := run("service A"), run("service B")
		if int64(len(a)) != n || len(a) != len(b) {
			t.Fatalf("%d and %d requests of %d", len(a), len(b), n)
		}
		for i := range a {
			if a[i].Scheduled != b[i].Scheduled || a[i].Request.Index != b[i].Request.Index {
				t.Fatalf("arrival %d differs: %v and %v", i, a[i], b[i])
			}
		}
	})
}

func TestEndOfFreeSlotPanics(t *testing.T) {
	for name, slot := range map[string]int{"never used": 1, "negative": NoSlot, "ended twice": 0} {
		t.Run(name, func(t *testing.T) {
			s, err := New(Config{Concurrency: 2, Ramp: 1000}, SourceFunc((&counter{left: 1}).Next))
			if err != nil {
				t.Fatal(err)
			}
			s.Start(1, nil)
			s.Ended(2, 0, nil)
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			s.Ended(3, slot, nil)
		})
	}
}
