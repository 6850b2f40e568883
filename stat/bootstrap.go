package stat

import (
	"math"
	"math/rand/v2"
	"slices"
)

// resamples of a bootstrap interval. The end points of a 95 % interval are the
// 25th and 975th of them.
const resamples = 1000

// blocks is a fixed set of circular block resamples of a series: of each, the
// starts of its blocks. Fixing them makes every quantity of a resample a
// function of the data alone, and F*(x) monotone in x for each of them.
type blocks struct {
	n, length int
	starts    [][]int
}

func drawBlocks(n int, c batching, seed uint64) blocks {
	rng := rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))
	starts := make([][]int, resamples)
	for i := range starts {
		starts[i] = make([]int, c.count)
		for j := range starts[i] {
			starts[i][j] = rng.IntN(n)
		}
	}
	return blocks{n: n, length: c.length, starts: starts}
}

// means returns the mean of each resample of a series, by running sums over the
// series laid out twice: a resample costs its number of blocks, not n.
func (b blocks) means(series []float64) []float64 {
	sums := make([]float64, b.n+b.length+1)
	for i := range b.n + b.length {
		sums[i+1] = sums[i] + series[i%b.n]
	}
	means := make([]float64, len(b.starts))
	for i, starts := range b.starts {
		var total float64
		for _, s := range starts {
			total += sums[s+b.length] - sums[s]
		}
		means[i] = total / float64(len(starts)*b.length)
	}
	return means
}

// BootstrapMean returns the percentile interval of the mean over 1,000 circular
// block resamples (Politis and Romano 1992), with the block length and the
// refusals of [MeanInterval]. The same seed gives the same interval.
//
// Measured coverage at a nominal 95 % (300 AR(1) series each): independent,
// n = 1,000: 96 %; phi 0.9, n = 1,000 / 5,000: 91 / 96 %; phi 0.98, n = 20,000:
// 93 %. It lacks Student's allowance for few blocks; prefer [MeanInterval].
func BootstrapMean(series []float64, level float64, seed uint64) (v Interval, ok bool) {
	c := chooseBatches(series)
	v = Interval{Level: level, NEff: c.nEff, Batches: c.count, Length: c.length, Method: MethodBootstrap}
	if !(level > 0 && level < 1) {
		return v.refuse(BadArgument)
	}
	if c.why != "" {
		return v.refuse(c.why)
	}
	centre := Mean(series)
	shifted := make([]float64, len(series)) // small running sums keep their digits
	for i, x := range series {
		shifted[i] = x - centre
	}
	means := drawBlocks(len(series), c, seed).means(shifted)
	slices.Sort(means)
	lo, hi := percentileRanks(level)
	v.Lo, v.Hi = centre+means[lo], centre+means[hi]
	return v, true
}

// percentileRanks are the 0-based ranks of the end points among the resamples.
func percentileRanks(level float64) (lo, hi int) {
	lo = int(math.Round((1-level)/2*resamples)) - 1
	lo = max(0, lo)
	return lo, resamples - 1 - lo
}

// BootstrapQuantile returns the percentile interval of the p-quantile (type 1)
// over 1,000 circular block resamples, with blocks at least as long as the
// series remembers its exceedances and the refusals of [QuantileInterval].
// The same seed gives the same interval.
//
// Measured coverage at a nominal 95 % for p99 (300 AR(1) series each):
// independent, n = 1,000: 93 %; phi 0.5 and 0.9, n = 5,000: 93 and 92 %. Prefer
// [QuantileInterval].
//
// No resample is ever sorted. With the blocks fixed, the resampled quantile is
// at most x exactly if the resampled share of values at most x reaches p, which
// running sums answer; the end points are found by bisection over the sample.
func BootstrapQuantile(series, sorted []float64, p, level float64, seed uint64) (v Interval, ok bool) {
	v, ok = QuantileInterval(series, sorted, p, level)
	v.Method = MethodBootstrap
	if !ok {
		return v, false
	}
	draws := drawBlocks(len(series), batching{count: v.Batches, length: v.Length}, seed)
	lo, hi := percentileRanks(level)
	v.Lo = draws.quantileOfQuantiles(series, sorted, p, lo)
	v.Hi = draws.quantileOfQuantiles(series, sorted, p, hi)
	return v, true
}

// quantileOfQuantiles returns the resampled p-quantile of 0-based rank r among
// all resamples.
func (b blocks) quantileOfQuantiles(series, sorted []float64, p float64, r int) float64 {
	sums := make([]int32, b.n+b.length+1)
	per := len(b.starts[0]) * b.length
	need := int32(max(1, math.Ceil(float64(per)*p*(1-quantileFuzz))))
	i, _ := slices.BinarySearchFunc(sorted, 0, func(x float64, _ int) int {
		if b.reaching(series, x, need, sums) > r {
			return 0
		}
		return -1
	})
	return sorted[min(i, len(sorted)-1)]
}

// reaching counts the resamples with at least need values at most x.
func (b blocks) reaching(series []float64, x float64, need int32, sums []int32) int {
	var sum int32
	for i, v := range series {
		if v <= x {
			sum++
		}
		sums[i+1] = sum
	}
	for i := range b.length { // once around
		sums[b.n+1+i] = sum + sums[i+1]
	}
	count := 0
	for _, starts := range b.starts {
		var below int32
		for _, s := range starts {
			below += sums[s+b.length] - sums[s]
		}
		if below >= need {
			count++
		}
	}
	return count
}
