package sweep

import (
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/result"
)

// run is a stage as the tests need it.
type run struct {
	tps, half  float64 // output tokens/s, and the half-width of its interval; 0 for none
	ttft, tpot float64
	stability  string
	failed     int
	waiting    []float64 // min, mean, samples
	capped     time.Duration
	invalid    bool
}

func (r run) stage() *result.Stage {
	st := &result.Stage{Window: record.Window{Start: 1, End: 60_000_000_001}, CappedTime: r.capped}
	st.Ledger.Requests, st.Ledger.Completed = 100, 100-r.failed
	t := result.Throughput{Name: "output_tps", Value: r.tps}
	if r.half > 0 {
		t.CI = &result.Interval{r.tps - r.half, r.tps + r.half}
	}
	st.Throughput = []result.Throughput{t, {Name: "rps", Value: r.tps / 128}}
	st.Metrics.TTFT = &result.Summary{P50: &r.ttft}
	st.Metrics.TPOT = &result.Summary{Mean: &r.tpot}
	st.Metrics.E2E = &result.Summary{P50: new(r.ttft + 127*r.tpot)}
	st.Stability.Verdict, st.Client.Verdict = r.stability, result.Valid
	if r.stability == "" {
		st.Stability.Verdict = result.Stable
	}
	if r.invalid {
		st.Client.Verdict, st.Client.Cause = result.Invalid, "late"
	}
	if r.waiting != nil {
		g := result.ServerGauge{Min: r.waiting[0], Mean: r.waiting[1], Samples: int(r.waiting[2])}
		g.Quantity, g.Name = "waiting", "vllm:num_requests_waiting"
		st.Server = &result.ServerAccount{Window: &result.ServerWindow{Gauges: []result.ServerGauge{g}}}
	}
	return st
}

func TestSaturation(t *testing.T) {
	free := run{tps: 1000, half: 5, ttft: 20, tpot: 7}
	for _, c := range []struct {
		name   string
		open   bool
		load   []float64
		runs   []run
		rule   string // none: climb on
		inText string
	}{
		{"the first level", false, []float64{1}, []run{free}, "", ""},
		{"twice as much", false, []float64{8, 16}, []run{free, {tps: 1900, half: 10, ttft: 30, tpot: 8}}, "", ""},
		{"no gain, TTFT rises", false, []float64{16, 32}, []run{free, {tps: 1010, half: 5, ttft: 900, tpot: 7}}, "no-gain", "TTFT p50 rose"},
		{"no gain, TPOT rises", false, []float64{16, 32}, []run{free, {tps: 1010, half: 5, ttft: 20, tpot: 14}}, "no-gain", "TPOT mean rose"},
		{"no gain, no rise", false, []float64{16, 32}, []run{free, {tps: 1010, half: 5, ttft: 20, tpot: 7}}, "", ""},
		{"the interval of the gain reaches 5 %", false, []float64{16, 32}, []run{free, {tps: 1010, half: 60, ttft: 900, tpot: 7}}, "", ""},
		{"no interval", false, []float64{16, 32}, []run{free, {tps: 1010, ttft: 900, tpot: 7}}, "", ""},
		{"throughput falls", false, []float64{16, 32}, []run{free, {tps: 700, half: 20, ttft: 900, tpot: 7}}, "no-gain", "-30.0 %"},
		{"a step too small to tell", false, []float64{30, 32}, []run{free, {tps: 1010, half: 5, ttft: 900, tpot: 7}}, "", ""},
		{"the level below the last is too close: the one before", false, []float64{16, 30, 32}, []run{free, {tps: 1005, half: 5, ttft: 500, tpot: 7}, {tps: 1010, half: 5, ttft: 900, tpot: 7}}, "no-gain", "over concurrency 16"},
		{"waiting all the time", false, []float64{32}, []run{{tps: 10, ttft: 1, tpot: 1, waiting: []float64{3, 16, 5}}}, "waiting", "vllm:num_requests_waiting"},
		{"waiting now and then", false, []float64{32}, []run{{tps: 10, ttft: 1, tpot: 1, waiting: []float64{0, 16, 5}}}, "", ""},
		{"too few scrapes", false, []float64{32}, []run{{tps: 10, ttft: 1, tpot: 1, waiting: []float64{3, 16, 2}}}, "", ""},
		{"errors", false, []float64{32}, []run{{tps: 10, failed: 6}}, "errors", "6 of 100"},
		{"a few errors", false, []float64{32}, []run{{tps: 10, failed: 5}}, "", ""},
		{"open loop, UNSTABLE", true, []float64{32}, []run{{tps: 10, stability: result.Unstable}}, "unstable", "UNSTABLE"},
		{"open loop, UNDECIDED", true, []float64{32}, []run{{tps: 10, stability: result.Undecided}}, "", ""},
		{"open loop, held back", true, []float64{32}, []run{{tps: 10, capped: 2 * time.Second}}, "capped", "2.0 s"},
		{"open loop: throughput is the rate", true, []float64{16, 32}, []run{free, {tps: 1010, half: 5, ttft: 900, tpot: 7}}, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			key, name := ConcurrencyKey, "concurrency"
			if c.open {
				key, name = RateKey, "rate"
			}
			p := Plan{Axes: []result.SweepAxis{{Key: key, Name: name, Values: []string{"16", "30", "32", "1", "8"}}}}
			var levels []Level
			for i, load := range c.load {
				for _, s := range p.Stages() {
					if s.Load == load {
						levels = append(levels, Level{Stage: s, Run: c.runs[i].stage()})
					}
				}
			}
			got := Saturation(levels, c.open)
			switch {
			case c.rule == "" && got != nil:
				t.Errorf("stopped: %+v", got)
			case c.rule != "" && (got == nil || got.Rule != c.rule || !strings.Contains(got.Text, c.inText)):
				t.Errorf("got %+v, want %s with %q", got, c.rule, c.inText)
			}
		})
	}
}
