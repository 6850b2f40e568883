package stat

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// Trend is the verdict of [MannKendall].
type Trend struct {
	S    int64   // concordant minus discordant pairs
	VarS float64 // variance of S without trend, corrected for ties
	Tau  float64 // Kendall's tau-b against time, -1 to 1
	Z    float64 // normal score with continuity correction
	P    float64 // two-sided; NaN with fewer than 4 values
}

// MannKendall tests a series in time order for a monotone trend (Mann,
// Econometrica 13, 1945; Kendall; tie correction as in Gilbert 1987). It
// assumes independent values: give it batch means, not requests. The normal
// approximation is good from about 10 values. O(n log n).
func MannKendall(series []float64) Trend {
	n := len(series)
	if n < 4 {
		return Trend{VarS: math.NaN(), Tau: math.NaN(), Z: math.NaN(), P: math.NaN()}
	}
	ranks, ties := denseRanks(series)
	seen := make(fenwick, len(ties)+1)
	var s int64
	for i, r := range ranks {
		below := seen.upTo(r - 1)
		above := int64(i) - seen.upTo(r)
		s += below - above
		seen.add(r)
	}
	nf := float64(n)
	pairs := nf * (nf - 1) / 2
	varS, tied := nf*(nf-1)*(2*nf+5), 0.
	for _, t := range ties {
		t := float64(t)
		varS -= t * (t - 1) * (2*t + 5)
		tied += t * (t - 1) / 2
	}
	varS /= 18
	trend := Trend{S: s, VarS: varS, P: 1}
	if varS <= 0 { // all values equal
		return trend
	}
	trend.Tau = float64(s) / math.Sqrt(pairs*(pairs-tied))
	switch {
	case s > 0:
		trend.Z = float64(s-1) / math.Sqrt(varS)
	case s < 0:
		trend.Z = float64(s+1) / math.Sqrt(varS)
	}
	trend.P = twoSided(trend.Z)
	return trend
}

func twoSided(z float64) float64 {
	return min(1, 2*distuv.UnitNormal.CDF(-math.Abs(z)))
}

// denseRanks returns for each value its 1-based rank among the distinct values,
// and how often each distinct value occurs.
func denseRanks(x []float64) (ranks, counts []int) {
	distinct := slices.Sorted(slices.Values(x))
	distinct = slices.Compact(distinct)
	ranks, counts = make([]int, len(x)), make([]int, len(distinct))
	for i, v := range x {
		at, _ := slices.BinarySearch(distinct, v)
		ranks[i] = at + 1
		counts[at]++
	}
	return ranks, counts
}

// fenwick counts ranks: a binary indexed tree.
type fenwick []int64

func (f fenwick) add(rank int) {
	for ; rank < len(f); rank += rank & -rank {
		f[rank]++
	}
}

func (f fenwick) upTo(rank int) (count int64) {
	for ; rank > 0; rank -= rank & -rank {
		count += f[rank]
	}
	return count
}

// maxTheilSen bounds the pairs that TheilSen looks at (about 125,000).
const maxTheilSen = 500

// TheilSen returns the median of the slopes of all pairs with different t, in
// units of y per unit of t (Sen, JASA 63, 1968), NaN if there is none. Pairs
// grow with the square of the sample, so more than 500 points are first
// averaged in 500 adjacent groups; t should ascend then.
func TheilSen(t, y []float64) float64 {
	n := min(len(t), len(y))
	t, y = t[:n], y[:n]
	if n > maxTheilSen {
		t, y = BatchMeans(t, maxTheilSen), BatchMeans(y, maxTheilSen)
	}
	slopes := make([]float64, 0, len(t)*(len(t)+1)/2)
	for i := range t {
		for j := range i {
			if t[i] != t[j] {
				slopes = append(slopes, (y[i]-y[j])/(t[i]-t[j]))
			}
		}
	}
	slices.Sort(slopes)
	return Median(slopes)
}

// Line is a least-squares line.
type Line struct {
	Slope, Intercept float64
	SlopeSE          float64 // standard error for independent residuals; NaN with fewer than 3 points
	N                int
}

// LeastSquares fits y = intercept + slope*t. Slope is NaN with fewer than two
// different t.
func LeastSquares(t, y []float64) Line {
	n := min(len(t), len(y))
	t, y = t[:n], y[:n]
	line := Line{Slope: math.NaN(), Intercept: math.NaN(), SlopeSE: math.NaN(), N: n}
	meanT, meanY := Mean(t), Mean(y)
	var tt, ty float64
	for i := range t {
		tt += (t[i] - meanT) * (t[i] - meanT)
		ty += (t[i] - meanT) * (y[i] - meanY)
	}
	if n < 2 || tt == 0 {
		return line
	}
	line.Slope = ty / tt
	line.Intercept = meanY - line.Slope*meanT
	if n < 3 {
		return line
	}
	var residual float64
	for i := range t {
		r := y[i] - meanY - line.Slope*(t[i]-meanT)
		residual += r * r
	}
	line.SlopeSE = math.Sqrt(residual / float64(n-2) / tt)
	return line
}
