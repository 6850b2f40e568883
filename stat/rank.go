package stat

import (
	"math"
	"math/bits"
	"slices"
)

// RankTest is the outcome of [MannWhitney].
type RankTest struct {
	U     float64 // pairs with y above x, ties counted half
	P     float64 // two-sided; NaN if a sample is empty
	Delta float64 // Cliff's delta, 2U/(nm)-1: -1 all y below all x, 1 all above
	Exact bool    // P is exact (given the ties), not a normal approximation
}

// maxExactRank is the pooled size up to which the rank test is exact.
const maxExactRank = 40

// MannWhitney compares two independent samples by ranks (Mann and Whitney
// 1947). Up to 40 values together the two-sided p is exact, with ties by the
// permutation distribution of the mid-ranks at hand; beyond, it is the normal
// approximation with corrections for ties and continuity.
func MannWhitney(x, y []float64) RankTest {
	n, m := len(x), len(y)
	if n == 0 || m == 0 {
		return RankTest{U: math.NaN(), P: math.NaN(), Delta: math.NaN()}
	}
	ranks, ties := doubledRanks(slices.Concat(x, y))
	rankSum := 0 // of y, doubled
	for _, r := range ranks[n:] {
		rankSum += r
	}
	nm := float64(n) * float64(m)
	u := float64(rankSum)/2 - float64(m)*float64(m+1)/2
	test := RankTest{U: u, Delta: 2*u/nm - 1, Exact: n+m <= maxExactRank}
	if test.Exact {
		test.P = exactRankP(ranks, m, rankSum)
		return test
	}
	total := float64(n + m)
	tied := 0.
	for _, t := range ties {
		tied += float64(t) * (float64(t)*float64(t) - 1)
	}
	variance := nm / 12 * (total + 1 - tied/(total*(total-1)))
	test.P = 1
	if variance > 0 {
		test.P = twoSided(max(0, math.Abs(u-nm/2)-0.5) / math.Sqrt(variance))
	}
	return test
}

// doubledRanks returns twice the mid-rank of each value, a whole number, and
// how often each distinct value occurs.
func doubledRanks(x []float64) (ranks, counts []int) {
	dense, counts := denseRanks(x)
	mid := make([]int, len(counts))
	before := 0
	for i, c := range counts {
		mid[i] = 2*before + c + 1
		before += c
	}
	ranks = make([]int, len(x))
	for i, d := range dense {
		ranks[i] = mid[d-1]
	}
	return ranks, counts
}

// exactRankP counts the m-subsets of ranks whose sum is at least as far from
// its mean as the observed one. Counts stay below C(40, 20), exact in float64.
func exactRankP(ranks []int, m, observed int) float64 {
	total := 0
	for _, r := range ranks {
		total += r
	}
	// Mean of the sum is m*total/N; compare N times the distances, in integers.
	size := len(ranks)
	far := abs(size*observed - m*total)
	var extreme, all float64
	for s, w := range rankSums(ranks, m) {
		all += w
		if abs(size*s-m*total) >= far {
			extreme += w
		}
	}
	return extreme / all
}

func abs(x int) int { return max(x, -x) }

// MinExactP returns the smallest two-sided exact p that a rank test of n
// against m can give, 2/C(n+m, n): 3 against 3 is 0.10 and never significant at
// 5 %. It is 1 if a side is empty.
func MinExactP(n, m int) float64 {
	if n < 1 || m < 1 {
		return 1
	}
	p := 2.
	for i := 1; i <= n; i++ {
		p *= float64(i) / float64(m+i)
	}
	return min(1, p)
}

// MinSignFlipP returns the smallest two-sided p of a sign-flip test on n pairs,
// 2/2^n. It is 1 for n < 1.
func MinSignFlipP(n int) float64 {
	return min(1, math.Ldexp(2, -max(0, n)))
}

// maxSignFlip is the largest number of pairs that SignFlip enumerates.
const maxSignFlip = 20

// SignFlip returns the exact two-sided p of the mean of paired differences
// under random signs (Fisher's randomisation test). ok is false for no pairs
// and for more than 20, where enumeration ends.
func SignFlip(differences []float64) (p float64, ok bool) {
	return signFlips(differences, func(sum, observed, tolerance float64) bool {
		return math.Abs(sum) >= math.Abs(observed)-tolerance
	})
}

// signFlips is the share of all assignments of signs whose sum is extreme. Sums
// that are equal on paper differ in the last digits: by no more than tolerance.
func signFlips(differences []float64, extreme func(sum, observed, tolerance float64) bool) (p float64, ok bool) {
	n := len(differences)
	if n == 0 || n > maxSignFlip {
		return math.NaN(), false
	}
	var observed, scale float64
	for _, d := range differences {
		observed += d
		scale += math.Abs(d)
	}
	sum, signs := observed, slices.Clone(differences)
	count, all := 0, 1<<n
	for i := 1; i <= all; i++ {
		if extreme(sum, observed, 1e-12*scale) {
			count++
		}
		if i == all {
			break
		}
		flip := bits.TrailingZeros(uint(i)) // Gray code: one sign a step
		sum -= 2 * signs[flip]
		signs[flip] = -signs[flip]
	}
	return float64(count) / float64(all), true
}

// maxPairs is how many pairwise differences HodgesLehmann holds at once.
const maxPairs = 1 << 18

// HodgesLehmann returns the shift of y against x, the median of all y-x
// differences, in the samples' unit; NaN if a sample is empty. Samples of more
// than 262,144 pairs are bisected to 1e-12 of the range rather than enumerated.
func HodgesLehmann(x, y []float64) float64 {
	if len(x) == 0 || len(y) == 0 {
		return math.NaN()
	}
	if len(x)*len(y) <= maxPairs {
		shifts := make([]float64, 0, len(x)*len(y))
		for _, a := range x {
			for _, b := range y {
				shifts = append(shifts, b-a)
			}
		}
		slices.Sort(shifts)
		return Median(shifts)
	}
	x, y = slices.Sorted(slices.Values(x)), slices.Sorted(slices.Values(y))
	pairs := len(x) * len(y)
	return middle(nthShift(x, y, (pairs-1)/2), nthShift(x, y, pairs/2))
}

// nthShift returns the difference y-x of 0-based rank k, for ascending x and y.
func nthShift(x, y []float64, k int) float64 {
	lo, hi := y[0]-x[len(x)-1], y[len(y)-1]-x[0]
	for range 42 { // 2^-42 is 2e-13 of the range
		mid := middle(lo, hi)
		if shiftsUpTo(x, y, mid) > k {
			hi = mid
		} else {
			lo = mid
		}
	}
	return hi
}

// shiftsUpTo counts pairs with y-x <= d by one walk over both samples.
func shiftsUpTo(x, y []float64, d float64) int {
	count, j := 0, 0
	for _, a := range x {
		for j < len(y) && y[j]-a <= d {
			j++
		}
		count += j
	}
	return count
}

// Holm returns the p-values of a family adjusted by Holm's step-down method
// (Scandinavian Journal of Statistics 6, 1979), in the order given: compare
// each with the level of the whole family.
func Holm(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case p[a] < p[b]:
			return -1
		case p[a] > p[b]:
			return 1
		}
		return 0
	})
	adjusted := make([]float64, len(p))
	running := 0.
	for i, at := range order {
		running = max(running, min(1, float64(len(p)-i)*p[at]))
		adjusted[at] = running
	}
	return adjusted
}

// HolmCapacity returns how large a family may be if its smallest attainable p
// is minP and Holm's method shall still be able to reject at alpha. At 5 %: 4
// against 4 runs carry one hypothesis, 5 against 5 six, 6 against 6 twenty-three.
func HolmCapacity(alpha, minP float64) int {
	if !(minP > 0 && alpha > 0) {
		return 0
	}
	return int(min(alpha/minP*(1+1e-12), math.MaxInt32))
}
