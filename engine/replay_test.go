package engine

import (
	"bufio"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// drive serves requests that arrive at their Queued times, in virtual time,
// until all have finished; observe may be nil.
func drive(t testing.TB, e *Engine, requests []*Request, observe func(*Step)) {
	t.Helper()
	err := e.Replay(requests, func(s *Step) {
		if s.ScheduledTokens == 0 {
			t.Fatalf("step at %d computed nothing", s.Start)
		}
		if observe != nil {
			observe(s)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestReplayRefuses(t *testing.T) {
	for _, c := range []struct {
		name     string
		requests []*Request
		want     string
	}{
		{"no prompt", []*Request{{PromptTokens: 1, OutputTokens: 1}, {OutputTokens: 1}}, "request 1"},
		{"out of order", []*Request{{PromptTokens: 1, Queued: 9}, {PromptTokens: 1, Queued: 5}}, "before the one before"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, err := New(DefaultConfig())
			if err != nil {
				t.Fatal(err)
			}
			if err := e.Replay(c.requests, nil); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q in it", err, c.want)
			}
		})
	}
}

// recorded is a line of a recorded vLLM run; times in engine seconds.
type recorded struct {
	Input     int     `json:"input_toks"`
	Output    int     `json:"output_toks"`
	Queued    float64 `json:"queued_ts"`
	Scheduled float64 `json:"scheduled_ts"`
	First     float64 `json:"first_token_ts"`
	Last      float64 `json:"last_token_ts"`
}

func loadRun(t *testing.T, name string) []recorded {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "..", "shared", "data", "vllm-runs", name))
	if os.IsNotExist(err) {
		t.Skip("recorded runs are not here")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []recorded
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var r recorded
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	slices.SortStableFunc(out, func(a, b recorded) int {
		switch {
		case a.Queued < b.Queued:
			return -1
		case a.Queued > b.Queued:
			return 1
		}
		return 0
	})
	return out
}

// summary is mean, p50, p90 and p99.
func summary(x []float64) [4]float64 {
	slices.Sort(x)
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	q := func(p float64) float64 {
		h := p * float64(len(x)-1)
		i := min(int(h), len(x)-2)
		return x[i] + (h-float64(i))*(x[i+1]-x[i])
	}
	return [4]float64{sum / float64(len(x)), q(.5), q(.9), q(.99)}
}

// relativeErrors compares a replay with its recording: TTFT, TPOT, E2E, each
// by mean, p50, p90, p99.
func relativeErrors(t *testing.T, cfg Config, run []recorded) (errs [3][4]float64, preemptions int) {
	t.Helper()
	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	requests := make([]*Request, len(run))
	for i, r := range run {
		ns := int64(math.Round((r.Queued - run[0].Queued) * 1e9))
		requests[i] = &Request{PromptTokens: r.Input, OutputTokens: r.Output, Queued: ns}
	}
	drive(t, e, requests, nil)
	var real, sim [3][]float64
	for i, r := range run {
		q := requests[i]
		preemptions += q.Preemptions
		real[0] = append(real[0], r.First-r.Queued)
		sim[0] = append(sim[0], float64(q.FirstToken-q.Queued)/1e9)
		if r.Output > 1 {
			real[1] = append(real[1], (r.Last-r.First)/float64(r.Output-1))
			sim[1] = append(sim[1], float64(q.LastToken-q.FirstToken)/1e9/float64(r.Output-1))
		}
		real[2] = append(real[2], r.Last-r.Queued)
		sim[2] = append(sim[2], float64(q.LastToken-q.Queued)/1e9)
	}
	for i := range errs {
		a, b := summary(sim[i]), summary(real[i])
		for j := range a {
			errs[i][j] = a[j]/b[j] - 1
		}
	}
	return errs, preemptions
}

func TestRecordedRuns(t *testing.T) {
	tables := DefaultTables()
	pro := ConfigFor(tables.GPUs["rtx-pro-6000"], tables.Models["llama-3.1-8b"], 1)
	pro.MaxNumSeqs, pro.MaxNumBatchedTokens = 128, 2048
	consumer := ConfigFor(tables.GPUs["rtx-4090"], tables.Models["llama-3.1-8b"], 1)
	consumer.MaxNumSeqs, consumer.MaxNumBatchedTokens = 256, 2048
	consumer.KVBlocks, consumer.MaxModelLen = 2588, 32768
	calibrated := consumer
	calibrated.Constants.EtaMemory, calibrated.Constants.EtaKV, calibrated.Constants.Elementwise = 0.92, 0.92, 0.05

	for _, c := range []struct {
		name, file string
		cfg        Config
		limit      float64
		preempts   bool
	}{
		{"RTX PRO 6000, generic constants", "RTXPRO6000_Llama-3.1-8B.requests.jsonl", pro, 0.03, false},
		{"RTX 4090, generic constants", "RTX4090_Llama-3.1-8B.requests.jsonl", consumer, 0.20, true},
		{"RTX 4090, calibrated", "RTX4090_Llama-3.1-8B.requests.jsonl", calibrated, 0.05, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			errs, preemptions := relativeErrors(t, c.cfg, loadRun(t, c.file))
			for i, what := range []string{"TTFT", "TPOT", "E2E"} {
				t.Logf("%-4s mean %+.1f%% p50 %+.1f%% p90 %+.1f%% p99 %+.1f%%", what,
					100*errs[i][0], 100*errs[i][1], 100*errs[i][2], 100*errs[i][3])
				for j, stat := range []string{"mean", "p50", "p90", "p99"} {
					if math.Abs(errs[i][j]) > c.limit {
						t.Errorf("%s %s is off by %+.1f%%, limit %.0f%%", what, stat, 100*errs[i][j], 100*c.limit)
					}
				}
			}
			t.Logf("%d preemptions", preemptions)
			if (preemptions > 0) != c.preempts {
				t.Errorf("%d preemptions", preemptions)
			}
		})
	}
}
