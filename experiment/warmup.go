package experiment

import (
	"fmt"
	"strings"
	"time"

	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/stat"
)

// checkEvery is how many completions pass between two looks at the series.
const checkEvery = 25

// warmup follows the series that tell whether a stage has settled, in order of
// completion.
type warmup struct {
	plan     *Plan
	first    []float64 // TTFT, or E2E where nothing is streamed; ms
	perToken []float64 // TPOT where it is defined; ms
	inFlight []float64 // in flight at each completion
	ticks    []float64 // in flight at each tick: at equal distances in time
	most     float64   // in flight at any tick
	medianAt int       // completions seen when the seed's rule fired, 0 if not

	residence record.Stamp // of all completed requests together
	whole     bool         // first has E2E: something was not streamed
}

// add takes the figures of one completed request. perToken is 0 if undefined.
func (w *warmup) add(first, perToken float64, inFlight int) {
	w.first = append(w.first, first)
	if perToken > 0 {
		w.perToken = append(w.perToken, perToken)
	}
	w.inFlight = append(w.inFlight, float64(inFlight))
}

func (w *warmup) completions() int { return len(w.first) }

// settled applies the rule; it is cheap enough to be asked every checkEvery
// completions.
func (w *warmup) settled() bool {
	if w.medianAt == 0 {
		w.medianAt = w.medianRule()
	}
	switch w.plan.Warmup {
	case NoWarmup:
		return true
	case MedianRule:
		return w.medianAt > 0
	}
	return w.completions() >= w.least() && !w.growing() && settledMSER(w.first) &&
		(len(w.perToken) == 0 || settledMSER(w.perToken)) && settledMSER(w.inFlight)
}

// least is how many completions must be seen before any verdict: in a closed
// loop the first cohort starts together and is not typical, so two cohorts; in an
// open one, twice as many as were ever in flight, since those that end first are
// the ones that came first: of an overloaded server they look fine.
func (w *warmup) least() int { return max(checkEvery, 2*w.plan.Concurrency, 2*int(w.most)) }

// tick takes the number in flight at a moment.
func (w *warmup) tick(inFlight int) {
	w.ticks = append(w.ticks, float64(inFlight))
	w.most = max(w.most, float64(inFlight))
}

// settledMSER reports whether MSER-5 finds the transient in the first third. A
// constant series is settled.
func settledMSER(series []float64) bool {
	return stat.MSER5(series).InFirstThird()
}

// leastTicks is how long an open loop is watched before its queue is judged:
// 5 s of ticks.
const leastTicks = 20

// growing is the stability guard: in an open loop, in-flight that rises over the
// later half of the warm-up shows a queue that will not settle.
func (w *warmup) growing() bool {
	if !w.plan.OpenLoop {
		return false
	}
	if len(w.ticks) < leastTicks {
		return true // not known yet
	}
	late := stat.BatchMeans(w.ticks[len(w.ticks)/2:], 10)
	t := stat.MannKendall(late)
	return t.S > 0 && t.P < alpha && late[len(late)-1] > 1.1*late[0]+1
}

// medianRule returns the completions seen when the seed's rule had fired for
// both TTFT and TPOT, 0 if it has not.
func (w *warmup) medianRule() int {
	a, ok := stat.MedianRule(w.first)
	if !ok {
		return 0
	}
	if len(w.perToken) == 0 {
		return a
	}
	b, ok := stat.MedianRule(w.perToken)
	if !ok {
		return 0
	}
	return max(a, b)
}

// meanResidence of the completed requests, 0 if there are none.
func (w *warmup) meanResidence() time.Duration {
	return time.Duration(w.residence) / time.Duration(max(1, w.completions()))
}

// cusumText says whether the means of the rule's series still change, each from
// where MSER-5 cuts it.
func (w *warmup) cusumText() string {
	first := "TTFT"
	if w.whole {
		first = "E2E"
	}
	var unchanged, changed, untold []string
	var why stat.Refusal
	for _, s := range []struct {
		name   string
		values []float64
	}{{first, w.first}, {"TPOT", w.perToken}, {"in flight", w.inFlight}} {
		if len(s.values) == 0 {
			continue
		}
		cut := stat.MSER5(s.values).At
		switch c := stat.CUSUM(s.values[cut:]); {
		case !c.OK:
			untold, why = append(untold, s.name), c.Why
		case c.Changed:
			changed = append(changed, fmt.Sprintf("%s (after %d of %d values)", s.name, cut+c.At, len(s.values)))
		default:
			unchanged = append(unchanged, s.name)
		}
	}
	var parts []string
	add := func(what string, names []string, after string) {
		if len(names) > 0 {
			parts = append(parts, what+" "+strings.Join(names, ", ")+after)
		}
	}
	add("a change of the mean in", changed, "")
	add("none in", unchanged, "")
	add("no verdict on", untold, ": "+string(why))
	if parts == nil {
		return "no verdict: nothing completed"
	}
	return strings.Join(parts, "; ")
}

// medianText says what the seed's rule found.
func (w *warmup) medianText() string {
	if at := w.medianRule(); at > 0 {
		return fmt.Sprintf("fired after %d completions", at)
	}
	return fmt.Sprintf("did not fire in %d completions", w.completions())
}
