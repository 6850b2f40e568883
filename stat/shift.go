package stat

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// MannWhitneyBelow returns the exact one-sided p of the hypothesis that y does
// not lie below x: a small p shows that it does. Up to 40 values together the p
// is exact, given the ties; beyond, it is the normal approximation of
// [MannWhitney]. NaN if a sample is empty.
func MannWhitneyBelow(x, y []float64) float64 {
	n, m := len(x), len(y)
	if n == 0 || m == 0 {
		return math.NaN()
	}
	if n+m > maxExactRank {
		two := MannWhitney(x, y)
		if two.Delta <= 0 {
			return two.P / 2
		}
		return 1 - two.P/2
	}
	ranks, _ := doubledRanks(slices.Concat(x, y))
	sum := 0
	for _, r := range ranks[n:] {
		sum += r
	}
	ways := rankSums(ranks, m)
	var below, all float64
	for s, w := range ways {
		all += w
		if s <= sum {
			below += w
		}
	}
	return below / all
}

// MinExactOneSidedP is the smallest p that [MannWhitneyBelow] can give,
// 1/C(n+m, n); 1 if a side is empty.
func MinExactOneSidedP(n, m int) float64 {
	switch {
	case n < 1 || m < 1:
		return 1
	case n == 1 && m == 1: // the two-sided one is capped at 1
		return 0.5
	}
	return MinExactP(n, m) / 2
}

// HodgesLehmannInterval returns the exact interval of the shift of y against x
// that belongs to the rank test: all shifts that it would not reject at
// 1 - level (Lehmann 1963, "Nonparametric confidence intervals for a shift
// parameter"). Its end points are pairwise differences. ok is false where the
// samples are too small for that level, as 3 against 3 are for 95 %.
func HodgesLehmannInterval(x, y []float64, level float64) (lo, hi float64, ok bool) {
	n, m := len(x), len(y)
	if n == 0 || m == 0 || n*m > maxPairs {
		return 0, 0, false
	}
	k := rankCut(n, m, (1-level)/2)
	if k < 1 {
		return 0, 0, false
	}
	shifts := make([]float64, 0, n*m)
	for _, a := range x {
		for _, b := range y {
			shifts = append(shifts, b-a)
		}
	}
	slices.Sort(shifts)
	return shifts[k-1], shifts[len(shifts)-k], true
}

// rankCut is the largest k with P(U <= k-1) <= tail, U the Mann-Whitney count of
// n against m without ties.
func rankCut(n, m int, tail float64) int {
	if n+m > maxExactRank {
		nm := float64(n) * float64(m)
		sd := math.Sqrt(nm * float64(n+m+1) / 12)
		return int(math.Floor(nm/2 - sd*distuv.UnitNormal.Quantile(1-tail) + 0.5))
	}
	ranks := make([]int, n+m)
	for i := range ranks {
		ranks[i] = i + 1
	}
	ways := rankSums(ranks, m)
	var all, sum float64
	for _, w := range ways {
		all += w
	}
	least := m * (m + 1) / 2
	k := 0
	for s := least; s < len(ways); s++ {
		sum += ways[s]
		if sum > all*tail*(1+1e-12) {
			break
		}
		k = s - least + 1
	}
	return k
}

// rankSums counts the m-subsets of ranks by their sum.
func rankSums(ranks []int, m int) []float64 {
	total := 0
	for _, r := range ranks {
		total += r
	}
	ways := make([][]float64, m+1)
	for k := range ways {
		ways[k] = make([]float64, total+1)
	}
	ways[0][0] = 1
	for seen, r := range ranks {
		for k := min(seen+1, m); k >= 1; k-- {
			for s := total; s >= r; s-- {
				ways[k][s] += ways[k-1][s-r]
			}
		}
	}
	return ways[m]
}

// PairedShift returns the Hodges-Lehmann estimate of paired differences, the
// median of their Walsh averages (Hodges and Lehmann 1963); NaN for none.
func PairedShift(differences []float64) float64 {
	if len(differences) == 0 {
		return math.NaN()
	}
	return Median(walsh(differences))
}

// walsh are the averages of all pairs, each value with itself too, ascending.
func walsh(d []float64) []float64 {
	averages := make([]float64, 0, len(d)*(len(d)+1)/2)
	for i, a := range d {
		for _, b := range d[i:] {
			averages = append(averages, middle(a, b))
		}
	}
	slices.Sort(averages)
	return averages
}

// PairedShiftInterval returns the exact interval of [PairedShift] that belongs to
// Wilcoxon's signed-rank test. ok is false where there are too few pairs for the
// level (6 are needed for 95 %), or more than 60.
func PairedShiftInterval(differences []float64, level float64) (lo, hi float64, ok bool) {
	n := len(differences)
	if n == 0 || n > 60 {
		return 0, 0, false
	}
	ways := make([]float64, n*(n+1)/2+1) // subsets of 1..n by their sum
	ways[0] = 1
	for r := 1; r <= n; r++ {
		for s := len(ways) - 1; s >= r; s-- {
			ways[s] += ways[s-r]
		}
	}
	limit := math.Ldexp(1, n) * (1 - level) / 2 * (1 + 1e-12)
	k, sum := 0, 0.
	for s, w := range ways {
		if sum += w; sum > limit {
			break
		}
		k = s + 1
	}
	if k < 1 {
		return 0, 0, false
	}
	averages := walsh(differences)
	return averages[k-1], averages[len(averages)-k], true
}

// SignFlipBelow returns the exact one-sided p of the hypothesis that paired
// differences are not below 0 on average. ok as for [SignFlip].
func SignFlipBelow(differences []float64) (p float64, ok bool) {
	return signFlips(differences, func(sum, observed, tolerance float64) bool { return sum <= observed+tolerance })
}

// QuantileShift is by how much a quantile of y lies above that of x.
type QuantileShift struct {
	P    float64
	X, Y float64 // medians over the runs of each run's quantile
	// Lo and Hi bound Y - X; NaN where a side has no run with values.
	Lo, Hi float64
}

// maxInner is how many resamples a run has at the inner level, and innerWork how
// many values they may touch together: long runs have fewer, since their own
// scatter is small beside that between runs.
const (
	maxInner  = 200
	minInner  = 25
	innerWork = 20_000_000
)

// TwoLevelShift returns the shift function at the quantiles ps, for runs of
// values in time order: the difference of the medians over runs of each run's
// quantile (type 7), with the percentile interval of a two-level bootstrap: runs
// are drawn with replacement, and in each drawn run circular blocks of requests,
// whose length is that of [BootstrapMean]. Fewer than four runs a side make the
// interval too narrow: the caller is to say so. The same seed gives the same
// interval.
func TwoLevelShift(x, y [][]float64, ps []float64, level float64, seed uint64) []QuantileShift {
	rng := rand.New(rand.NewPCG(seed, 0xd1b54a32d192ed03))
	bx, by := newTwoLevel(x, ps, rng), newTwoLevel(y, ps, rng)
	out := make([]QuantileShift, len(ps))
	shifts := make([]float64, resamples)
	for i, p := range ps {
		out[i] = QuantileShift{P: p, X: bx.centre(i), Y: by.centre(i), Lo: math.NaN(), Hi: math.NaN()}
		if len(bx.runs) == 0 || len(by.runs) == 0 {
			continue
		}
		for j := range shifts {
			shifts[j] = by.draw(i, rng) - bx.draw(i, rng)
		}
		slices.Sort(shifts)
		lo, hi := percentileRanks(level)
		out[i].Lo, out[i].Hi = shifts[lo], shifts[hi]
	}
	return out
}

// twoLevel holds a side: of each run its quantiles and their resamples.
type twoLevel struct {
	runs  []resampledRun
	drawn []float64
}

type resampledRun struct {
	quantiles []float64
	inner     [][]float64 // by quantile, by resample
}

func newTwoLevel(runs [][]float64, ps []float64, rng *rand.Rand) *twoLevel {
	t := &twoLevel{}
	total := 0
	for _, r := range runs {
		total += len(r)
	}
	inner := maxInner
	if total > 0 {
		inner = max(minInner, min(maxInner, innerWork/total))
	}
	for _, r := range runs {
		if len(r) > 0 {
			t.runs = append(t.runs, resample(r, ps, inner, rng))
		}
	}
	t.drawn = make([]float64, len(t.runs))
	return t
}

// resample draws circular blocks of a run. Values are counted by their rank, so
// that no resample is sorted.
func resample(series, ps []float64, inner int, rng *rand.Rand) resampledRun {
	n := len(series)
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		switch {
		case series[a] < series[b]:
			return -1
		case series[a] > series[b]:
			return 1
		}
		return 0
	})
	sorted := make([]float64, n)
	rank := make([]int32, n)
	for r, i := range order {
		sorted[r], rank[i] = series[i], int32(r)
	}
	run := resampledRun{quantiles: make([]float64, len(ps)), inner: make([][]float64, len(ps))}
	for i, p := range ps {
		run.quantiles[i] = Quantile(sorted, p, Type7)
		run.inner[i] = make([]float64, inner)
	}
	length := max(1, min(n, chooseBatches(series).length))
	counts := make([]int32, n)
	for j := range inner {
		clear(counts)
		for drawn := 0; drawn < n; {
			start := rng.IntN(n)
			for k := range min(length, n-drawn) {
				counts[rank[(start+k)%n]]++
			}
			drawn += min(length, n-drawn)
		}
		countedQuantiles(sorted, counts, ps, func(i int, v float64) { run.inner[i][j] = v })
	}
	return run
}

// countedQuantiles gives the type 1 quantiles of sorted values that occur counts
// times. ps ascend.
func countedQuantiles(sorted []float64, counts []int32, ps []float64, put func(i int, v float64)) {
	n := len(sorted)
	seen, at := 0, -1
	for i, p := range ps {
		need := max(1, int(math.Ceil(float64(n)*p*(1-quantileFuzz))))
		for seen < need {
			at++
			seen += int(counts[at])
		}
		put(i, sorted[at])
	}
}

func (t *twoLevel) centre(i int) float64 {
	for j := range t.runs {
		t.drawn[j] = t.runs[j].quantiles[i]
	}
	slices.Sort(t.drawn)
	return Median(t.drawn)
}

// draw is the median over drawn runs of a drawn quantile of each.
func (t *twoLevel) draw(i int, rng *rand.Rand) float64 {
	for j := range t.drawn {
		inner := t.runs[rng.IntN(len(t.runs))].inner[i]
		t.drawn[j] = inner[rng.IntN(len(inner))]
	}
	slices.Sort(t.drawn)
	return Median(t.drawn)
}
