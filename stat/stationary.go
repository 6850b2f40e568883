package stat

import (
	"math"
	"slices"
)

// mserBatch is the batch length that gives MSER-5 its name.
const mserBatch = 5

// Truncation is the verdict of [MSER5].
type Truncation struct {
	N       int  // observations looked at
	At      int  // observations to discard from the start, a multiple of 5
	AtBound bool // At is the largest that was considered: the series is too short or has not settled
	OK      bool // false with fewer than three batches of five: no verdict
}

// InFirstThird reports whether the series settled early enough to be believed:
// a verdict exists and the truncation point lies in the first third.
func (t Truncation) InFirstThird() bool { return t.OK && !t.AtBound && 3*t.At < t.N }

// MSER5 finds how many observations of a series in time order belong to the
// initial transient: with means Z of b batches of five, the d in [0, b/2] that
// minimises sum over j > d of (Z(j)-mean)^2 / (b-d)^2 (White, "An Effective
// Truncation Heuristic for Bias Reduction in Simulation Output", Simulation 69,
// 1997; Spratt 1998). Ties go to the smaller d. Linear in len(series).
func MSER5(series []float64) Truncation {
	b := len(series) / mserBatch
	t := Truncation{N: len(series), OK: b >= 3}
	if !t.OK {
		return t
	}
	// Welford from the back: after batch d is added, (mean, m2) describe Z(d..b).
	var mean, m2, count float64
	best, at := math.Inf(1), 0
	for d := b - 1; d >= 0; d-- {
		z := Mean(series[d*mserBatch : (d+1)*mserBatch])
		count++
		delta := z - mean
		mean += delta / count
		m2 += delta * (z - mean)
		if d <= b/2 && m2/(count*count) <= best {
			best, at = m2/(count*count), d
		}
	}
	t.At, t.AtBound = at*mserBatch, at == b/2
	return t
}

// ChangePoint is the verdict of [CUSUM].
type ChangePoint struct {
	At        int     // observations before the most likely change
	Statistic float64 // max |S(k)| / (long-run sd * sqrt(n))
	Changed   bool    // there is a verdict, and Statistic exceeds the 5 % critical value
	OK        bool    // there is a verdict
	Why       Refusal // why there is none
}

// cusumCritical is the 95 % point of the supremum of a Brownian bridge
// (Kolmogorov's distribution).
const cusumCritical = 1.358

// CUSUM tests a series in time order for one change of its mean, with
// S(k) = sum over i <= k of (y(i)-mean), against the 5 % critical value 1.358.
// The long-run standard deviation comes from batch means, chosen as for
// [MeanInterval], about the means before and after the candidate, so that a
// real change does not hide itself by inflating the scale. Where those batch
// means stay correlated a change cannot be told from a long memory or a drift,
// and there is no verdict; [MannKendall] is the test for a drift.
//
// Measured share of false changes at a nominal 5 % (2,000 AR(1) series each):
// independent 5 % (n = 100) and 5 % (1,000); phi 0.5: 15 % (100) and 6 %
// (1,000); phi 0.9: 10 % (1,000) and 7 % (5,000), with no verdict in 95 % of
// series of 100.
func CUSUM(series []float64) ChangePoint {
	n := len(series)
	if n < MinBatches {
		return ChangePoint{Why: TooFewBatches}
	}
	mean := Mean(series)
	var s, peak float64
	at := 0
	for i, y := range series[:n-1] {
		s += y - mean
		if math.Abs(s) > peak {
			peak, at = math.Abs(s), i+1
		}
	}
	if at == 0 { // nothing varies, so nothing changed
		return ChangePoint{OK: true}
	}
	rest := slices.Clone(series)
	for _, part := range [][]float64{rest[:at], rest[at:]} {
		m := Mean(part)
		for i := range part {
			part[i] -= m
		}
	}
	c := chooseBatches(rest)
	if c.longRun == 0 {
		// Exactly two constant levels: nothing but the change varies.
		return ChangePoint{At: at, Statistic: math.Inf(1), Changed: true, OK: true}
	}
	b := float64(c.count)
	longRun := c.longRun * (b - 1) / (b - 2) // two means were taken out, not one
	stat := peak / math.Sqrt(longRun*float64(n))
	change := ChangePoint{At: at, Statistic: stat, Why: c.why}
	change.OK = c.why == ""
	change.Changed = change.OK && stat > cusumCritical
	return change
}

// The seed's warm-up heuristic: windows, their length, and the change allowed.
const (
	medianWindow  = 10
	medianChanges = 3
	medianLimit   = 0.02
)

// MedianRule is the protocol's warm-up heuristic: medians of disjoint windows
// of 10 observations; it fires when 3 successive relative changes (4 windows)
// are each below 2 %. at is the number of observations seen when it fired. It
// is shown beside [MSER5] rather than trusted: at a coefficient of variation of
// 0.5 it fires on 4 % of stationary series, and it can fire on drifting ones.
func MedianRule(series []float64) (at int, fired bool) {
	run := 0
	previous := math.NaN()
	for end := medianWindow; end <= len(series); end += medianWindow {
		m := medianOf(series[end-medianWindow : end])
		if math.Abs(m-previous) < medianLimit*math.Abs(previous) || m == previous {
			run++
		} else {
			run = 0
		}
		if run == medianChanges {
			return end, true
		}
		previous = m
	}
	return 0, false
}
