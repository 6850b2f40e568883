package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/result"
	"github.com/assay-bench/assay/scrape"
)

func TestCSV(t *testing.T) {
	for name, run := range map[string]*result.Run{"good": goodRun(), "two stages": sweepRun(), "tiny": tinyRun(), "errors": errorRun()} {
		var b bytes.Buffer
		if err := CSV(&b, run); err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(&b).ReadAll() // which refuses rows of another length
		if err != nil || len(rows) != len(run.Stages)+1 {
			t.Fatalf("%s: %d rows, %v", name, len(rows), err)
		}
		for i, st := range run.Stages {
			if rows[i+1][1] != st.Name || rows[i+1][7] != st.Client.Verdict {
				t.Errorf("%s: row %q", name, rows[i+1])
			}
		}
	}
}

// The exposition is read by the parsers of Prometheus, and says what the run says.
func TestOpenMetrics(t *testing.T) {
	run := goodRun()
	run.Target.Model = "odd \"name\"\nwith \\ and \x1b[31m"
	var b bytes.Buffer
	if err := OpenMetrics(&b, run); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "\x1b") {
		t.Error("an escape sequence got through")
	}
	s, err := scrape.Parse(b.Bytes(), "application/openmetrics-text; version=1.0.0; charset=utf-8")
	if err != nil {
		t.Fatalf("%v in\n%s", err, &b)
	}
	_ = s
	st := &run.Stages[0]
	want := map[string]float64{
		`assay_ttft_seconds_count{`: float64(st.Metrics.TTFT.N),
		`assay_client_valid{`:       1,
		`quantile="0.5"} `:          *st.Metrics.TTFT.P50 / 1000,
	}
	for prefix, value := range want {
		if got := firstValue(b.String(), prefix); math.Abs(got-value) > 1e-12 {
			t.Errorf("%s: %v, want %v", prefix, got, value)
		}
	}
}

// firstValue is that of the first line with a text in it.
func firstValue(exposition, with string) float64 {
	for line := range strings.Lines(exposition) {
		if strings.Contains(line, with) && !strings.HasPrefix(line, "#") {
			var v float64
			if json.Unmarshal([]byte(line[strings.LastIndexByte(line, ' ')+1:]), &v) == nil {
				return v
			}
		}
	}
	return math.NaN()
}

func perfetto(t interface{ Fatal(...any) }, attempts []record.Attempt) []traceEvent {
	var b bytes.Buffer
	err := Perfetto(&b, "id", func(yield func(*record.Attempt, []record.Event) bool) {
		for i := range attempts {
			if !yield(&attempts[i], nil) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	var out struct {
		TraceEvents []traceEvent `json:"traceEvents"`
	}
	if err := json.Unmarshal(b.Bytes(), &out); err != nil {
		t.Fatal(err)
	}
	return out.TraceEvents
}

func TestPerfetto(t *testing.T) {
	ms := func(n int) record.Stamp { return record.Stamp(n) * record.Stamp(time.Millisecond) }
	events := perfetto(t, []record.Attempt{
		{ID: "b", Scheduled: ms(30), Sent: ms(31), Outcome: record.Rejected, Ended: ms(32)},
		{ID: "a", Scheduled: ms(10), Sent: ms(11), FirstText: ms(20), LastText: ms(40), Ended: ms(41), Outcome: record.Completed, Usage: &record.Usage{CompletionTokens: 7}},
	})
	type bar struct {
		name    string
		ts, dur float64
		lane    int
	}
	var got []bar
	for _, e := range events[1:] {
		got = append(got, bar{e.Name, e.TS, e.Dur, e.TID})
	}
	want := []bar{{"wait", 10e3, 1e3, 1}, {"TTFT", 11e3, 9e3, 1}, {"decode", 20e3, 20e3, 1}, {"wait", 30e3, 1e3, 2}, {"rejected", 31e3, 1e3, 2}}
	if len(got) != len(want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("bar %d is %v, want %v", i, got[i], want[i])
		}
	}
}

// Bars of one lane never overlap, and there are no more lanes than attempts at
// one moment.
func TestPerfettoLanes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		attempts := make([]record.Attempt, rapid.IntRange(1, 30).Draw(t, "n"))
		for i := range attempts {
			at := record.Stamp(rapid.IntRange(1, 50).Draw(t, "at")) * 1000
			length := record.Stamp(rapid.IntRange(1, 20).Draw(t, "length")) * 1000
			attempts[i] = record.Attempt{Scheduled: at, Sent: at, Ended: at + length, Outcome: record.Truncated}
		}
		lanes := map[int][][2]float64{}
		for _, e := range perfetto(t, attempts)[1:] {
			for _, other := range lanes[e.TID] {
				if e.TS < other[1] && other[0] < e.TS+e.Dur {
					t.Fatalf("lane %d has [%v, %v) over %v", e.TID, e.TS, e.TS+e.Dur, other)
				}
			}
			lanes[e.TID] = append(lanes[e.TID], [2]float64{e.TS, e.TS + e.Dur})
		}
		most := 0
		for _, a := range attempts {
			at := 0
			for _, b := range attempts {
				if b.Scheduled <= a.Scheduled && a.Scheduled < b.Ended {
					at++
				}
			}
			most = max(most, at)
		}
		if len(lanes) > most {
			t.Fatalf("%d lanes for %d attempts at a time", len(lanes), most)
		}
	})
}

func comparison() *result.Comparison {
	spread := func(median float64) result.RunValues {
		return result.RunValues{Spread: result.Spread{N: 4, Median: median, MAD: 1, Min: median - 2, Max: median + 2}}
	}
	return &result.Comparison{
		Base: "base", Alpha: 0.05, Hypotheses: 2, NeedRuns: 5, Test: "exact rank test over runs (Mann-Whitney)",
		Sides: []result.ComparedSide{
			{Label: "base", Runs: []result.ComparedRun{{ID: "1", Client: "VALID", Stability: "STABLE"}}},
			{Label: "evil|\x1b[2J", Runs: []result.ComparedRun{{ID: "2", Client: "VALID", Stability: "UNDECIDED"}}},
		},
		Objections: []string{"the windows differ"},
		Findings: []result.Difference{
			{Stage: "rate 4/s", Metric: "ttft.p99", Unit: "ms", Side: "evil|\x1b[2J", Base: spread(100), Other: spread(110), Percent: new(10.), Shift: 10,
				ShiftCI: &result.Interval{8, 12}, Delta: new(1.), P: 0.0286, PHolm: 0.0286, Detectable: new(2.5), Finding: result.Regression,
				Quantiles: []result.QuantileShift{{P: 0.5, Base: 90, Other: 99, Shift: 9, CI: &result.Interval{7, 11}}}},
			{Stage: "rate 4/s", Metric: "tpot.mean", Unit: "ms", Side: "evil|\x1b[2J", Base: spread(10), Other: spread(10), Percent: new(0.), P: 1, PHolm: 1,
				Finding: result.NoDifference, Text: "a difference of about 3 % would have been shown in 80 % of cases"},
		},
		Gates: []result.Gate{{Text: "ttft.p99<+5%", Stage: "rate 4/s", Side: "evil|\x1b[2J", Verdict: result.Fail, Finding: "shown to be beyond the margin"}},
	}
}

func TestComparison(t *testing.T) {
	var b bytes.Buffer
	if err := Comparison(&b, comparison(), Options{}); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, want := range []string{
		"COMPARISON  base: 1 run (the base)", "FORCED: the sides are not comparable", "- the windows differ",
		"regression", "+10.00 %", "~", "p50", "[+7, +11]", "GATES       FAIL: ttft.p99<+5%", "regression: ttft.p99 · no difference shown: tpot.mean · gates: FAIL",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "\x1b") {
		t.Error("a label's escape sequence got through")
	}
	b.Reset()
	if err := ComparisonMarkdown(&b, comparison()); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), `evil\|`) {
		t.Errorf("a label breaks the table:\n%s", &b)
	}
}

func TestComparisonJUnit(t *testing.T) {
	for _, gates := range []bool{true, false} {
		c := comparison()
		if !gates {
			c.Gates = nil
		}
		var b bytes.Buffer
		if err := ComparisonJUnit(&b, c); err != nil {
			t.Fatal(err)
		}
		var suites junitSuites
		if err := xml.Unmarshal(b.Bytes(), &suites); err != nil {
			t.Fatalf("%v in\n%s", err, &b)
		}
		suite := suites.Suites[0]
		if suite.Failures != 1 || suite.Tests != len(suite.Cases) || suite.Cases[0].Failure == nil {
			t.Errorf("gates %v: %+v", gates, suite)
		}
	}
}

func TestPeers(t *testing.T) {
	views := []result.PeerView{{
		Tool: "other", Read: "@abc", NotImitated: []string{"its tokenizer"},
		Figures: []result.PeerFigure{
			{Name: "TTFT", Unit: "ms", N: 100, Mean: new(12.5), P50: new(12.), P99: new(20.), OurMean: new(10.), OurP50: new(9.5), Why: "the pool is inside"},
			{Name: "rate", Unit: "1/s", Why: "nothing"},
		},
	}}
	var b bytes.Buffer
	if err := Peers(&b, "rate 4/s", views, Options{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"12.50 (10.00)", "12.00 (9.500)", "- TTFT: the pool is inside", "its tokenizer", "as of @abc"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, &b)
		}
	}
}
