package stat

import (
	"math"
	"slices"
)

// Autocorrelation returns the lag-k sample autocorrelation of a series in time
// order, with the usual divisor n in both sums. It is 0 for a constant series
// and NaN if k is negative or not below len(series).
func Autocorrelation(series []float64, k int) float64 {
	if k < 0 || k >= len(series) {
		return math.NaN()
	}
	mean := Mean(series)
	var cross, square float64
	for i, x := range series {
		d := x - mean
		square += d * d
		if i >= k {
			cross += d * (series[i-k] - mean)
		}
	}
	if square == 0 {
		return 0
	}
	return cross / square
}

// Lag1EffectiveN is the quick effective sample size n(1-r)/(1+r) of a
// first-order autoregression with lag-1 autocorrelation r, at most n. Queues
// remember for longer; prefer [EffectiveN].
func Lag1EffectiveN(series []float64) float64 {
	r := max(0, Autocorrelation(series, 1))
	return float64(len(series)) * (1 - r) / (1 + r)
}

// IndexOfDispersion returns the variance (divisor n-1) over the mean of event
// counts in the whole windows that fit in [start, end), and how many there are.
// All arguments are in nanoseconds. 1 is Poisson, 0 is clockwork, more is
// bursty. It is NaN with fewer than two windows or no event in them.
func IndexOfDispersion(times []int64, start, end, window int64) (index float64, windows int) {
	if window <= 0 || end <= start {
		return math.NaN(), 0
	}
	whole := (end - start) / window
	windows = int(whole)
	// Only windows with events are visited: a window may be a nanosecond.
	var events, squares float64
	count, current := 0., int64(-1)
	for _, t := range ascending(times) {
		if t < start || (t-start)/window >= whole {
			continue
		}
		if w := (t - start) / window; w != current {
			squares += count * count
			count, current = 0, w
		}
		count++
		events++
	}
	squares += count * count
	if windows < 2 || events == 0 {
		return math.NaN(), windows
	}
	n := float64(windows)
	mean := events / n
	return (squares - n*mean*mean) / (n - 1) / mean, windows
}

// GapCV returns the coefficient of variation of the gaps between event times in
// nanoseconds: 1 is Poisson, 0 is clockwork. NaN with fewer than three events.
func GapCV(times []int64) float64 {
	if len(times) < 3 {
		return math.NaN()
	}
	sorted := ascending(times)
	gaps := make([]float64, len(sorted)-1)
	for i := range gaps {
		gaps[i] = float64(sorted[i+1] - sorted[i])
	}
	return CV(gaps)
}

func ascending(times []int64) []int64 {
	if slices.IsSorted(times) {
		return times
	}
	return slices.Sorted(slices.Values(times))
}

// KS returns the Kolmogorov-Smirnov distance between an ascending sample and a
// continuous distribution function. NaN if the sample is empty.
func KS(sorted []float64, cdf func(float64) float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	n := float64(len(sorted))
	d := 0.
	for i, x := range sorted {
		f := cdf(x)
		d = max(d, f-float64(i)/n, float64(i+1)/n-f)
	}
	return d
}

// KSPValue returns the probability of a distance of at least d between n
// independent samples and the distribution that they came from: Kolmogorov's
// limit with Stephens' finite-sample scale (JRSS B 32, 1970), good to about
// 0.01 from n = 5.
func KSPValue(d float64, n int) float64 {
	root := math.Sqrt(float64(n))
	x := d * (root + 0.12 + 0.11/root)
	if x < 0.2 {
		return 1 // the series below converges slowly there, and is 1 to 12 digits
	}
	p, sign := 0., 1.
	for k := 1.; k <= 100; k++ {
		term := math.Exp(-2 * k * k * x * x)
		p += sign * term
		sign = -sign
		if term < 1e-17 {
			break
		}
	}
	return min(1, max(0, 2*p))
}
