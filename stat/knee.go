package stat

import "slices"

// Curve is the shape that [Kneedle] expects of its points.
type Curve int

// The curves.
const (
	// Concave and rising: throughput that flattens out.
	Concave Curve = iota
	// Convex and rising: a latency that takes off.
	Convex
)

// KneedleSensitivity is the sensitivity S that the authors of Kneedle recommend.
const KneedleSensitivity = 1

// Kneedle returns the index of the knee of a curve: the point of largest
// distance from the straight line between its ends, after both axes were scaled
// to [0, 1] (Satopää, Albrecht, Irwin and Raghavan, "Finding a 'Kneedle' in a
// Haystack", ICDCS workshops 2011). x must ascend strictly. A local maximum of the
// distance is a knee if the distance falls below it by sensitivity times the mean
// spacing before it rises again to another one; of several knees the one with the
// largest distance is returned. ok is false if there is none, which is what a
// straight line and fewer than four points give. The points are not smoothed:
// give medians.
func Kneedle(x, y []float64, curve Curve, sensitivity float64) (knee int, ok bool) {
	n := len(x)
	if n < 4 || len(y) != n {
		return 0, false
	}
	low, high := slices.Min(y), slices.Max(y)
	width := x[n-1] - x[0]
	if !(high > low) || !(width > 0) {
		return 0, false
	}
	d := make([]float64, n)
	for i := range d {
		d[i] = (y[i]-low)/(high-low) - (x[i]-x[0])/width
		if curve == Convex {
			d[i] = -d[i]
		}
	}
	fall := sensitivity / float64(n-1) // the mean spacing of x in [0, 1]
	for i := 1; i < n-1; i++ {
		if d[i] <= d[i-1] || d[i] < d[i+1] || ok && d[i] <= d[knee] {
			continue
		}
		if falls(d[i:], d[i]-fall) {
			knee, ok = i, true
		}
	}
	return knee, ok
}

// falls reports whether d goes below a threshold before it rises above its first
// value.
func falls(d []float64, threshold float64) bool {
	for _, v := range d[1:] {
		switch {
		case v < threshold:
			return true
		case v > d[0]:
			return false
		}
	}
	return false
}
