package stat

import "sort"

// EarlyStopMaxOver returns the largest number t of over-latency requests among
// n that still proves, at the given confidence, that the p-quantile is below
// the bound: P(Binomial(n, 1-p) <= t) < 1-confidence. This is the early
// stopping criterion of MLPerf Inference with a tolerance of 0. For p99 at 99 %
// confidence and n = 10,000 it is 77. ok is false if not even t = 0 proves it
// (n < 459 for p99): see [EarlyStopFloor]. Independent samples are assumed.
func EarlyStopMaxOver(n int, p, confidence float64) (t int, ok bool) {
	if n < 1 || !(p > 0 && p < 1) || !(confidence > 0 && confidence < 1) {
		return 0, false
	}
	over := sort.Search(n, func(k int) bool { return binomialCDF(n, k, 1-p) >= 1-confidence })
	return over - 1, over > 0
}

// EarlyStopAccepts reports whether over over-latency requests among n are few
// enough, as [EarlyStopMaxOver] defines it.
func EarlyStopAccepts(n, over int, p, confidence float64) bool {
	t, ok := EarlyStopMaxOver(n, p, confidence)
	return ok && over >= 0 && over <= t
}

// EarlyStopFloor returns the smallest n at which allowed over-latency requests
// are accepted. With 0 allowed it is the least sample that can prove anything
// (459 for p99 at 99 %); with 1 it is the least sample that yields an estimate
// of the quantile (662 for p99, 130 for p95, 64 for p90, 6,636 for p99.9, 11
// for p50). It is 0 if p or confidence lies outside (0, 1).
func EarlyStopFloor(allowed int, p, confidence float64) int {
	if allowed < 0 || !(p > 0 && p < 1) || !(confidence > 0 && confidence < 1) {
		return 0
	}
	enough := func(n int) bool { return binomialCDF(n, allowed, 1-p) < 1-confidence }
	bound := allowed + 1
	for !enough(bound) {
		bound *= 2
	}
	return sort.Search(bound, enough)
}

// EarlyStopEstimate returns MLPerf's conservative estimate of the p-quantile of
// an ascending sample: the t-th largest value with t of [EarlyStopMaxOver]. ok
// is false if t < 1.
func EarlyStopEstimate(sorted []float64, p, confidence float64) (v float64, t int, ok bool) {
	n := len(sorted)
	t, ok = EarlyStopMaxOver(n, p, confidence)
	if !ok || t < 1 {
		return 0, 0, false
	}
	return sorted[n-t], t, true
}
