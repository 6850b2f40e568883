package report

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/assay-bench/assay/result"
)

func sweepOf(error string) *result.Sweep {
	done := result.SweepRun{Repeat: 1, State: result.CellDone, Client: result.Valid, Stability: result.Stable, Run: "r1", Due: 10, Completed: 10, Balances: true}
	s := func(median, mad float64) *result.Spread {
		return &result.Spread{N: 3, Median: median, MAD: mad, Min: median - 2*mad, Max: median + 2*mad}
	}
	return &result.Sweep{
		ID: "20261130T120000Z-a1b2c3", Dir: "runs/20261130T120000Z-a1b2c3", Complete: false, Ended: error, Repeats: 3, Seed: 1,
		Target: result.Target{URL: "http://host/v1", Model: error},
		Axes:   []result.SweepAxis{{Key: "workload.concurrency", Name: "concurrency", Values: []string{"1", "2", "4"}}},
		Stages: []result.SweepStage{
			{Name: "concurrency 1", Load: new(1.), Runs: []result.SweepRun{done, done, done}, TTFTp50: s(12.5, 0.5), OutputTPS: s(150, 0), Goodput: s(100, 0)},
			{Name: "concurrency 2", Load: new(2.), Excluded: error, Runs: []result.SweepRun{{Repeat: 1, State: result.CellFailed, Error: error}}},
			{Name: "concurrency 4", Load: new(4.), Runs: []result.SweepRun{{Repeat: 1, State: result.CellSkipped}}},
		},
		Stops: []result.SweepStop{{Stage: "concurrency 2", Rule: "failed", Text: error, Skipped: []string{"concurrency 4"}}},
		Scaling: []result.Scaling{{
			Over: "concurrency", Of: "output_tps", Points: []result.ScalingPoint{{Stage: "concurrency 1", Load: 1, Value: 150, Runs: 3}},
			Knee: new(16.), KneeRange: &result.Interval{8, 16},
			USL: &result.USL{Lambda: 161, Sigma: 0.01, SigmaCI: &result.Interval{0, 0.02}, Kappa: 0.0015, R2: 0.99},
		}},
		Warnings: []result.Warning{{Code: "between-runs", Text: error}},
	}
}

func TestSweepReport(t *testing.T) {
	var b bytes.Buffer
	if err := Sweep(&b, sweepOf("gone"), Options{}); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, want := range []string{
		`concurrency 1 +12\.50 ± 0\.500`, `min to max +11\.50 to 13\.50`, `150\.0 ± 0`, `concurrency 16 \(95 % of resamples: 8 to 16\)`,
		`σ 0\.01 \(0 to 0\.02\)`, `STOPPED +at concurrency 2`, `not run: concurrency 4`, `PARTIAL`, `assay sweep --resume runs/`,
		`concurrency 2, repeat 1 failed: gone`, `3 of 5 runs done`,
	} {
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	for line := range strings.SplitSeq(text, "\n") {
		if len([]rune(line)) > defaultWidth {
			t.Errorf("wider than %d: %q", defaultWidth, line)
		}
	}
}

// TestSweepReportIsEscaped: what a server says can neither steer a terminal nor
// format a page.
func TestSweepReportIsEscaped(t *testing.T) {
	hostile := sweepOf("\x1b[31m**bold** | <script>\n# heading")
	var text, page bytes.Buffer
	if err := Sweep(&text, hostile, Options{}); err != nil {
		t.Fatal(err)
	}
	if err := SweepMarkdown(&page, hostile); err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]string{"terminal": text.String(), "Markdown": page.String()} {
		if strings.Contains(s, "\x1b") || strings.Contains(s, "\n# heading") {
			t.Errorf("%s: %q", name, s)
		}
	}
	if s := page.String(); strings.Contains(s, "<script>") || strings.Contains(s, "**bold**") {
		t.Errorf("Markdown: %s", s)
	}
}

func TestCapacityReport(t *testing.T) {
	c := &result.Capacity{
		ID: "x", Complete: true, Over: "rate", Attainment: 0.99, Runs: 9, Text: "the capacity lies from 4 to 4.2 requests/s",
		SLO:    []result.Threshold{{Metric: "ttft", LimitMS: 500}},
		Looked: []result.CapacityLook{{Load: 4, Percent: new(99.5), Stability: result.Stable}, {Load: 8, Error: "HTTP 503"}},
		Levels: []result.CapacityLevel{
			{Load: 4, Verdict: result.Pass, Percent: 99.6, PercentCI: &result.Interval{99.1, 99.9}, Due: 9000, NEff: 2000, Runs: 3, Stable: 3, Confidence: 0.9875, Cause: "it met it"},
			{Load: 4.2, Verdict: result.Fail, Runs: 3, Unstable: 2, Confidence: 0.9875, Cause: "2 of 3 runs are UNSTABLE"},
			{Load: 4.4},
		},
	}
	var b bytes.Buffer
	if err := Capacity(&b, c, Options{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`4 +PASS +99\.60 +99\.10 to 99\.90 +9000 +2000 +3`, `4\.2 +FAIL`, `4\.4 +open`, `failed: HTTP 503`, `TTFT < 500 ms`, `CAPACITY +the capacity lies`} {
		if !regexp.MustCompile(want).MatchString(b.String()) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}
