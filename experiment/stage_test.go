package experiment

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay/engine"
	"github.com/assay-bench/assay/load/sched"
	"github.com/assay-bench/assay/load/virtual"
	"github.com/assay-bench/assay/metric"
	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/result"
)

// tape keeps every attempt, in order of completion.
type tape struct {
	attempts []record.Attempt
	events   [][]record.Event
	flushes  int
	failAt   int // the append that fails, counted from 1; 0 for none
}

var errDisk = errors.New("the disk is full")

func (r *tape) Append(a *record.Attempt, ev []record.Event) error {
	if len(r.attempts)+1 == r.failAt {
		return errDisk
	}
	b := *a
	if a.Usage != nil {
		b.Usage = new(*a.Usage)
	}
	r.attempts, r.events = append(r.attempts, b), append(r.events, slices.Clone(ev))
	return nil
}

func (r *tape) Flush() error {
	r.flushes++
	return nil
}

func (r *tape) records(yield func(*record.Attempt, []record.Event) bool) {
	for i := range r.attempts {
		if !yield(&r.attempts[i], r.events[i]) {
			return
		}
	}
}

// scene is a stage on the simulated engine, in virtual time.
type scene struct {
	plan   Plan
	engine func(*engine.Config)
	slots  int     // closed loop
	rate   float64 // else: Poisson arrivals per second
	prompt int
	output [2]int // range of output lengths
	seed   uint64
	// at is told each tick, and may interrupt the run.
	at     func(now record.Stamp, s *Stage, interrupt func())
	failAt int
}

// played is what came of it.
type played struct {
	info  result.StageInfo
	tape  *tape
	stage *Stage
	end   record.Stamp
}

// watched tells a scene of each tick.
type watched struct {
	*Stage
	at func(record.Stamp)
}

func (w watched) Tick(now record.Stamp, inFlight int, oldest record.Stamp) (stop, abandon bool) {
	w.at(now)
	return w.Stage.Tick(now, inFlight, oldest)
}

func (s scene) play(t *testing.T) played {
	t.Helper()
	rng := rand.New(rand.NewPCG(s.seed, 3))
	index := int64(-1)
	prompt := max(s.prompt, 100)
	cfg := virtual.Config{
		Engine: engine.DefaultConfig(),
		Load:   sched.Config{Concurrency: s.slots},
		Requests: sched.SourceFunc(func() (record.Request, bool) {
			index++
			return record.Request{Index: index, PromptTokens: prompt, MaxTokens: s.output[0] + rng.IntN(s.output[1]-s.output[0]+1)}, true
		}),
		Start: record.Stamp(time.Second), IDPrefix: "r-",
	}
	cfg.Engine.Seed = s.seed
	if s.rate > 0 {
		gaps := rand.New(rand.NewPCG(s.seed, 4))
		cfg.Load = sched.Config{Gap: func() int64 { return int64(gaps.ExpFloat64() / s.rate * 1e9) }}
	}
	if s.engine != nil {
		s.engine(&cfg.Engine)
	}
	r, err := virtual.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s.plan.Name, s.plan.OpenLoop, s.plan.Concurrency = "s", s.rate > 0, s.slots
	p := played{tape: &tape{failAt: s.failAt}}
	p.stage = NewStage(s.plan, p.tape)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	at := func(now record.Stamp) {
		if s.at != nil {
			s.at(now, p.stage, cancel)
		}
		if now > record.Stamp(time.Hour) {
			t.Fatal("the stage does not end")
		}
	}
	if err := r.Run(ctx, watched{p.stage, at}); err != nil {
		t.Fatal(err)
	}
	p.end = r.Now()
	if ctx.Err() != nil {
		p.stage.Halt("interrupted")
	}
	p.info = p.stage.Info(p.end)
	p.members(t)
	return p
}

// members checks what holds of every stage: the phase of an attempt is where its
// scheduled time lies, and every request that was sent is recorded once.
func (p played) members(t *testing.T) {
	t.Helper()
	seen := make(map[int64]bool)
	for i := range p.tape.attempts {
		a := &p.tape.attempts[i]
		want := record.Cooldown
		switch {
		case p.info.Window.Contains(a.Scheduled):
			want = record.Measured
		case a.Scheduled < p.info.Window.Start:
			want = record.Warmup
		}
		if a.Phase != want || a.Stage != "s" {
			t.Fatalf("request %d, scheduled at %v, is %s in stage %q; want %s: window %v", a.Request, a.Scheduled, a.Phase, a.Stage, want, p.info.Window)
		}
		if seen[a.Request] {
			t.Fatalf("request %d is recorded twice", a.Request)
		}
		seen[a.Request] = true
	}
	for i := range int64(len(seen)) {
		if p.tape.failAt == 0 && !seen[i] {
			t.Fatalf("request %d of %d is not recorded", i, len(seen))
		}
	}
}

func (p played) count(phase record.Phase, o record.Outcome) int {
	n := 0
	for i := range p.tape.attempts {
		if a := &p.tape.attempts[i]; a.Phase == phase && a.Outcome == o {
			n++
		}
	}
	return n
}

func (p played) conclude(o metric.Options) result.Stage {
	return Conclude(p.info, &result.Target{}, p.tape.records, result.DefaultClientLimits(), o)
}

// plan is that of a stage without a warm-up.
func plan(d time.Duration, requests int) Plan {
	return Plan{Duration: d, Requests: requests, Warmup: NoWarmup, WarmupMax: time.Minute, CooldownMax: time.Minute}
}

func TestWindowByDuration(t *testing.T) {
	for name, s := range map[string]scene{
		"closed": {slots: 8}, "open": {rate: 20},
	} {
		t.Run(name, func(t *testing.T) {
			s.plan, s.output = plan(5*time.Second, 0), [2]int{20, 60}
			p := s.play(t)
			w := p.info.Window
			if first := p.tape.attempts[0].Scheduled; w.Start > first || w.Length() != 5*time.Second || p.info.WindowClosed != "duration" {
				t.Errorf("window %v, closed by %q, first request at %v", w, p.info.WindowClosed, first)
			}
			if n := p.count(record.Measured, record.Completed); n < 50 {
				t.Errorf("%d measured requests", n)
			}
			if p.count(record.Measured, record.Censored) > 0 || p.count(record.Cooldown, record.Completed) == 0 {
				t.Error("the load did not go on until the window's members had ended")
			}
			// Load is applied until the last member is over, and little longer.
			last := record.Stamp(0)
			for i := range p.tape.attempts {
				if a := &p.tape.attempts[i]; a.Phase == record.Measured {
					last = max(last, a.Ended)
				}
			}
			if p.info.Stopped < last || p.info.Stopped > max(last, w.End)+record.Stamp(time.Second) {
				t.Errorf("sending stopped at %v, the last member ended at %v", p.info.Stopped, last)
			}
			if p.tape.flushes < 5 {
				t.Errorf("%d flushes in 5 s", p.tape.flushes)
			}
		})
	}
}

func TestWindowByRequests(t *testing.T) {
	for _, c := range []struct {
		name     string
		scene    scene
		duration time.Duration
		requests int
		want     int // in the window; 0 for fewer than requests
		closed   string
	}{
		{"closed loop", scene{slots: 1}, 0, 37, 37, "requests"},
		{"closed loop, as many as slots", scene{slots: 8}, 0, 8, 8, "requests"},
		// Slots that start at the same moment are in the same window, or none is.
		{"closed loop, fewer than slots", scene{slots: 8}, 0, 3, 8, "requests"},
		{"open loop", scene{rate: 50}, 0, 37, 37, "requests"},
		{"one", scene{rate: 50}, 0, 1, 1, "requests"},
		{"requests before duration", scene{rate: 50}, time.Minute, 100, 100, "requests"},
		{"duration before requests", scene{rate: 50}, time.Second, 10_000, 0, "duration"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.scene.plan, c.scene.output = plan(c.duration, c.requests), [2]int{5, 50}
			p := c.scene.play(t)
			n := 0
			for i := range p.tape.attempts {
				if p.tape.attempts[i].Phase == record.Measured {
					n++
				}
			}
			if p.info.WindowClosed != c.closed || c.want > 0 && n != c.want || c.want == 0 && (n == 0 || n >= c.requests) {
				t.Errorf("%d in the window %v, closed by %q", n, p.info.Window, p.info.WindowClosed)
			}
		})
	}
}

func TestWarmupDetected(t *testing.T) {
	for _, rule := range []Rule{MSER5, MedianRule} {
		t.Run(string(rule), func(t *testing.T) {
			s := scene{plan: plan(5*time.Second, 0), slots: 8, output: [2]int{20, 40}}
			s.plan.Warmup = rule
			p := s.play(t)
			w := p.info.Warmup
			if !w.Detected || w.Capped != "" || w.Requests < 25 || w.Duration <= 0 || w.Rule != string(rule) {
				t.Fatalf("%+v", w)
			}
			if n := p.count(record.Warmup, record.Completed); n < w.Requests {
				t.Errorf("the rule saw %d completions, %d warm-up requests completed", w.Requests, n)
			}
			if p.info.Window.Length() != 5*time.Second {
				t.Errorf("window %v", p.info.Window)
			}
			// No request that the rule was asked on is in the sample.
			st := p.conclude(metric.Options{})
			for i := range p.tape.attempts {
				if a := &p.tape.attempts[i]; a.Phase == record.Measured && a.Scheduled < p.info.Window.Start {
					t.Error("a warm-up request is measured")
				}
			}
			if st.Metrics.TTFT.N != p.count(record.Measured, record.Completed) {
				t.Errorf("n %d, measured %d", st.Metrics.TTFT.N, p.count(record.Measured, record.Completed))
			}
		})
	}
}

// small serves few at a time, so that little load is much.
func small(c *engine.Config) { c.MaxNumSeqs, c.NoiseCV = 8, 0.1 }

// capacity is the completions per second that the small engine can do, by a
// closed loop that never lets it rest.
func capacity(t *testing.T) float64 {
	t.Helper()
	p := scene{plan: plan(60*time.Second, 0), engine: small, slots: 64, output: [2]int{20, 60}, seed: 9}.play(t)
	n := 0
	for i := range p.tape.attempts {
		if a := &p.tape.attempts[i]; p.info.Window.Contains(a.Ended) {
			n++
		}
	}
	return float64(n) / 60
}

func TestNeverStabilises(t *testing.T) {
	s := scene{plan: plan(10*time.Second, 0), engine: small, rate: 1.5 * capacity(t), output: [2]int{20, 60}, seed: 1}
	s.plan.Warmup, s.plan.WarmupMax = MSER5, 20*time.Second
	s.plan.CooldownMax = 2 * time.Minute
	p := s.play(t)
	w := p.info.Warmup
	if w.Detected || w.Capped != "duration" || !strings.HasPrefix(w.Text, "not stabilised: mser5") {
		t.Errorf("%+v", w)
	}
	if w.Duration < 20*time.Second || w.Duration > 21*time.Second {
		t.Errorf("the cap of 20 s was reached after %v", w.Duration)
	}
	if v := p.conclude(metric.Options{}).Stability; v.Verdict != result.Unstable {
		t.Errorf("%s: %s", v.Verdict, v.Cause)
	}
}

func TestInterrupted(t *testing.T) {
	for _, c := range []struct {
		name   string
		warmup Rule
		after  time.Duration
	}{
		{"in the window", NoWarmup, 4 * time.Second},
		{"in the warm-up", MSER5, 300 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := scene{plan: plan(time.Minute, 0), slots: 8, output: [2]int{100, 200}}
			s.plan.Warmup = c.warmup
			s.at = func(now record.Stamp, _ *Stage, interrupt func()) {
				if now >= record.Stamp(time.Second+c.after) {
					interrupt()
				}
			}
			p := s.play(t)
			if p.info.WindowClosed != "interrupted" || p.info.Window.End > p.end || p.info.Window.Start > p.info.Window.End {
				t.Errorf("window %v, closed by %q, the run ended at %v", p.info.Window, p.info.WindowClosed, p.end)
			}
			if inWarmup := c.warmup != NoWarmup; inWarmup != (p.info.Warmup.Capped == "interrupted") || inWarmup != (p.info.Window.Length() == 0) {
				t.Errorf("warm-up %+v, window %v", p.info.Warmup, p.info.Window)
			}
			if n := p.count(record.Measured, record.Interrupted) + p.count(record.Warmup, record.Interrupted); n != 8 {
				t.Errorf("%d were cut off, want the 8 in flight", n)
			}
		})
	}
}

func TestRecorderFails(t *testing.T) {
	s := scene{plan: plan(time.Minute, 0), slots: 4, output: [2]int{20, 20}, failAt: 30}
	p := s.play(t)
	if !errors.Is(p.stage.Err(), errDisk) || p.info.WindowClosed != "error" {
		t.Errorf("error %v, closed by %q", p.stage.Err(), p.info.WindowClosed)
	}
	if p.end > record.Stamp(10*time.Second) {
		t.Errorf("it went on until %v", p.end)
	}
}

// TestCensored: members that outlive the cooldown are cut off, counted in their
// row, a miss of the SLO, and no sample.
func TestCensored(t *testing.T) {
	s := scene{plan: plan(2*time.Second, 0), slots: 4, output: [2]int{1500, 2000}}
	s.plan.CooldownMax = time.Second
	p := s.play(t)
	if n := p.count(record.Measured, record.Censored); n != 4 {
		t.Fatalf("%d censored, want 4", n)
	}
	if p.end < p.info.Window.End+record.Stamp(time.Second) || p.end > p.info.Window.End+record.Stamp(2*time.Second) {
		t.Errorf("cut off at %v, the window ended at %v", p.end, p.info.Window.End)
	}
	st := p.conclude(metric.Options{SLO: metric.SLO{E2E: time.Hour}})
	if st.Ledger.Rows[record.Censored] != 4 || !st.Ledger.Balances() {
		t.Errorf("rows %v", st.Ledger.Rows)
	}
	if g := st.Goodput; g.Due != 4 || g.Good != 0 {
		t.Errorf("goodput %+v", g)
	}
	if st.Metrics.E2E != nil && st.Metrics.E2E.N > 0 {
		t.Errorf("%d samples of E2E", st.Metrics.E2E.N)
	}
}

// TestStability lets a server be loaded below and above what it can do, over and
// over: the verdict on the first is never UNSTABLE, on the second always.
func TestStability(t *testing.T) {
	full := capacity(t)
	for _, c := range []struct {
		name    string
		runs    int
		load    float64 // of capacity; 0 for a closed loop
		good    string
		most    int    // runs that may say UNDECIDED
		forbids string // no run may say it
	}{
		{"open, half", 6, 0.5, result.Stable, 3, result.Unstable},
		{"open, 0.8", 10, 0.8, result.Stable, 5, result.Unstable},
		{"open, 1.3", 10, 1.3, result.Unstable, 0, result.Stable},
		{"open, twice", 3, 2, result.Unstable, 0, result.Stable},
		{"closed", 6, 0, result.Stable, 1, result.Unstable},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := map[string]int{}
			for seed := range uint64(c.runs) {
				s := scene{plan: plan(30*time.Second, 0), engine: small, output: [2]int{20, 60}, seed: seed + 1}
				s.plan.Warmup, s.plan.WarmupMax, s.plan.CooldownMax = MSER5, 10*time.Second, 5*time.Second
				if s.rate = c.load * full; s.rate == 0 {
					s.slots = 8
				}
				v := s.play(t).conclude(metric.Options{}).Stability
				got[v.Verdict]++
				if v.Verdict == c.forbids {
					t.Errorf("seed %d: %s: %s", seed+1, v.Verdict, v.Cause)
				}
			}
			if got[c.good] < c.runs-c.most {
				t.Errorf("verdicts %v, want %s", got, c.good)
			}
			t.Logf("%s (%.1f/s): %v", c.name, c.load*full, got)
		})
	}
}

func TestTooShortToTell(t *testing.T) {
	p := scene{plan: plan(0, 20), slots: 4, output: [2]int{10, 10}}.play(t)
	v := p.conclude(metric.Options{}).Stability
	if v.Verdict != result.Undecided || !strings.Contains(v.Cause, "too short to tell") {
		t.Errorf("%s: %s", v.Verdict, v.Cause)
	}
}

// TestNothingEnded: a stage in which no request ends still has an end.
func TestNothingEnded(t *testing.T) {
	s := scene{plan: plan(time.Second, 0), slots: 2, output: [2]int{8000, 8000}}
	s.plan.Warmup, s.plan.WarmupMax, s.plan.CooldownMax = MSER5, 2*time.Second, time.Second
	p := s.play(t)
	if p.info.Warmup.Capped != "duration" || p.info.WindowClosed != "duration" || p.count(record.Warmup, record.Censored) != 2 {
		t.Errorf("%+v, %d cut off", p.info, p.count(record.Warmup, record.Censored))
	}
	st := p.conclude(metric.Options{})
	if st.Ledger.Attempts != 0 || st.LedgerRun.Attempts != 2 || st.Stability.Verdict != result.Undecided {
		t.Errorf("ledger %+v, run %+v, %s", st.Ledger, st.LedgerRun, st.Stability.Verdict)
	}
}

// TestLive is what a progress line shows.
func TestLive(t *testing.T) {
	var seen []Live
	s := scene{plan: plan(2*time.Second, 0), slots: 4, output: [2]int{20, 20}}
	s.at = func(now record.Stamp, st *Stage, _ func()) { seen = append(seen, st.Live(now)) }
	s.play(t)
	last := seen[len(seen)-1]
	if seen[0].TTFTp50 != 0 && seen[0].Completed == 0 || last.Completed < 10 || last.TTFTp50 <= 0 || last.OutputTPS <= 0 || math.IsInf(last.OutputTPS, 0) {
		t.Errorf("first %+v, last %+v", seen[0], last)
	}
	for i := 1; i < len(seen); i++ {
		if seen[i].Completed < seen[i-1].Completed || seen[i].Elapsed < seen[i-1].Elapsed {
			t.Errorf("%+v after %+v", seen[i], seen[i-1])
		}
	}
}

// TestCutShort closes the window of a run that died at the last thing it wrote.
func TestCutShort(t *testing.T) {
	at := func(ends ...record.Stamp) Records {
		return func(yield func(*record.Attempt, []record.Event) bool) {
			for _, e := range ends {
				if !yield(&record.Attempt{Stage: "s", Ended: e}, nil) {
					return
				}
			}
			yield(&record.Attempt{Stage: "other", Ended: 1 << 40}, nil)
		}
	}
	for _, c := range []struct {
		name    string
		window  record.Window
		records Records
		want    record.Window
	}{
		{"in the window", record.Window{Start: 10, End: 1000}, at(5, 40, 30), record.Window{Start: 10, End: 40}},
		{"of requests", record.Window{Start: 10}, at(5, 40, 30), record.Window{Start: 10, End: 40}},
		{"just after it", record.Window{Start: 10, End: 1000}, at(990, 1100), record.Window{Start: 10, End: 1000}},
		{"in the warm-up", record.Window{}, at(5, 40, 30), record.Window{Start: 40, End: 40}},
		{"before anything", record.Window{}, at(), record.Window{Start: 1, End: 1}},
		{"nothing since it opened", record.Window{Start: 10, End: 1000}, at(5), record.Window{Start: 10, End: 10}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := CutShort(result.StageInfo{Name: "s", Window: c.window}, c.records)
			if got.Window != c.want || got.WindowClosed == "" {
				t.Errorf("window %v, closed by %q; want %v", got.Window, got.WindowClosed, c.want)
			}
		})
	}
}

// TestDueOutOfOrder: requests may be told a little out of the order of their
// scheduled times; none that was counted falls out of the window for that.
func TestDueOutOfOrder(t *testing.T) {
	s := NewStage(plan(0, 3), &tape{})
	for _, at := range []record.Stamp{1000, 3000, 2000, 4000} {
		s.Due(at)
	}
	if w := s.Info(5000).Window; w != (record.Window{Start: 1000, End: 3001}) {
		t.Errorf("window %v", w)
	}
}
