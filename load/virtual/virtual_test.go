package virtual

import (
	"context"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-bench/assay/engine"
	"github.com/assay-bench/assay/load/sched"
	"github.com/assay-bench/assay/record"
)

// seen is an attempt with its events, copied.
type seen struct {
	record.Attempt
	Stream []record.Event
}

// watcher keeps all it is told, and stops or abandons when it is told to.
type watcher struct {
	stopAt, abandonAt record.Stamp // 0 is never
	atTick            func()

	due      []record.Stamp
	all      []seen
	ticks    []record.Stamp
	inFlight []int
	oldest   []record.Stamp
}

func (w *watcher) Due(scheduled record.Stamp) { w.due = append(w.due, scheduled) }

func (w *watcher) Ended(a *record.Attempt, events []record.Event) {
	s := seen{*a, slices.Clone(events)}
	if a.Usage != nil {
		usage := *a.Usage
		s.Usage = &usage
	}
	w.all = append(w.all, s)
}

func (w *watcher) Tick(now record.Stamp, inFlight int, oldest record.Stamp) (stop, abandon bool) {
	w.ticks, w.inFlight, w.oldest = append(w.ticks, now), append(w.inFlight, inFlight), append(w.oldest, oldest)
	if w.atTick != nil {
		w.atTick()
	}
	return w.stopAt > 0 && now >= w.stopAt, w.abandonAt > 0 && now >= w.abandonAt
}

// lengths is an endless source of requests with seeded lengths.
func lengths(seed uint64) sched.Source {
	rng := rand.New(rand.NewPCG(seed, 1))
	index := int64(0)
	return sched.SourceFunc(func() (record.Request, bool) {
		r := record.Request{Index: index, PromptTokens: 1 + rng.IntN(1000), MaxTokens: 1 + rng.IntN(200)}
		index++
		return r, true
	})
}

// same is an endless source of equal requests.
func same(prompt, output int) sched.Source {
	index := int64(0)
	return sched.SourceFunc(func() (record.Request, bool) {
		index++
		return record.Request{Index: index - 1, PromptTokens: prompt, MaxTokens: output}, true
	})
}

// poisson gaps at a rate per second.
func poisson(rate float64, seed uint64) func() int64 {
	rng := rand.New(rand.NewPCG(seed, 2))
	return func() int64 { return int64(rng.ExpFloat64() / rate * 1e9) }
}

func noisy() engine.Config {
	c := engine.DefaultConfig()
	c.NoiseCV, c.Seed = 0.02, 7
	return c
}

func run(t testing.TB, cfg Config, w *watcher) *Runner {
	t.Helper()
	r, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Run(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	if got := r.sched.InFlight(); got != 0 {
		t.Fatalf("%d requests are in flight after the run", got)
	}
	if len(w.due) != len(w.all) {
		t.Fatalf("%d requests were due, %d attempts ended", len(w.due), len(w.all))
	}
	return r
}

// TestAgainstEngine drives a second engine directly with the same arrivals: the
// runner must see its tokens at the ends of the same steps.
func TestAgainstEngine(t *testing.T) {
	const n = 400
	w := &watcher{}
	run(t, Config{Engine: noisy(), Load: sched.Config{Gap: poisson(30, 3), MaxRequests: n}, Requests: lengths(3)}, w)

	e, err := engine.New(noisy())
	if err != nil {
		t.Fatal(err)
	}
	gap, source := poisson(30, 3), lengths(3)
	requests := make([]*engine.Request, n)
	arrival := make([]int64, n)
	for i, at := 0, int64(1); i < n; i++ {
		at += gap()
		p, _ := source.Next()
		arrival[i], requests[i] = at, &engine.Request{PromptTokens: p.PromptTokens, OutputTokens: p.MaxTokens}
	}
	for now, next := int64(0), 0; next < n || e.HasWork(); {
		for next < n && arrival[next] <= now {
			if err := e.Add(arrival[next], requests[next]); err != nil {
				t.Fatal(err)
			}
			next++
		}
		if !e.HasWork() {
			now = arrival[next]
			continue
		}
		now = e.Step(now).End
	}

	if len(w.all) != n {
		t.Fatalf("%d attempts of %d", len(w.all), n)
	}
	for _, a := range w.all {
		q := requests[a.Request]
		type stamps struct{ Scheduled, First, Last, Tokens int64 }
		got := stamps{int64(a.Scheduled), int64(a.FirstText), int64(a.LastText), int64(a.Usage.CompletionTokens)}
		want := stamps{arrival[a.Request], q.FirstToken, q.LastToken, int64(q.Generated)}
		if got != want {
			t.Fatalf("request %d: %+v; the engine alone %+v", a.Request, got, want)
		}
	}
}

// TestRecords checks that a record means what that of a real run would.
func TestRecords(t *testing.T) {
	w := &watcher{}
	cfg := noisy()
	run(t, Config{Engine: cfg, Load: sched.Config{Concurrency: 8, MaxRequests: 200}, Requests: lengths(5), IDPrefix: "v-"}, w)
	ids := map[string]bool{}
	for _, a := range w.all {
		ids[a.ID] = true
		if a.Outcome != record.Completed || a.Status != 200 || a.FinishReason != "length" || !a.Streamed {
			t.Fatalf("%+v", a.Attempt)
		}
		if a.Scheduled != a.Sent || a.Dispatched != a.Sent || a.ConnReady != a.Sent || a.SentLast != a.Sent {
			t.Fatalf("not sent at once: %+v", a.Attempt)
		}
		if a.Headers != a.FirstText || a.Done != a.LastText || a.Ended != a.Done || a.EOF != a.Done || a.FirstText <= a.Sent {
			t.Fatalf("stamps out of place: %+v", a.Attempt)
		}
		n := a.Usage.CompletionTokens
		if n != a.MaxTokens || a.TextEvents != n || a.DeltaTokens != n || a.PairedTokens != n-1 || a.DeltasUnknown != 0 {
			t.Fatalf("%d tokens asked for: %+v", a.MaxTokens, a.Attempt)
		}
		if a.Usage.PromptTokens != a.PromptTokensAsked || a.Model != cfg.Model.Name || a.CoalescedText != 0 {
			t.Fatalf("%+v", a.Attempt)
		}
		// The attempt is what its events say.
		var again record.Attempt
		for _, e := range a.Stream {
			if e.At != e.Read || e.At == 0 {
				t.Fatalf("an event without a lag has %+v", e)
			}
			again.Observe(e)
		}
		if again.FirstText != a.FirstText || again.LastText != a.LastText || again.Done != a.Done || again.Events != a.Events || again.UsageAt != a.UsageAt || again.Finish != a.Finish {
			t.Fatalf("the events say %+v, the attempt %+v", again, a.Attempt)
		}
	}
	if len(ids) != 200 {
		t.Errorf("%d different IDs of 200 attempts", len(ids))
	}
}

func TestStopTokenHasNoText(t *testing.T) {
	w := &watcher{}
	run(t, Config{
		Engine: engine.DefaultConfig(), Load: sched.Config{Concurrency: 1, MaxRequests: 1}, Requests: same(100, 50),
		Shape: func(r *record.Request, e *engine.Request) { e.OutputTokens, e.Stop = 5, true },
	}, w)
	a := w.all[0]
	if a.FinishReason != "stop" || a.Usage.CompletionTokens != 5 || a.TextEvents != 4 || a.TokenEvents != 5 || a.PairedTokens != 3 {
		t.Errorf("%+v", a.Attempt)
	}
	if a.Finish <= a.LastText || a.LastToken != a.Finish {
		t.Errorf("last text %d, last token %d, finish %d", a.LastText, a.LastToken, a.Finish)
	}
}

func loads(seed uint64) map[string]sched.Config {
	think := rand.New(rand.NewPCG(seed, 9))
	return map[string]sched.Config{
		"closed": {Concurrency: 16, MaxRequests: 300},
		"think":  {Concurrency: 16, MaxRequests: 300, Think: func() int64 { return think.Int64N(1e9) }},
		"open":   {Gap: poisson(40, seed), MaxRequests: 300},
		"capped": {Gap: poisson(200, seed), MaxRequests: 300, MaxInFlight: 20},
	}
}

func TestSameSeedSameRun(t *testing.T) {
	for name := range loads(0) {
		t.Run(name, func(t *testing.T) {
			play := func(seed uint64) *watcher {
				w := &watcher{}
				run(t, Config{Engine: noisy(), Load: loads(seed)[name], Requests: lengths(seed)}, w)
				return w
			}
			a, b, other := play(1), play(1), play(2)
			if !reflect.DeepEqual(a.all, b.all) {
				t.Error("two runs of one seed differ")
			}
			if !slices.Equal(a.ticks, b.ticks) || !slices.Equal(a.inFlight, b.inFlight) || !slices.Equal(a.oldest, b.oldest) {
				t.Error("the ticks of two runs of one seed differ")
			}
			if reflect.DeepEqual(a.all, other.all) {
				t.Error("another seed gives the same run")
			}
		})
	}
}

// TestStartShiftsTime is a metamorphic relation: the same load later is the same
// records later. Without noise: its draws do not depend on time, but this shows it.
func TestStartShiftsTime(t *testing.T) {
	const shift = record.Stamp(3*time.Hour + 1)
	for name := range loads(0) {
		t.Run(name, func(t *testing.T) {
			play := func(start record.Stamp) []seen {
				w := &watcher{}
				run(t, Config{Engine: noisy(), Load: loads(4)[name], Requests: lengths(4), Start: start}, w)
				return w.all
			}
			early, late := play(1), play(1+shift)
			for i, a := range early {
				b := late[i]
				if b.Request != a.Request || b.Scheduled != a.Scheduled+shift || b.FirstText != a.FirstText+shift || b.Ended != a.Ended+shift {
					t.Fatalf("attempt %d: %+v and, shifted, %+v", i, a.Attempt, b.Attempt)
				}
			}
		})
	}
}

// TestClosedLoopIsExact: from start to stop, as many are in flight as asked for.
func TestClosedLoopIsExact(t *testing.T) {
	const concurrency = 12
	w := &watcher{stopAt: record.Stamp(20 * time.Second)}
	run(t, Config{Engine: noisy(), Load: sched.Config{Concurrency: concurrency}, Requests: lengths(6)}, w)
	for i, n := range w.inFlight {
		if w.ticks[i] < w.stopAt && n != concurrency {
			t.Fatalf("%d in flight at %d", n, w.ticks[i])
		}
	}
	// Each end before the stop is the scheduled time of another request.
	starts := map[record.Stamp]int{}
	for _, a := range w.all {
		starts[a.Scheduled]++
	}
	stopped := w.ticks[slices.IndexFunc(w.ticks, func(at record.Stamp) bool { return at >= w.stopAt })]
	for _, a := range w.all {
		if a.Ended <= stopped && starts[a.Ended] == 0 {
			t.Fatalf("the end at %d started nothing", a.Ended)
		}
		starts[a.Ended]--
	}
}

// TestReplacementJoinsTheBatchAfter: a request that an end caused is not in the
// batch that starts with that end.
func TestReplacementJoinsTheBatchAfter(t *testing.T) {
	w := &watcher{}
	n := 0
	source := sched.SourceFunc(func() (record.Request, bool) {
		n++
		// The first is short, the second long: it keeps the engine busy.
		return record.Request{Index: int64(n - 1), PromptTokens: 10, MaxTokens: []int{5, 100, 1}[n-1]}, n <= 3
	})
	run(t, Config{Engine: engine.DefaultConfig(), Load: sched.Config{Concurrency: 2, MaxRequests: 3}, Requests: source}, w)
	slices.SortFunc(w.all, func(a, b seen) int { return int(a.Request - b.Request) })
	var tokens []record.Stamp
	for _, e := range w.all[1].Stream {
		if e.Tokens > 0 {
			tokens = append(tokens, e.At)
		}
	}
	i := slices.Index(tokens, w.all[2].Sent)
	if i < 0 || w.all[2].FirstText != tokens[i+2] {
		t.Errorf("sent at %d, first text at %d; steps end at %v", w.all[2].Sent, w.all[2].FirstText, tokens)
	}
}

func TestTicks(t *testing.T) {
	w := &watcher{stopAt: record.Stamp(10 * time.Second)}
	run(t, Config{Engine: noisy(), Load: sched.Config{Gap: poisson(0.5, 8)}, Requests: same(10, 10)}, w)
	// Hardly any load: the ticks are those of time alone, also while nothing happens.
	for i, at := range w.ticks {
		if want := 1 + record.Stamp(i+1)*tickEvery; at != want {
			t.Fatalf("tick %d at %d, want %d", i, at, want)
		}
		if w.inFlight[i] == 0 && w.oldest[i] != never {
			t.Fatalf("nothing is in flight, and the oldest is %d", w.oldest[i])
		}
	}
	w = &watcher{}
	run(t, Config{Engine: noisy(), Load: sched.Config{Concurrency: 25, MaxRequests: 100}, Requests: same(10, 10)}, w)
	// Equal requests end 25 at a time: a tick each, before a quarter of a second.
	if len(w.ticks) < 4 || w.ticks[0] >= tickEvery {
		t.Errorf("ticks at %v", w.ticks)
	}
}

// TestLastTickSeesAll: when the requests are used up, the observer is asked once
// more, after the last end.
func TestLastTickSeesAll(t *testing.T) {
	w := &watcher{}
	r := run(t, Config{Engine: noisy(), Load: sched.Config{Concurrency: 2, MaxRequests: 3}, Requests: same(10, 10)}, w)
	last := len(w.ticks) - 1
	if last < 0 || w.ticks[last] != r.Now() || w.inFlight[last] != 0 || w.oldest[last] != never {
		t.Errorf("ended at %d; ticks at %v with %v in flight, oldest %v", r.Now(), w.ticks, w.inFlight, w.oldest)
	}
}

func TestOldest(t *testing.T) {
	w := &watcher{}
	w.atTick = func() {
		now, oldest := w.ticks[len(w.ticks)-1], w.oldest[len(w.oldest)-1]
		ended := map[int64]bool{}
		for _, a := range w.all {
			ended[a.Request] = true
		}
		for i, at := range w.due {
			if at < oldest && !ended[int64(i)] {
				t.Fatalf("at %d the oldest is %d, but request %d of %d is not over", now, oldest, i, at)
			}
		}
	}
	run(t, Config{Engine: noisy(), Load: loads(3)["capped"], Requests: lengths(3)}, w)
}

func TestEnds(t *testing.T) {
	const second = record.Stamp(time.Second)
	overload := sched.Config{Gap: poisson(100, 1), MaxInFlight: 4}
	tests := []struct {
		name    string
		load    sched.Config
		source  sched.Source
		w       watcher
		cancel  bool // at the first tick
		want    []record.Outcome
		settled bool // what was sent ends by itself
	}{
		{name: "requests used up", load: sched.Config{Concurrency: 4, MaxRequests: 60}, source: same(100, 20),
			want: []record.Outcome{record.Completed}, settled: true},
		{name: "no requests", load: overload, source: sched.SourceFunc(func() (record.Request, bool) { return record.Request{}, false })},
		{name: "stopped", load: sched.Config{Concurrency: 4}, source: same(100, 200), w: watcher{stopAt: 5 * second},
			want: []record.Outcome{record.Completed}, settled: true},
		{name: "stopped while arrivals were held back", load: overload, source: same(100, 200), w: watcher{stopAt: 5 * second},
			want: []record.Outcome{record.Completed, record.NeverSent}, settled: true},
		{name: "abandoned", load: sched.Config{Concurrency: 4}, source: same(100, 2000), w: watcher{stopAt: 5 * second, abandonAt: 6 * second},
			want: []record.Outcome{record.Censored}},
		{name: "abandoned at once", load: overload, source: same(100, 20), w: watcher{abandonAt: 5 * second},
			want: []record.Outcome{record.Completed, record.Censored, record.NeverSent}},
		{name: "interrupted", load: sched.Config{Concurrency: 4}, source: same(100, 2000), cancel: true,
			want: []record.Outcome{record.Interrupted}},
		{name: "refused", load: sched.Config{Concurrency: 4}, source: same(1<<30, 1), w: watcher{stopAt: second},
			want: []record.Outcome{record.HTTPError}, settled: true},
		{name: "abandoned while refused", load: sched.Config{Concurrency: 4}, source: same(0, 1), w: watcher{abandonAt: second / 4},
			want: []record.Outcome{record.Censored, record.HTTPError}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, err := New(Config{Engine: noisy(), Load: tt.load, Requests: tt.source})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tt.cancel {
				tt.w.atTick = cancel
			}
			if err := r.Run(ctx, &tt.w); err != nil {
				t.Fatal(err)
			}
			var ledger record.Ledger
			var got []record.Outcome
			for _, a := range tt.w.all {
				ledger.Add(&a.Attempt)
				if a.Ended == 0 || a.Ended > r.Now() {
					t.Fatalf("ended at %d of %d: %+v", a.Ended, r.Now(), a.Attempt)
				}
				if (a.Outcome == record.Completed) != (a.Error == "") {
					t.Fatalf("%s with error %q", a.Outcome, a.Error)
				}
			}
			for o := range ledger.Rows {
				got = append(got, o)
			}
			slices.Sort(got)
			slices.Sort(tt.want)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("outcomes: %s", diff)
			}
			if !ledger.Balances() || len(tt.w.due) != ledger.Attempts {
				t.Errorf("%d due, %d attempts", len(tt.w.due), ledger.Attempts)
			}
			if r.sched.InFlight() != 0 || r.replicas[0].engine.HasWork() || r.replicas[0].inFlight != 0 {
				t.Errorf("%d in flight after the run, engine at work: %v", r.sched.InFlight(), r.replicas[0].engine.HasWork())
			}
			if err := r.Run(ctx, &tt.w); err == nil {
				t.Error("a second run is not refused")
			}
		})
	}
}

func TestCappedTimeIsReported(t *testing.T) {
	// Far above capacity with one at a time: capped nearly always.
	w := &watcher{stopAt: record.Stamp(10 * time.Second)}
	r := run(t, Config{Engine: noisy(), Load: sched.Config{Gap: poisson(100, 1), MaxInFlight: 1}, Requests: same(100, 100)}, w)
	if c := r.CappedTime(); c < 9*time.Second || c > 10*time.Second+250*time.Millisecond {
		t.Errorf("capped for %v of 10 s", c)
	}
}

func TestFlightsAreReused(t *testing.T) {
	w := &watcher{}
	r := run(t, Config{Engine: noisy(), Load: sched.Config{Concurrency: 5, MaxRequests: 500}, Requests: same(50, 20)}, w)
	// A flight is free before the request that replaces it takes off.
	if n := len(r.pool); n != 5 {
		t.Errorf("%d flights were made for 5 slots", n)
	}
}

func TestNewRefuses(t *testing.T) {
	tests := map[string]struct {
		change func(*Config)
		want   string
	}{
		"no such engine": {func(c *Config) { c.Engine.TP = 0 }, "TP"},
		"no loop":        {func(c *Config) { c.Load = sched.Config{} }, "neither"},
		"negative start": {func(c *Config) { c.Start = -1 }, "before the epoch"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cfg := Config{Engine: noisy(), Load: sched.Config{Concurrency: 1}, Requests: same(1, 1)}
			tt.change(&cfg)
			if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v; want one with %q", err, tt.want)
			}
		})
	}
}
