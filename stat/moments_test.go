package stat

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func near(t testing.TB, name string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance) {
		t.Errorf("%s: got %v, want %v", name, got, want)
	}
}

func TestMoments(t *testing.T) {
	near(t, "MAD {1,2,4}", MAD([]float64{1, 2, 4}), 1, 0)
	near(t, "median even", Median([]float64{1, 2, 4, 9}), 3, 0)
	near(t, "MAD one", MAD([]float64{7}), 0, 0)
	near(t, "variance", Variance([]float64{2, 4, 4, 4, 5, 5, 7, 9}), 32./7, 1e-15)
	near(t, "variance, large offset", Variance([]float64{1e9 + 4, 1e9 + 7, 1e9 + 13, 1e9 + 16}), 30, 0)
	near(t, "CV", CV([]float64{1, 3}), math.Sqrt2/2, 1e-15)
	near(t, "min", Min([]float64{3, 1, 2}), 1, 0)
	near(t, "max", Max([]float64{3, 1, 2}), 3, 0)
	for name, v := range map[string]float64{
		"mean": Mean(nil), "median": Median(nil), "MAD": MAD(nil), "min": Min(nil), "max": Max(nil),
		"variance of one": Variance([]float64{1}), "CV about 0": CV([]float64{-1, 1}),
	} {
		if !math.IsNaN(v) {
			t.Errorf("%s: got %v, want NaN", name, v)
		}
	}
}

func TestSum(t *testing.T) {
	near(t, "cancellation", Sum([]float64{1, 1e100, 1, -1e100}), 2, 0)
	tenths := make([]float64, 1_000_000)
	for i := range tenths {
		tenths[i] = 0.1
	}
	near(t, "a million tenths", Sum(tenths), 100_000, 1e-10)
	if !math.IsInf(Sum([]float64{1, math.Inf(1), 2}), 1) {
		t.Error("the sum with an infinity is not infinite")
	}
}

func TestMADOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) float64 {
			return float64(rapid.IntRange(-20, 20).Draw(t, "v"))
		}), 1, 40).Draw(t, "x")
		slices.Sort(x)
		deviations := make([]float64, len(x))
		for i, v := range x {
			deviations[i] = math.Abs(v - Median(x))
		}
		slices.Sort(deviations)
		if got, want := MAD(x), Median(deviations); got != want {
			t.Fatalf("got %v, want %v of %v", got, want, x)
		}
	})
}
