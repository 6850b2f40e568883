package stat

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// ShareInterval returns the Clopper-Pearson interval of a proportion that was
// seen among n independent trials, where n need not be whole: with an effective
// sample size in the place of n it allows for dependence (Korn and Graubard,
// Survey Methodology 24, 1998). For whole n it is [ClopperPearson]. It is [0, 1]
// for n <= 0, and NaN for a share outside [0, 1] or a level outside (0, 1).
func ShareInterval(share, n, level float64) (lo, hi float64) {
	switch {
	case !(share >= 0 && share <= 1) || !(level > 0 && level < 1) || math.IsNaN(n):
		return math.NaN(), math.NaN()
	case n <= 0:
		return 0, 1
	}
	tail := (1 - level) / 2
	k := share * n
	lo, hi = 0, 1
	if k > 0 {
		lo = solve(func(p float64) bool { return mathext.RegIncBeta(k, n-k+1, p) >= tail })
	}
	if k < n {
		hi = solve(func(p float64) bool { return mathext.RegIncBeta(k+1, n-k, p) >= 1-tail })
	}
	return lo, hi
}
