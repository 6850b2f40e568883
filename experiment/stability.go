package experiment

import (
	"fmt"
	"math"
	"slices"

	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/result"
	"github.com/assay-bench/assay/stat"
)

const (
	// alpha of the stability tests (MEASUREMENT.md section 5).
	alpha = 0.01
	// bins of the window over which trends are tested, and the fewest requests
	// that they may hold together: three a bin.
	bins       = 20
	leastInBin = 3
	// openResidences and closedResidences are the least window in units of the mean
	// residence. In a closed loop the number in flight cannot wander.
	openResidences, closedResidences = 10, 5
	// tenth is how fast requests pile up at 1.1 times capacity, as a share of the
	// arrivals: what a STABLE stage must exclude.
	tenth = 0.1 / 1.1
	// grossly is from how many tolerances on missing ends need no other witness.
	grossly = 2
	// material is the change over the window, as a share of its mean, below which
	// even a significant trend is no reason to doubt a stage.
	material = 0.10
)

// life is one attempt as the stability tests need it.
type life struct {
	scheduled, begun, ended record.Stamp
	completed               bool
	e2e                     float64 // ms, 0 if unknown
}

// stability gathers the lives of all attempts of a stage, whatever their phase:
// in-flight counts everyone.
type stability struct {
	info  result.StageInfo
	lives []life
}

func (s *stability) add(a *record.Attempt) {
	if a.Sent == 0 || a.Ended == 0 {
		return
	}
	l := life{scheduled: a.Scheduled, begun: a.Sent, ended: a.Ended, completed: a.Outcome == record.Completed}
	end := a.LastText
	if !end.Known() {
		end = a.EOF
	}
	if d, ok := end.Since(a.Sent); ok {
		l.e2e = float64(d) / 1e6
	}
	s.lives = append(s.lives, l)
}

// verdict tests whether the window was a steady state.
func (s *stability) verdict() result.StabilityVerdict {
	w := s.info.Window
	due, done := 0, 0
	for _, l := range s.lives {
		if w.Contains(l.scheduled) {
			due++
		}
		if w.Contains(l.ended) {
			done++
		}
	}
	if w.Length() <= 0 || min(due, done) < bins*leastInBin {
		return result.StabilityVerdict{
			Verdict: result.Undecided,
			Cause: fmt.Sprintf("too short to tell: %d requests became due and %d ended in the window, %d of each are needed: give a longer --duration, or --requests %[3]d",
				due, done, bins*leastInBin),
		}
	}
	v := s.closedLoop()
	if s.info.OpenLoop {
		v = s.openLoop(due, done)
	}
	if v.Verdict == result.Stable && s.info.Warmup.Capped != "" {
		v.Verdict, v.Cause = result.Undecided, "the warm-up was not stabilised, so that what the window shows may still be on its way"
	}
	return v
}

// openLoop needs the trend and the balance to agree on both sides: each of them
// alone errs where traffic is bursty and the window short.
func (s *stability) openLoop(due, done int) result.StabilityVerdict {
	inFlight := s.inFlightByBin()
	overload := tenth * float64(due) / s.info.Window.Length().Seconds()
	trend := s.trendCheck("in-flight trend", "requests", inFlight, 1, alpha)
	trend.excluded = trend.hi90 < overload
	balance := s.balanceCheck(due, done)
	little := s.littleCheck(stat.Mean(inFlight))
	length := s.lengthCheck(openResidences)
	v := result.StabilityVerdict{Verdict: result.Stable, Checks: []result.Check{trend.Check, balance.Check, little, s.drainCheck(), length}}
	switch {
	case balance.short > grossly, balance.short > 1 && trend.rising:
		v.Verdict, v.Cause = result.Unstable, balance.Text+"; "+trend.Text
	case !trend.OK && trend.slope > 0 && length.OK:
		v.Verdict, v.Cause = result.Unstable, trend.Text
	case !trend.OK && trend.slope > 0:
		v.Verdict, v.Cause = result.Undecided, trend.Text+": it may be the begin of a queue that grows, or chance: "+length.Text
	case !trend.OK:
		v.Verdict, v.Cause = result.Undecided, trend.Text+": the window opened on a backlog"
	case !balance.OK:
		v.Verdict, v.Cause = result.Undecided, balance.Text
	case !length.OK:
		v.Verdict, v.Cause = result.Undecided, length.Text
	case !trend.excluded && math.IsInf(trend.hi90, 0):
		v.Verdict, v.Cause = result.Undecided, fmt.Sprintf("too short to tell: there is no interval for how fast the number in flight may rise, and at a tenth over capacity it would by %s/s: give a longer --duration",
			num(overload))
	case !trend.excluded:
		v.Verdict, v.Cause = result.Undecided, fmt.Sprintf("too short to tell: the number in flight may rise by up to %s/s (95 %%, one-sided), and at a tenth over capacity it would by %s/s: give a longer --duration",
			num(trend.hi90), num(overload))
	case !little.OK:
		v.Verdict, v.Cause = result.Undecided, little.Text
	}
	return v
}

func (s *stability) closedLoop() result.StabilityVerdict {
	rate, latency := s.completionsByBin()
	// Two looks at one loop: each at half of alpha.
	checks := []trendResult{s.trendCheck("completion rate trend", "completions/s", rate, 0, alpha/2)}
	if latency != nil {
		checks = append(checks, s.trendCheck("E2E trend", "ms", latency, 0, alpha/2))
	}
	v := result.StabilityVerdict{Verdict: result.Stable}
	for _, c := range checks {
		v.Checks = append(v.Checks, c.Check)
		if !c.OK && v.Cause == "" {
			v.Verdict, v.Cause = result.Unstable, c.Text
		}
	}
	length := s.lengthCheck(closedResidences)
	v.Checks = append(v.Checks, s.drainCheck(), length)
	switch {
	case length.OK:
	case v.Verdict == result.Stable:
		v.Verdict, v.Cause = result.Undecided, length.Text
	default:
		v.Verdict, v.Cause = result.Undecided, v.Cause+"; but "+length.Text
	}
	return v
}

type trendResult struct {
	result.Check
	slope    float64 // per second
	hi90     float64 // upper end of its 90 % interval
	rising   bool    // materially, and significantly if there were no memory
	excluded bool    // an overload of a tenth is
}

// trendCheck asks for a monotone trend over the bins that is both significant and
// material, and gives its slope with an interval. least is the smallest change
// over the window, in the series' own unit, that counts at all.
func (s *stability) trendCheck(name, unit string, series []float64, least, level float64) trendResult {
	t := stat.TrendOf(series, 1-level)
	mean := stat.Mean(series)
	counts := max(least, material*mean)
	change := t.PerStep * float64(len(series)-1)
	step := s.info.Window.Length().Seconds() / float64(len(series))
	slope, lo, hi := t.PerStep/step, t.Lo/step, t.Hi/step
	c := result.Check{
		Name: name, Value: &slope, Unit: unit + "/s", Threshold: new(counts / (step * float64(len(series)-1))),
		OK: !(t.P < level) || math.Abs(change) < counts,
	}
	interval := fmt.Sprintf("%.3g %% interval %s to %s", 100*(1-level), signed(lo), signed(hi))
	if math.IsInf(lo, 0) || math.IsInf(hi, 0) {
		interval = "no interval" // the bins remember too much of each other for any
	}
	c.Text = fmt.Sprintf("%s: %s %s/s (%s), %s over the window about a mean of %s (%s; from ±%s on it counts)",
		name, signed(slope), unit, interval, signed(change), num(mean), probability(t.P), num(counts))
	return trendResult{
		Check: c, slope: slope, hi90: stat.TrendOf(series, 0.90).Hi / step,
		rising: slope > 0 && change >= counts && stat.MannKendall(series).P < level,
	}
}

// inFlightByBin is the time-weighted number of attempts in flight in each bin.
func (s *stability) inFlightByBin() []float64 {
	w := s.info.Window
	width := float64(w.End-w.Start) / bins
	out := make([]float64, bins)
	for _, l := range s.lives {
		lo, hi := max(l.begun, w.Start), min(l.ended, w.End)
		for b := int(float64(lo-w.Start) / width); lo < hi && b < bins; b++ {
			edge := min(float64(hi-w.Start), float64(b+1)*width)
			out[b] += max(0, edge-max(float64(lo-w.Start), float64(b)*width)) / width
			if edge == float64(hi-w.Start) {
				break
			}
		}
	}
	return out
}

// completionsByBin counts ends in each bin, and averages their E2E; latency is
// nil if some bin has none.
func (s *stability) completionsByBin() (rate, latency []float64) {
	w := s.info.Window
	rate, latency = make([]float64, bins), make([]float64, bins)
	timed := make([]float64, bins)
	for _, l := range s.lives {
		if !l.completed || !w.Contains(l.ended) {
			continue
		}
		b := min(bins-1, int(float64(l.ended-w.Start)/float64(w.End-w.Start)*bins))
		rate[b]++
		if l.e2e > 0 {
			latency[b] += l.e2e
			timed[b]++
		}
	}
	for b := range latency {
		latency[b] /= timed[b]
	}
	if slices.Contains(timed, 0) {
		latency = nil
	}
	return rate, latency
}

type balanceResult struct {
	result.Check
	short float64 // ends that are missing, in units of the tolerance
}

// balanceCheck compares ends with arrivals: within 3/sqrt(n).
func (s *stability) balanceCheck(due, done int) balanceResult {
	ratio, tolerance := float64(done)/float64(due), 3/math.Sqrt(float64(due))
	return balanceResult{result.Check{
		Name: "completions against arrivals", Value: &ratio, Threshold: &tolerance, Unit: "ratio (tolerance about 1)",
		OK:   math.Abs(ratio-1) <= tolerance,
		Text: fmt.Sprintf("%d ended against %d arrivals in the window (ratio %.3f, allowed 1 ± %.3f)", done, due, ratio, tolerance),
	}, (1 - ratio) / tolerance}
}

// lengthCheck compares the window with the mean residence of those that ended in
// it: what a stage remembers lasts a few of them.
func (s *stability) lengthCheck(least float64) result.Check {
	w := s.info.Window
	var residence float64
	n := 0
	for _, l := range s.lives {
		if l.completed && w.Contains(l.ended) {
			residence += float64(l.ended-l.begun) / 1e9
			n++
		}
	}
	residence /= float64(n)
	times := w.Length().Seconds() / residence
	c := result.Check{Name: "window length", Value: &times, Threshold: &least, Unit: "mean residence times", OK: times >= least}
	if n == 0 {
		c.Value, c.OK, c.Text = nil, true, "window length: nothing completed in it"
		return c
	}
	c.Text = fmt.Sprintf("the window of %.3g s is %.3g times the mean residence of %.3g s (at least %g are needed)", w.Length().Seconds(), times, residence, least)
	if !c.OK {
		c.Text += fmt.Sprintf(": give --duration %.0fs or more", math.Ceil(least*residence))
	}
	return c
}

// ShortWindow says that a window is too short for a verdict on stability, going by
// the residence times of the warm-up; it is "" where it is not, where they are not
// known, and where the window's end is not declared. It can be asked as soon as the
// window is open.
func ShortWindow(i *result.StageInfo) string {
	least := float64(closedResidences)
	if i.OpenLoop {
		least = openResidences
	}
	window, residence := i.Window.Length(), i.Warmup.MeanResidence
	if residence <= 0 || window <= 0 || window.Seconds() >= least*residence.Seconds() {
		return ""
	}
	return fmt.Sprintf("the window of %s s is %s times the mean residence in the warm-up, %s s: for a verdict on stability at least %g are needed: give --duration %.0fs or more",
		num(window.Seconds()), num(window.Seconds()/residence.Seconds()), num(residence.Seconds()), least, math.Ceil(least*residence.Seconds()))
}

// littleCheck compares the mean in flight with rate times mean residence of the
// attempts that ended in the window.
func (s *stability) littleCheck(inFlight float64) result.Check {
	w := s.info.Window
	var residence float64
	n := 0
	for _, l := range s.lives {
		if w.Contains(l.ended) {
			residence += float64(l.ended-l.begun) / 1e9
			n++
		}
	}
	expected := residence / w.Length().Seconds() // (n / T) * (residence / n)
	off, tolerance := inFlight/max(expected, 1e-9)-1, max(0.10, 3/math.Sqrt(float64(max(n, 1))))
	return result.Check{
		Name: "Little's law", Value: &off, Threshold: &tolerance, Unit: "relative difference", OK: math.Abs(off) <= tolerance,
		Text: fmt.Sprintf("mean in flight %.2f against rate × residence %.2f (%+.1f %%, allowed ± %.0f %%)", inFlight, expected, 100*off, 100*tolerance),
	}
}

// drainCheck tells how long the window's members took to end after it closed.
// It is shown and decides nothing: long outputs drain long without any queue.
func (s *stability) drainCheck() result.Check {
	w := s.info.Window
	last := w.End
	for _, l := range s.lives {
		if w.Contains(l.scheduled) {
			last = max(last, l.ended)
		}
	}
	d := float64(last-w.End) / 1e9
	return result.Check{Name: "drain time", Value: &d, Unit: "s", OK: true,
		Text: fmt.Sprintf("the last member ended %.2f s after the window closed", d)}
}
