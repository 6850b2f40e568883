package metric_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/assay-bench/assay/metric"
	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/result"
)

const second = record.Stamp(time.Second)

var (
	testWindow  = record.Window{Start: 10 * second, End: 40 * second}
	testOptions = metric.Options{
		SLO: metric.SLO{TTFT: 500 * time.Millisecond, TPOT: 20 * time.Millisecond, E2E: 2 * time.Second},
		// Half of the drawn stages are above the limit, half below.
		Planned: true, CoalescedLimit: 0.1, Percentiles: []float64{90, 99.9},
	}
)

// drawAttempt makes an attempt of any kind that a wire could hand over.
func drawAttempt(t *rapid.T, request int64, coalesced bool) loaded {
	var l loaded
	a := &l.attempt
	a.Request, a.ID = request, fmt.Sprint(request)
	if rapid.Bool().Draw(t, "in a session") {
		a.Session, a.Turn, a.Turns = request/3, int(request%3)+1, 4
	}
	a.Streamed = rapid.IntRange(0, 9).Draw(t, "streamed") < 9 // rapid prefers small numbers
	a.Outcome = record.Completed
	if rapid.IntRange(0, 3).Draw(t, "fails") == 3 {
		a.Outcome = rapid.SampledFrom(record.Outcomes()).Draw(t, "outcome")
	}
	a.Scheduled = record.Stamp(rapid.Int64Range(int64(5*second), int64(45*second)).Draw(t, "scheduled"))
	if a.Outcome == record.NeverSent {
		return l
	}
	a.Dispatched = a.Scheduled + 1000
	a.Sent = a.Dispatched + record.Stamp(rapid.Int64Range(0, 5e6).Draw(t, "late"))
	if a.Outcome == record.Rejected || a.Outcome == record.HTTPError {
		a.Status, a.Error = 429, "busy"
		a.Ended = a.Sent + 1e6
		return l
	}
	if a.ConnReused = rapid.Bool().Draw(t, "reused"); !a.ConnReused {
		a.Connect = time.Duration(rapid.Int64Range(1, 9).Draw(t, "connect")) * time.Millisecond
	}
	a.FinishReason = rapid.SampledFrom([]string{"stop", "length"}).Draw(t, "finish")
	known := rapid.Bool().Draw(t, "deltas known")
	at, tokens := a.Sent, 0
	for range rapid.IntRange(0, 12).Draw(t, "events") {
		if at == a.Sent || !coalesced || rapid.Bool().Draw(t, "own read") {
			at += record.Stamp(rapid.Int64Range(1, 80e6).Draw(t, "gap"))
		}
		e := record.Event{At: at, Read: at + 10, Tokens: record.UnknownTokens, TextBytes: 3, AnswerBytes: 3}
		e.Flags = record.FlagText | record.FlagAnswer | record.FlagKernel
		n := 1
		if rapid.IntRange(0, 9).Draw(t, "multi") == 9 {
			n = 3
		}
		if known {
			e.Tokens = int32(n)
		}
		tokens += n
		l.events = append(l.events, e)
		a.Observe(e)
	}
	a.EOF, a.Ended = at+1000, at+1000
	if rapid.IntRange(0, 9).Draw(t, "usage") < 9 {
		a.Usage = &record.Usage{PromptTokens: 7, CompletionTokens: tokens}
	}
	a.MaxTokens = 10
	return l
}

func drawAttempts(t *rapid.T) []loaded {
	coalesced := rapid.Bool().Draw(t, "coalescing")
	var list []loaded
	for i := range rapid.SampledFrom([]int{0, 1, 3, 10, 60}).Draw(t, "attempts") { // 60: enough for intervals
		l := drawAttempt(t, int64(i), coalesced)
		list = append(list, l)
		if l.attempt.Outcome != record.StaleConnection {
			continue
		}
		again := drawAttempt(t, int64(i), coalesced)
		again.attempt.Scheduled, again.attempt.Try, again.attempt.RetryOf = l.attempt.Scheduled, 1, l.attempt.ID
		list = append(list, again)
	}
	return list
}

func resultOf(w record.Window, o metric.Options, list []loaded) result.Stage {
	s := metric.NewStage(w, o)
	for i := range list {
		s.Add(&list[i].attempt, list[i].events)
	}
	var out result.Stage
	s.Result(&out)
	return out
}

func mustEqual(t *rapid.T, what string, want, got result.Stage) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("%s changed the result (-before +after):\n%s", what, diff)
	}
}

// TestMetamorphic: the same attempts give the same numbers in any order, in any
// parts, at any time.
func TestMetamorphic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := drawAttempts(t)
		want := resultOf(testWindow, testOptions, list)

		shuffled := slices.Clone(list)
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "shuffle"), 1))
		rng.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		mustEqual(t, "order", want, resultOf(testWindow, testOptions, shuffled))

		parts := [3]*metric.Stage{}
		for i := range parts {
			parts[i] = metric.NewStage(testWindow, testOptions)
		}
		for i := range list {
			parts[rng.IntN(3)].Add(&list[i].attempt, list[i].events)
		}
		for _, other := range parts[1:] {
			if err := parts[0].Merge(other); err != nil {
				t.Fatal(err)
			}
		}
		var merged result.Stage
		parts[0].Result(&merged)
		mustEqual(t, "merging", want, merged)
		var again result.Stage
		parts[0].Result(&again)
		mustEqual(t, "asking again", want, again)

		by := record.Stamp(rapid.Int64Range(1, int64(1000*second)).Draw(t, "shift"))
		moved := testWindow
		moved.Start, moved.End = moved.Start+by, moved.End+by
		later := resultOf(moved, testOptions, shift(list, by))
		later.Window = want.Window
		mustEqual(t, "a shift in time", want, later)
	})
}

func shift(list []loaded, by record.Stamp) []loaded {
	moved := make([]loaded, len(list))
	for i, l := range list {
		a := l.attempt
		for _, s := range []*record.Stamp{
			&a.Scheduled, &a.Dispatched, &a.Sent, &a.FirstEvent, &a.FirstToken, &a.FirstText, &a.FirstAnswer,
			&a.LastText, &a.LastToken, &a.EOF, &a.Ended,
		} {
			if s.Known() {
				*s += by
			}
		}
		moved[i].attempt = a
		for _, e := range l.events {
			e.At, e.Read = e.At+by, e.Read+by
			moved[i].events = append(moved[i].events, e)
		}
	}
	return moved
}

// TestLedgerBalances: no attempt disappears, and each due request is good or
// has one reason why not.
func TestLedgerBalances(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := drawAttempts(t)
		out := resultOf(testWindow, testOptions, list)
		inside := 0
		for _, l := range list {
			if testWindow.Contains(l.attempt.Scheduled) {
				inside++
			}
		}
		if !out.Ledger.Balances() || out.Ledger.Attempts != inside {
			t.Fatalf("window's ledger does not balance at %d: %+v", inside, out.Ledger)
		}
		if !out.LedgerRun.Balances() || out.LedgerRun.Attempts != len(list) {
			t.Fatalf("run's ledger does not balance at %d: %+v", len(list), out.LedgerRun)
		}
		g := out.Goodput
		sum := g.Good
		for _, n := range g.Misses {
			sum += n
		}
		if sum != g.Due || g.Due != out.Ledger.Requests {
			t.Fatalf("goodput %+v of %d requests", g, out.Ledger.Requests)
		}
		for name, s := range map[string]*result.Summary{
			"ttft": out.Metrics.TTFT, "tpot": out.Metrics.TPOT, "e2e": out.Metrics.E2E, "paired": out.Metrics.TPOTPaired,
		} {
			if s == nil {
				continue
			}
			n := s.N
			for _, x := range s.Excluded {
				n += x
			}
			if n != out.Ledger.Completed {
				t.Fatalf("%s: %d samples and exclusions of %d completed", name, n, out.Ledger.Completed)
			}
		}
	})
}

// TestOracle compares with the definitions written down as plainly as possible.
func TestOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := drawAttempts(t)
		out := resultOf(testWindow, testOptions, list)
		var e2e, tpot []float64
		good := 0
		for _, l := range list {
			a := l.attempt
			if !testWindow.Contains(a.Scheduled) || a.Outcome != record.Completed {
				continue
			}
			if a.Usage != nil && a.Usage.CompletionTokens == 0 || len(l.events) == 0 {
				continue
			}
			end := l.events[len(l.events)-1].At
			if !a.Streamed {
				end = a.EOF
			}
			e2e = append(e2e, float64(end-a.Sent)/1e6)
			if !a.Streamed {
				continue
			}
			ttft := float64(l.events[0].At-a.Sent) / 1e6
			fine := ttft < 500 && e2e[len(e2e)-1] < 2000
			if a.Usage == nil || (a.Usage.CompletionTokens > 1 && end == l.events[0].At) {
				continue
			}
			if n := a.Usage.CompletionTokens; n > 1 {
				tpot = append(tpot, (e2e[len(e2e)-1]-ttft)/float64(n-1))
				fine = fine && tpot[len(tpot)-1] < 20
			}
			if fine {
				good++
			}
		}
		checkOracle(t, "e2e", e2e, out.Metrics.E2E)
		checkOracle(t, "tpot", tpot, out.Metrics.TPOT)
		if out.Goodput.Good != good {
			t.Fatalf("%d good, the oracle says %d", out.Goodput.Good, good)
		}
	})
}

func checkOracle(t *rapid.T, name string, want []float64, got *result.Summary) {
	t.Helper()
	if len(want) == 0 {
		if got != nil && got.N != 0 {
			t.Fatalf("%s: %d samples, want none", name, got.N)
		}
		return
	}
	slices.Sort(want)
	near := func(what string, x float64, p *float64) {
		if p == nil || math.Abs(x-*p) > 1e-9*(1+math.Abs(x)) {
			t.Fatalf("%s %s: got %v, want %v", name, what, p, x)
		}
	}
	n := len(want)
	sum := 0.
	for _, x := range want {
		sum += x
	}
	near("mean", sum/float64(n), got.Mean)
	near("min", want[0], got.Min)
	near("max", want[n-1], got.Max)
	for p, q := range map[float64]*float64{0.50: got.P50, 0.95: got.P95, 0.90: got.Percentiles["p90"]} {
		if float64(n)*(1-p) < 1-1e-9 {
			if q != nil {
				t.Fatalf("%s p%v exists for n = %d", name, p, n)
			}
			continue
		}
		rank := p * float64(n-1) // type 7, from 0
		i := int(rank)
		x := want[i]
		if i+1 < n {
			x += (rank - float64(i)) * (want[i+1] - want[i])
		}
		near(fmt.Sprint("p", 100*p), x, q)
	}
}

// TestInFlightOracle compares the time-weighted mean and the maximum with a
// count at every change.
func TestInFlightOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := record.Window{Start: 100, End: 200}
		s := metric.NewStage(w, metric.Options{})
		var busy [300]int
		for i := range rapid.IntRange(0, 20).Draw(t, "n") {
			sent := rapid.IntRange(1, 250).Draw(t, "sent")
			length := rapid.IntRange(0, 49).Draw(t, "length")
			s.Add(&record.Attempt{
				Request: int64(i), Outcome: record.Truncated,
				Scheduled: record.Stamp(sent), Sent: record.Stamp(sent), Ended: record.Stamp(sent + length),
			}, nil)
			for at := sent; at < sent+length; at++ {
				busy[at]++
			}
		}
		sum, top := 0, 0
		for _, n := range busy[100:200] {
			sum, top = sum+n, max(top, n)
		}
		var out result.Stage
		s.Result(&out)
		got := out.Workload.InFlight
		if math.Abs(*got.Mean-float64(sum)/100) > 1e-9 || got.Max != top {
			t.Fatalf("mean %v max %d, want %v and %d", *got.Mean, got.Max, float64(sum)/100, top)
		}
	})
}
