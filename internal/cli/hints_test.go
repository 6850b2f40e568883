package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/result"
	"github.com/assay-bench/assay/workload"
)

func TestFewRequests(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*config)
		want   string // "" for no hint
	}{
		"closed loop, rate not known": {func(*config) {}, ""},
		"enough":                      {func(c *config) { c.Workload.Arrival.Rate = 13 }, ""},
		"exactly enough":              {func(c *config) { c.Workload.Arrival.Rate = 12.5 }, ""},
		"too few for p99":             {func(c *config) { c.Workload.Arrival.Rate = 5 }, "about 40 requests will become due in the window: too few for p99, which needs 100 (n(1-p) ≥ 1): give --duration 20s"},
		"too few for two":             {func(c *config) { c.Workload.Arrival.Rate = 1 }, "too few for p95, p99, the last of which needs 100 (n(1-p) ≥ 1): give --duration 1m40s"},
		"a percentile of its own":     {func(c *config) { c.Workload.Arrival.Rate = 50; c.Report.Percentiles = []float64{99.9, 90} }, "too few for p99.9, which needs 1000 (n(1-p) ≥ 1): give --duration 20s"},
		"by requests":                 {func(c *config) { c.Stage.Duration, c.Stage.Requests = 0, 50 }, "about 50 requests will become due in the window: too few for p99, which needs 100 (n(1-p) ≥ 1): give --requests 100"},
		"both":                        {func(c *config) { c.Workload.Arrival.Rate, c.Stage.Requests = 5, 60 }, "give --requests 100"},
		"sessions":                    {func(c *config) { c.Workload.Arrival.Rate = 1; c.Workload.Sessions = new(workload.Sessions) }, ""},
		"a trace":                     {func(c *config) { c.Workload.Arrival.Rate = 1; c.Workload.Trace = new(workload.Trace) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := defaultConfig()
			c.change(&cfg)
			if cfg.Workload.Arrival.Rate > 0 {
				cfg.Workload.Arrival.Process = workload.Poisson
			}
			if got := cfg.fewRequests(&cfg.Workload); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestOpened(t *testing.T) {
	const s = record.Stamp(time.Second)
	info := func(open bool, requests int, residence time.Duration) *result.StageInfo {
		return &result.StageInfo{
			OpenLoop: open, Window: record.Window{Start: 10 * s, End: 18 * s},
			Warmup: result.Warmup{Requests: requests, Duration: 10 * time.Second, MeanResidence: residence},
		}
	}
	cfg := defaultConfig()
	for name, c := range map[string]struct {
		info *result.StageInfo
		want []string
	}{
		"long enough":      {info(false, 200, 1600*time.Millisecond), nil},
		"closed, short":    {info(false, 200, 2*time.Second), []string{"the window of 8 s is 4 times the mean residence in the warm-up, 2 s: for a verdict on stability at least 5 are needed: give --duration 10s or more"}},
		"open, short":      {info(true, 5, time.Second), []string{"at least 10 are needed: give --duration 10s or more"}},
		"few":              {info(false, 30, time.Second), []string{"about 24 requests will complete, at the rate of the warm-up, in the window: too few for p99, which needs 100 (n(1-p) ≥ 1): give --duration 34s"}},
		"nothing is known": {info(false, 0, 0), nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := cfg.opened(c.info)
			if len(got) != len(c.want) {
				t.Fatalf("%q, want %q", got, c.want)
			}
			for i := range got {
				if !strings.Contains(got[i], c.want[i]) {
					t.Errorf("%q, want %q", got[i], c.want[i])
				}
			}
		})
	}
}
