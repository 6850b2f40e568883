package stat

import "math"

// USL is the Universal Scalability Law X(N) = λN / (1 + σ(N-1) + κN(N-1)):
// throughput X of N users at a time, with λ that of one, σ the share that must
// be done one after the other (contention) and κ the cost of keeping pairs of
// them consistent (coherency). Gunther, "A General Theory of Computational
// Scalability Based on Rational Functions", arXiv:0808.1431.
type USL struct {
	Lambda, Sigma, Kappa float64
	// R2 is the share of the variance of X that the law explains, and WorstOff the
	// largest |X - X(N)| / X of the points it was fitted to.
	R2, WorstOff float64
}

// At is X(n).
func (u USL) At(n float64) float64 {
	return u.Lambda * n / (1 + u.Sigma*(n-1) + u.Kappa*n*(n-1))
}

// NMax is the N at which X(N) is largest, sqrt((1-σ)/κ); +Inf if X only rises.
func (u USL) NMax() float64 {
	if u.Sigma >= 1 {
		return 1
	}
	return math.Sqrt((1 - u.Sigma) / u.Kappa)
}

// FitUSL fits the law by least squares on X, with λ > 0, σ >= 0 and κ >= 0. n are
// numbers of users from 1, x throughputs above 0. ok is false for fewer than four
// different n: three points always fit three parameters.
//
// In g = N/X(N) the law is linear, with coefficients 1/λ, σ/λ and κ/λ. The bounds
// are kept by fitting every choice of coefficients that are not 0, and taking the
// best fit with none below 0; each is a Gauss-Newton iteration that starts at the
// weighted linear fit.
func FitUSL(n, x []float64) (u USL, ok bool) {
	if len(n) != len(x) || distinct(n) < 4 {
		return u, false
	}
	best := math.Inf(1)
	for mask := range 4 {
		columns := []int{0}
		for bit := range 2 {
			if mask&(1<<bit) != 0 {
				columns = append(columns, bit+1)
			}
		}
		c, fits := fitReciprocal(n, x, columns)
		if !fits {
			continue
		}
		if rss := residual(c, n, x); rss < best {
			best = rss
			u = USL{Lambda: 1 / c[0], Sigma: c[1] / c[0], Kappa: c[2] / c[0]}
		}
	}
	if math.IsInf(best, 1) {
		return USL{}, false
	}
	u.R2 = 1 - best/(Variance(x)*float64(len(x)-1))
	for i := range n {
		u.WorstOff = max(u.WorstOff, math.Abs(x[i]-u.At(n[i]))/x[i])
	}
	return u, true
}

func distinct(x []float64) int {
	seen := make(map[float64]bool)
	for _, v := range x {
		seen[v] = true
	}
	return len(seen)
}

// uslRow holds what the coefficients are multiplied with.
func uslRow(n float64) [3]float64 { return [3]float64{1, n - 1, n * (n - 1)} }

func dot(a, b [3]float64) float64 { return a[0]*b[0] + a[1]*b[1] + a[2]*b[2] }

func residual(c [3]float64, n, x []float64) float64 {
	sum := 0.
	for i := range n {
		r := x[i] - n[i]/dot(c, uslRow(n[i]))
		sum += r * r
	}
	return sum
}

// fitReciprocal minimises the residual over some of the coefficients, the others
// being 0. It fails where the best of them are not all above 0.
func fitReciprocal(n, x []float64, columns []int) (c [3]float64, ok bool) {
	// The linear fit of N/X, weighted so that its errors are about those of X.
	var step [3]float64
	ok = normalEquations(&step, columns, len(n), func(i int) (row [3]float64, r float64) {
		w := x[i] * x[i] / n[i]
		row = uslRow(n[i])
		for k := range row {
			row[k] *= w
		}
		return row, w * n[i] / x[i]
	})
	c = step
	rss := residual(c, n, x)
	for range 50 {
		if !ok || !positive(c, columns) {
			return c, false
		}
		ok = normalEquations(&step, columns, len(n), func(i int) (row [3]float64, r float64) {
			g := dot(c, uslRow(n[i]))
			row = uslRow(n[i])
			for k := range row {
				row[k] *= -n[i] / (g * g)
			}
			return row, x[i] - n[i]/g
		})
		next, better := downhill(c, step, n, x, rss)
		if !better {
			return c, positive(c, columns)
		}
		c, rss = next, residual(next, n, x)
	}
	return c, positive(c, columns)
}

// downhill halves a step until it lessens the residual and keeps X above 0.
func downhill(c, step [3]float64, n, x []float64, rss float64) (next [3]float64, better bool) {
	for range 30 {
		for k := range c {
			next[k] = c[k] + step[k]
			step[k] /= 2
		}
		above := true
		for _, v := range n {
			above = above && dot(next, uslRow(v)) > 0
		}
		if above && residual(next, n, x) < rss*(1-1e-12) {
			return next, true
		}
	}
	return next, false
}

func positive(c [3]float64, columns []int) bool {
	for _, k := range columns {
		if !(c[k] > 0) {
			return false
		}
	}
	return true
}

// normalEquations solves min |r - row·s|² over the given columns of up to three
// by Gaussian elimination; the other elements of s are 0.
func normalEquations(s *[3]float64, columns []int, n int, at func(i int) (row [3]float64, r float64)) bool {
	*s = [3]float64{}
	m := len(columns)
	var a [3][4]float64
	for i := range n {
		row, r := at(i)
		for p, j := range columns {
			for q, k := range columns {
				a[p][q] += row[j] * row[k]
			}
			a[p][m] += row[j] * r
		}
	}
	for p := range m {
		if !(math.Abs(a[p][p]) > 1e-300) {
			return false
		}
		for q := p + 1; q < m; q++ {
			f := a[q][p] / a[p][p]
			for k := p; k <= m; k++ {
				a[q][k] -= f * a[p][k]
			}
		}
	}
	for p := m - 1; p >= 0; p-- {
		v := a[p][m]
		for q := p + 1; q < m; q++ {
			v -= a[p][q] * s[columns[q]]
		}
		s[columns[p]] = v / a[p][p]
	}
	return !math.IsNaN(s[0] + s[1] + s[2])
}
