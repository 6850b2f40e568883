package stat

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestSmallestExactP(t *testing.T) {
	for runs, want := range map[int]float64{3: .1, 4: 1. / 35, 5: 1. / 126, 6: 1. / 462} {
		t.Run(fmt.Sprintf("%dv%d", runs, runs), func(t *testing.T) {
			near(t, "MinExactP", MinExactP(runs, runs), want, 1e-15)
			x := ramp(runs)
			y := make([]float64, runs)
			for i := range y {
				y[i] = 100 + x[i]
			}
			got := MannWhitney(x, y)
			near(t, "p apart", got.P, want, 1e-15)
			near(t, "U", got.U, float64(runs*runs), 0)
			near(t, "delta", got.Delta, 1, 0)
			if !got.Exact {
				t.Error("not exact")
			}
		})
	}
	near(t, "nothing", MinExactP(0, 3), 1, 0)
	near(t, "1v1", MinExactP(1, 1), 1, 0)
	near(t, "6 pairs", MinSignFlipP(6), 1./32, 0)
	near(t, "no pair", MinSignFlipP(0), 1, 0)
}

func TestHolmCapacity(t *testing.T) {
	for _, c := range []struct{ runs, want int }{{3, 0}, {4, 1}, {5, 6}, {6, 23}} {
		if got := HolmCapacity(.05, MinExactP(c.runs, c.runs)); got != c.want {
			t.Errorf("%d runs: %d, want %d", c.runs, got, c.want)
		}
	}
	if HolmCapacity(.05, 0) != 0 {
		t.Error("a family for p = 0")
	}
	if HolmCapacity(.05, .05) != 1 {
		t.Error("alpha itself carries one")
	}
}

// oracleRankP tries every way to deal the pooled values into two samples.
func oracleRankP(x, y []float64) (u, p float64) {
	count := func(x, y []float64) (u float64) {
		for _, a := range x {
			for _, b := range y {
				switch {
				case b > a:
					u++
				case b == a:
					u += .5
				}
			}
		}
		return u
	}
	pool := slices.Concat(x, y)
	middle := float64(len(x)*len(y)) / 2
	u = count(x, y)
	var extreme, all int
	for mask := range 1 << len(pool) {
		if bits.OnesCount(uint(mask)) != len(y) {
			continue
		}
		var a, b []float64
		for i, v := range pool {
			if mask>>i&1 == 1 {
				b = append(b, v)
			} else {
				a = append(a, v)
			}
		}
		all++
		if math.Abs(count(a, b)-middle) >= math.Abs(u-middle) {
			extreme++
		}
	}
	return u, float64(extreme) / float64(all)
}

func TestMannWhitneyOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.Custom(func(t *rapid.T) float64 { return float64(rapid.IntRange(0, 6).Draw(t, "v")) })
		x := rapid.SliceOfN(value, 1, 4).Draw(t, "x")
		y := rapid.SliceOfN(value, 1, 4).Draw(t, "y")
		got := MannWhitney(x, y)
		u, p := oracleRankP(x, y)
		if got.U != u || math.Abs(got.P-p) > 1e-12 {
			t.Fatalf("got U=%v p=%v, want %v %v", got.U, got.P, u, p)
		}
	})
}

func TestMannWhitneyLarge(t *testing.T) {
	x, y := ramp(20), make([]float64, 20)
	for i := range y {
		y[i] = x[i] + 4.5
	}
	exact := MannWhitney(x, y)
	x, y = append(x, 10.25), append(y, 15.25)
	approximate := MannWhitney(x, y)
	if !exact.Exact || approximate.Exact {
		t.Fatal("the border of exactness moved")
	}
	near(t, "normal against exact", approximate.P, exact.P, .02)
	same := slices.Repeat([]float64{3}, 30)
	near(t, "all tied", MannWhitney(same, same).P, 1, 0)
	if !math.IsNaN(MannWhitney(nil, x).P) {
		t.Error("a p from nothing")
	}
}

func TestSignFlip(t *testing.T) {
	p, ok := SignFlip([]float64{1, 2, 3, 4, 5, 6})
	if !ok {
		t.Fatal("refused")
	}
	near(t, "all one way", p, MinSignFlipP(6), 0)
	p, _ = SignFlip([]float64{.1, .2, .3, -.6}) // the sum is 0 up to rounding
	near(t, "balanced", p, 1, 0)
	p, _ = SignFlip([]float64{1, -2, 4}) // |3| or more: +-7, +-5, +-3
	near(t, "by hand", p, 6./8, 0)
	if _, ok := SignFlip(nil); ok {
		t.Error("no pairs")
	}
	if _, ok := SignFlip(make([]float64, 21)); ok {
		t.Error("21 pairs enumerated")
	}
}

func TestHodgesLehmann(t *testing.T) {
	near(t, "shift", HodgesLehmann([]float64{1, 2, 3}, []float64{11, 12, 13}), 10, 0)
	rng := seeded(3)
	x, y := make([]float64, 600), make([]float64, 501)
	for i := range x {
		x[i] = rng.ExpFloat64()
	}
	for i := range y {
		y[i] = rng.ExpFloat64() + .5
	}
	shifts := make([]float64, 0, len(x)*len(y))
	for _, a := range x {
		for _, b := range y {
			shifts = append(shifts, b-a)
		}
	}
	slices.Sort(shifts)
	near(t, "bisected", HodgesLehmann(x, y), Median(shifts), 1e-10)
	if !math.IsNaN(HodgesLehmann(nil, y)) {
		t.Error("a shift from nothing")
	}
}

func TestHolm(t *testing.T) {
	got := Holm([]float64{.01, .04, .03, .005})
	for i, want := range []float64{.03, .06, .06, .02} {
		near(t, fmt.Sprint(i), got[i], want, 1e-15)
	}
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SliceOfN(rapid.Float64Range(0, 1), 0, 12).Draw(t, "p")
		adjusted := Holm(p)
		for i := range p {
			if adjusted[i] < p[i] || adjusted[i] > min(1, p[i]*float64(len(p))) {
				t.Fatalf("%v became %v", p, adjusted)
			}
		}
	})
}
