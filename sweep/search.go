package sweep

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/assay-bench/assay/result"
)

// Search looks for the highest load at which a server meets an objective and is
// stable. It is a function of what was found so far: [Search.Next] says which run
// to make next, so that a search that was cut off goes on where it was.
//
// First the load is doubled (or halved) until one passes and one does not, and the
// bracket is bisected, all by the point estimates of short runs: this is where to
// look, and proves nothing. Then levels half of Precision apart are decided, from
// the middle of the bracket up to the first that fails and down to the first that
// passes, each from at least Seeds runs that are made longer until the verdict is
// certain ([Search.Judge]). All levels have the same seeds: the same requests,
// closer together (common random numbers).
type Search struct {
	// Over is "rate" or "concurrency"; the latter has whole numbers.
	Over string
	// Start is the first load, Least and Most bound all of them.
	Start, Least, Most float64
	// Precision is the relative distance between the load that passes and the one
	// that fails that is aimed at, as 0.05.
	Precision float64
	// Attainment is the share of due requests that must meet the objective.
	Attainment float64
	// Window of the runs that look around; deciding runs have twice that at first,
	// and WindowMax at most.
	Window, WindowMax time.Duration
	// Seeds of a decision, and SeedsMax when it needs more.
	Seeds, SeedsMax int
}

// The loads that a search goes over.
const (
	OverRate        = "rate"
	OverConcurrency = "concurrency"
)

// Probe is one run to be made: Seed counts from 1.
type Probe struct {
	Load   float64
	Seed   int
	Window time.Duration
	// Deciding runs count towards a verdict; the others look around.
	Deciding bool
}

// Outcome is what a probe showed. Failed says that the run gave nothing: the
// server did not bear it.
type Outcome struct {
	Probe
	Failed string
	Stage  *result.Stage
}

// confidence of all looks at one level together.
const confidence = 0.95

// mostReach is how many steps from the middle of the bracket a level may be: at 2.5
// % a step, a factor of 4.7. Beyond, the runs that looked around were wrong about
// more than the place.
const mostReach = 63

// Check says what is wrong.
func (s *Search) Check() error {
	switch {
	case s.Over != OverRate && s.Over != OverConcurrency:
		return fmt.Errorf("search (--search) is %q: want rate or concurrency", s.Over)
	case !(s.Precision >= 0.005 && s.Precision <= 0.5):
		return fmt.Errorf("precision (--precision) is %v: want 0.005 to 0.5, as in 5%%", s.Precision)
	case !(s.Attainment > 0 && s.Attainment < 1):
		return fmt.Errorf("attainment (--attainment) is %v: want a share above 0 and below 1; that all requests meet it cannot be shown", s.Attainment)
	case !(s.Least > 0) || !(s.Least <= s.Start) || !(s.Start <= s.Most):
		return fmt.Errorf("the search is from %v by %v to %v (--least, --start, --most): want them above 0 and ascending", s.Least, s.Start, s.Most)
	case s.Window <= 0 || s.WindowMax < 2*s.Window:
		return fmt.Errorf("the window (--duration) is %s and may grow to %s (--window-max): want at least twice as much", s.Window, s.WindowMax)
	case s.Seeds < 3 || s.SeedsMax < s.Seeds:
		return errors.New("seeds (--seeds): a verdict needs 3 runs at least")
	}
	return nil
}

// looks are the rounds of a decision: all windows, then more seeds of the longest.
func (s *Search) looks() []look {
	var out []look
	for w := 2 * s.Window; ; w *= 2 {
		w = min(w, s.WindowMax)
		out = append(out, look{w, s.Seeds})
		if w == s.WindowMax {
			break
		}
	}
	for n := s.Seeds + 1; n <= s.SeedsMax; n++ {
		out = append(out, look{s.WindowMax, n})
	}
	return out
}

// look is one look at a level: so many runs of such a window.
type look struct {
	window time.Duration
	seeds  int
}

// quantise makes a load one that can be run.
func (s *Search) quantise(x float64) float64 {
	x = min(max(x, s.Least), s.Most)
	if s.Over == OverConcurrency {
		return math.Round(x)
	}
	// Four digits: what a person reads is what was run.
	scale := math.Pow(10, 3-math.Floor(math.Log10(x)))
	return math.Round(x*scale) / scale
}

// step is the j-th level from c.
func (s *Search) step(c float64, j int) float64 {
	x := s.quantise(c)
	for range max(j, -j) {
		if j > 0 {
			x = max(s.quantise(x*(1+s.Precision/2)), s.quantise(x+s.grain(x)))
		} else {
			x = min(s.quantise(x/(1+s.Precision/2)), s.quantise(x-s.grain(x)))
		}
	}
	return x
}

// grain is the smallest difference of two loads.
func (s *Search) grain(x float64) float64 {
	if s.Over == OverConcurrency {
		return 1
	}
	return math.Pow(10, math.Floor(math.Log10(x))-3)
}

// Next says which run to make, given all that were made; done if none is left to
// make.
func (s *Search) Next(made []Outcome) (p Probe, done bool) {
	if p, found := s.screen(made); !found {
		return p, false
	}
	for _, x := range s.ladder(made) {
		if p, more := s.pending(made, x); more {
			return p, false
		}
	}
	return Probe{}, true
}

// screen looks for a bracket narrow enough to decide in. found means that there
// is one, or that the bounds of the search leave no room for it.
func (s *Search) screen(made []Outcome) (p Probe, found bool) {
	lo, hi := s.bracket(made)
	next := 0.
	switch {
	case lo == 0 && hi == 0:
		next = s.Start
	case hi == 0:
		next = 2 * lo
	case lo == 0:
		next = hi / 2
	case hi/lo <= 1+s.Precision || s.Over == OverConcurrency && hi-lo <= 1:
		return p, true
	default:
		next = math.Sqrt(lo * hi)
	}
	p = Probe{Load: s.quantise(next), Seed: 1, Window: s.Window}
	return p, p.Load == lo || p.Load == hi
}

// bracket is the highest load that seems to pass below the lowest that seems not
// to; 0 where there is none.
func (s *Search) bracket(made []Outcome) (lo, hi float64) {
	for _, o := range made {
		if !o.Deciding && !s.seems(&o) && (hi == 0 || o.Load < hi) {
			hi = o.Load
		}
	}
	for _, o := range made {
		if !o.Deciding && s.seems(&o) && (hi == 0 || o.Load < hi) {
			lo = max(lo, o.Load)
		}
	}
	return lo, hi
}

// seems is the point estimate of one run.
func (s *Search) seems(o *Outcome) bool {
	if o.Failed != "" || o.Stage == nil || o.Stage.Goodput == nil || o.Stage.Goodput.Due == 0 {
		return false
	}
	return o.Stage.Goodput.Percent >= 100*s.Attainment && o.Stage.Stability.Verdict != result.Unstable &&
		o.Stage.Client.Verdict != result.Invalid
}

// ladder is the levels that are to be decided, as far as the decided ones tell: the
// last of them may be open.
func (s *Search) ladder(made []Outcome) []float64 {
	l := ladder{search: s, made: made, middle: s.middle(made), seen: make(map[float64]string)}
	l.climb()
	return l.levels
}

// middle of the bracket.
func (s *Search) middle(made []Outcome) float64 {
	lo, hi := s.bracket(made)
	switch {
	case lo == 0:
		return s.quantise(hi)
	case hi == 0:
		return s.quantise(lo)
	}
	return s.quantise(math.Sqrt(lo * hi))
}

// ladder goes over levels j steps from the middle of the bracket.
type ladder struct {
	search *Search
	made   []Outcome
	middle float64
	levels []float64
	seen   map[float64]string
}

// at is the verdict on the j-th level; ok is false while it is open.
func (l *ladder) at(j int) (verdict string, ok bool) {
	x := l.search.step(l.middle, j)
	verdict, known := l.seen[x]
	if !known {
		l.levels = append(l.levels, x)
		verdict = l.search.Judge(l.made, x).Verdict
		l.seen[x] = verdict
	}
	return verdict, verdict != ""
}

// climb finds a level that fails at or above the middle and one that passes at or
// below it, and narrows what is between them.
func (l *ladder) climb() {
	first, ok := l.at(0)
	if !ok {
		return
	}
	pass, fail, found := 0, 0, true
	if !fails(first) {
		if fail, found = l.gallop(1, fails); !found {
			return
		}
	}
	if first != result.Pass {
		if pass, found = l.gallop(-1, func(v string) bool { return v == result.Pass }); !found {
			return
		}
	}
	l.narrow(pass, fail)
}

// gallop goes in one direction by steps that double, until a verdict is as wanted.
// found is false if one is open, or none is.
func (l *ladder) gallop(direction int, wanted func(string) bool) (j int, found bool) {
	for reach := 1; reach <= mostReach; reach = 2*reach + 1 {
		verdict, ok := l.at(direction * reach)
		if !ok || wanted(verdict) {
			return direction * reach, ok
		}
	}
	return 0, false
}

// narrow decides the middle of what is open between the highest level that passes
// and the lowest that fails, leaving alone what is undecided.
func (l *ladder) narrow(pass, fail int) {
	low, high := fail, pass // the undecided ones between them
	decide := func(j int) (ok bool) {
		verdict, ok := l.at(j)
		switch {
		case !ok:
		case verdict == result.Pass:
			pass, high = j, max(high, j)
		case fails(verdict):
			fail, low = j, min(low, j)
		default:
			low, high = min(low, j), max(high, j)
		}
		return ok
	}
	for j := pass + 1; j < fail; j++ { // those of the way here
		if _, known := l.seen[l.search.step(l.middle, j)]; known && !decide(j) {
			return
		}
	}
	for {
		low, high = min(low, fail), max(high, pass)
		var next int
		switch {
		case low-pass > 1:
			next = pass + (low-pass)/2
		case fail-high > 1:
			next = fail - (fail-high)/2
		default:
			return
		}
		if !decide(next) {
			return
		}
	}
}

func fails(verdict string) bool { return verdict == result.Fail || verdict == result.Void }

// pending is the next run that a level needs for its verdict.
func (s *Search) pending(made []Outcome, load float64) (p Probe, more bool) {
	if s.Judge(made, load).Verdict != "" {
		return p, false
	}
	for _, l := range s.looks() {
		for seed := 1; seed <= l.seeds; seed++ {
			if find(made, load, seed, l.window) == nil {
				return Probe{Load: load, Seed: seed, Window: l.window, Deciding: true}, true
			}
		}
	}
	return p, false
}

func find(made []Outcome, load float64, seed int, window time.Duration) *Outcome {
	for i := range made {
		if o := &made[i]; o.Deciding && o.Load == load && o.Seed == seed && o.Window == window {
			return o
		}
	}
	return nil
}
