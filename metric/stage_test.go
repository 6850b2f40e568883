package metric_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay/metric"
	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/result"
)

// synthetic makes n attempts of 128 tokens in order of completion, a thousand
// due a second.
func synthetic(n, events int) (list []loaded, w record.Window) {
	rng := rand.New(rand.NewPCG(1, 2))
	list = make([]loaded, n)
	for i := range list {
		a := &list[i].attempt
		a.Request, a.Streamed, a.Outcome, a.FinishReason = int64(i), true, record.Completed, "length"
		a.Scheduled = record.Stamp(1e9 + 1e6*int64(i) + rng.Int64N(1e6))
		a.Dispatched, a.Sent = a.Scheduled+10_000, a.Scheduled+20_000
		a.Usage = &record.Usage{PromptTokens: 512, CompletionTokens: 100 + rng.IntN(29)}
		a.MaxTokens = 128
		at := a.Sent + record.Stamp(50e6*(1+rng.ExpFloat64()))
		for range events {
			e := record.Event{At: at, Read: at + 20_000, Tokens: 1, TextBytes: 4, AnswerBytes: 4,
				Flags: record.FlagText | record.FlagAnswer | record.FlagKernel}
			list[i].events = append(list[i].events, e)
			a.Observe(e)
			at += record.Stamp(8e6 + rng.Int64N(4e6))
		}
		if events == 0 {
			a.FirstText, a.LastText, a.TextBytes = at, at+1e9+record.Stamp(rng.Int64N(1e8)), 500
		}
		a.Done, a.Ended = a.LastText+1000, a.LastText+1000
	}
	return list, record.Window{Start: 1e9, End: record.Stamp(1e9 + 1e6*int64(n))}
}

func TestIntervals(t *testing.T) {
	list, w := synthetic(2000, 0)
	out := resultOf(w, metric.Options{Percentiles: []float64{99.9}}, list)
	ttft := out.Metrics.TTFT
	if ttft.N != 2000 || ttft.P99 == nil || ttft.Percentiles["p99.9"] == nil || ttft.QuantileType != 7 {
		t.Fatalf("summary %+v", ttft)
	}
	for name, ci := range map[string]*result.Interval{
		"p99": ttft.P99CI, "p99 iid": ttft.P99CIIID, "p50": ttft.P50CI, "p50 iid": ttft.P50CIIID,
	} {
		at := *ttft.P99
		if strings.HasPrefix(name, "p50") {
			at = *ttft.P50
		}
		if ci == nil || !(ci[0] < at && at < ci[1]) {
			t.Errorf("%s interval %v about %v", name, ci, at)
		}
	}
	if ttft.NEff == nil || *ttft.NEff < 500 || !strings.Contains(ttft.CIMethod, "batches") {
		t.Errorf("n_eff %v by %q", ttft.NEff, ttft.CIMethod)
	}
	boot := resultOf(w, metric.Options{Bootstrap: true, Seed: 3}, list).Metrics.TTFT
	if boot.P99CI == nil || !strings.Contains(boot.CIMethod, "bootstrap") {
		t.Errorf("bootstrap %v by %q", boot.P99CI, boot.CIMethod)
	}
	few := resultOf(w, metric.Options{}, list[:19]).Metrics.TTFT
	if few.P50CI != nil || few.P99CIIID != nil || !strings.HasPrefix(few.CIMethod, "none: fewer than 20 batches") {
		t.Errorf("19 samples: %v by %q", few.P50CI, few.CIMethod)
	}
}

// TestSeriesAreInTimeOrder: dependence is looked for in the order of schedule,
// in whatever order attempts ended.
func TestSeriesAreInTimeOrder(t *testing.T) {
	list, w := synthetic(2000, 0)
	for i := range list { // slow waves: neighbours are alike
		a := &list[i].attempt
		a.FirstText = a.Sent + record.Stamp(1e8*(1.5+math.Sin(float64(i)/20)))
	}
	want := resultOf(w, metric.Options{}, list).Metrics.TTFT
	rand.New(rand.NewPCG(5, 6)).Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	got := resultOf(w, metric.Options{}, list).Metrics.TTFT
	if *want.NEff > 1000 || *got.NEff != *want.NEff || got.CIMethod != want.CIMethod {
		t.Errorf("n_eff %v in order and %v shuffled, by %q and %q", *want.NEff, *got.NEff, want.CIMethod, got.CIMethod)
	}
}

// TestIntervalsSayWhyNot: a drift is the reason for all, a missing tail for one.
func TestIntervalsSayWhyNot(t *testing.T) {
	list, w := synthetic(60, 0)
	for i := range list {
		a := &list[i].attempt
		a.FirstText = a.Sent + record.Stamp(1e6*(i+1))
	}
	got := resultOf(w, metric.Options{}, list).Metrics.TTFT
	if !strings.HasPrefix(got.CIMethod, "none: batch means are still correlated") {
		t.Errorf("method %q", got.CIMethod)
	}
	still, w := synthetic(60, 0)
	got = resultOf(w, metric.Options{}, still).Metrics.TTFT
	if !strings.Contains(got.CIMethod, "p99 none: no sample beyond the quantile") || got.P50CI == nil {
		t.Errorf("method %q", got.CIMethod)
	}
}

func TestQuantileTypeIsHonoured(t *testing.T) {
	list, w := synthetic(100, 0)
	seven := resultOf(w, metric.Options{}, list).Metrics.E2E
	one := resultOf(w, metric.Options{QuantileType: 1}, list).Metrics.E2E
	if *seven.P95 == *one.P95 || one.QuantileType != 1 {
		t.Errorf("p95 is %v by type 7 and %v by type %d", *seven.P95, *one.P95, one.QuantileType)
	}
}

func TestStrataAreAtMostEight(t *testing.T) {
	var list []loaded
	for i, n := range []int{1, 2, 3, 5, 9, 17, 33, 65, 129, 257, 513, 1025, 9000} {
		a := record.Attempt{Request: int64(i), Streamed: true, Outcome: record.Completed, Scheduled: 1, Sent: 1,
			FirstText: 1e6, LastText: 2e6 + record.Stamp(i), Usage: &record.Usage{CompletionTokens: n}}
		list = append(list, loaded{attempt: a})
	}
	strata := resultOf(record.Window{Start: 1, End: 1e9}, metric.Options{}, list).Metrics.Strata
	total, above := 0, 0
	for _, s := range strata {
		if s.LoTokens <= above || s.HiTokens < s.LoTokens {
			t.Errorf("bin [%d, %d] after %d", s.LoTokens, s.HiTokens, above)
		}
		above, total = s.HiTokens, total+s.N
	}
	if len(strata) > 8 || len(strata) < 4 || total != len(list) {
		t.Errorf("%d bins with %d requests", len(strata), total)
	}
}

func TestStrataHaveTheirEarlyStops(t *testing.T) {
	var list []loaded
	for i, c := range []struct{ n, most int }{{3, 100}, {3, 3}, {2, 100}, {100, 100}, {100, 100}, {1000, 0}} {
		a := record.Attempt{Request: int64(i), Streamed: true, Outcome: record.Completed, Scheduled: 1, Sent: 1, MaxTokens: c.most,
			FirstText: 1e6, LastText: 2e6 + record.Stamp(i), Usage: &record.Usage{CompletionTokens: c.n}}
		list = append(list, loaded{attempt: a})
	}
	strata := resultOf(record.Window{Start: 1, End: 1e9}, metric.Options{}, list).Metrics.Strata
	if len(strata) != 3 {
		t.Fatalf("%d bins", len(strata))
	}
	if r := strata[0].EarlyStopRate; r == nil || *r != 2.0/3 {
		t.Errorf("2 of 3 stopped early: %v", r)
	}
	if r := strata[1].EarlyStopRate; r == nil || *r != 0 {
		t.Errorf("none stopped early: %v", r)
	}
	if r := strata[2].EarlyStopRate; r != nil {
		t.Errorf("none had a limit: %v", *r)
	}
}

func TestDispersionNeedsTenWindows(t *testing.T) {
	list, w := synthetic(20_000, 0) // 20 s
	out := resultOf(w, metric.Options{}, list)
	d := out.Workload.Dispersion
	if len(d) != 1 || d[0].WindowS != 1 || d[0].Index > 0.01 {
		t.Errorf("dispersion %+v", d)
	}
	if *out.Workload.CV > 0.6 || *out.Workload.Rate != 1000 {
		t.Errorf("cv %v, rate %v", *out.Workload.CV, *out.Workload.Rate)
	}
}

func TestClientHealth(t *testing.T) {
	list, w := synthetic(200, 5)
	for i := range list[:10] {
		list[i].attempt.CoalescedText = 4
	}
	list[7].attempt.Sent, list[7].attempt.Outcome = 0, record.NeverSent
	s := metric.NewStage(w, metric.Options{Planned: true})
	for i := range list {
		s.Add(&list[i].attempt, list[i].events)
	}
	h := s.ClientHealth()
	if h.Due != 200 || h.Sent != 199 || *h.SendLatenessP99MS != 0.02 || *h.ReadLagP99MS != 0.02 || *h.CoalescedShare != 0.05 {
		t.Errorf("health %+v", h)
	}
	closed := metric.NewStage(w, metric.Options{})
	closed.Add(&list[0].attempt, nil)
	if h := closed.ClientHealth(); h.SendLatenessP99MS != nil || h.ReadLagP99MS != nil {
		t.Errorf("no plan and no events: %+v", h)
	}
}

// TestNothingIsNotZero: an empty stage has no numbers, and can be written.
func TestNothingIsNotZero(t *testing.T) {
	out := resultOf(record.Window{Start: 1, End: 1e9}, metric.Options{SLO: metric.SeedSLO()}, nil)
	if out.Metrics.TTFT != nil || out.Metrics.E2E != nil || out.Workload.CV != nil || out.Workload.EarlyStopRate != nil {
		t.Errorf("numbers of nothing: %+v", out.Metrics)
	}
	if _, err := json.Marshal(out); err != nil {
		t.Error(err)
	}
}

func TestAddDoesNotRetain(t *testing.T) {
	list, w := synthetic(50, 5)
	want := resultOf(w, metric.Options{}, list)
	s := metric.NewStage(w, metric.Options{})
	var a record.Attempt
	var ev [5]record.Event
	for i := range list {
		a = list[i].attempt
		copy(ev[:], list[i].events)
		s.Add(&a, ev[:])
		a, ev = record.Attempt{}, [5]record.Event{}
	}
	var got result.Stage
	s.Result(&got)
	if *got.Metrics.ITL.Mean != *want.Metrics.ITL.Mean || *got.Metrics.E2E.Mean != *want.Metrics.E2E.Mean {
		t.Error("a stage keeps what the caller reuses")
	}
}

func BenchmarkStageWithoutEvents(b *testing.B) { benchmarkStage(b, 100_000, 0) }
func BenchmarkStageWithEvents(b *testing.B)    { benchmarkStage(b, 10_000, 128) }

func benchmarkStage(b *testing.B, n, events int) {
	list, w := synthetic(n, events)
	b.ReportAllocs()
	for b.Loop() {
		out := resultOf(w, metric.Options{SLO: metric.SeedSLO()}, list)
		if out.Metrics.TTFT.N != n {
			b.Fatal("lost some")
		}
	}
}

func BenchmarkTable(b *testing.B) {
	list, _ := synthetic(100_000, 0)
	rows := make([]metric.Row, len(list))
	for i, l := range list {
		a := l.attempt
		rows[i] = metric.Row{RequestID: a.ID, PromptTokens: 512, CompletionTokens: a.Usage.CompletionTokens,
			TTFT: time.Duration(a.FirstText - a.Sent), E2E: time.Duration(a.LastText - a.Sent)}
	}
	for b.Loop() {
		t := metric.NewTable(metric.Options{SLO: metric.SeedSLO()})
		for _, r := range rows {
			if err := t.AddRow(r); err != nil {
				b.Fatal(err)
			}
		}
		var out result.Stage
		t.Result(&out)
	}
}
