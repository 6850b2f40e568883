package report

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// none stands where a number does not exist.
const none = "–"

// digits of a number that are worth showing, and the most decimals: beyond the
// third, a millisecond is below what a clock in user space can tell.
const (
	digits      = 4
	maxDecimals = 3
)

// decimals that show x with four significant digits.
func decimals(x float64) int {
	x = math.Abs(x)
	if x == 0 || math.IsInf(x, 0) || math.IsNaN(x) {
		return 0
	}
	return min(max(digits-1-int(math.Floor(math.Log10(x))), 0), maxDecimals)
}

// number is x with about four significant digits, never in scientific notation.
func number(x float64) string { return fixed(x, decimals(x)) }

// fixed is x with the given decimals, without a sign on zero.
func fixed(x float64, decimals int) string {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return none
	}
	s := strconv.FormatFloat(x, 'f', decimals, 64)
	if math.Signbit(x) {
		if z, err := strconv.ParseFloat(s, 64); err == nil && z == 0 {
			return s[1:]
		}
	}
	return s
}

// short is x with at most the given decimals and no zeros at its end.
func short(x float64, decimals int) string {
	s := fixed(x, decimals)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// optional is number of *x, or the sign for none.
func optional(x *float64) string {
	if x == nil {
		return none
	}
	return number(*x)
}

// count is a number of things that may be a mean: whole numbers stay whole.
func count(x *float64) string {
	switch {
	case x == nil:
		return none
	case *x == math.Trunc(*x):
		return fixed(*x, 0)
	}
	return number(*x)
}

// percent is a share of 1 in percent.
func percent(share float64) string { return short(100*share, 2) + " %" }

func seconds(d time.Duration) string { return number(d.Seconds()) + " s" }
