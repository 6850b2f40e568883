package stat

import "math"

// Type selects one of the nine sample quantile definitions of Hyndman and Fan,
// "Sample Quantiles in Statistical Packages", The American Statistician 50
// (1996), numbered as there and as in R's quantile(). The zero value means
// [Type7].
type Type int

// The nine definitions. With n samples and plotting positions p(k), types 4 to
// 9 interpolate linearly between the points (p(k), x(k)).
const (
	Type1 Type = iota + 1 // inverse of the empirical distribution function
	Type2                 // as Type1, averaged where it jumps
	Type3                 // nearest even order statistic
	Type4                 // p(k) = k/n
	Type5                 // p(k) = (k-1/2)/n
	Type6                 // p(k) = k/(n+1)
	Type7                 // p(k) = (k-1)/(n-1); the default here, in R and in NumPy
	Type8                 // p(k) = (k-1/3)/(n+1/3), nearly median-unbiased
	Type9                 // p(k) = (k-3/8)/(n+1/4)
)

// quantileFuzz is the relative rounding error forgiven when n*p is meant to be
// a whole number. R forgives 4 epsilon absolutely, which is too little for
// large n: 0.99 * 1e6 must select rank 990000, not 990001.
const quantileFuzz = 4 * 0x1p-52

// Quantile returns the p-quantile of an ascending sample by definition t, in
// the sample's unit. It is NaN for an empty sample, for p outside [0, 1] and
// for an unknown t. Whether the sample can describe that quantile at all is a
// separate question: see [Describable].
func Quantile(sorted []float64, p float64, t Type) float64 {
	return QuantileAt(len(sorted), func(rank int) float64 { return sorted[rank] }, p, t)
}

// QuantileAt is [Quantile] of a sample of n that is not at hand as a slice: order
// gives the value of a rank, counted from 0.
func QuantileAt(n int, order func(rank int) float64, p float64, t Type) float64 {
	if n == 0 || !(p >= 0 && p <= 1) {
		return math.NaN()
	}
	pos, ok := position(float64(n), p, t)
	if !ok {
		return math.NaN()
	}
	fuzz := quantileFuzz * max(1, math.Abs(pos))
	j := math.Floor(pos + fuzz)
	g := pos - j // fractional part; at most fuzz below 0
	if math.Abs(g) <= fuzz {
		g = 0
	}
	// The order statistics of 1-based ranks, clamped to the sample.
	at := func(rank int) float64 { return order(min(max(rank, 1), n) - 1) }
	lo, hi := at(int(j)), at(int(j)+1)
	switch t {
	case Type1:
		g = step(g)
	case Type2:
		g = (step(g) + 1) / 2
	case Type3:
		if g != 0 || int(j)%2 != 0 {
			g = 1
		}
	}
	switch {
	case g == 0 || lo == hi: // also keeps infinities out of the product
		return lo
	case g == 1:
		return hi
	}
	return lo + g*(hi-lo)
}

// position returns the 1-based fractional rank of the p-quantile.
func position(n, p float64, t Type) (float64, bool) {
	switch t {
	case Type1, Type2, Type4:
		return n * p, true
	case Type3:
		return n*p - 0.5, true
	case Type5:
		return n*p + 0.5, true
	case Type6:
		return (n + 1) * p, true
	case 0, Type7:
		return 1 + (n-1)*p, true
	case Type8:
		return 1./3 + p*(n+1./3), true
	case Type9:
		return 3./8 + p*(n+1./4), true
	}
	return 0, false
}

func step(g float64) float64 {
	if g > 0 {
		return 1
	}
	return 0
}

// Describable reports whether n samples hold at least one beyond the
// p-quantile, n(1-p) >= 1. Where it is false the only honest statement is "no
// more than the maximum seen".
func Describable(n int, p float64) bool {
	beyond := float64(n) * (1 - p)
	return beyond >= 1-1e-9 // 100*(1-0.99) is 1.0000000000000009 or just below 1
}
