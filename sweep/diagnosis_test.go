package sweep

import (
	"strings"
	"testing"

	"github.com/assay-bench/assay/result"
)

func TestDiagnose(t *testing.T) {
	level := func(load, ttft, tpot, queue, prefill float64) result.SweepStage {
		one := func(v float64) *result.Spread { return &result.Spread{N: 3, Median: v} }
		s := result.SweepStage{Name: "at", Load: &load, TTFTp50: one(ttft), TPOTMean: one(tpot), Runs: []result.SweepRun{{Client: result.Valid}}}
		if queue > 0 {
			s.ServerQueue, s.ServerPrefill = one(queue), one(prefill)
		}
		return s
	}
	for _, tt := range []struct {
		name      string
		low, high result.SweepStage
		want      string
		evidence  string // among all that is said
	}{
		{"queue by the server", level(1, 20, 7, 1, 18), level(64, 900, 7.2, 850, 30), result.HypothesisQueue, "mean queue time went from 1 to 850 ms"},
		{"prefill by the server", level(1, 20, 7, 1, 18), level(64, 400, 9, 20, 370), result.HypothesisPrefill, "mean prefill time went from 18 to 370 ms"},
		{"queue by the client alone", level(1, 20, 7, 0, 0), level(64, 900, 7.2, 0, 0), result.HypothesisQueue, "a client cannot tell them apart"},
		{"both rise, no server", level(1, 20, 7, 0, 0), level(64, 900, 20, 0, 0), result.HypothesisUndecided, "waiting alone does not explain it"},
		{"decode", level(1, 20, 7, 1, 18), level(64, 21, 20, 1, 18), result.HypothesisDecode, "mean TPOT went from 7 ms"},
		{"nothing rises", level(1, 20, 7, 1, 18), level(2, 21, 7, 1, 18), result.HypothesisUndecided, "TTFT p50 went"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := Diagnose([]result.SweepStage{tt.high, tt.low})
			if len(d) != 1 || d[0].Hypothesis != tt.want || len(d[0].Next) == 0 {
				t.Fatalf("%+v, want %s", d, tt.want)
			}
			if all := strings.Join(append(d[0].For, d[0].Against...), "\n"); !strings.Contains(all, tt.evidence) {
				t.Errorf("no %q in %q", tt.evidence, all)
			}
		})
	}
	bad := level(64, 900, 7, 1, 1)
	bad.Runs[0] = result.SweepRun{Client: result.Invalid, ClientCause: "read lag"}
	if d := Diagnose([]result.SweepStage{level(1, 20, 7, 1, 1), bad}); d[0].Hypothesis != result.HypothesisClient {
		t.Errorf("%+v", d)
	}
	if d := Diagnose([]result.SweepStage{level(1, 20, 7, 1, 1)}); d != nil {
		t.Errorf("one level: %+v", d)
	}
}
