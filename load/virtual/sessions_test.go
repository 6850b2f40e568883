package virtual

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-bench/assay/engine"
	"github.com/assay-bench/assay/load/sched"
	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/workload"
)

// talk runs sessions on the engine until a moment, and returns all attempts.
func talk(t *testing.T, change func(*workload.Spec, *Config), until record.Stamp) []seen {
	t.Helper()
	spec := workload.Default()
	spec.PromptTokens, spec.OutputTokens = workload.UniformLength(40, 200), workload.UniformLength(10, 60)
	spec.ThinkTime = workload.Think{Dist: workload.Exponential, Mean: 300 * time.Millisecond}
	spec.Sessions = &workload.Sessions{Turns: workload.UniformLength(1, 6), SystemPromptTokens: 160}
	cfg := Config{Engine: engine.DefaultConfig(), Load: sched.Config{Concurrency: 8}}
	if change != nil {
		change(&spec, &cfg)
	}
	plan, err := workload.NewPlan(spec, 3)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Talks = workload.NewConversations(plan, nil)
	cfg.Shape = ShareHistory(cfg.Talks, cfg.Engine.BlockSize, nil)
	r, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	w := &watcher{stopAt: until}
	if err := r.Run(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	return w.all
}

// TestSessions: a turn is scheduled when its parent has ended and the planned delay
// has passed, its prompt is all that was said before and what is new, and all of
// the history but the block that is not full comes from the cache.
func TestSessions(t *testing.T) {
	spec := workload.Default()
	spec.PromptTokens, spec.OutputTokens = workload.UniformLength(40, 200), workload.UniformLength(10, 60)
	spec.ThinkTime = workload.Think{Dist: workload.Exponential, Mean: 300 * time.Millisecond}
	spec.Sessions = &workload.Sessions{Turns: workload.UniformLength(1, 6), SystemPromptTokens: 160}
	plan, err := workload.NewPlan(spec, 3)
	if err != nil {
		t.Fatal(err)
	}
	all := talk(t, nil, record.Stamp(20*time.Second))
	bySession := map[int64][]seen{}
	for _, a := range all {
		bySession[a.Session] = append(bySession[a.Session], a)
	}
	if len(bySession) < 50 {
		t.Fatalf("only %d sessions", len(bySession))
	}
	const block = 16
	later := 0
	for range len(bySession) {
		s, _ := plan.NextSession()
		turns := bySession[s.Index]
		for i, a := range turns {
			if a.Turn != i+1 || a.Turns != len(s.Turns) || a.Request != s.First+int64(i) || a.Outcome != record.Completed {
				t.Fatalf("session %d: %+v", s.Index, a.Attempt)
			}
			if i == 0 {
				if s.Index > 20 && a.Usage.CachedTokens != 160 {
					t.Errorf("session %d has %d tokens of the system prompt from the cache", s.Index, a.Usage.CachedTokens)
				}
				continue
			}
			later++
			before := &turns[i-1].Attempt
			if want := before.Ended.Add(s.Turns[i].Delay); a.Scheduled != want {
				t.Fatalf("session %d, turn %d scheduled at %d, want %d", s.Index, a.Turn, a.Scheduled, want)
			}
			said := before.Usage.PromptTokens + before.Usage.CompletionTokens
			if a.Usage.PromptTokens != said+s.Turns[i].PromptTokens || a.PromptTokensAsked != a.Usage.PromptTokens {
				t.Fatalf("session %d, turn %d: %d tokens, asked %d; %d were said, %d are new", s.Index, a.Turn, a.Usage.PromptTokens, a.PromptTokensAsked, said, s.Turns[i].PromptTokens)
			}
			// The last token of a reply is never computed, so its block is not there.
			if want := (said - 1) / block * block; a.Usage.CachedTokens != want {
				t.Fatalf("session %d, turn %d: %d tokens from the cache, want %d of the %d that were said", s.Index, a.Turn, a.Usage.CachedTokens, want, said)
			}
		}
	}
	if later < 100 {
		t.Errorf("only %d later turns", later)
	}
}

// TestSessionsInParallel: at no time are more sessions in progress than slots, and
// the same seed gives the same run.
func TestSessionsInParallel(t *testing.T) {
	all := talk(t, nil, record.Stamp(10*time.Second))
	if diff := cmp.Diff(all, talk(t, nil, record.Stamp(10*time.Second)), cmp.AllowUnexported(record.Attempt{})); diff != "" {
		t.Fatalf("two runs differ:\n%s", diff)
	}
	first, last := map[int64]record.Stamp{}, map[int64]record.Stamp{}
	over := map[int64]bool{}
	for _, a := range all {
		if a.Turn == 1 {
			first[a.Session] = a.Scheduled
		}
		last[a.Session] = max(last[a.Session], a.Ended)
		over[a.Session] = over[a.Session] || a.Turn == a.Turns
	}
	for id, at := range first {
		n := 0
		for other, from := range first {
			if from <= at && (!over[other] || last[other] > at) {
				n++
			}
		}
		if n > 8 {
			t.Fatalf("%d sessions in progress when session %d began", n, id)
		}
	}
}

// TestSessionsAbandoned: a turn that the engine refuses ends its session, and its
// slot takes the next one.
func TestSessionsAbandoned(t *testing.T) {
	all := talk(t, func(s *workload.Spec, c *Config) {
		c.Engine.MaxModelLen = 700
	}, record.Stamp(10*time.Second))
	failed, after := map[int64]int{}, 0
	for _, a := range all {
		if at := failed[a.Session]; at > 0 && a.Turn > at {
			t.Fatalf("turn %d of session %d after turn %d had failed", a.Turn, a.Session, at)
		}
		if a.Outcome != record.Completed {
			failed[a.Session] = a.Turn
			after += a.Turns - a.Turn
		}
	}
	if len(failed) < 5 || after == 0 {
		t.Errorf("only %d sessions were abandoned, with %d turns", len(failed), after)
	}
}
