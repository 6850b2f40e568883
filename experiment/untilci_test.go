package experiment

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay/metric"
	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/result"
	"github.com/assay-bench/assay/stat"
)

func TestParseUntilCI(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "",
		"ttft.p99=5%":                     "ttft.p99=5%",
		" ttft.p99 = 5 % , e2e.mean=2.5%": "ttft.p99=5%,e2e.mean=2.5%",
		"tpot.p50=0.1%,tpot.p95=7%":       "tpot.p50=0.1%,tpot.p95=7%",
	} {
		u, err := ParseUntilCI(text)
		if err != nil || u.String() != want {
			t.Errorf("%q: %q, %v; want %q", text, u, err, want)
		}
	}
	for text, want := range map[string]string{
		"ttft.p99":                  "is no percentage",
		"ttft.p99=5":                "is no percentage",
		"ttft.p99=0.05":             "is no percentage",
		"ttft.p99=%":                "is no percentage",
		"ttft.p99=0%":               "not above 0",
		"ttft.p99=-5%":              "not above 0",
		"ttft.p99=100%":             "below 100",
		"ttft.p99=NaN%":             "not above 0",
		"ttft.p90=5%":               `unknown figure "ttft.p90"`,
		"itl.mean=5%":               `unknown figure "itl.mean"`,
		"p99=5%":                    `unknown figure "p99"`,
		"ttft.p99=5%,":              `unknown figure ""`,
		"ttft.p99=5%,ttft.p99=6%":   "given twice",
		"ttft.p99=5%,tpot.mean=bad": "tpot.mean",
	} {
		if u, err := ParseUntilCI(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v; want an error with %q", text, u, err, want)
		}
	}
}

func FuzzParseUntilCI(f *testing.F) {
	f.Add("ttft.p99=5%,e2e.mean=2.5%")
	f.Add("tpot.p50=1e-3 %")
	f.Fuzz(func(t *testing.T, text string) {
		u, err := ParseUntilCI(text)
		if err != nil {
			return
		}
		again, err := ParseUntilCI(u.String())
		if err != nil || again.String() != u.String() {
			t.Fatalf("%q became %q, and that %q: %v", text, u, again, err)
		}
	})
}

func until(t *testing.T, text string) UntilCI {
	t.Helper()
	u, err := ParseUntilCI(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestWindowUntilCI(t *testing.T) {
	for name, c := range map[string]struct {
		scene
		until string
	}{
		"open":           {scene{rate: 20}, "ttft.mean=5%"},
		"closed":         {scene{slots: 8}, "e2e.mean=5%"},
		"several":        {scene{rate: 20}, "ttft.p50=10%,e2e.mean=5%"},
		"with a warm-up": {scene{rate: 20, plan: Plan{Warmup: MSER5}}, "ttft.mean=5%"},
	} {
		t.Run(name, func(t *testing.T) {
			s := c.scene
			rule := s.plan.Warmup
			s.plan, s.output, s.seed = plan(10*time.Minute, 0), [2]int{20, 60}, 5
			if rule != "" {
				s.plan.Warmup = rule
			}
			s.plan.UntilCI = until(t, c.until)
			var seen []string
			s.at = func(now record.Stamp, st *Stage, _ func()) {
				if l := st.Live(now); (l.Precision != "") != (l.Phase == record.Measured) {
					t.Fatalf("%s: %q", l.Phase, l.Precision)
				} else if l.Precision != "" {
					seen = append(seen, l.Precision)
				}
			}
			p := s.play(t)
			if last := seen[len(seen)-1]; !strings.Contains(seen[0], "has no interval yet") || !strings.Contains(last, "% of ±") {
				t.Errorf("live: first %q, last %q", seen[0], last)
			}
			if p.info.WindowClosed != "until-ci" || p.info.Window.Length() >= 10*time.Minute {
				t.Fatalf("closed by %q after %s: %+v", p.info.WindowClosed, p.info.Window.Length(), p.info.UntilCI)
			}
			st := p.conclude(metric.Options{Planned: s.rate > 0})
			for _, x := range st.UntilCI {
				if x.Looked == nil || *x.Looked > x.Asked || x.LookedN < bins*leastInBin {
					t.Errorf("%s: the last look saw %v of %d, asked %v", x.Metric, x.Looked, x.LookedN, x.Asked)
				}
				// The window has a few requests more than the look: those in flight.
				if x.HalfWidth == nil || *x.HalfWidth > 1.5*x.Asked || !strings.Contains(x.Text, "asked ±") {
					t.Errorf("%s: the report has %v, asked %v: %q", x.Metric, x.HalfWidth, x.Asked, x.Text)
				}
			}
			if len(st.UntilCI) != len(s.plan.UntilCI) || st.WindowClosed != "until-ci" {
				t.Errorf("concluded %+v, closed by %q", st.UntilCI, st.WindowClosed)
			}
			for _, ch := range st.Stability.Checks {
				if ch.Name == "window length" && !ch.OK {
					t.Errorf("closed before it could be judged: %s", ch.Text)
				}
			}
		})
	}
}

// TestUntilCINotReached: a cap closes the window, and the result says how far it came.
func TestUntilCINotReached(t *testing.T) {
	for name, c := range map[string]struct {
		d        time.Duration
		requests int
		closed   string
	}{
		"duration": {20 * time.Second, 0, "duration"},
		"requests": {0, 200, "requests"},
	} {
		t.Run(name, func(t *testing.T) {
			s := scene{rate: 20, output: [2]int{20, 60}, plan: plan(c.d, c.requests)}
			s.plan.UntilCI = until(t, "ttft.mean=0.01%,ttft.p99=5%")
			p := s.play(t)
			st := p.conclude(metric.Options{Planned: true})
			if st.WindowClosed != c.closed || len(st.UntilCI) != 2 {
				t.Fatalf("closed by %q: %+v", st.WindowClosed, st.UntilCI)
			}
			if x := st.UntilCI[0]; x.HalfWidth == nil || *x.HalfWidth <= x.Asked {
				t.Errorf("half-width %v, asked %v", x.HalfWidth, x.Asked)
			}
			if x := st.UntilCI[1]; x.HalfWidth != nil || !strings.Contains(x.Text, "no interval") {
				t.Errorf("p99 of a few hundred: %v, %q", x.HalfWidth, x.Text)
			}
			i := slices.IndexFunc(st.Warnings, func(w result.Warning) bool { return w.Code == "until-ci" })
			if i < 0 || !strings.Contains(st.Warnings[i].Text, "not reached") {
				t.Errorf("warnings %+v", st.Warnings)
			}
		})
	}
}

// TestUntilCITexts: the report's own interval is said, also where it is wider than
// the last look's, or is none.
func TestUntilCITexts(t *testing.T) {
	for name, c := range map[string]struct {
		closed string
		half   float64 // of the report's interval; 0: there is none
		want   string
		warned bool
	}{
		"reached":         {"until-ci", 0.04, "E2E mean ±4 % (asked ±5 %)", false},
		"wider at last":   {"until-ci", 0.06, "E2E mean ±6 % (asked ±5 %; ±4.5 % when the window closed, of the 90 requests that could be judged)", false},
		"none at last":    {"until-ci", 0, "E2E mean: ±4.5 % of the first 90 requests (asked ±5 %); of the whole window no interval of 100 requests: still correlated", false},
		"cap":             {"duration", 0.07, "not reached: E2E mean ±7 % at the cap (duration) (asked ±5 %)", true},
		"narrow at last":  {"requests", 0.05, "E2E mean ±5 % (asked ±5 %)", false},
		"interrupted":     {"interrupted", 0.07, "not reached: E2E mean ±7 % when the window closed (interrupted) (asked ±5 %)", true},
		"cap, none at it": {"requests", 0, "not reached at the cap (requests): E2E mean: no interval of 100 requests: still correlated (asked ±5 %)", true},
	} {
		t.Run(name, func(t *testing.T) {
			st := result.Stage{Metrics: result.Metrics{E2E: &result.Summary{N: 100, Mean: new(200.0), CIMethod: "mean none: still correlated; p50 none: too small"}}}
			if c.half > 0 {
				st.Metrics.E2E.MeanCI = &result.Interval{200 * (1 - c.half), 200 * (1 + c.half)}
			}
			i := result.StageInfo{WindowClosed: c.closed, UntilCI: []result.Precision{{Metric: "e2e.mean", Asked: 0.05, Looked: new(0.045), LookedN: 90}}}
			concludeUntilCI(&i, &st)
			if got := st.UntilCI[0].Text; got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
			if warned := len(st.Warnings) > 0; warned != c.warned {
				t.Errorf("warnings %+v", st.Warnings)
			}
		})
	}
}

// TestLookoutSeesAllOfASpan: a look is at all members that were due before the
// oldest that runs, in order of schedule, whatever the order of their ends.
func TestLookoutSeesAllOfASpan(t *testing.T) {
	p := Plan{OpenLoop: true, UntilCI: until(t, "e2e.p95=1%")}
	l := newLookout(&p)
	rng := rand.New(rand.NewPCG(7, 7))
	const n = 3000
	all := make([]record.Attempt, n)
	for i := range all {
		due := record.Stamp(1 + i*1e6)
		long := record.Stamp(1e6 * (1 + rng.ExpFloat64()*400))
		all[i] = record.Attempt{Request: int64(i), Scheduled: due, Sent: due, FirstText: due + 1, LastText: due + long, Ended: due + long, Streamed: true}
	}
	ends := slices.Clone(all)
	slices.SortStableFunc(ends, func(a, b record.Attempt) int { return int(a.Ended - b.Ended) })
	for k := range ends {
		l.add(&ends[k])
		if k%97 != 0 {
			continue
		}
		oldest := record.Stamp(math.MaxInt64)
		for _, a := range ends[k+1:] {
			oldest = min(oldest, a.Scheduled)
		}
		l.settle(oldest)
		var want []float64
		for _, a := range all {
			if a.Scheduled < oldest {
				want = append(want, float64(a.LastText-a.Sent)/1e6)
			}
		}
		got := &l.series[2]
		if !slices.Equal(got.inTime, want) {
			t.Fatalf("after %d ends: %d values, want %d", k+1, len(got.inTime), len(want))
		}
		slices.Sort(want)
		if !slices.Equal(got.sorted, want) {
			t.Fatalf("after %d ends: not the same sample ascending", k+1)
		}
	}
	o := &l.series[2]
	v, ok := stat.QuantileInterval(o.inTime, o.sorted, 0.95, 0.95)
	h := o.halfWidth(0.95)
	if !ok || h == nil || math.Abs(*h-(v.Hi-v.Lo)/2/stat.Quantile(o.sorted, 0.95, stat.Type7)) > 1e-12 {
		t.Errorf("half-width %v of %v", h, v)
	}
}

// BenchmarkLook is one look at a window of so many requests, for a p99.
func BenchmarkLook(b *testing.B) {
	for name, n := range map[string]int{"1000": 1000, "10000": 10_000, "100000": 100_000, "1000000": 1_000_000} {
		b.Run(name, func(b *testing.B) {
			p := Plan{UntilCI: UntilCI{{Metric: "e2e.p99", Asked: 0.05}}}
			rng := rand.New(rand.NewPCG(1, 1))
			fresh := make([]float64, n)
			for i := range fresh {
				fresh[i] = rng.ExpFloat64()
			}
			l := newLookout(&p)
			l.series[2].add(fresh)
			l.members, l.next = n, 0
			for b.Loop() {
				l.look(0, 0)
				l.next = 0
			}
		})
	}
}

// BenchmarkWarmupCheck is one check of the default rule after 10,000 completions,
// of which a warm-up makes one every 25.
func BenchmarkWarmupCheck(b *testing.B) {
	for _, open := range []bool{false, true} {
		name := "closed"
		if open {
			name = "open"
		}
		b.Run(name, func(b *testing.B) {
			p := Plan{Warmup: MSER5, OpenLoop: open, Concurrency: 16}
			w := warmup{plan: &p, medianAt: 0}
			rng := rand.New(rand.NewPCG(1, 1))
			for range 10_000 {
				w.add(50+10*rng.ExpFloat64(), 5+rng.Float64(), 16)
			}
			for range 1000 {
				w.tick(10 + rng.IntN(10))
			}
			for b.Loop() {
				w.settled()
			}
		})
	}
}
