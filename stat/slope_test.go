package stat

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestTrendOf(t *testing.T) {
	for _, c := range []struct {
		name       string
		series     []float64
		slope      float64
		lo, hi     float64
		inflation1 bool
	}{
		{"a line", []float64{1, 3, 5, 7, 9, 11, 13, 15, 17, 19}, 2, 2, 2, true},
		{"constant", []float64{4, 4, 4, 4, 4}, 0, 0, 0, true},
		{"too short", []float64{1, 2, 3}, math.NaN(), math.Inf(-1), math.Inf(1), true},
		{"four values carry no 99 % interval", []float64{1, 2, 4, 3}, 5. / 6, math.Inf(-1), math.Inf(1), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := TrendOf(c.series, 0.99)
			same := func(a, b float64) bool { return a == b || math.Abs(a-b) < 1e-9 || math.IsNaN(a) && math.IsNaN(b) }
			if !same(s.PerStep, c.slope) || !same(s.Lo, c.lo) || !same(s.Hi, c.hi) || c.inflation1 && s.Inflation != 1 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// TestTrendOfIsTheilSen holds the slope against the general routine, and the
// verdict against Mann-Kendall where there is no memory.
func TestTrendOfIsTheilSen(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		x, at := make([]float64, 20), make([]float64, 20)
		for i := range x {
			x[i], at[i] = r.NormFloat64(), float64(i)
		}
		s := TrendOf(x, 0.99)
		if want := TheilSen(at, x); math.Abs(s.PerStep-want) > 1e-12 {
			t.Fatalf("slope %v, want %v", s.PerStep, want)
		}
		if p := MannKendall(x).P; s.Inflation == 1 && math.Abs(s.P-p) > 1e-12 || s.P < p-1e-12 {
			t.Fatalf("p %v beside %v at inflation %v", s.P, p, s.Inflation)
		}
		if s.Lo > s.PerStep || s.Hi < s.PerStep {
			t.Fatalf("%+v does not hold its own slope", s)
		}
	}
}

// TestTrendOfSize measures how often a trend is found at 1 % in series without
// one: 20 values of AR(1). Mann-Kendall alone is far off at 0.5 and above.
func TestTrendOfSize(t *testing.T) {
	const n, runs = 20, 4000
	for _, c := range []struct{ phi, most float64 }{{0, 0.02}, {0.3, 0.03}, {0.6, 0.05}, {0.8, 0.09}} {
		r := rand.New(rand.NewPCG(7, uint64(100*c.phi)))
		found, plain, misses := 0, 0, 0
		for range runs {
			x := make([]float64, n)
			x[0] = r.NormFloat64() / math.Sqrt(1-c.phi*c.phi)
			for i := 1; i < n; i++ {
				x[i] = c.phi*x[i-1] + r.NormFloat64()
			}
			s := TrendOf(x, 0.99)
			if s.P < 0.01 {
				found++
			}
			if s.Lo > 0 || s.Hi < 0 {
				misses++
			}
			if MannKendall(x).P < 0.01 {
				plain++
			}
		}
		share := func(k int) float64 { return float64(k) / runs }
		t.Logf("phi %.1f: %.3f, interval without 0 %.3f, Mann-Kendall alone %.3f", c.phi, share(found), share(misses), share(plain))
		if share(found) > c.most || share(misses) > c.most {
			t.Errorf("phi %.1f: %.3f and %.3f, want at most %.3f", c.phi, share(found), share(misses), c.most)
		}
	}
}
