package simserver

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/assay-bench/assay/engine"
	gocmp "github.com/google/go-cmp/cmp"
)

// load sends requests from several workers and waits for their truth.
func (r *rig) load(sink *truthSink, workers, each int, body func(worker, i int) string) []TruthRequest {
	r.t.Helper()
	var wg sync.WaitGroup
	for worker := range workers {
		wg.Go(func() {
			for i := range each {
				req := r.request("POST", "/v1/completions", body(worker, i), "X-Request-Id", fmt.Sprintf("w%d-%d", worker, i))
				if resp, text, err := r.do(req); err != nil || resp.StatusCode != 200 {
					r.t.Errorf("%v %q %v", resp, text, err)
				}
			}
		})
	}
	wg.Wait()
	return sink.await(r.t, workers*each)
}

func TestTruth(t *testing.T) {
	sink := newTruthSink()
	cfg := fastConfig()
	cfg.TruthLog, cfg.TruthSteps = sink, true
	r := start(t, cfg)
	requests := r.load(sink, 4, 10, func(worker, i int) string {
		return fmt.Sprintf(`{"prompt":"worker %d request %d","max_tokens":%d,"ignore_eos":true,"stream":%t,"stream_options":%s}`,
			worker, i, 1+i*3, i%3 != 0, map[bool]string{true: `{"include_usage":true}`, false: "null"}[i%3 != 0])
	})
	first, _, _ := sink.lines(t)
	if first.Schema != TruthSchema || first.WallOffset != first.Wall-first.Monotonic {
		t.Errorf("start line %+v", first)
	}
	seen := map[string]bool{}
	for _, q := range requests {
		seen[q.XRequestID] = true
		if q.ID != "cmpl-"+q.XRequestID || q.Outcome != "completed" || len(q.Sequences) != 1 {
			t.Errorf("%+v", q)
			continue
		}
		s := q.Sequences[0]
		if !slices.IsSorted([]int64{q.Arrival, s.Queued, s.Scheduled, s.FirstToken, s.LastToken}) {
			t.Errorf("%s: times out of order: %d %+v", q.ID, q.Arrival, s)
		}
		if s.OutputTokens != s.MaxTokens || q.OutputTokens != s.OutputTokens || q.Ended != s.LastToken {
			t.Errorf("%s: %d of %d tokens", q.ID, s.OutputTokens, s.MaxTokens)
		}
		tokens, last := 0, int64(0)
		for _, e := range q.Events {
			tokens += int(e.Tokens)
			if e.Planned > e.Before || e.Before < last || e.After != 0 && e.After < e.Before || e.Bytes == 0 {
				t.Errorf("%s: event %+v", q.ID, e)
			}
			last = e.Before
		}
		if tokens != s.OutputTokens {
			t.Errorf("%s: events of %d tokens, %d generated", q.ID, tokens, s.OutputTokens)
		}
		if kind := q.Events[len(q.Events)-1].Kind; q.Stream && kind != EventDone || !q.Stream && kind != EventBody {
			t.Errorf("%s ends in %v", q.ID, kind)
		}
	}
	if len(seen) != 40 {
		t.Errorf("%d of 40 requests are in the log", len(seen))
	}
}

// What the server did in wall-clock time, the engine does again from the stamps
// of the arrivals alone, step by step to the nanosecond.
func TestVirtualTwin(t *testing.T) {
	sink := newTruthSink()
	cfg := fastConfig()
	cfg.Engine.NoiseCV = 0.2
	cfg.Engine.MaxNumSeqs = 6 // some wait
	cfg.TruthLog, cfg.TruthSteps = sink, true
	r := start(t, cfg)
	requests := r.load(sink, 10, 10, func(worker, i int) string {
		return fmt.Sprintf(`{"prompt":%q,"max_tokens":60,"n":%d,"stream":true}`,
			fmt.Sprintf("twin %d %s", i, strings.Repeat("common words ", 40)), 1+worker%2)
	})
	if err := r.srv.Close(); err != nil {
		t.Fatal(err)
	}
	_, _, steps := sink.lines(t)

	var sequences []TruthSequence
	for _, q := range requests {
		sequences = append(sequences, q.Sequences...)
	}
	// Sequences of one request share a stamp and come in the order of their index.
	slices.SortStableFunc(sequences, func(a, b TruthSequence) int { return cmp.Compare(a.Queued, b.Queued) })
	eng, err := engine.New(cfg.Engine)
	if err != nil {
		t.Fatal(err)
	}
	type step struct {
		Start, End                                    int64
		Outputs, Scheduled, Prefill, Running, Waiting int
		KVUsage                                       float64
	}
	var twin, real []step
	plan := int64(0)
	for len(sequences) > 0 || eng.HasWork() {
		if !eng.HasWork() {
			plan = max(plan, sequences[0].Queued)
		}
		for len(sequences) > 0 && sequences[0].Queued <= plan {
			q := sequences[0]
			sequences = sequences[1:]
			err := eng.Add(q.Queued, &engine.Request{PromptTokens: q.PromptTokens, OutputTokens: q.Planned, Stop: q.Stop, BlockHashes: q.BlockHashes})
			if err != nil {
				t.Fatal(err)
			}
		}
		s := eng.Step(plan)
		plan = s.End
		twin = append(twin, step{s.Start, s.End, len(s.Outputs), s.ScheduledTokens, s.PrefillTokens, s.Running, s.Waiting, s.KVUsage})
	}
	waited := false
	for _, s := range steps {
		real = append(real, step{s.Start, s.End, s.Outputs, s.ScheduledTokens, s.PrefillTokens, s.Running, s.Waiting, s.KVUsage})
		waited = waited || s.Waiting > 0
	}
	if diff := gocmp.Diff(twin, real); diff != "" {
		t.Errorf("the twin differs (-virtual +real):\n%s", diff)
	}
	if len(real) < 100 || !waited {
		t.Errorf("%d steps, waited %t: the workload shows nothing", len(real), waited)
	}
}

func TestTruthEventCodec(t *testing.T) {
	want := TruthEvent{3, 4, 5, 6, 2, 1, EventToken}
	b, err := json.Marshal(want)
	if err != nil || string(b) != `["token",1,2,3,4,5,6]` {
		t.Fatalf("%s, %v", b, err)
	}
	var got TruthEvent
	if err := json.Unmarshal(b, &got); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{`["token",1]`, `{}`, `[1,2,3,4,5,6,7]`, `["token",1,2,3,4,5,6,7]`, `["",1,2,3,4,5,6]`, `["other",1,2,3,4,5,6]`} {
		if err := json.Unmarshal([]byte(bad), &got); err == nil {
			t.Errorf("%s was read as %+v", bad, got)
		}
	}
}

// A line is what encoding/json would make of it.
func TestTruthLine(t *testing.T) {
	for _, line := range []TruthLine{
		{Start: &TruthStart{Schema: "s", Model: `a "b"`}},
		{Step: &TruthStep{Number: 3, KVUsage: 0.25}},
		{Request: &TruthRequest{ID: "no events", Sequences: []TruthSequence{{Index: 1}}}},
		{Request: &TruthRequest{ID: "one", Events: TruthEvents{{3, 4, 5, 6, 2, 1, EventToken}}}},
		{Request: &TruthRequest{ID: "}}", Fault: `{"`, Events: TruthEvents{{Kind: EventStall, Index: -1}, {Kind: EventDone, Planned: 1 << 60}}}},
	} {
		want, err := json.Marshal(line)
		if err != nil {
			t.Fatal(err)
		}
		got, err := appendLine([]byte("before"), line)
		if err != nil || string(got) != "before"+string(want)+"\n" {
			t.Errorf("%s\nwant %s, %v", got, want, err)
		}
		if q := line.Request; q != nil && q.ID == "one" && len(q.Events) != 1 {
			t.Error("the line was changed")
		}
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, fmt.Errorf("disk full") }

// A log that cannot be written is told at the end; the server goes on.
func TestTruthLogFails(t *testing.T) {
	l := newTruthLog(brokenWriter{}, false)
	go l.run()
	for range 3 {
		l.add(TruthLine{Start: &TruthStart{}})
	}
	if err := l.close(); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("close: %v", err)
	}
}

func FuzzReadTruth(f *testing.F) {
	f.Add([]byte(`{"start":{"schema":"x"}}` + "\n" + `{"request":{"events":[["token",0,1,2,3,4,5]]}}`))
	f.Add([]byte(`{"step":{"number":1}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		_ = ReadTruth(bytes.NewReader(b), func(TruthLine) error { return nil })
	})
}
