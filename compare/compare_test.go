package compare

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/result"
)

// numbers of one run by metric; the rest of a run is in order.
type numbers map[string]float64

func newRun(id string, seed uint64, n numbers) Run {
	summary := func(name string) *result.Summary {
		s := &result.Summary{N: 1000}
		for statistic, to := range map[string]**float64{"mean": &s.Mean, "p50": &s.P50, "p95": &s.P95, "p99": &s.P99} {
			if v, ok := n[name+"."+statistic]; ok {
				*to = &v
			}
		}
		return s
	}
	st := result.Stage{
		Name: "rate 4/s", Window: record.Window{Start: 1, End: record.Stamp(8*time.Second) + 1},
		Metrics:   result.Metrics{TTFT: summary("ttft"), TPOT: summary("tpot"), E2E: summary("e2e")},
		Ledger:    record.Ledger{Attempts: 1000, Completed: 1000},
		Client:    result.ClientVerdict{Verdict: result.Valid},
		Stability: result.StabilityVerdict{Verdict: result.Stable},
	}
	if v, ok := n["output_tps"]; ok {
		st.Throughput = []result.Throughput{{Name: "output_tps", Value: v}}
	}
	return Run{
		Result:   &result.Run{ID: id, Seed: seed, Complete: true},
		Stage:    &st,
		Workload: "w",
	}
}

// sideOf has one run a value of one metric.
func sideOf(label, metric string, values ...float64) Side {
	s := Side{Label: label}
	for i, v := range values {
		s.Runs = append(s.Runs, newRun(fmt.Sprintf("%s%d", label, i), uint64(i+1), numbers{metric: v}))
	}
	return s
}

func mustMetrics(t testing.TB, names ...string) []Metric {
	t.Helper()
	m, err := ParseMetrics(names)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestFindings(t *testing.T) {
	tests := []struct {
		name   string
		metric string
		a, b   []float64
		paired bool
		want   string
		p      float64
	}{
		{"3v3 can show nothing", "ttft.p99", []float64{1, 2, 3}, []float64{7, 8, 9}, false, result.NotEnoughRuns, 0.1},
		{"4v4 slower", "ttft.p99", []float64{1, 2, 3, 4}, []float64{7, 8, 9, 10}, false, result.Regression, 2. / 70},
		{"4v4 faster", "ttft.p99", []float64{7, 8, 9, 10}, []float64{1, 2, 3, 4}, false, result.Improvement, 2. / 70},
		{"4v4 more throughput", "output_tps", []float64{1, 2, 3, 4}, []float64{7, 8, 9, 10}, false, result.Improvement, 2. / 70},
		{"4v4 less throughput", "output_tps", []float64{7, 8, 9, 10}, []float64{1, 2, 3, 4}, false, result.Regression, 2. / 70},
		{"4v4 mixed", "ttft.p99", []float64{1, 3, 5, 7}, []float64{2, 4, 6, 8}, false, result.NoDifference, 48. / 70},
		{"5 pairs can show nothing", "tpot.mean", []float64{1, 2, 3, 4, 5}, []float64{2, 3, 4, 5, 6}, true, result.NotEnoughRuns, 2. / 32},
		{"6 pairs", "tpot.mean", []float64{1, 2, 3, 4, 5, 6}, []float64{1.1, 2.1, 3.1, 4.1, 5.1, 6.1}, true, result.Regression, 2. / 64},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := Compare([]Side{sideOf("a", tt.metric, tt.a...), sideOf("b", tt.metric, tt.b...)},
				Options{Metrics: mustMetrics(t, tt.metric), Paired: tt.paired})
			if err != nil {
				t.Fatal(err)
			}
			d := c.Findings[0]
			if d.Finding != tt.want || math.Abs(d.P-tt.p) > 1e-12 {
				t.Errorf("%s, p = %v; want %s, p = %v\n%s", d.Finding, d.P, tt.want, tt.p, d.Text)
			}
		})
	}
}

// The numbers of runs that a family needs are those of MEASUREMENT.md section 8.
func TestNeed(t *testing.T) {
	for _, tt := range []struct {
		family, runs int
		paired       bool
	}{{1, 4, false}, {6, 5, false}, {7, 6, false}, {23, 6, false}, {24, 7, false}, {1, 6, true}, {6, 8, true}} {
		c := &comparer{o: Options{Alpha: 0.05, Paired: tt.paired}}
		if got := c.need(tt.family); got != tt.runs {
			t.Errorf("a family of %d (paired %v) needs %d, want %d", tt.family, tt.paired, got, tt.runs)
		}
	}
}

func TestNotEnoughRunsSaysHowMany(t *testing.T) {
	names := DefaultMetrics()
	side := func(label string, from float64) Side {
		s := Side{Label: label}
		for i := range 4 {
			n := numbers{}
			for _, m := range names {
				n[m] = from + float64(i)
			}
			s.Runs = append(s.Runs, newRun(fmt.Sprint(label, i), uint64(i), n))
		}
		return s
	}
	c, err := Compare([]Side{side("a", 1), side("b", 10)}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if c.Hypotheses != 6 || c.NeedRuns != 5 || c.Findings[0].Finding != result.NotEnoughRuns {
		t.Errorf("%d hypotheses need %d runs: %s", c.Hypotheses, c.NeedRuns, c.Findings[0].Finding)
	}
	if want := "4 v 4 cannot carry a family of 6 hypotheses at 5 %: it needs 5 v 5"; c.Findings[0].Text != want {
		t.Errorf("text %q, want %q", c.Findings[0].Text, want)
	}
}

func TestMissingValueIsUntested(t *testing.T) {
	a, b := sideOf("a", "ttft.p99", 1, 2, 3, 4), sideOf("b", "ttft.p99", 1, 2, 3, 4)
	b.Runs[2] = newRun("odd", 3, numbers{})
	c, err := Compare([]Side{a, b}, Options{Metrics: mustMetrics(t, "ttft.p99")})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Findings) != 0 || len(c.Untested) != 1 || !strings.Contains(c.Untested[0], "run odd of b: n = 1000 is too few") {
		t.Errorf("findings %v, untested %q", c.Findings, c.Untested)
	}
}

func TestPairedNeedsTheSameSeeds(t *testing.T) {
	a, b := sideOf("a", "ttft.p99", 1, 2), sideOf("b", "ttft.p99", 1, 2)
	b.Runs[1].Result.Seed = 9
	_, err := Compare([]Side{a, b}, Options{Paired: true})
	if err == nil || !strings.Contains(err.Error(), "the seeds of rate 4/s differ: a has [1 2], b has [1 9]") {
		t.Errorf("error %v", err)
	}
	a.Runs[1].Result.Seed, b.Runs[1].Result.Seed = 1, 1
	if _, err := Compare([]Side{a, b}, Options{Paired: true}); err == nil {
		t.Error("two runs of one seed were paired")
	}
	// The order of runs is no matter: seeds pair them.
	c := sideOf("c", "ttft.p99", 1, 2, 3, 4, 5, 6)
	d := sideOf("d", "ttft.p99", 2, 3, 4, 5, 6, 7)
	slices.Reverse(d.Runs)
	got, err := Compare([]Side{c, d}, Options{Paired: true, Metrics: mustMetrics(t, "ttft.p99")})
	if err != nil || got.Findings[0].Finding != result.Regression || got.Findings[0].Shift != 1 {
		t.Errorf("%v %+v", err, got)
	}
}

func TestObjections(t *testing.T) {
	fresh := func() []Side {
		return []Side{sideOf("a", "ttft.p99", 1, 2), sideOf("b", "ttft.p99", 1, 2)}
	}
	stage := func(s []Side) *result.Stage { return s[1].Runs[1].Stage }
	tests := []struct {
		name   string
		change func([]Side)
		want   string // part of an objection; "note: " of a note; "" none
	}{
		{"nothing", func([]Side) {}, ""},
		{"target", func(s []Side) { s[1].Runs[0].Result.Target.URL = "http://other" }, ""},
		{"workload", func(s []Side) { s[1].Runs[1].Workload = "other" }, "workload differs between a and b"},
		{"window", func(s []Side) { stage(s).Window.End *= 2 }, "windows differ between a and b: 8s and 16s"},
		{"client", func(s []Side) { stage(s).Client.Verdict = result.Invalid }, "client of run b1"},
		{"unstable", func(s []Side) { stage(s).Stability.Verdict = result.Unstable }, "UNSTABLE"},
		{"undecided", func(s []Side) { stage(s).Stability.Verdict = result.Undecided }, "note: UNDECIDED"},
		{"virtual", func(s []Side) { s[1].Runs[1].Result.Target.Virtual = true }, "boundary differs"},
		{"partial", func(s []Side) { s[1].Runs[1].Result.Complete = false }, "not complete"},
		{"twice", func(s []Side) { s[1].Runs[1].Result.ID = "a0" }, "in it twice (a, b)"},
		{"stages", func(s []Side) { stage(s).Name = "rate 8/s" }, "stages differ between a and b: rate 4/s, and rate 4/s, rate 8/s"},
		{"failures", func(s []Side) { stage(s).Ledger.Completed = 900 }, "note: 10.0 % of the requests"},
		{"transport", func(s []Side) { s[1].Runs[1].Result.Transport = "epoll" }, "note: the transport differs"},
		{"no runs", func(s []Side) { s[1].Runs = nil }, "b has no runs"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := fresh()
			tt.change(s)
			objections, notes := Objections(s)
			note, isNote := strings.CutPrefix(tt.want, "note: ")
			switch {
			case tt.want == "" && len(objections)+len(notes) > 0:
				t.Errorf("objections %q, notes %q", objections, notes)
			case isNote && (len(objections) > 0 || !strings.Contains(strings.Join(notes, "\n"), note)):
				t.Errorf("objections %q, notes %q; want the note %q", objections, notes, note)
			case tt.want != "" && !isNote && !strings.Contains(strings.Join(objections, "\n"), tt.want):
				t.Errorf("objections %q, want %q", objections, tt.want)
			}
		})
	}
}

// Over many comparisons of equal sides the share with any false alarm is below
// alpha, and a difference of two standard deviations between runs is found.
func TestFamilyWiseError(t *testing.T) {
	rng := rand.New(rand.NewPCG(2026, 12))
	names := DefaultMetrics()
	side := func(label string, factor float64) Side {
		s := Side{Label: label}
		for i := range 6 {
			n := numbers{}
			common := rng.NormFloat64() // metrics of a run depend on each other
			for _, m := range names {
				n[m] = factor * (100 + common + rng.NormFloat64())
			}
			s.Runs = append(s.Runs, newRun(fmt.Sprint(label, i), uint64(i), n))
		}
		return s
	}
	alarms := func(trials int, factor float64) (share float64) {
		count := 0
		for range trials {
			c, err := Compare([]Side{side("a", 1), side("b", factor)}, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if slices.ContainsFunc(c.Findings, func(d result.Difference) bool { return d.Finding != result.NoDifference }) {
				count++
			}
		}
		return float64(count) / float64(trials)
	}
	const trials = 2000
	sd := math.Sqrt(0.05 * 0.95 / trials)
	if share := alarms(trials, 1); share > 0.05+3.1*sd {
		t.Errorf("false alarms in %.3f of the families", share)
	}
	if share := alarms(200, 1.05); share < 0.95 {
		t.Errorf("5 %% (3.5 standard deviations) found in %.3f", share)
	}
}

func TestGates(t *testing.T) {
	tests := []struct {
		name, gate string
		a, b       []float64
		want       string
	}{
		{"within", "ttft.p99<+5%", []float64{100, 101, 102}, []float64{100, 101, 102}, result.Pass},
		{"better", "ttft.p99<+5%", []float64{100, 101, 102}, []float64{50, 51, 52}, result.Pass},
		{"beyond", "ttft.p99<+5%", []float64{100, 101, 102}, []float64{120, 121, 122}, result.Fail},
		{"scattered", "ttft.p99<+5%", []float64{100, 120, 140}, []float64{100, 120, 150}, result.GateUndecided},
		{"too few", "ttft.p99<+5%", []float64{100, 101}, []float64{50, 51}, result.GateUndecided},
		{"throughput within", "output_tps>-5%", []float64{100, 101, 102}, []float64{99, 100, 101}, result.Pass},
		{"throughput beyond", "output_tps>-5%", []float64{100, 101, 102}, []float64{80, 81, 82}, result.Fail},
		{"not there", "goodput>-1%", []float64{1, 2, 3}, []float64{1, 2, 3}, result.GateUndecided},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			gates, err := ParseGates(tt.gate)
			if err != nil {
				t.Fatal(err)
			}
			name := gates[0].Metric.Name
			c, err := Compare([]Side{sideOf("a", name, tt.a...), sideOf("b", name, tt.b...)}, Options{Gates: gates})
			if err != nil {
				t.Fatal(err)
			}
			if g := c.Gates[0]; g.Verdict != tt.want {
				t.Errorf("%s: %s, want %s", g.Verdict, g.Finding, tt.want)
			}
		})
	}
}

func TestParseGates(t *testing.T) {
	for text, want := range map[string]string{
		"ttft.p99<+5%,tpot.mean<3%":  "",
		" e2e.p50 < +0% ":            "",
		"ttft.p99<5":                 "want METRIC",
		"ttft<+5%":                   "say which statistic",
		"ttft.p42<+5%":               "one of mean, p50, p95, p99",
		"speed<+5%":                  "there is ttft, ",
		"output_tps<+5%":             "write output_tps>-5%",
		"ttft.p99>-5%":               "write ttft.p99<+5%",
		"ttft.p99<-5%":               "write ttft.p99<+5%",
		"output_tps>-100%":           "margin",
		"output_tps.p50>-5%":         "has no p50",
		"ttft.p99<+5%,,output_tps>1": "want METRIC",
	} {
		_, err := ParseGates(text)
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func FuzzParseGates(f *testing.F) {
	f.Add("ttft.p99<+5%,tpot.mean<+3%")
	f.Add("output_tps>-3%")
	f.Fuzz(func(t *testing.T, text string) {
		gates, err := ParseGates(text)
		if err != nil {
			return
		}
		for _, g := range gates {
			if again, err := ParseGates(g.Text); err != nil || len(again) != 1 || again[0].Margin != g.Margin {
				t.Errorf("%q reads back as %v, %v", g.Text, again, err)
			}
		}
	})
}

// Swapping the sides turns every finding about.
func TestSymmetry(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := rapid.SliceOfN(rapid.Float64Range(1, 100), 4, 7)
		x, y := draw.Draw(t, "x"), draw.Draw(t, "y")
		m, _ := ParseMetrics([]string{"ttft.p99"})
		run := func(x, y []float64) result.Difference {
			c, err := Compare([]Side{sideOf("a", "ttft.p99", x...), sideOf("b", "ttft.p99", y...)}, Options{Metrics: m})
			if err != nil {
				t.Fatal(err)
			}
			return c.Findings[0]
		}
		there, back := run(x, y), run(y, x)
		turned := map[string]string{
			result.NoDifference: result.NoDifference, result.Regression: result.Improvement,
			result.Improvement: result.Regression, result.NotEnoughRuns: result.NotEnoughRuns,
		}
		if back.Finding != turned[there.Finding] || math.Abs(there.P-back.P) > 1e-12 || math.Abs(there.Shift+back.Shift) > 1e-9 {
			t.Fatalf("there %+v, back %+v", there, back)
		}
	})
}

func TestGather(t *testing.T) {
	ms := func(n int64) record.Stamp { return record.Stamp(n * int64(time.Millisecond)) }
	attempt := func(i, due int64, ttft int64, outcome record.Outcome) *record.Attempt {
		return &record.Attempt{
			Stage: "s", Request: i, Outcome: outcome, Scheduled: ms(due), Sent: ms(due), Streamed: true,
			FirstText: ms(due + ttft), LastText: ms(due + ttft), TextEvents: 1, TextBytes: 1,
		}
	}
	attempts := []*record.Attempt{
		attempt(2, 30, 7, record.Completed), // ended first, due later
		attempt(1, 20, 9, record.Completed),
		attempt(3, 40, 1, record.Truncated),
		attempt(4, 500, 1, record.Completed), // after the window
	}
	info := &result.StageInfo{Name: "s", Window: record.Window{Start: ms(10), End: ms(100)}}
	got := Gather(info, mustMetrics(t, "ttft.p50", "output_tps"), func(yield func(*record.Attempt, []record.Event) bool) {
		for _, a := range attempts {
			if !yield(a, nil) {
				return
			}
		}
	})
	want := map[string]*Samples{"ttft": {Request: []int64{1, 2}, Value: []float64{9, 7}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestPairedRequests(t *testing.T) {
	a, b := sideOf("a", "ttft.p50", 1, 2, 3, 4, 5, 6), sideOf("b", "ttft.p50", 2, 3, 4, 5, 6, 7)
	for i := range a.Runs {
		a.Runs[i].Samples = map[string]*Samples{"ttft": {Request: []int64{0, 1, 2}, Value: []float64{1, 2, 3}}}
		b.Runs[i].Samples = map[string]*Samples{"ttft": {Request: []int64{1, 2, 9}, Value: []float64{4, 6, 1}}}
	}
	c, err := Compare([]Side{a, b}, Options{Paired: true, Metrics: mustMetrics(t, "ttft.p50")})
	if err != nil {
		t.Fatal(err)
	}
	want := &result.PairedRequests{N: 12, Median: 2.5, Above: 1}
	if diff := cmp.Diff(want, c.Findings[0].Requests); diff != "" {
		t.Error(diff)
	}
	if q := c.Findings[0].Quantiles; len(q) != 1 || q[0].P != 0.5 || q[0].Shift != 2 {
		t.Errorf("shift function %+v", q) // three values have a median and no tail
	}
}

func Example() {
	side := func(label string, ttft ...float64) Side { return sideOf(label, "ttft.p50", ttft...) }
	metrics, _ := ParseMetrics([]string{"ttft.p50"})
	c, _ := Compare([]Side{side("bf16", 101, 99, 100, 102), side("fp8", 91, 90, 92, 89)}, Options{Metrics: metrics})
	d := c.Findings[0]
	fmt.Printf("%s %s: %.0f ms -> %.0f ms, p = %.3f: %s\n", d.Metric, d.Side, d.Base.Median, d.Other.Median, d.P, d.Finding)
	// Output: ttft.p50 fp8: 100 ms -> 90 ms, p = 0.029: improvement
}
