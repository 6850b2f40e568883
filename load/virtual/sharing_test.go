package virtual

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/assay-bench/assay/engine"
	"github.com/assay-bench/assay/load/sched"
	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/workload"
)

// TestSessionSharing: with one session at a time and room for all blocks the engine
// finds exactly what the plan says that a cache finds that forgets nothing. Under a
// salt for each session that is the history alone, under one for each request it is
// nothing.
func TestSessionSharing(t *testing.T) {
	for _, salt := range []string{"", workload.SaltRun, workload.SaltSession, workload.SaltRequest} {
		var plan *workload.Plan
		all := talk(t, func(s *workload.Spec, c *Config) {
			s.CacheSalt = salt
			s.Prefix = &workload.Prefix{Tokens: workload.UniformLength(50, 300), Pools: 5, Share: 0.8, Pick: workload.PickZipf}
			s.Sessions.UserPrefixTokens, s.Sessions.Users = new(workload.UniformLength(10, 200)), 6
			c.Load = sched.Config{Concurrency: 1}
			var err error
			if plan, err = workload.NewPlan(*s, 3); err != nil {
				t.Fatal(err)
			}
			c.Load.Due = plan.Due
		}, record.Stamp(60*time.Second))
		first, later, prompts := 0, 0, int64(0)
		said := map[int64]int{}
		for _, a := range all {
			if a.Outcome != record.Completed {
				t.Fatalf("%+v", a.Attempt)
			}
			prompts += int64(a.Usage.PromptTokens)
			if a.Turn == 1 {
				first += a.Usage.CachedTokens
			} else {
				later += a.Usage.CachedTokens
				if want := (said[a.Session] - 1) / 16 * 16; salt != workload.SaltRequest && a.Usage.CachedTokens != want {
					t.Fatalf("salt %q: turn %d has %d tokens from the cache, want %d", salt, a.Turn, a.Usage.CachedTokens, want)
				}
			}
			said[a.Session] = a.Usage.PromptTokens + a.Usage.CompletionTokens
		}
		if s := plan.Sharing(); s.HitTokens != int64(first+later) || s.PromptTokens != prompts {
			t.Errorf("salt %q: %d of %d tokens from the cache, planned %+v", salt, first+later, prompts, *s)
		}
		shared := salt == "" || salt == workload.SaltRun
		if len(all) < 100 || (first > 0) != shared || (later > 0) != (salt != workload.SaltRequest) {
			t.Errorf("salt %q: %d turns, %d tokens of first prompts from the cache, %d of later ones", salt, len(all), first, later)
		}
	}
}

// TestSessionBlocks: turns with recorded blocks for prompts find what a cache that
// forgets nothing finds of the file: 2 blocks of 16 of the second row, 1 of the
// third, 3 of the fourth, 4 of the fifth (its last token is in the next block).
// Later turns wait for the end of the one before.
func TestSessionBlocks(t *testing.T) {
	file := filepath.Join(t.TempDir(), "b.jsonl")
	const rows = `{"chat_id":1,"parent_chat_id":-1,"timestamp":0,"input_length":33,"output_length":40,"type":"text","turn":1,"hash_ids":[1,2,3]}
{"chat_id":3,"parent_chat_id":1,"timestamp":5,"input_length":64,"output_length":5,"type":"text","turn":2,"hash_ids":[1,2,4,5]}
{"chat_id":2,"parent_chat_id":-1,"timestamp":10,"input_length":48,"output_length":20,"type":"text","turn":1,"hash_ids":[1,7,8]}
{"chat_id":4,"parent_chat_id":2,"timestamp":16,"input_length":70,"output_length":5,"type":"text","turn":2,"hash_ids":[1,7,8,9,10]}
{"chat_id":5,"parent_chat_id":3,"timestamp":19,"input_length":65,"output_length":7,"type":"text","turn":3,"hash_ids":[1,2,4,5,6]}
`
	if err := os.WriteFile(file, []byte(rows), 0o600); err != nil {
		t.Fatal(err)
	}
	for salt, want := range map[string]map[int64]int{
		"":                   {0: 0, 1: 32, 2: 64, 3: 16, 4: 48},
		workload.SaltSession: {0: 0, 1: 32, 2: 64, 3: 0, 4: 48},
		workload.SaltRequest: {0: 0, 1: 0, 2: 0, 3: 0, 4: 0},
	} {
		spec := workload.Default()
		trace := workload.Length{Dist: workload.FromTrace}
		spec.PromptTokens, spec.OutputTokens, spec.Arrival = trace, trace, workload.Arrival{Process: workload.ByTrace}
		spec.Trace = &workload.Trace{File: file, HashIDs: workload.SessionBlocks}
		spec.Sessions, spec.CacheSalt = &workload.Sessions{Turns: trace, Timing: workload.AtOnce}, salt
		f, err := workload.OpenTrace(spec, 1)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := workload.NewSessionPlan(spec, 1, f)
		if err != nil {
			t.Fatal(err)
		}
		arrivals := plan.Arrivals()
		cfg := Config{
			Engine: engine.DefaultConfig(), Talks: workload.NewConversations(plan, nil),
			Load: sched.Config{Gap: func() int64 { return int64(arrivals.Next()) }, Due: plan.Due},
		}
		cfg.Shape = ShareHistory(cfg.Talks, cfg.Engine.BlockSize, nil)
		r, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		w := &watcher{}
		if err := r.Run(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		ended, cached, total := map[int64]record.Stamp{}, map[int64]int{}, 0
		for _, a := range w.all {
			// Requests are numbered by session: 0 to 2 and 3 to 4.
			if end := ended[a.Session]; a.Turn > 1 && a.Scheduled != end {
				t.Errorf("turn %d of session %d is scheduled at %d, its parent ended at %d", a.Turn, a.Session, a.Scheduled, end)
			}
			ended[a.Session] = a.Ended
			cached[a.Request] = a.Usage.CachedTokens
			total += a.Usage.CachedTokens
		}
		for index, n := range want {
			if cached[index] != n {
				t.Errorf("salt %q: request %d has %d tokens from the cache, want %d", salt, index, cached[index], n)
			}
		}
		if s := plan.Sharing(); len(w.all) != 5 || s.HitTokens != int64(total) {
			t.Errorf("salt %q: %d requests, %d tokens from the cache, planned %+v", salt, len(w.all), total, *s)
		}
	}
}
