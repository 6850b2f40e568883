package stat

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestMannKendallOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) float64 {
			return float64(rapid.IntRange(0, 9).Draw(t, "v"))
		}), 4, 30).Draw(t, "x")
		var s int64
		ties := map[float64]float64{}
		for i := range x {
			ties[x[i]]++
			for j := range i {
				switch {
				case x[i] > x[j]:
					s++
				case x[i] < x[j]:
					s--
				}
			}
		}
		n := float64(len(x))
		varS := n * (n - 1) * (2*n + 5)
		for _, c := range ties {
			varS -= c * (c - 1) * (2*c + 5)
		}
		got := MannKendall(x)
		if got.S != s || math.Abs(got.VarS-varS/18) > 1e-9 {
			t.Fatalf("got S=%d Var=%v, want %d %v", got.S, got.VarS, s, varS/18)
		}
	})
}

func TestMannKendall(t *testing.T) {
	up := MannKendall(ramp(10)) // S = 45, Var = 125, Z = 44/sqrt(125)
	near(t, "tau", up.Tau, 1, 1e-15)
	near(t, "Z", up.Z, 44/math.Sqrt(125), 1e-12)
	near(t, "p", up.P, 8.303e-5, 1e-8)
	flat := MannKendall(make([]float64, 10))
	near(t, "flat p", flat.P, 1, 0)
	near(t, "flat Z", flat.Z, 0, 0)
	if !math.IsNaN(MannKendall(ramp(3)).P) {
		t.Error("a trend from three")
	}
}

func TestMannKendallSize(t *testing.T) {
	rng := seeded(5)
	rejected := 0
	const replicas = 2000
	for range replicas {
		x := make([]float64, 20)
		for i := range x {
			x[i] = rng.NormFloat64()
		}
		if MannKendall(x).P < .05 {
			rejected++
		}
	}
	near(t, "size at 5 %", float64(rejected)/replicas, .045, .015)
}

func TestSlopes(t *testing.T) {
	x := ramp(9)
	y := make([]float64, 9)
	for i := range y {
		y[i] = 3 + 2*x[i]
	}
	y[8] = 1000
	near(t, "Theil-Sen with an outlier", TheilSen(x, y), 2, 1e-12)
	long := ramp(5003)
	near(t, "Theil-Sen, grouped", TheilSen(long, long), 1, 1e-9)
	if !math.IsNaN(TheilSen([]float64{1, 1}, []float64{1, 2})) {
		t.Error("a slope at one time")
	}
	// Anscombe's first set.
	ax := []float64{10, 8, 13, 9, 11, 14, 6, 4, 12, 7, 5}
	ay := []float64{8.04, 6.95, 7.58, 8.81, 8.33, 9.96, 7.24, 4.26, 10.84, 4.82, 5.68}
	line := LeastSquares(ax, ay)
	near(t, "slope", line.Slope, .50009, 1e-5)
	near(t, "intercept", line.Intercept, 3.00009, 1e-5)
	near(t, "standard error", line.SlopeSE, .11791, 1e-5)
	if !math.IsNaN(LeastSquares([]float64{1, 1}, []float64{1, 2}).Slope) || !math.IsNaN(LeastSquares([]float64{1, 2}, []float64{1, 2}).SlopeSE) {
		t.Error("a slope or error from too little")
	}
}
