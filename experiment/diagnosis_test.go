package experiment

import (
	"strings"
	"testing"

	"github.com/assay-bench/assay/environ"
	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/result"
)

// diagnosed is a stage with means in ms.
func diagnosed(ttft, e2e float64, server map[string]float64) *result.Stage {
	st := &result.Stage{
		Ledger: record.Ledger{Attempts: 100, Completed: 100}, Client: result.ClientVerdict{Verdict: result.Valid},
		Metrics: result.Metrics{TTFT: &result.Summary{N: 100, Mean: &ttft}, E2E: &result.Summary{N: 100, Mean: &e2e}},
	}
	if server != nil {
		w := &result.ServerWindow{}
		for q, v := range server {
			if q == "waiting" {
				w.Gauges = append(w.Gauges, result.ServerGauge{ServerNumber: result.ServerNumber{Quantity: q}, Samples: 8, Mean: v, Max: 2 * v})
				continue
			}
			w.Distributions = append(w.Distributions, result.ServerDistribution{ServerNumber: result.ServerNumber{Quantity: q}, N: 90, Mean: &v})
		}
		st.Server = &result.ServerAccount{Window: w}
	}
	return st
}

func TestDiagnose(t *testing.T) {
	server := func(queue, prefill, decode, waiting float64) map[string]float64 {
		return map[string]float64{"queue": queue, "prefill": prefill, "decode": decode, "waiting": waiting, "ttft": queue + prefill}
	}
	tests := []struct {
		name       string
		stage      *result.Stage
		path       *environ.Path
		ttft, e2e  string
		supporting string // in the evidence for TTFT
		opposing   string // against it
	}{
		{"prefill and decode", diagnosed(21, 1000, server(2, 18, 950, 0)), nil, "prefill", "decode", "queue 2 ms and prefill 18 ms", ""},
		{"queue", diagnosed(900, 1000, server(850, 20, 100, 5)), nil, "queue", "queue", "5 requests waiting on average", ""},
		{"queue without waiting", diagnosed(900, 1000, server(850, 20, 100, 0)), nil, "queue", "queue", "850", "0 requests waiting"},
		{"prefill with waiting", diagnosed(900, 1000, server(10, 800, 100, 3)), nil, "prefill", "prefill", "", "3 requests waiting"},
		{"no server", diagnosed(21, 1000, nil), nil, "not decidable", "decode", "", "cannot be told apart by a client"},
		{"server without parts", diagnosed(900, 1000, map[string]float64{"ttft": 9}), nil, "not decidable", "not decidable", "", "does not tell queue and prefill"},
		{"network", diagnosed(21, 1000, server(1, 2, 900, 0)), &environ.Path{Connects: 7, MedianMS: 15}, "network", "decode", "round trip to the target takes 15 ms", ""},
		{"near", diagnosed(21, 1000, server(1, 20, 900, 0)), &environ.Path{Connects: 7, MedianMS: 0.04}, "prefill", "decode", "", "the network is not what TTFT consists of"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := Diagnose(tt.stage, tt.path)
			if d.TTFT.Hypothesis != tt.ttft || d.E2E.Hypothesis != tt.e2e {
				t.Errorf("TTFT %q, E2E %q; want %q, %q", d.TTFT.Hypothesis, d.E2E.Hypothesis, tt.ttft, tt.e2e)
			}
			if f := strings.Join(d.TTFT.For, "\n"); !strings.Contains(f, tt.supporting) {
				t.Errorf("for: %q", f)
			}
			if a := strings.Join(d.TTFT.Against, "\n"); !strings.Contains(a, tt.opposing) {
				t.Errorf("against: %q", a)
			}
			if len(d.Next) == 0 {
				t.Error("nothing to measure next")
			}
		})
	}
}

func TestDiagnoseClientFirst(t *testing.T) {
	st := diagnosed(900, 1000, map[string]float64{"queue": 850, "prefill": 20, "decode": 100})
	st.Client = result.ClientVerdict{Verdict: result.Invalid, Cause: "read lag p99 9 ms (at most 1)"}
	if d := Diagnose(st, nil); d.TTFT.Hypothesis != result.HypothesisClient || !strings.Contains(d.TTFT.For[0], "read lag p99 9 ms") {
		t.Errorf("%+v", d.TTFT)
	}
	st.Ledger.Completed = 0
	if d := Diagnose(st, nil); d.TTFT.Hypothesis != result.HypothesisUndecided {
		t.Errorf("%+v", d.TTFT)
	}
}
