package stat

import (
	"math"
	"sort"

	"gonum.org/v1/gonum/mathext"
)

// binomialCDF is P(B <= k) for B ~ Binomial(n, p).
func binomialCDF(n, k int, p float64) float64 {
	switch {
	case k < 0:
		return 0
	case k >= n || p <= 0:
		return 1
	case p >= 1:
		return 0
	}
	return mathext.RegIncBeta(float64(n-k), float64(k+1), 1-p)
}

// OrderStatCI returns the tightest 1-based ranks lo <= hi such that the order
// statistics x(lo) and x(hi) of n independent samples enclose the p-quantile
// with at least the given level: P(B <= lo-1) <= a/2 and P(B <= hi-1) >= 1-a/2
// with B ~ Binomial(n, p) and a = 1-level (David and Nagaraja, "Order
// Statistics", 3rd ed., section 7.1).
//
// ok is false if there are no such ranks: at 95 % for p99 with n < 368, p95
// with n < 72, p90 with n < 36, p50 with n < 6.
//
// It holds for independent samples only and must be labelled iid. Latencies of
// one run are not independent; see [QuantileInterval].
func OrderStatCI(n int, p, level float64) (lo, hi int, ok bool) {
	if n < 1 || !(p > 0 && p < 1) || !(level > 0 && level < 1) {
		return 0, 0, false
	}
	tail := (1 - level) / 2
	// Ranks are monotone in the binomial tail, so each end is a search.
	lo = sort.Search(n, func(k int) bool { return binomialCDF(n, k, p) > tail })
	hi = 1 + sort.Search(n, func(k int) bool { return binomialCDF(n, k, p) >= 1-tail })
	if lo < 1 || hi > n {
		return 0, 0, false
	}
	return lo, hi, true
}

// ClopperPearson returns the exact interval of a proportion after k successes
// in n trials (Clopper and Pearson, Biometrika 26, 1934). It is [0, 1] for
// n < 1, and NaN for k outside [0, n] or a level outside (0, 1).
func ClopperPearson(k, n int, level float64) (lo, hi float64) {
	if n < 1 {
		return 0, 1
	}
	if k < 0 || k > n || !(level > 0 && level < 1) {
		return math.NaN(), math.NaN()
	}
	tail := (1 - level) / 2
	lo, hi = 0, 1
	if k > 0 { // P(B >= k | lo) = tail
		lo = solve(func(p float64) bool { return 1-binomialCDF(n, k-1, p) >= tail })
	}
	if k < n { // P(B <= k | hi) = tail
		hi = solve(func(p float64) bool { return binomialCDF(n, k, p) <= tail })
	}
	return lo, hi
}

// solve returns the smallest p in [0, 1] for which a monotone predicate holds.
// Bisection: 60 evaluations, and no starting point that can fail.
func solve(holds func(p float64) bool) float64 {
	lo, hi := 0., 1.
	for range 60 {
		mid := (lo + hi) / 2
		if holds(mid) {
			hi = mid
		} else {
			lo = mid
		}
	}
	return hi
}
