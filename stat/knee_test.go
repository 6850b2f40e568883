package stat

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestKneedle(t *testing.T) {
	line := []float64{1, 2, 3, 4, 5, 6}
	for _, c := range []struct {
		name  string
		x, y  []float64
		curve Curve
		want  int
		ok    bool
	}{
		{"throughput with a cap at 16", []float64{1, 2, 4, 8, 16, 32, 64}, []float64{1.2, 2.4, 4.6, 8.7, 15.7, 15.9, 15.9}, Concave, 4, true},
		{"the climb ended one level above the cap", []float64{1, 2, 4, 8, 16, 32}, []float64{1.2, 2.4, 4.6, 8.7, 15.7, 15.9}, Concave, 4, true},
		{"the authors' example, y = 5 - 1/(x + 0.1)", []float64{0, .1, .2, .3, .4, .5, .6, .7, .8, .9, 1}, mapped(func(i float64) float64 { return 5 - 1/(i/10+0.1) }, 11), Concave, 2, true},
		{"a straight line", line, line, Concave, 0, false},
		{"a latency that takes off", []float64{2, 4, 6, 8, 10, 12, 14}, []float64{20, 20, 21, 22, 25, 60, 300}, Convex, 5, true},
		{"convex looked at as concave", []float64{2, 4, 6, 8, 10, 12, 14}, []float64{20, 20, 21, 22, 25, 60, 300}, Concave, 0, false},
		{"throughput that falls again", []float64{1, 2, 4, 8, 16, 32}, []float64{10, 19, 36, 50, 45, 30}, Concave, 3, true},
		{"constant", line, []float64{3, 3, 3, 3, 3, 3}, Concave, 0, false},
		{"three points", []float64{1, 2, 3}, []float64{1, 9, 9}, Concave, 0, false},
		{"lengths differ", line, line[1:], Concave, 0, false},
	} {
		got, ok := Kneedle(c.x, c.y, c.curve, KneedleSensitivity)
		if got != c.want || ok != c.ok {
			t.Errorf("%s: %d %v, want %d %v", c.name, got, ok, c.want, c.ok)
		}
	}
}

func mapped(f func(float64) float64, n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = f(float64(i))
	}
	return out
}

func TestUSLRecovers(t *testing.T) {
	n := []float64{1, 2, 4, 8, 16, 32, 64}
	for _, want := range []USL{
		{Lambda: 10, Sigma: 0.05, Kappa: 0.0002},
		{Lambda: 1000, Sigma: 0, Kappa: 0.001},
		{Lambda: 0.3, Sigma: 0.4, Kappa: 0},
		{Lambda: 7, Sigma: 0, Kappa: 0},
	} {
		x := make([]float64, len(n))
		for i := range n {
			x[i] = want.At(n[i])
		}
		got, ok := FitUSL(n, x)
		if !ok || math.Abs(got.Lambda/want.Lambda-1) > 1e-6 || math.Abs(got.Sigma-want.Sigma) > 1e-6 || math.Abs(got.Kappa-want.Kappa) > 1e-8 {
			t.Errorf("%+v fitted as %+v, %v", want, got, ok)
		}
		if got.R2 < 1-1e-9 || got.WorstOff > 1e-6 {
			t.Errorf("%+v: R2 %v, worst %v of an exact fit", want, got.R2, got.WorstOff)
		}
	}
}

// TestUSLIsLeastSquares holds the fit against a search over a grid that knows
// nothing of how it is made.
func TestUSLIsLeastSquares(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	n := []float64{1, 2, 4, 8, 16, 32}
	for trial := range 20 {
		u := USL{Lambda: 1 + 9*r.Float64(), Sigma: 0.3 * r.Float64(), Kappa: 0.003 * r.Float64()}
		if trial%3 == 0 {
			u.Kappa = 0
		}
		x := make([]float64, len(n))
		for i := range n {
			x[i] = u.At(n[i]) * (1 + 0.05*r.NormFloat64())
		}
		got, ok := FitUSL(n, x)
		if !ok {
			t.Fatalf("trial %d: no fit", trial)
		}
		rss := func(u USL) float64 {
			sum := 0.
			for i := range n {
				sum += (x[i] - u.At(n[i])) * (x[i] - u.At(n[i]))
			}
			return sum
		}
		best := math.Inf(1)
		for sigma := 0.; sigma < 0.5; sigma += 0.01 {
			for kappa := 0.; kappa < 0.006; kappa += 0.0002 {
				// λ is linear, given the others.
				shape := USL{Lambda: 1, Sigma: sigma, Kappa: kappa}
				xy, xx := 0., 0.
				for i := range n {
					xy += x[i] * shape.At(n[i])
					xx += shape.At(n[i]) * shape.At(n[i])
				}
				shape.Lambda = xy / xx
				best = min(best, rss(shape))
			}
		}
		if rss(got) > best*(1+1e-9) {
			t.Errorf("trial %d: residual %v, the grid has %v", trial, rss(got), best)
		}
		if got.Sigma < 0 || got.Kappa < 0 || got.Lambda <= 0 {
			t.Errorf("trial %d: out of bounds: %+v", trial, got)
		}
	}
}

func TestUSLPeak(t *testing.T) {
	if got := (USL{Lambda: 1, Sigma: 0.04, Kappa: 0.0006}).NMax(); math.Abs(got-40) > 1e-9 {
		t.Errorf("NMax %v, want 40", got)
	}
	if got := (USL{Lambda: 1, Sigma: 0.04}).NMax(); !math.IsInf(got, 1) {
		t.Errorf("NMax %v without coherency, want +Inf", got)
	}
	if _, ok := FitUSL([]float64{1, 2, 4, 4}, []float64{1, 2, 3, 3}); ok {
		t.Error("three different levels were fitted")
	}
}

func TestShareInterval(t *testing.T) {
	for _, c := range [][2]int{{0, 10}, {10, 10}, {5, 10}, {495, 500}, {1, 1000}, {0, 1}} {
		lo, hi := ShareInterval(float64(c[0])/float64(c[1]), float64(c[1]), 0.95)
		wantLo, wantHi := ClopperPearson(c[0], c[1], 0.95)
		if math.Abs(lo-wantLo) > 1e-9 || math.Abs(hi-wantHi) > 1e-9 {
			t.Errorf("%v: [%v, %v], want [%v, %v]", c, lo, hi, wantLo, wantHi)
		}
	}
	// Fewer effective trials never narrow it.
	widths := mapped(func(i float64) float64 {
		lo, hi := ShareInterval(0.98, 20.5+50*i, 0.95)
		return lo - hi
	}, 20)
	if !slices.IsSorted(widths) {
		t.Errorf("widths (negative) %v do not shrink with the sample", widths)
	}
	for _, bad := range [][3]float64{{-0.1, 10, 0.95}, {1.1, 10, 0.95}, {0.5, math.NaN(), 0.95}, {0.5, 10, 1}} {
		if lo, hi := ShareInterval(bad[0], bad[1], bad[2]); !math.IsNaN(lo) || !math.IsNaN(hi) {
			t.Errorf("%v: [%v, %v], want NaN", bad, lo, hi)
		}
	}
}
