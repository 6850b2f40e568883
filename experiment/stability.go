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

func (s *stability) openLoop(due, done int) result.StabilityVerdict {
	inFlight := s.inFlightByBin()
	trend := trendCheck("in-flight trend", "requests", inFlight, 1)
	balance := s.balanceCheck(due, done)
	little := s.littleCheck(stat.Mean(inFlight))
	v := result.StabilityVerdict{Verdict: result.Stable, Checks: []result.Check{trend.Check, balance, little, s.drainCheck()}}
	switch {
	case !trend.OK && trend.slope > 0:
		v.Verdict, v.Cause = result.Unstable, trend.Text
	case trend.rising:
		v.Verdict, v.Cause = result.Undecided, trend.Text+": it may be the begin of a queue that grows"
	case !balance.OK && done < due:
		v.Verdict, v.Cause = result.Unstable, balance.Text
	case !trend.OK:
		v.Verdict, v.Cause = result.Undecided, trend.Text+": the window opened on a backlog"
	case !balance.OK:
		v.Verdict, v.Cause = result.Undecided, balance.Text
	case !little.OK:
		v.Verdict, v.Cause = result.Undecided, little.Text
	}
	return v
}

func (s *stability) closedLoop() result.StabilityVerdict {
	rate, latency := s.completionsByBin()
	checks := []trendResult{trendCheck("completion rate trend", "requests per bin", rate, 0)}
	if latency != nil {
		checks = append(checks, trendCheck("E2E trend", "ms", latency, 0))
	}
	v := result.StabilityVerdict{Verdict: result.Stable}
	for _, c := range checks {
		v.Checks = append(v.Checks, c.Check)
		if !c.OK && v.Cause == "" {
			v.Verdict, v.Cause = result.Unstable, c.Text
		}
	}
	return v
}

type trendResult struct {
	result.Check
	slope float64
	// rising: a significant rise that is not material, but no trifle either.
	rising bool
}

// trifle is the change, as a share of the mean, below which a significant rise
// of the number in flight is no reason for doubt.
const trifle = 0.03

// trendCheck asks for a monotone trend over the bins that is both significant
// (Mann-Kendall) and material (Theil-Sen). least is the smallest change in the
// series' own unit that counts at all.
func trendCheck(name, unit string, series []float64, least float64) trendResult {
	index := make([]float64, len(series))
	for i := range index {
		index[i] = float64(i)
	}
	t := stat.MannKendall(series)
	slope := stat.TheilSen(index, series)
	change := slope * float64(len(series)-1)
	mean := stat.Mean(series)
	c := result.Check{
		Name: name, Value: &t.P, Unit: "p (Mann-Kendall)", Threshold: new(alpha),
		OK: !(t.P < alpha) || math.Abs(change) < max(least, material*mean),
	}
	c.Text = fmt.Sprintf("%s: %s %s over the window about a mean of %s (%s; from ±%s on it counts)",
		name, signed(change), unit, num(mean), probability(t.P), num(max(least, material*mean)))
	rising := c.OK && t.P < alpha && slope > 0 && change > max(least, trifle*mean)
	return trendResult{c, slope, rising}
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

// balanceCheck compares ends with arrivals: within 3/sqrt(n).
func (s *stability) balanceCheck(due, done int) result.Check {
	ratio, tolerance := float64(done)/float64(due), 3/math.Sqrt(float64(due))
	return result.Check{
		Name: "completions against arrivals", Value: &ratio, Threshold: &tolerance, Unit: "ratio (tolerance about 1)",
		OK:   math.Abs(ratio-1) <= tolerance,
		Text: fmt.Sprintf("%d ended against %d arrivals in the window (ratio %.3f, allowed 1 ± %.3f)", done, due, ratio, tolerance),
	}
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
