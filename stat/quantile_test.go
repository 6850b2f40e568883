package stat

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// oracleQuantile follows the published definitions by scanning, with p = num/den
// exact: the distribution function for types 1 to 3, the plotting positions for
// types 4 to 9.
func oracleQuantile(sorted []float64, num, den int, t Type) float64 {
	n := len(sorted)
	x := func(k int) float64 { return sorted[min(max(k, 1), n)-1] }
	switch t {
	case Type1, Type2: // smallest k with k/n >= p
		k := 1
		for k*den < num*n {
			k++
		}
		if t == Type2 && k*den == num*n && num > 0 {
			return (x(k) + x(k+1)) / 2
		}
		return x(k)
	case Type3: // k nearest to np, the even one of two
		best := 0
		for k := 0; k <= n; k++ {
			d, b := abs(2*(k*den-num*n)), abs(2*(best*den-num*n))
			if d < b || (d == b && k%2 == 0) {
				best = k
			}
		}
		return x(best)
	}
	position := map[Type]func(k float64) float64{
		Type4: func(k float64) float64 { return k / float64(n) },
		Type5: func(k float64) float64 { return (k - .5) / float64(n) },
		Type6: func(k float64) float64 { return k / float64(n+1) },
		Type7: func(k float64) float64 { return (k - 1) / float64(n-1) },
		Type8: func(k float64) float64 { return (k - 1./3) / (float64(n) + 1./3) },
		Type9: func(k float64) float64 { return (k - 3./8) / (float64(n) + 1./4) },
	}[t]
	p := float64(num) / float64(den)
	if n == 1 || p <= position(1) {
		return x(1)
	}
	for k := 1; k < n; k++ {
		left, right := position(float64(k)), position(float64(k+1))
		if p <= right {
			return x(k) + (x(k+1)-x(k))*(p-left)/(right-left)
		}
	}
	return x(n)
}

func TestQuantileOracle(t *testing.T) {
	for typ := Type1; typ <= Type9; typ++ {
		t.Run(fmt.Sprintf("type %d", typ), func(t *testing.T) {
			for n := 1; n <= 25; n++ {
				sorted := make([]float64, n)
				for i := range sorted {
					sorted[i] = float64(i*i) - 7 // unequal gaps
				}
				for num := 0; num <= 200; num++ {
					got := Quantile(sorted, float64(num)/200, typ)
					want := oracleQuantile(sorted, num, 200, typ)
					if math.Abs(got-want) > 1e-9*(1+math.Abs(want)) {
						t.Fatalf("n=%d p=%d/200: got %v, want %v", n, num, got, want)
					}
				}
			}
		})
	}
}

// R: quantile(1:10, c(.25, .5, .9), type = t), and the two-point ends.
func TestQuantileKnown(t *testing.T) {
	oneToTen := []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	want := map[Type][3]float64{
		Type1: {3, 5, 9},
		Type2: {3, 5.5, 9.5},
		Type3: {2, 5, 9},
		Type4: {2.5, 5, 9},
		Type5: {3, 5.5, 9.5},
		Type6: {2.75, 5.5, 9.9},
		Type7: {3.25, 5.5, 9.1},
		Type8: {2 + 11./12, 5.5, 9 + 19./30},
		Type9: {2.9375, 5.5, 9.6},
	}
	for typ, row := range want {
		for i, p := range []float64{.25, .5, .9} {
			if got := Quantile(oneToTen, p, typ); math.Abs(got-row[i]) > 1e-12 {
				t.Errorf("type %d p=%v: got %v, want %v", typ, p, got, row[i])
			}
		}
	}
	if got := Quantile(oneToTen, .25, 0); got != 3.25 {
		t.Errorf("the zero Type is not Type7: %v", got)
	}
}

func TestQuantileEdges(t *testing.T) {
	inf := math.Inf(1)
	for name, c := range map[string]struct {
		sorted []float64
		p      float64
		typ    Type
		want   float64
	}{
		"empty":                {nil, .5, Type7, math.NaN()},
		"p below":              {[]float64{1}, -.1, Type7, math.NaN()},
		"p above":              {[]float64{1}, 1.1, Type7, math.NaN()},
		"p NaN":                {[]float64{1}, math.NaN(), Type7, math.NaN()},
		"unknown type":         {[]float64{1}, .5, 10, math.NaN()},
		"one":                  {[]float64{4}, .99, Type6, 4},
		"min":                  {[]float64{1, 2, 3}, 0, Type1, 1},
		"max":                  {[]float64{1, 2, 3}, 1, Type7, 3},
		"infinity untouched":   {[]float64{1, 2, inf}, .5, Type7, 2},
		"between infinities":   {[]float64{1, inf, inf}, .75, Type7, inf},
		"whole rank, large n":  {ramp(1_000_000), .99, Type1, 990_000},
		"whole rank, p = 0.07": {ramp(100), .07, Type1, 7}, // 100*0.07 = 7.000000000000001
	} {
		t.Run(name, func(t *testing.T) {
			got := Quantile(c.sorted, c.p, c.typ)
			if got != c.want && !(math.IsNaN(got) && math.IsNaN(c.want)) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// ramp is 1, 2, ..., n.
func ramp(n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = float64(i + 1)
	}
	return x
}

func TestQuantileProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.SliceOfN(rapid.Float64Range(-1e6, 1e6), 1, 60).Draw(t, "x")
		slices.Sort(x)
		typ := Type(rapid.IntRange(1, 9).Draw(t, "type"))
		p := rapid.Float64Range(0, 1).Draw(t, "p")
		q := rapid.Float64Range(0, 1).Draw(t, "q")
		a, b := Quantile(x, min(p, q), typ), Quantile(x, max(p, q), typ)
		if a > b+1e-6 || a < x[0] || b > x[len(x)-1] {
			t.Fatalf("not monotone within the sample: %v, %v", a, b)
		}
	})
}

func TestDescribable(t *testing.T) {
	for _, c := range []struct {
		n    int
		p    float64
		want bool
	}{{100, .99, true}, {99, .99, false}, {1000, .999, true}, {999, .999, false}, {2, .5, true}, {1, .5, false}, {20, .95, true}, {10, .9, true}, {0, .5, false}} {
		if got := Describable(c.n, c.p); got != c.want {
			t.Errorf("n=%d p=%v: got %v", c.n, c.p, got)
		}
	}
}
