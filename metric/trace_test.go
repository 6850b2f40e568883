package metric_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay/metric"
	"github.com/assay-bench/assay/result"
)

func durations(ms ...float64) []time.Duration {
	var d []time.Duration
	for _, x := range ms {
		d = append(d, time.Duration(x*1e6))
	}
	return d
}

// TestTraceGolden holds vectors 1, 4 and 7.
func TestTraceGolden(t *testing.T) {
	tr, err := metric.NewTrace(0, durations(120, 155, 192, 228, 265))
	if err != nil {
		t.Fatal(err)
	}
	if tr.N != 5 || tr.TTFT != 120 || tr.E2E != 265 || *tr.TPOT != 36.25 || !slices.Equal(tr.ITL, []float64{35, 37, 36, 37}) {
		t.Errorf("trace %+v", tr)
	}
	if exact := tr.TTFT + 4*(*tr.TPOT); exact != tr.E2E {
		t.Errorf("TTFT + 4 TPOT = %v", exact)
	}
	if math.Abs(*tr.UserTPS-27.586206896551724) > 1e-12 || math.Abs(*tr.SpanTPS-18.867924528301888) > 1e-12 {
		t.Errorf("user %v, span %v tokens/s", *tr.UserTPS, *tr.SpanTPS)
	}
	d := tr.Databricks
	if d.MS != 301.25 || d.OverMS != 36.25 || d.OfTokens != 0.20 || d.OfDecode != 0.25 || fmt.Sprintf("%.1f", 100*d.OfE2E) != "13.7" {
		t.Errorf("databricks %+v", d)
	}
	if d := metric.NewDatabricks(100, 10, 100); d.OfTokens != 0.01 || d.OverMS != 10 {
		t.Errorf("n = 100: %+v", d)
	}
}

func TestTraceEdges(t *testing.T) {
	if _, err := metric.NewTrace(0, nil); err == nil || !strings.Contains(err.Error(), "no token") {
		t.Errorf("no token: %v", err)
	}
	if _, err := metric.NewTrace(0, durations(2, 1)); err == nil || !strings.Contains(err.Error(), "token 2 at 1ms is before 2ms") {
		t.Errorf("backwards: %v", err)
	}
	if _, err := metric.NewTrace(durations(5)[0], durations(2)); err == nil {
		t.Error("a token before sent is accepted")
	}
	one, err := metric.NewTrace(0, durations(120))
	if err != nil || one.TTFT != 120 || one.TPOT != nil || one.UserTPS != nil || one.Databricks != nil || one.Note == "" {
		t.Errorf("one token: %+v, %v", one, err)
	}
	flat, err := metric.NewTrace(0, durations(120, 120))
	if err != nil || flat.TPOT != nil || flat.UserTPS != nil || flat.Note == "" {
		t.Errorf("one moment: %+v, %v", flat, err)
	}
}

func TestTable(t *testing.T) {
	table := metric.NewTable(metric.Options{SLO: metric.SLO{TTFT: time.Second, TPOT: 40 * time.Millisecond}})
	ms := func(x float64) time.Duration { return time.Duration(x * 1e6) }
	for _, r := range []metric.Row{
		{"trace", 512, 5, ms(120), ms(265)},
		{"A", 10, 100, ms(100), ms(1090)},
		{"B", 10, 2, ms(100), ms(150)},
		{"one", 10, 1, ms(100), ms(100)},
		{"none", 10, 0, 0, ms(50)},
		{"whole", 10, 7, 0, ms(500)},
		{"lump", 10, 7, ms(500), ms(500)},
	} {
		if err := table.AddRow(r); err != nil {
			t.Fatal(err)
		}
	}
	for want, r := range map[string]metric.Row{
		`request "x": TTFT 2ms is above E2E 1ms`: {"x", 1, 2, ms(2), ms(1)},
		"tokens below 0":                         {"x", 1, -2, ms(1), ms(2)},
		"latency below 0":                        {"x", 1, 2, ms(-1), ms(2)},
		"tokens, but no E2E":                     {"x", 1, 2, 0, 0},
	} {
		if err := table.AddRow(r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want one that says %q", r, err, want)
		}
	}
	var out result.Stage
	table.Result(&out)
	m := out.Metrics
	if m.TPOT.N != 3 || *m.TPOT.Mean != (36.25+10+50)/3 {
		t.Errorf("tpot %+v", m.TPOT)
	}
	want := map[string]int{"one token": 1, "zero tokens": 1, "not streamed": 1, "single event": 1}
	if fmt.Sprint(m.TPOT.Excluded) != fmt.Sprint(want) {
		t.Errorf("excluded %v, want %v", m.TPOT.Excluded, want)
	}
	if gap := 1185. / 104; math.Abs(*m.GapMean-gap) > 1e-12 {
		t.Errorf("gap-weighted mean %v, want %v", *m.GapMean, gap)
	}
	if m.E2E.N != 6 || m.TTFT.N != 5 || m.ITL != nil || m.ChunkGap != nil || m.TTFTFromSchedule != nil || m.TPOTPaired != nil {
		t.Errorf("metrics %+v", m)
	}
	if out.Throughput != nil || out.Workload.Rate != nil || out.Workload.InFlight.Mean != nil || m.TTFT.P50CI != nil {
		t.Error("a table without times has numbers that need them")
	}
	if out.Ledger.Attempts != 7 || out.Ledger.ZeroToken != 1 || out.Ledger.NoText != 0 || !out.Ledger.Balances() {
		t.Errorf("ledger %+v", out.Ledger)
	}
	// Good: trace, A, one. Misses: B by TPOT, none, whole and lump undefined.
	if g := out.Goodput; g.Due != 7 || g.Good != 3 || g.Misses["tpot"] != 1 || g.Misses["ttft undefined: not streamed"] != 1 ||
		g.Misses["tpot undefined: single event"] != 1 || g.Misses["zero tokens"] != 1 || g.Rate != nil {
		t.Errorf("goodput %+v", g)
	}
	if len(out.Warnings) != len(metric.FiveColumnsLack()) {
		t.Errorf("%d warnings", len(out.Warnings))
	}
}

func ExampleNewTrace() {
	at := []time.Duration{120 * time.Millisecond, 155 * time.Millisecond, 192 * time.Millisecond}
	t, _ := metric.NewTrace(0, at)
	fmt.Printf("TTFT %.1f ms, TPOT %.1f ms, E2E %.1f ms\n", t.TTFT, *t.TPOT, t.E2E)
	// Output: TTFT 120.0 ms, TPOT 36.0 ms, E2E 192.0 ms
}
