package stat

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// Slope is the trend of a series of equal steps, with an interval that allows for
// memory from one step to the next.
type Slope struct {
	PerStep   float64 // median slope (Theil-Sen), units of the series a step
	Lo, Hi    float64 // its interval; -Inf and +Inf where the series is too short for one
	P         float64 // two-sided, Mann-Kendall with the variance inflated; NaN with fewer than 4 values
	Inflation float64 // of the variance of S, at least 1: 1 for independent values
}

// TrendOf tests a short series of batch means for a monotone trend and gives its
// slope with an interval of the level.
//
// Mann-Kendall alone assumes independence, and finds trends in whatever
// remembers: batches of a queue do. The variance of its S is multiplied by
// 1 + 2 sum (1-k/n) r^k, with r the lag-1 autocorrelation of the detrended series
// corrected for its bias in short series (Yue and Wang, Water Resources
// Management 18, 2004; the bias as Marriott and Pope, Biometrika 41, 1954, with
// the two parameters of the line). The interval is Sen's, from the same variance
// (JASA 63, 1968).
//
// Measured size at a nominal 1 %, on 20 values of AR(1) (4,000 series each, in
// brackets that of [MannKendall] alone): phi 0: 0.5 % (0.8), phi 0.3: 1.8 % (3.7),
// phi 0.6: 2.7 % (12), phi 0.8: 4.0 % (27).
func TrendOf(series []float64, level float64) Slope {
	n := len(series)
	t := MannKendall(series)
	s := Slope{PerStep: math.NaN(), Lo: math.Inf(-1), Hi: math.Inf(1), P: t.P, Inflation: 1}
	if n < 4 || !(level > 0 && level < 1) {
		return s
	}
	slopes := make([]float64, 0, n*(n-1)/2)
	for i := range series {
		for j := range i {
			slopes = append(slopes, (series[i]-series[j])/float64(i-j))
		}
	}
	slices.Sort(slopes)
	s.PerStep = Median(slopes)
	if t.VarS <= 0 { // all values are equal
		s.Lo, s.Hi = 0, 0
		return s
	}
	s.Inflation = memory(series, s.PerStep)
	sd := math.Sqrt(t.VarS * s.Inflation)
	s.P = twoSided(t.Z * math.Sqrt(t.VarS) / sd)
	half := distuv.UnitNormal.Quantile((1+level)/2) * sd / 2
	middle := float64(len(slopes)) / 2
	if lo := int(math.Floor(middle - half)); lo >= 0 {
		s.Lo = slopes[lo]
	}
	if hi := int(math.Ceil(middle + half)); hi < len(slopes) {
		s.Hi = slopes[hi]
	}
	return s
}

// mostMemory keeps the inflation finite.
const mostMemory = 0.95

// memory is how much the variance of a sum grows by the lag-1 autocorrelation of
// what is left after the trend.
func memory(series []float64, slope float64) float64 {
	rest := make([]float64, len(series))
	for i, y := range series {
		rest[i] = y - slope*float64(i)
	}
	n := float64(len(series))
	r := Autocorrelation(rest, 1)
	if math.IsNaN(r) || n <= 4 || Variance(rest) <= 1e-18*Variance(series) { // nothing is left
		return 1
	}
	// Of a series of independent values r is about -2/n after a line was taken
	// out, of a correlated one (2+4r)/n too small.
	r = min((n*r+2)/(n-4), mostMemory)
	if !(r > 0) {
		return 1
	}
	factor, power := 1., 1.
	for k := 1.; k < n; k++ {
		power *= r
		factor += 2 * (1 - k/n) * power
	}
	return factor
}
