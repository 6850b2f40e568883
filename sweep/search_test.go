package sweep

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"gonum.org/v1/gonum/stat/distuv"
	"pgregory.net/rapid"

	"github.com/assay-bench/assay/result"
)

func search() Search {
	return Search{
		Over: OverRate, Start: 1, Least: 0.01, Most: 10_000, Precision: 0.05, Attainment: 0.99,
		Window: 2 * time.Minute, WindowMax: 16 * time.Minute, Seeds: 3, SeedsMax: 8,
	}
}

// server meets the objective with a probability that falls with the load, and has
// its truth where that is the attainment.
type server struct {
	capacity float64
	// steepness of the share of misses: it grows with load to this power.
	steepness float64
	rate      func(load float64) float64 // due requests/s
	seed      uint64
}

func (s *server) misses(load float64) float64 {
	return min(1, 0.01*math.Pow(load/s.capacity, s.steepness))
}

// probe is one run, independent of all others.
func (s *server) probe(p Probe) Outcome {
	r := rand.New(rand.NewPCG(s.seed^math.Float64bits(p.Load), uint64(p.Seed)<<40|uint64(p.Window)))
	due := int(s.rate(p.Load) * p.Window.Seconds())
	good := int(distuv.Binomial{N: float64(due), P: 1 - s.misses(p.Load), Src: r}.Rand())
	st := run{}.stage()
	st.Window.End = st.Window.Start.Add(p.Window)
	st.Goodput = &result.Goodput{Due: due, Good: good, Percent: 100 * float64(good) / float64(max(due, 1)), NEff: new(float64(due))}
	if p.Load > 2*s.capacity {
		st.Stability.Verdict = result.Unstable
	}
	return Outcome{Probe: p, Stage: st}
}

// find runs a search to its end.
func (s *server) find(t interface{ Fatalf(string, ...any) }, q *Search, probe func(Probe) Outcome) (made []Outcome, out result.Capacity) {
	for range 2000 {
		p, done := q.Next(made)
		if done {
			q.Conclude(&out, made)
			return made, out
		}
		made = append(made, probe(p))
	}
	t.Fatalf("no end after %d runs", len(made))
	return nil, out
}

// TestSearchFinds: over many servers, the interval holds the truth (a verdict is
// wrong in 5 % of cases at most, and few of these matter), and is as narrow as was
// asked for.
func TestSearchFinds(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	const trials = 100
	missed := 0
	for i := range trials {
		s := &server{capacity: math.Exp(6*r.Float64() - 1), steepness: 20 + 20*r.Float64(), rate: func(float64) float64 { return 20 }, seed: uint64(i)}
		q := search()
		made, out := s.find(t, &q, s.probe)
		if out.Pass == nil || out.Fail == nil {
			t.Fatalf("capacity %v: %s", s.capacity, out.Text)
		}
		if *out.Pass > s.capacity || *out.Fail < s.capacity {
			missed++
		}
		if *out.Fail > *out.Pass*1.2 {
			t.Errorf("capacity %v: from %v to %v after %d runs", s.capacity, *out.Pass, *out.Fail, len(made))
		}
		if math.Abs(*out.Pass/s.capacity-1) > 0.1 {
			t.Errorf("capacity %v: answer %v", s.capacity, *out.Pass)
		}
	}
	if missed > 14 { // of 100 at 5 %: P(more than 14) < 0.001
		t.Errorf("the interval misses the truth in %d of %d searches", missed, trials)
	}
}

// TestSearchGoesOn: what is next depends on what was made alone, so that a search
// that is cut off anywhere ends as one that is not.
func TestSearchGoesOn(t *testing.T) {
	s := &server{capacity: 7.3, steepness: 25, rate: func(load float64) float64 { return 3 * load }, seed: 5}
	q := search()
	made, _ := s.find(t, &q, s.probe)
	for i := range made {
		again := search()
		if p, done := again.Next(made[:i]); done || p != made[i].Probe {
			t.Fatalf("after %d runs: %+v, want %+v", i, p, made[i].Probe)
		}
	}
}

func TestSearchOfConcurrency(t *testing.T) {
	for _, capacity := range []float64{1.5, 3.5, 16.5, 700.5} {
		s := &server{capacity: capacity, steepness: 30, rate: func(float64) float64 { return 30 }, seed: 9}
		q := search()
		q.Over, q.Least, q.Most = OverConcurrency, 1, 65536
		made, out := s.find(t, &q, s.probe)
		for _, o := range made {
			if o.Load != math.Round(o.Load) || o.Load < 1 {
				t.Fatalf("concurrency %v", o.Load)
			}
		}
		if out.Pass == nil || out.Fail == nil || *out.Pass > capacity || *out.Fail < capacity {
			t.Errorf("capacity %v: %s", capacity, out.Text)
		}
	}
}

func TestSearchAtItsBounds(t *testing.T) {
	steady := func(float64) float64 { return 20 }
	for _, c := range []struct {
		name         string
		capacity     float64
		probe        func(s *server, p Probe) Outcome
		pass, fail   bool
		least, most  float64
		wantVerdicts []string
	}{
		{name: "nothing fails", capacity: 1e9, probe: (*server).probe, pass: true, least: 1, most: 64},
		{name: "nothing passes", capacity: 1e-9, probe: (*server).probe, fail: true, least: 0.25, most: 64},
		{name: "every run gives nothing", capacity: 1, fail: true, least: 0.5, most: 64, probe: func(_ *server, p Probe) Outcome {
			return Outcome{Probe: p, Failed: "connection refused"}
		}},
		{name: "the client ends first", capacity: 1e9, pass: true, least: 1, most: 4096, probe: func(s *server, p Probe) Outcome {
			o := s.probe(p)
			if p.Load > 50 {
				o.Stage.Client.Verdict = result.Invalid
			}
			return o
		}},
		{name: "never STABLE", capacity: 1e9, least: 1, most: 8, probe: func(s *server, p Probe) Outcome {
			o := s.probe(p)
			o.Stage.Stability.Verdict = result.Undecided
			return o
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &server{capacity: c.capacity, steepness: 20, rate: steady, seed: 1}
			q := search()
			q.Least, q.Most = c.least, c.most
			made, out := s.find(t, &q, func(p Probe) Outcome { return c.probe(s, p) })
			if (out.Pass != nil) != c.pass || (out.Fail != nil) != c.fail {
				t.Errorf("pass %v, fail %v: %s", out.Pass, out.Fail, out.Text)
			}
			for _, o := range made {
				if o.Load < c.least || o.Load > c.most {
					t.Errorf("load %v is out of bounds", o.Load)
				}
			}
		})
	}
}

// TestSearchEnds whatever the runs show.
func TestSearchEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := search()
		q.WindowMax, q.SeedsMax = 4*time.Minute, 3
		q.Least, q.Most = 0.5, 200
		q.Precision = rapid.SampledFrom([]float64{0.02, 0.05, 0.3}).Draw(t, "precision")
		if rapid.Bool().Draw(t, "concurrency") {
			q.Over, q.Least = OverConcurrency, 1
		}
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "server"), 1))
		(&server{}).find(t, &q, func(p Probe) Outcome {
			o := Outcome{Probe: p, Stage: run{stability: []string{result.Stable, result.Unstable, result.Undecided}[r.IntN(3)], invalid: r.IntN(10) == 0}.stage()}
			good := 950 + r.IntN(51)
			o.Stage.Goodput = &result.Goodput{Due: 1000, Good: good, Percent: float64(good) / 10}
			if r.IntN(20) == 0 {
				o.Failed, o.Stage = "gone", nil
			}
			return o
		})
	})
}

// TestSearchEndsWithAnyVerdicts: each load has a verdict that is certain at once,
// and in no order.
func TestSearchEndsWithAnyVerdicts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := search()
		q.WindowMax = 2 * q.Window
		q.SeedsMax = 3
		q.Least, q.Most = 0.5, 200
		if rapid.Bool().Draw(t, "concurrency") {
			q.Over, q.Least = OverConcurrency, 1
		}
		seed, turn := rapid.Uint64().Draw(t, "seed"), rapid.Float64Range(1, 100).Draw(t, "turn")
		made, out := (&server{}).find(t, &q, func(p Probe) Outcome {
			r := rand.New(rand.NewPCG(seed, math.Float64bits(p.Load)))
			o := Outcome{Probe: p, Stage: run{}.stage()}
			good := 100_000
			switch u := r.Float64() * math.Max(p.Load/turn, turn/p.Load); {
			case u > 0.5 && p.Load > turn: // the further up, the more surely
				good = 0
			case u < 0.5:
				o.Stage.Stability.Verdict = result.Undecided
			}
			o.Stage.Goodput = &result.Goodput{Due: 100_000, Good: good, Percent: float64(good) / 1000}
			return o
		})
		last := 0.
		for _, l := range out.Levels {
			if l.Verdict == "" || l.Load <= last {
				t.Fatalf("after %d runs: levels %+v", len(made), out.Levels)
			}
			last = l.Load
		}
		if out.Pass != nil && out.Fail != nil && *out.Pass >= *out.Fail {
			t.Fatalf("from %v to %v", *out.Pass, *out.Fail)
		}
	})
}

func TestJudge(t *testing.T) {
	q := search()
	q.WindowMax, q.SeedsMax = 2*q.Window, 3 // one look
	of := func(good, due int, nEff float64, stability ...string) []Outcome {
		var made []Outcome
		for i, v := range stability {
			o := Outcome{Probe: Probe{Load: 4, Seed: i + 1, Window: 2 * q.Window, Deciding: true}, Stage: run{stability: v}.stage()}
			o.Stage.Goodput = &result.Goodput{Due: due, Good: good, Percent: 100 * float64(good) / float64(due), NEff: &nEff}
			made = append(made, o)
		}
		return made
	}
	const s, u, x = result.Stable, result.Unstable, result.Undecided
	for _, c := range []struct {
		name, want string
		made       []Outcome
	}{
		{"all good", result.Pass, of(1000, 1000, 1000, s, s, s)},
		{"too few to tell", result.Undecided, of(100, 100, 100, s, s, s)},
		{"many, but they came in clusters", result.Undecided, of(9950, 10000, 100, s, s, s)},
		{"clearly below", result.Fail, of(900, 1000, 1000, s, s, s)},
		{"good, and most UNSTABLE", result.Fail, of(1000, 1000, 1000, u, u, s)},
		{"good, and one UNSTABLE", result.Undecided, of(1000, 1000, 1000, u, s, s)},
		{"good, and one UNDECIDED", result.Pass, of(1000, 1000, 1000, x, s, s)},
		{"good, and most UNDECIDED", result.Undecided, of(1000, 1000, 1000, x, x, s)},
		{"one run to come", "", of(1000, 1000, 1000, s, s)},
	} {
		if got := q.Judge(c.made, 4); got.Verdict != c.want {
			t.Errorf("%s: %q (%s), want %q", c.name, got.Verdict, got.Cause, c.want)
		}
	}
	if got := q.Judge(of(1000, 1000, 1000, s, s, s), 5); got.Verdict != "" || got.Runs != 0 {
		t.Errorf("a load that was not run: %+v", got)
	}
}

// TestPooledN: the sample of a pool is no larger than that of requests which are
// independent, and a run that saw few misses does not make up for one that saw many.
func TestPooledN(t *testing.T) {
	o := func(good, due int, n float64) *Outcome {
		return &Outcome{Stage: &result.Stage{Goodput: &result.Goodput{Good: good, Due: due, NEff: &n}}}
	}
	if got := pooledN([]*Outcome{o(990, 1000, 1000), o(990, 1000, 1000)}, 0.99, 2000); math.Abs(got-2000) > 1e-6 {
		t.Errorf("independent requests: %v, want 2000", got)
	}
	if got := pooledN([]*Outcome{o(999, 1000, 900), o(900, 1000, 20)}, 0.9495, 2000); got > 50 {
		t.Errorf("a run of one long episode: %v", got)
	}
	if got := pooledN([]*Outcome{o(1000, 1000, 1000)}, 1, 1000); got != 1000 {
		t.Errorf("no misses: %v", got)
	}
}

func TestCheckSearch(t *testing.T) {
	q := search()
	if err := q.Check(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*Search){
		"over":       func(q *Search) { q.Over = "load" },
		"precision":  func(q *Search) { q.Precision = 0 },
		"attainment": func(q *Search) { q.Attainment = 1 },
		"bounds":     func(q *Search) { q.Least = 2 },
		"negative":   func(q *Search) { q.Least = -1 },
		"window":     func(q *Search) { q.WindowMax = q.Window },
		"seeds":      func(q *Search) { q.Seeds = 2 },
	} {
		q := search()
		spoil(&q)
		if q.Check() == nil {
			t.Errorf("%s: not refused", name)
		}
	}
}
