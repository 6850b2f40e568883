package virtual

import (
	"slices"
	"testing"
	"time"

	"github.com/assay-bench/assay/engine"
	"github.com/assay-bench/assay/load/sched"
	"github.com/assay-bench/assay/record"
)

// As many engines as slots: each request has an engine for itself, and takes as
// long as on an engine that serves one at a time.
func TestEnginesForEachRequest(t *testing.T) {
	times := func(engines int) (e2e []time.Duration) {
		r, err := New(Config{
			Engine: engine.DefaultConfig(), Engines: engines, Requests: same(300, 40),
			Load: sched.Config{Concurrency: max(engines, 1), MaxRequests: 60},
		})
		if err != nil {
			t.Fatal(err)
		}
		var w watcher
		if err := r.Run(t.Context(), &w); err != nil {
			t.Fatal(err)
		}
		for _, a := range w.all {
			if a.Outcome != record.Completed {
				t.Errorf("request %d: %s", a.Request, a.Outcome)
			}
			d, _ := a.LastText.Since(a.Sent)
			e2e = append(e2e, d)
		}
		for i, p := range r.replicas {
			if p.inFlight != 0 || p.engine.HasWork() {
				t.Errorf("engine %d of %d: %d in flight after the run", i, engines, p.inFlight)
			}
		}
		return e2e
	}
	one := times(1)
	if len(one) != 60 || one[0] <= 0 || slices.Min(one) != slices.Max(one) {
		t.Fatalf("one at a time: %v", one)
	}
	for _, engines := range []int{2, 5} {
		got := times(engines)
		if len(got) != 60 || slices.Min(got) != one[0] || slices.Max(got) != one[0] {
			t.Errorf("%d engines: E2E from %v to %v instead of %v", engines, slices.Min(got), slices.Max(got), one[0])
		}
	}
}

// Engines share the load evenly, also where many requests wait in each; what one
// cannot hold is refused and is in nobody's way.
func TestEnginesShareTheLoad(t *testing.T) {
	counts := make(map[*replica]int)
	var r *Runner
	index := int64(0)
	source := sched.SourceFunc(func() (record.Request, bool) {
		index++
		q := record.Request{Index: index - 1, PromptTokens: 200, MaxTokens: 20}
		if index%10 == 0 {
			q.PromptTokens = 1 << 30
		}
		return q, index <= 1000
	})
	cfg := engine.DefaultConfig()
	cfg.NoiseCV = 0.1
	r, err := New(Config{Engine: cfg, Engines: 3, Requests: source, Load: sched.Config{Gap: poisson(400, 3)}})
	if err != nil {
		t.Fatal(err)
	}
	w := watcher{}
	w.atTick = func() {
		least, most := 1<<30, 0
		for _, p := range r.replicas {
			least, most = min(least, p.inFlight), max(most, p.inFlight)
		}
		if most-least > most/2+3 {
			t.Errorf("in flight from %d to %d", least, most)
		}
		for _, f := range r.flights {
			if f != nil && f.at != nil {
				counts[f.at]++
			}
		}
	}
	if err := r.Run(t.Context(), &w); err != nil {
		t.Fatal(err)
	}
	refused := 0
	for _, a := range w.all {
		if a.Outcome == record.HTTPError {
			refused++
		}
	}
	if len(w.all) != 1000 || refused != 100 || len(counts) != 3 {
		t.Errorf("%d attempts, %d refused, %d engines at work", len(w.all), refused, len(counts))
	}
}
