package sweep

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/assay-bench/assay/result"
	"github.com/assay-bench/assay/stat"
)

// Judge gives the verdict on a load by its deciding runs. With every look, the runs
// of the last one are pooled: the share of due requests that met the objective has
// a Clopper-Pearson interval at the sum of the runs' effective sample sizes, whose
// level is shared out among all looks that there may be (Bonferroni).
//
//   - FAIL: the interval lies below the attainment, most runs are UNSTABLE, or a run
//     gave nothing;
//   - PASS: the interval lies at or above the attainment, no run is UNSTABLE, and
//     most are STABLE;
//   - VOID: the client was INVALID in a run, so that nothing is known of the server;
//   - UNDECIDED: none of these after the last look.
//
// The verdict is empty while there are looks to come.
func (s *Search) Judge(made []Outcome, load float64) result.CapacityLevel {
	out := result.CapacityLevel{Load: load}
	looks := s.looks()
	level := 1 - (1-confidence)/float64(len(looks))
	for i, l := range looks {
		var runs []*Outcome
		for seed := 1; seed <= l.seeds; seed++ {
			if o := find(made, load, seed, l.window); o != nil {
				runs = append(runs, o)
			}
		}
		if o := broken(runs); o != nil {
			s.pool(&out, runs, level)
			out.Verdict, out.Cause = result.Fail, "a run gave nothing: "+o.Failed
			return out
		}
		if len(runs) < l.seeds {
			return out
		}
		s.pool(&out, runs, level)
		s.decide(&out, i == len(looks)-1)
		if out.Verdict != "" {
			return out
		}
	}
	return out
}

func broken(runs []*Outcome) *Outcome {
	for _, o := range runs {
		if o.Failed != "" {
			return o
		}
	}
	return nil
}

// pool fills in what the runs of one look say together.
func (s *Search) pool(into *result.CapacityLevel, runs []*Outcome, level float64) {
	*into = result.CapacityLevel{Load: into.Load, Confidence: level}
	for _, o := range runs {
		into.Runs++
		if o.Stage == nil {
			continue
		}
		into.Window += o.Stage.Window.Length()
		switch o.Stage.Stability.Verdict {
		case result.Stable:
			into.Stable++
		case result.Unstable:
			into.Unstable++
		}
		if o.Stage.Client.Verdict == result.Invalid {
			into.Invalid++
			into.Cause = "the client was INVALID: " + o.Stage.Client.Cause
		}
		if g := o.Stage.Goodput; g != nil {
			into.Due, into.Good = into.Due+g.Due, into.Good+g.Good
		}
	}
	if into.Due == 0 {
		return
	}
	share := float64(into.Good) / float64(into.Due)
	into.Percent, into.NEff = 100*share, pooledN(runs, share, into.Due)
	lo, hi := stat.ShareInterval(share, into.NEff, level)
	into.PercentCI = &result.Interval{100 * lo, 100 * hi}
}

// pooledN is the effective sample of several runs together: the binomial one whose
// share would vary as theirs does, by the variances that the runs' own effective
// samples tell. To add those up would let the runs that happened to see few misses
// speak for all.
func pooledN(runs []*Outcome, share float64, due int) float64 {
	variance := 0. // of the pooled share
	for _, o := range runs {
		if o.Stage == nil || o.Stage.Goodput == nil || o.Stage.Goodput.Due == 0 {
			continue
		}
		g := o.Stage.Goodput
		p, n := float64(g.Good)/float64(g.Due), float64(g.Due)
		if p == 0 || p == 1 { // it tells nothing of how misses come
			p = share
		} else if g.NEff != nil {
			n = *g.NEff
		}
		weight := float64(g.Due) / float64(due)
		variance += weight * weight * p * (1 - p) / n
	}
	if variance == 0 {
		return float64(due)
	}
	return min(float64(due), share*(1-share)/variance)
}

func (s *Search) decide(l *result.CapacityLevel, last bool) {
	want := 100 * s.Attainment
	switch {
	case l.Invalid > 0:
		l.Verdict = result.Void
	case 2*l.Unstable > l.Runs:
		l.Verdict, l.Cause = result.Fail, fmt.Sprintf("%d of %d runs are UNSTABLE", l.Unstable, l.Runs)
	case l.PercentCI != nil && l.PercentCI[1] < want:
		l.Verdict, l.Cause = result.Fail, fmt.Sprintf("%.2f %% of due requests met the SLO (%.2f to %.2f), less than %.4g %%", l.Percent, l.PercentCI[0], l.PercentCI[1], want)
	case l.PercentCI != nil && l.PercentCI[0] >= want && l.Unstable == 0 && 2*l.Stable > l.Runs:
		l.Verdict, l.Cause = result.Pass, fmt.Sprintf("%.2f %% of due requests met the SLO (%.2f to %.2f), and %d of %d runs are STABLE", l.Percent, l.PercentCI[0], l.PercentCI[1], l.Stable, l.Runs)
	case !last:
		l.Cause = ""
	case l.PercentCI == nil:
		l.Verdict, l.Cause = result.Undecided, "no request was due"
	case l.PercentCI[0] < want:
		l.Verdict, l.Cause = result.Undecided, fmt.Sprintf("%.2f %% of due requests met the SLO (%.2f to %.2f): with an effective sample of %.0f that cannot be told from %.4g %%", l.Percent, l.PercentCI[0], l.PercentCI[1], l.NEff, want)
	default:
		l.Verdict, l.Cause = result.Undecided, fmt.Sprintf("the SLO is met, but only %d of %d runs are STABLE", l.Stable, l.Runs)
	}
}

// Levels are the verdicts on all loads that were to be decided, ascending, and the
// answer: the highest load that passed below the lowest that failed above it.
func (s *Search) Levels(made []Outcome) (levels []result.CapacityLevel, pass, fail *result.CapacityLevel) {
	if len(made) == 0 {
		return nil, nil, nil
	}
	for _, x := range s.ladder(made) {
		if l := s.Judge(made, x); l.Runs > 0 {
			levels = append(levels, l)
		}
	}
	sortLevels(levels)
	for i := range levels {
		switch l := &levels[i]; l.Verdict {
		case result.Pass:
			pass = l
		case result.Fail:
			return levels, pass, l
		}
	}
	return levels, pass, nil
}

func sortLevels(levels []result.CapacityLevel) {
	slices.SortFunc(levels, func(a, b result.CapacityLevel) int { return cmp.Compare(a.Load, b.Load) })
}

// Conclude fills in levels and answer.
func (s *Search) Conclude(into *result.Capacity, made []Outcome) {
	levels, pass, fail := s.Levels(made)
	into.Levels = levels
	if pass != nil {
		into.Pass = &pass.Load
	}
	if fail != nil {
		into.Fail = &fail.Load
	}
	unit := ""
	if s.Over == OverRate {
		unit = " requests/s"
	}
	void := slices.ContainsFunc(levels, func(l result.CapacityLevel) bool { return l.Verdict == result.Void })
	switch {
	case pass != nil && fail != nil:
		into.Text = fmt.Sprintf("the capacity lies from %g to %g%s: at %g the SLO was shown to be met, at %g not to be (%.1f %% above)",
			pass.Load, fail.Load, unit, pass.Load, fail.Load, 100*(fail.Load/pass.Load-1))
	case pass != nil && void:
		into.Text = fmt.Sprintf("the capacity is at least %g%s; above, the client was not fit to measure, so that nothing is known of the server", pass.Load, unit)
	case pass != nil:
		into.Text = fmt.Sprintf("the capacity is at least %g%s: no load up to %g was shown to fail", pass.Load, unit, levels[len(levels)-1].Load)
	case fail != nil:
		into.Text = fmt.Sprintf("the capacity is below %g%s: no load down to %g was shown to meet the SLO", fail.Load, unit, levels[0].Load)
	default:
		into.Text = "no load was decided"
	}
}
