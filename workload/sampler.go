package workload

import (
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"sync"

	"gonum.org/v1/gonum/stat/distuv"
)

// sampler draws lengths of one distribution.
type sampler struct {
	draw func(r *rand.Rand) int
	// quantile is the length at a probability in [0, 1); nil for a mixture. It is
	// monotone, which keeps rank correlations.
	quantile func(u float64) int
	// mean of what is drawn.
	mean float64
}

// byQuantile draws one uniform number a length, so that the same seed gives
// lengths of the same ranks whatever the distribution.
func byQuantile(q func(u float64) int, mean float64) *sampler {
	return &sampler{draw: func(r *rand.Rand) int { return q(r.Float64()) }, quantile: q, mean: mean}
}

// sampler of a length that has the parameters of its distribution.
func (l Length) sampler() (*sampler, error) {
	low, high := l.Bounds()
	switch l.Dist {
	case Fixed, "":
		return &sampler{
			draw:     func(*rand.Rand) int { return l.Tokens },
			quantile: func(float64) int { return l.Tokens },
			mean:     float64(l.Tokens),
		}, nil
	case Uniform:
		return &sampler{
			draw:     func(r *rand.Rand) int { return low + r.IntN(high-low+1) },
			quantile: func(u float64) int { return low + int(u*float64(high-low+1)) },
			mean:     float64(low+high) / 2,
		}, nil
	case Zipf:
		return l.zipf(low, high), nil
	case Quantiles:
		return l.table(low, high), nil
	case Histogram:
		return l.histogram(), nil
	case Mixture:
		return l.mixture()
	}
	return cut(l.continuous(), low, high)
}

// distribution of real lengths or times, before the cut.
type distribution interface {
	CDF(x float64) float64
	Quantile(p float64) float64
}

func (l *Length) continuous() distribution {
	switch l.Dist {
	case Normal:
		sd := l.SD
		if sd == 0 {
			sd = l.CV * l.Mean
		}
		return distuv.Normal{Mu: l.Mean, Sigma: sd}
	case LogNormal:
		if l.Median != 0 {
			return distuv.LogNormal{Mu: math.Log(l.Median), Sigma: l.Sigma}
		}
		return lognormal(l.Mean, l.CV)
	case Gamma:
		k := 1 / (l.CV * l.CV)
		return distuv.Gamma{Alpha: k, Beta: k / l.Mean}
	}
	// From half a token below the shortest, as all lengths are cut.
	return distuv.Pareto{Xm: float64(max(l.Min, 1)) - 0.5, Alpha: l.Alpha}
}

// lognormal of a mean and CV: σ² = ln(1 + CV²), μ = ln mean - σ²/2.
func lognormal(mean, cv float64) distuv.LogNormal {
	s2 := math.Log1p(cv * cv)
	return distuv.LogNormal{Mu: math.Log(mean) - s2/2, Sigma: math.Sqrt(s2)}
}

// leastMass is how much of a distribution must lie within its bounds: with less,
// what is drawn has little to do with what was asked for.
const leastMass = 1e-3

// cut is d on [low-½, high+½], rounded to whole tokens.
func cut(d distribution, low, high int) (*sampler, error) {
	below := func(n float64) float64 { return d.CDF(n + 0.5) }
	a, b := below(float64(low-1)), below(float64(high))
	if !(b-a >= leastMass) {
		return nil, faultf("", "only %.2g of the distribution lies within min %d and max %d: want at least %v", b-a, low, high, leastMass)
	}
	share := func(n int) float64 { return (below(float64(n)) - a) / (b - a) }
	return byQuantile(inverse(share, low, high), cutMean(below, low, high)), nil
}

// inverse is the smallest length n from low to high with cdf(n) > u. It is found
// between knots of a table that is made when the first one is asked for: every
// length at first, further out a 4096th of the way.
func inverse(cdf func(n int) float64, low, high int) func(u float64) int {
	type knots struct {
		at  []int
		cdf []float64
	}
	table := sync.OnceValue(func() *knots {
		k := &knots{}
		for n := low; ; n = min(n+max(1, (n-low)>>12), high) {
			k.at, k.cdf = append(k.at, n), append(k.cdf, cdf(n))
			if n == high {
				return k
			}
		}
	})
	return func(u float64) int {
		k := table()
		i := sort.Search(len(k.at)-1, func(i int) bool { return k.cdf[i] > u })
		if i == 0 {
			return low
		}
		first := k.at[i-1] + 1
		return first + sort.Search(k.at[i]-first, func(j int) bool { return cdf(first+j) > u })
	}
}

// cutMean is low + Σ P(N > n) over n from low to below high. Far out it takes
// the middle of growing blocks, 1/256 of the way at most.
func cutMean(below func(float64) float64, low, high int) float64 {
	a, b := below(float64(low-1)), below(float64(high))
	mean := float64(low)
	for n := low; n < high; {
		block := min(max(1, (n-low)>>8), high-n)
		mean += float64(block) * (b - below(float64(n)+float64(block-1)/2)) / (b - a)
		n += block
	}
	return mean
}

// zipf has P(low+k-1) ∝ k^-s for k = 1 to high-low+1.
func (l *Length) zipf(low, high int) *sampler {
	h := newHarmonic(l.Exponent)
	n := high - low + 1
	all := h.sum(n)
	share := func(v int) float64 { return h.sum(v-low+1) / all }
	return byQuantile(inverse(share, low, high), float64(low-1)+newHarmonic(l.Exponent-1).sum(n)/all)
}

// harmonic sums k^-s: the first terms from a table, the rest by the formula of
// Euler and Maclaurin, whose error is below 1e-12 of the sum there.
type harmonic struct {
	s     float64
	table []float64
}

const harmonicTable = 256

func newHarmonic(s float64) *harmonic {
	h := &harmonic{s: s, table: make([]float64, harmonicTable+1)}
	for k := 1; k <= harmonicTable; k++ {
		h.table[k] = h.table[k-1] + math.Pow(float64(k), -s)
	}
	return h
}

// sum of k^-s for k = 1 to n.
func (h *harmonic) sum(n int) float64 {
	if n <= harmonicTable {
		return h.table[n]
	}
	a, b := float64(harmonicTable), float64(n)
	fa, fb := math.Pow(a, -h.s), math.Pow(b, -h.s)
	// ∫ x^-s = a^(1-s)·(e^((1-s)·ln(b/a)) - 1)/(1-s), also at s = 1.
	ratio := math.Log(b / a)
	integral := a * fa * ratio
	if t := (1 - h.s) * ratio; t != 0 {
		integral *= math.Expm1(t) / t
	}
	return h.table[harmonicTable] + integral + (fb-fa)/2 + h.s/12*(fa/a-fb/b)
}

// table has straight lines between the quantiles that are given, from the
// shortest at 0 to the longest at 1.
func (l *Length) table(low, high int) *sampler {
	ps, xs := []float64{0}, []float64{float64(low)}
	for _, q := range l.quantiles() {
		if *q.at != 0 {
			ps, xs = append(ps, probability(q.name)), append(xs, *q.at)
		}
	}
	ps, xs = append(ps, 1), append(xs, float64(high))
	mean := 0.0
	for i := range len(ps) - 1 {
		mean += (ps[i+1] - ps[i]) * (xs[i+1] + xs[i]) / 2
	}
	return byQuantile(func(u float64) int {
		i, _ := slices.BinarySearch(ps, u)
		i = max(i, 1)
		f := (u - ps[i-1]) / (ps[i] - ps[i-1])
		return int(math.Round(xs[i-1] + f*(xs[i]-xs[i-1])))
	}, mean)
}

func (l *Length) histogram() *sampler {
	bins := slices.DeleteFunc(slices.Clone(l.Bins), func(b Bin) bool { return b.Weight == 0 })
	slices.SortStableFunc(bins, func(a, b Bin) int { return a.Min - b.Min })
	cumulated, mean, total := make([]float64, len(bins)+1), 0.0, 0.0
	for i, b := range bins {
		total += b.Weight
		cumulated[i+1] = total
		mean += b.Weight * float64(b.Min+b.Max) / 2
	}
	return byQuantile(func(u float64) int {
		u *= total
		i, exact := slices.BinarySearch(cumulated, u)
		if !exact {
			i--
		}
		i = min(i, len(bins)-1)
		b := bins[i]
		f := (u - cumulated[i]) / b.Weight
		return min(b.Min+int(f*float64(b.Max-b.Min+1)), b.Max)
	}, mean/total)
}

func (l *Length) mixture() (*sampler, error) {
	var parts []*sampler
	var cumulated []float64
	mean, total := 0.0, 0.0
	for _, part := range l.Of {
		s, err := part.sampler()
		if err != nil {
			return nil, err
		}
		total += part.weight()
		mean += part.weight() * s.mean
		parts, cumulated = append(parts, s), append(cumulated, total)
	}
	draw := func(r *rand.Rand) int {
		u := r.Float64() * total
		i, exact := slices.BinarySearch(cumulated, u)
		if exact {
			i++
		}
		return parts[min(i, len(parts)-1)].draw(r)
	}
	return &sampler{draw: draw, mean: mean / total}, nil
}
