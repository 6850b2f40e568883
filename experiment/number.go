package experiment

import (
	"math"
	"strconv"
	"strings"
)

// num writes a number for people: about three significant digits, and never an
// exponent.
func num(v float64) string {
	decimals := 0
	switch a := math.Abs(v); {
	case a == 0:
		return "0"
	case a < 1:
		// Past the zeros behind the point, but not past a millionth.
		decimals = min(6, 2-int(math.Floor(math.Log10(a))))
	case a < 10:
		decimals = 2
	case a < 100:
		decimals = 1
	}
	s := strconv.FormatFloat(v, 'f', decimals, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// signed is num with its sign.
func signed(v float64) string {
	if v >= 0 {
		return "+" + num(v)
	}
	return num(v)
}

// probability writes "p = 0.02", or "p < 0.0001".
func probability(p float64) string {
	if p < 1e-4 {
		return "p < 0.0001"
	}
	return "p = " + num(p)
}
