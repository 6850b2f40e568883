package stat

import (
	"math"
	"slices"
)

// Sum returns the sum of x with Neumaier's compensation ("Rundungsfehleranalyse
// einiger Verfahren zur Summation endlicher Summen", ZAMM 54, 1974): the error
// does not grow with len(x).
func Sum(x []float64) float64 {
	var sum, lost float64
	for _, v := range x {
		next := sum + v
		if math.Abs(sum) >= math.Abs(v) {
			lost += (sum - next) + v
		} else {
			lost += (v - next) + sum
		}
		sum = next
	}
	if math.IsInf(sum, 0) || math.IsNaN(sum) {
		return sum // the compensation of an infinite sum is NaN
	}
	return sum + lost
}

// Mean returns the arithmetic mean, NaN if x is empty.
func Mean(x []float64) float64 {
	if len(x) == 0 {
		return math.NaN()
	}
	return Sum(x) / float64(len(x))
}

// Min returns the smallest value, NaN if x is empty.
func Min(x []float64) float64 {
	if len(x) == 0 {
		return math.NaN()
	}
	return slices.Min(x)
}

// Max returns the largest value, NaN if x is empty.
func Max(x []float64) float64 {
	if len(x) == 0 {
		return math.NaN()
	}
	return slices.Max(x)
}

// Variance returns the sample variance with divisor n-1 (two passes, with the
// mean's rounding error corrected), NaN for fewer than two values.
func Variance(x []float64) float64 {
	if len(x) < 2 {
		return math.NaN()
	}
	mean := Mean(x)
	var square, drift float64
	for _, v := range x {
		d := v - mean
		square += d * d
		drift += d
	}
	n := float64(len(x))
	return max(0, (square-drift*drift/n)/(n-1))
}

// StdDev returns the square root of [Variance].
func StdDev(x []float64) float64 { return math.Sqrt(Variance(x)) }

// CV returns the coefficient of variation, standard deviation over mean. It is
// NaN for fewer than two values or a mean of zero.
func CV(x []float64) float64 {
	mean := Mean(x)
	if mean == 0 {
		return math.NaN()
	}
	return StdDev(x) / mean
}

// Median returns the middle of an ascending sample, the mean of the middle two
// if their count is even (quantile types 2 and 7 at p = 1/2). NaN if empty.
func Median(sorted []float64) float64 {
	n := len(sorted)
	switch {
	case n == 0:
		return math.NaN()
	case n%2 == 1:
		return sorted[n/2]
	}
	return middle(sorted[n/2-1], sorted[n/2])
}

// MAD returns the raw median absolute deviation about the median of an
// ascending sample, not scaled by 1.4826: MAD of {1, 2, 4} is 1. NaN if empty.
func MAD(sorted []float64) float64 {
	n := len(sorted)
	if n == 0 {
		return math.NaN()
	}
	// Deviations grow outwards from the median, so the two halves are merged
	// up to the middle one: linear, no copy.
	median := Median(sorted)
	right, _ := slices.BinarySearch(sorted, median)
	left := right - 1
	var last, before float64
	for range n/2 + 1 {
		before = last
		if right >= n || (left >= 0 && median-sorted[left] <= sorted[right]-median) {
			last = median - sorted[left]
			left--
		} else {
			last = sorted[right] - median
			right++
		}
	}
	if n%2 == 1 {
		return last
	}
	return middle(before, last)
}

func middle(a, b float64) float64 {
	if a == b {
		return a
	}
	return a + (b-a)/2
}

// medianOf is the median of a sample in any order.
func medianOf(x []float64) float64 {
	return Median(slices.Sorted(slices.Values(x)))
}
