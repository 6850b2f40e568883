package experiment

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay/metric"
	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/result"
	"github.com/assay-bench/assay/stat"
)

// hundred are a hundred good attempts of twenty text events each, a second apart
// and each half a second long, with the changes of a case.
func hundred(change func(i int, a *record.Attempt)) Records {
	return func(yield func(*record.Attempt, []record.Event) bool) {
		for i := range 100 {
			at := record.Stamp(i+1) * record.Stamp(time.Second)
			a := record.Attempt{
				ID: fmt.Sprint(i), Request: int64(i), Stage: "s", Phase: record.Measured, Streamed: true, ConnReused: true,
				Scheduled: at, Dispatched: at, Sent: at, Outcome: record.Completed, FinishReason: "length",
				Usage: &record.Usage{PromptTokens: 5, CompletionTokens: 20},
			}
			var events []record.Event
			for k := range 20 {
				stamp := at + record.Stamp(k+1)*record.Stamp(20*time.Millisecond)
				e := record.Event{At: stamp, Read: stamp, Tokens: 1, TextBytes: 4, AnswerBytes: 4, Flags: record.FlagText | record.FlagAnswer | record.FlagKernel}
				a.Observe(e)
				events = append(events, e)
			}
			a.Done, a.Ended = a.LastText, a.LastText
			if change != nil {
				change(i, &a)
			}
			if !yield(&a, events) {
				return
			}
		}
	}
}

func window() record.Window {
	return record.Window{Start: record.Stamp(time.Second), End: record.Stamp(101 * time.Second)}
}

func concludeHundred(change func(int, *record.Attempt), h result.ClientHealth, t result.Target, concurrency int) result.Stage {
	i := result.StageInfo{Name: "s", OpenLoop: concurrency == 0, Concurrency: concurrency, Window: window(), WindowClosed: "duration", Health: h}
	return Conclude(i, &t, hundred(change), result.DefaultClientLimits(), metric.Options{Planned: concurrency == 0})
}

// TestClientVerdict moves one finding at a time to its limit and over it.
func TestClientVerdict(t *testing.T) {
	const µs = time.Microsecond
	late := func(d time.Duration) func(int, *record.Attempt) {
		return func(_ int, a *record.Attempt) { a.Sent = a.Scheduled.Add(d) }
	}
	firstN := func(n int, change func(*record.Attempt)) func(int, *record.Attempt) {
		return func(i int, a *record.Attempt) {
			if i < n {
				change(a)
			}
		}
	}
	unsent := func(a *record.Attempt) {
		*a = record.Attempt{ID: a.ID, Request: a.Request, Stage: "s", Phase: record.Measured, Scheduled: a.Scheduled, Ended: a.Ended, Outcome: record.NeverSent}
	}
	stale := func(a *record.Attempt) { a.Outcome, a.Finish, a.Done = record.StaleConnection, 0, 0 }
	healthy := func(change func(*result.ClientHealth)) result.ClientHealth {
		h := result.ClientHealth{Cores: 2, Elapsed: 10 * time.Second, CPU: time.Second}
		if change != nil {
			change(&h)
		}
		return h
	}
	for _, c := range []struct {
		name   string
		change func(int, *record.Attempt)
		health result.ClientHealth
		cause  string // "" for VALID
	}{
		{"good", nil, healthy(nil), ""},
		{"late, at the limit", late(time.Millisecond), healthy(nil), ""},
		{"late, above it", late(time.Millisecond + µs), healthy(nil), "send lateness p99"},
		{"late by connecting", func(_ int, a *record.Attempt) {
			a.Sent, a.Connect, a.TLS, a.ConnReused = a.Scheduled.Add(30*time.Millisecond), 10*time.Millisecond, 20*time.Millisecond, false
		}, healthy(nil), ""},
		{"coalesced, at the limit", firstN(5, func(a *record.Attempt) { a.CoalescedText = 19 }), healthy(nil), ""},
		{"coalesced, above it", firstN(6, func(a *record.Attempt) { a.CoalescedText = 19 }), healthy(nil), "coalesced text events"},
		{"unsent, at the limit", firstN(2, unsent), healthy(nil), ""},
		{"unsent, above it", firstN(3, unsent), healthy(nil), "due requests sent"},
		{"stale, at the limit", firstN(1, stale), healthy(nil), ""},
		{"stale, above it", firstN(2, stale), healthy(nil), "stale connections"},
		{"GC, at the limit", nil, healthy(func(h *result.ClientHealth) { h.GCPauseMax = time.Millisecond }), ""},
		{"GC, above it", nil, healthy(func(h *result.ClientHealth) { h.GCPauseMax = time.Millisecond + µs }), "longest GC pause"},
		{"not throttled", nil, healthy(func(h *result.ClientHealth) { h.Throttled = new(time.Duration) }), ""},
		{"throttled", nil, healthy(func(h *result.ClientHealth) { h.Throttled = new(µs) }), "cgroup throttling"},
		{"scheduler, at the limit", nil, healthy(func(h *result.ClientHealth) { h.SchedLatencyP99 = 2 * time.Millisecond }), ""},
		{"scheduler, above it", nil, healthy(func(h *result.ClientHealth) { h.SchedLatencyP99 = 2*time.Millisecond + µs }), "scheduler latency p99"},
		{"CPU, at the limit", nil, healthy(func(h *result.ClientHealth) { h.CPU = 18 * time.Second }), ""},
		{"CPU, above it", nil, healthy(func(h *result.ClientHealth) { h.CPU = 18*time.Second + time.Millisecond }), "own CPU"},
		{"CPU, above the cgroup's part", nil, healthy(func(h *result.ClientHealth) { h.CPU, h.CPULimit = 5*time.Second, 0.5 }), "own CPU 100 % of the 0.5 cores"},
		{"steal, at the limit", nil, healthy(func(h *result.ClientHealth) { h.Steal = new(0.05) }), ""},
		{"steal, above it", nil, healthy(func(h *result.ClientHealth) { h.Steal = new(0.051) }), "steal"},
		{"nobody lived to read it", nil, result.ClientHealth{}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := concludeHundred(c.change, c.health, result.Target{}, 0).Client
			if c.cause == "" && (v.Verdict != result.Valid || v.Cause != "") {
				t.Errorf("%s: %s", v.Verdict, v.Cause)
			}
			if c.cause != "" && (v.Verdict != result.Invalid || !strings.HasPrefix(v.Cause, c.cause)) {
				t.Errorf("%s: %q, want %q", v.Verdict, v.Cause, c.cause)
			}
			if v.GapsWithheld != (c.name == "coalesced, above it") {
				t.Errorf("gaps withheld: %v", v.GapsWithheld)
			}
		})
	}
}

// TestFirstCause: what took the cores from us comes before what that led to, and
// each failed check says what to do.
func TestFirstCause(t *testing.T) {
	h := result.ClientHealth{Cores: 2, Elapsed: 10 * time.Second, CPU: time.Second, GCPauseMax: time.Second, Throttled: new(80 * time.Millisecond)}
	late := func(_ int, a *record.Attempt) { a.Sent = a.Scheduled.Add(5 * time.Millisecond) }
	v := concludeHundred(late, h, result.Target{}, 0).Client
	if want := "cgroup throttling 80 ms (at most 0): the CPU limit of our cgroup stopped us"; !strings.HasPrefix(v.Cause, want) {
		t.Errorf("%q, want %q", v.Cause, want)
	}
	var failed []string
	for _, c := range v.Checks {
		if !c.OK {
			failed = append(failed, c.Name)
			if !strings.Contains(c.Text, "): ") && !strings.Contains(c.Text, ", n 100: ") {
				t.Errorf("no advice: %s", c.Text)
			}
		}
	}
	if got := strings.Join(failed, ", "); got != "cgroup throttling, longest GC pause, send lateness p99" {
		t.Errorf("failed: %s", got)
	}
	i := result.StageInfo{Name: "s", OpenLoop: true, Window: window(), CappedTime: 3 * time.Second, Health: result.ClientHealth{Cores: 2, Elapsed: time.Second}}
	capped := Conclude(i, &result.Target{}, hundred(late), result.DefaultClientLimits(), metric.Options{Planned: true}).Client
	if !strings.Contains(capped.Cause, "held arrivals back for 3 s") {
		t.Errorf("capped: %s", capped.Cause)
	}
}

// TestReadLag judges by the events, each at its own lag.
func TestReadLag(t *testing.T) {
	for _, c := range []struct {
		lag  time.Duration
		want string
	}{{900 * time.Microsecond, result.Valid}, {1100 * time.Microsecond, result.Invalid}} {
		records := func(yield func(*record.Attempt, []record.Event) bool) {
			for a, events := range hundred(nil) {
				for k := range events {
					events[k].Read = events[k].At.Add(c.lag)
				}
				if !yield(a, events) {
					return
				}
			}
		}
		i := result.StageInfo{Name: "s", OpenLoop: true, Window: window(), Health: result.ClientHealth{Cores: 2}}
		v := Conclude(i, &result.Target{}, records, result.DefaultClientLimits(), metric.Options{}).Client
		if v.Verdict != c.want {
			t.Errorf("lag %v: %s: %s", c.lag, v.Verdict, v.Cause)
		}
		// Late reading breaks the verdict, and not the kernel's stamps: it says so.
		if stands := strings.Contains(v.Cause, "their stamps are the kernel's: those stand"); stands != (c.want == result.Invalid) {
			t.Errorf("lag %v: %s", c.lag, v.Cause)
		}
	}
}

// TestOutsideTheWindow: what our client did in warm-up and cooldown is no finding.
func TestOutsideTheWindow(t *testing.T) {
	change := func(i int, a *record.Attempt) {
		a.Sent, a.CoalescedText, a.ConnReused = a.Scheduled.Add(time.Second), 19, false
		a.Scheduled += record.Stamp(200 * time.Second)
		a.Phase = record.Cooldown
	}
	st := concludeHundred(change, result.ClientHealth{Cores: 2}, result.Target{}, 0)
	if st.Client.Verdict != result.NotChecked || len(st.Warnings) > 0 || st.Ledger.Attempts != 0 || st.LedgerRun.Attempts != 100 {
		t.Errorf("%s: %s, warnings %v, ledger %+v", st.Client.Verdict, st.Client.Cause, st.Warnings, st.Ledger)
	}
}

func codes(ws []result.Warning) string {
	var out []string
	for _, w := range ws {
		out = append(out, w.Code)
	}
	return strings.Join(out, " ")
}

// TestFindings names what would mislead although every figure is right.
func TestFindings(t *testing.T) {
	share := func(n int, change func(i int, a *record.Attempt)) func(int, *record.Attempt) {
		return func(i int, a *record.Attempt) {
			if i < n {
				change(i, a)
			}
		}
	}
	burst := func(_ int, a *record.Attempt) { a.CoalescedText = a.TextEvents - 1 }
	few := func(i int, a *record.Attempt) { a.TextEvents, a.CoalescedText = 7, 6 }
	// Slots that start in groups of four, four seconds apart.
	together := func(i int, a *record.Attempt) {
		move := record.Stamp(i/4*4+1)*record.Stamp(time.Second) + record.Stamp(i%4)*record.Stamp(time.Millisecond) - a.Scheduled
		a.Scheduled, a.Sent, a.FirstText, a.LastText, a.Ended = a.Scheduled+move, a.Sent+move, a.FirstText+move, a.LastText+move, a.Ended+move
	}
	for _, c := range []struct {
		name        string
		change      func(int, *record.Attempt)
		concurrency int
		want        string
	}{
		{"nothing", nil, 4, ""},
		{"buffered", burst, 4, "buffered"},
		{"half buffered", share(50, burst), 4, "buffered"},
		{"some coalesced", share(49, burst), 4, ""},
		{"short replies in one read", few, 4, ""},
		{"lockstep", together, 4, "lockstep"},
		{"groups in an open loop", together, 0, ""},
		{"reconnects", share(51, func(_ int, a *record.Attempt) { a.ConnReused = false }), 4, "reconnects"},
		{"half of them new", share(50, func(_ int, a *record.Attempt) { a.ConnReused = false }), 4, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			st := concludeHundred(c.change, result.ClientHealth{Cores: 2}, result.Target{ServerHeader: "nginx/1.26"}, c.concurrency)
			var found []result.Warning
			for _, w := range st.Warnings {
				if strings.Contains("buffered lockstep reconnects", w.Code) {
					found = append(found, w)
				}
			}
			if codes(found) != c.want {
				t.Fatalf("warnings %q, want %q", codes(found), c.want)
			}
			if c.want == "buffered" && !strings.Contains(found[0].Text, `"nginx/1.26"`) {
				t.Errorf("the proxy is not named: %s", found[0].Text)
			}
		})
	}
}

// TestConcludeIsPure: the same records give the same stage, and the order in
// which attempts ended does not matter to the verdicts.
func TestConcludeIsPure(t *testing.T) {
	p := scene{plan: plan(10*time.Second, 0), engine: small, slots: 8, output: [2]int{20, 60}, seed: 5}.play(t)
	a, b := p.conclude(metric.Options{}), p.conclude(metric.Options{})
	if fmt.Sprintf("%+v", a.Stability) == "" || a.Stability.Verdict != b.Stability.Verdict || *a.Metrics.TTFT.Mean != *b.Metrics.TTFT.Mean {
		t.Error("two conclusions differ")
	}
	backwards := func(yield func(*record.Attempt, []record.Event) bool) {
		for i := len(p.tape.attempts) - 1; i >= 0; i-- {
			if !yield(&p.tape.attempts[i], p.tape.events[i]) {
				return
			}
		}
	}
	c := Conclude(p.info, &result.Target{}, backwards, result.DefaultClientLimits(), metric.Options{})
	if c.Stability.Verdict != a.Stability.Verdict || c.Client.Verdict != a.Client.Verdict || *c.Metrics.TTFT.P50 != *a.Metrics.TTFT.P50 {
		t.Errorf("backwards: %s and %s, TTFT p50 %v; forwards: %s and %s, %v", c.Stability.Verdict, c.Client.Verdict, *c.Metrics.TTFT.P50, a.Stability.Verdict, a.Client.Verdict, *a.Metrics.TTFT.P50)
	}
}

// TestNoInfinity: bins that remember each other too well give no interval for the
// trend, and the report says so in words.
func TestNoInfinity(t *testing.T) {
	i := result.StageInfo{Name: "s", OpenLoop: true, Window: window()}
	s := stability{info: i}
	// A hump: each half of the bins goes its own way.
	hump := make([]float64, bins)
	for b := range hump {
		hump[b] = 10 + float64(min(b, bins-1-b))
	}
	c := s.trendCheck("in-flight trend", "requests", hump, 1, alpha)
	if !math.IsInf(stat.TrendOf(hump, 1-alpha).Hi, 0) {
		t.Fatal("the hump has an interval: it tests nothing")
	}
	if strings.Contains(c.Text, "Inf") || !strings.Contains(c.Text, "(no interval)") {
		t.Errorf("%q", c.Text)
	}
	// The same in a stage: the number in flight goes up and down.
	lives := func() Records {
		return func(yield func(*record.Attempt, []record.Event) bool) {
			for n := range 2000 {
				at := window().Start.Add(time.Duration(n) * 50 * time.Millisecond)
				long := time.Duration(1+min(n, 2000-n)/100) * 400 * time.Millisecond
				a := record.Attempt{ID: fmt.Sprint(n), Request: int64(n), Stage: "s", Phase: record.Measured, Scheduled: at, Dispatched: at, Sent: at,
					EOF: at.Add(long), Ended: at.Add(long), TextBytes: 4, Outcome: record.Completed}
				if !yield(&a, nil) {
					return
				}
			}
		}
	}
	v := Conclude(i, &result.Target{}, lives(), result.DefaultClientLimits(), metric.Options{Planned: true}).Stability
	if strings.Contains(fmt.Sprintf("%+v", v), "Inf") || !strings.Contains(v.Checks[0].Text, "no interval") {
		t.Errorf("%+v", v)
	}
	if v.Verdict != result.Undecided || !strings.Contains(v.Cause, "there is no interval") {
		t.Errorf("%s: %s", v.Verdict, v.Cause)
	}
}
