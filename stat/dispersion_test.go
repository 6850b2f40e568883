package stat

import (
	"math"
	"slices"
	"testing"
)

func TestAutocorrelation(t *testing.T) {
	x := []float64{1, 2, 3, 4, 5}
	near(t, "lag 0", Autocorrelation(x, 0), 1, 0)
	near(t, "lag 1", Autocorrelation(x, 1), .4, 1e-15)
	near(t, "lag 2", Autocorrelation(x, 2), -.1, 1e-15)
	near(t, "constant", Autocorrelation([]float64{2, 2, 2}, 1), 0, 0)
	for _, k := range []int{-1, 5} {
		if !math.IsNaN(Autocorrelation(x, k)) {
			t.Errorf("lag %d of 5", k)
		}
	}
	ar := ar1(seeded(1), 50_000, .6)
	near(t, "AR(1)", Autocorrelation(ar, 1), .6, .02)
	near(t, "lag-1 effective n", Lag1EffectiveN(ar), 50_000*.4/1.6, 800)
}

func TestIndexOfDispersion(t *testing.T) {
	// Counts 2, 0, 1 and a part of a window that is not counted.
	index, windows := IndexOfDispersion([]int64{5, 0, 25, 31}, 0, 35, 10)
	if windows != 3 {
		t.Errorf("%d windows", windows)
	}
	near(t, "by hand", index, 1, 1e-15)
	if v, _ := IndexOfDispersion(nil, 0, 100, 10); !math.IsNaN(v) {
		t.Error("no events")
	}
	if v, _ := IndexOfDispersion([]int64{1}, 0, 10, 10); !math.IsNaN(v) {
		t.Error("one window")
	}
	if _, windows := IndexOfDispersion([]int64{1, 2}, 0, math.MaxInt64, 1); windows != math.MaxInt64 {
		t.Error("nanosecond windows")
	}
	rng := seeded(2)
	var poisson []int64
	for at := int64(0); len(poisson) < 100_000; {
		at += int64(rng.ExpFloat64() * 1e6)
		poisson = append(poisson, at)
	}
	index, _ = IndexOfDispersion(poisson, 0, poisson[len(poisson)-1], 10e6)
	near(t, "Poisson", index, 1, .05)
	near(t, "Poisson gaps", GapCV(poisson), 1, .02)
}

func TestGapCV(t *testing.T) {
	times := []int64{30, 10, 20, 40}
	near(t, "clockwork, any order", GapCV(times), 0, 0)
	if !slices.Equal(times, []int64{30, 10, 20, 40}) {
		t.Error("the caller's slice was sorted")
	}
	if !math.IsNaN(GapCV(times[:2])) {
		t.Error("one gap")
	}
}

func TestKS(t *testing.T) {
	uniform := func(x float64) float64 { return min(1, max(0, x)) }
	near(t, "one in the middle", KS([]float64{.5}, uniform), .5, 0)
	near(t, "by hand", KS([]float64{.1, .2, .9}, uniform), 2./3-.2, 1e-15)
	if !math.IsNaN(KS(nil, uniform)) {
		t.Error("a distance from nothing")
	}
	near(t, "5 % point at n=100", KSPValue(.13403, 100), .05, .002) // tabled
	near(t, "1 % point, n large", KSPValue(1.6276/1000, 1_000_000), .01, 1e-4)
	near(t, "no distance", KSPValue(0, 10), 1, 0)
	near(t, "all distance", KSPValue(1, 1000), 0, 1e-12)
	rng := seeded(4)
	rejected := 0
	for range 1000 {
		x := make([]float64, 50)
		for i := range x {
			x[i] = rng.Float64()
		}
		slices.Sort(x)
		if KSPValue(KS(x, uniform), 50) < .05 {
			rejected++
		}
	}
	near(t, "size at 5 %", float64(rejected)/1000, .05, .02)
}
