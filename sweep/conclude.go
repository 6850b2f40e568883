package sweep

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/assay-bench/assay/result"
)

// Run is one run of a sweep and what it concluded; Stage is nil if it did not
// come so far.
type Run struct {
	Cell   Cell
	Result result.SweepRun
	Stage  *result.Stage
}

// Conclude summarises runs by stage, and looks at how each series scales over its
// STABLE points. quick leaves out tails, for which such short runs have no sample,
// and takes UNDECIDED for good enough. The runs may come in any order.
func Conclude(stages []Stage, runs []Run, quick bool, seed uint64) ([]result.SweepStage, []result.Scaling) {
	runs = slices.Clone(runs)
	slices.SortStableFunc(runs, func(a, b Run) int { return cmp.Compare(a.Cell.Repeat, b.Cell.Repeat) })
	out := make([]result.SweepStage, len(stages))
	points := make([]point, len(stages))
	for i, s := range stages {
		out[i] = result.SweepStage{Name: s.Name, Series: s.Series, Settings: make(map[string]string)}
		if s.Climbs {
			out[i].Load = &stages[i].Load
		}
		for _, v := range s.Settings {
			out[i].Settings[v.Key] = v.Value
		}
		var whole []*result.Stage
		for _, r := range runs {
			if r.Cell.Stage != i {
				continue
			}
			out[i].Runs = append(out[i].Runs, told(r))
			if r.Stage != nil && r.Result.State == result.CellDone {
				whole = append(whole, r.Stage)
			}
		}
		summarise(&out[i], whole, quick)
		points[i], out[i].Excluded = pointOf(s, out[i].Runs, whole, quick)
	}
	return out, scalings(stages, points, seed)
}

// told adds to a run what its stage says of its validity.
func told(r Run) result.SweepRun {
	out := r.Result
	out.Repeat = r.Cell.Repeat
	st := r.Stage
	if st == nil {
		return out
	}
	out.Client, out.ClientCause = st.Client.Verdict, st.Client.Cause
	out.Stability, out.StabilityCause = st.Stability.Verdict, st.Stability.Cause
	out.UntilCI = st.UntilCIMissed()
	out.Warmup, out.Balances = st.Warmup.Capped, st.Ledger.Balances()
	out.Due, out.Completed = st.Ledger.Requests, st.Ledger.Completed
	return out
}

func summarise(into *result.SweepStage, runs []*result.Stage, quick bool) {
	for _, f := range []struct {
		to *(*result.Spread)
		of figure
	}{
		{&into.TTFTp50, TTFTp50}, {&into.TTFTp99, TTFTp99}, {&into.TPOTMean, TPOTMean}, {&into.E2Ep50, E2Ep50},
		{&into.OutputTPS, perSecond("output_tps")}, {&into.RPS, perSecond("rps")}, {&into.InFlight, inFlight},
		{&into.Goodput, goodput}, {&into.GoodputRate, goodputRate},
		{&into.ServerQueue, serverMean("queue")}, {&into.ServerPrefill, serverMean("prefill")},
	} {
		*f.to = spread(runs, f.of)
	}
	if quick {
		into.TTFTp99 = nil
	}
}

// point is a stage as a point of a curve: the runs that may be taken for a steady
// state.
type point struct{ runs []*result.Stage }

// pointOf takes the runs that are STABLE and of a VALID client, if they are more
// than half of those that completed; else it says why there is no point.
func pointOf(s Stage, told []result.SweepRun, runs []*result.Stage, quick bool) (p point, excluded string) {
	var doubts []string
	for _, st := range runs {
		steady := st.Stability.Verdict == result.Stable || quick && st.Stability.Verdict == result.Undecided
		switch {
		case st.Client.Verdict == result.Invalid:
			doubts = append(doubts, "client INVALID: "+st.Client.Cause)
		case !steady:
			doubts = append(doubts, cmp.Or(st.Stability.Verdict, result.NotChecked)+": "+st.Stability.Cause)
		default:
			p.runs = append(p.runs, st)
		}
	}
	switch {
	case !s.Climbs:
		return point{}, "no load is swept"
	case len(runs) == 0 && len(told) > 0 && told[0].Error != "":
		return point{}, told[0].State + ": " + told[0].Error
	case len(runs) == 0:
		return point{}, "it was not run"
	case 2*len(p.runs) <= len(runs):
		return point{}, fmt.Sprintf("%d of %d runs are not STABLE and of a VALID client; the first: %s", len(doubts), len(runs), doubts[0])
	}
	return p, ""
}
