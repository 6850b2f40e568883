package stat

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestMannWhitneyBelow(t *testing.T) {
	tests := []struct {
		name string
		x, y []float64
		p    float64
	}{
		{"3v3 all below", []float64{4, 5, 6}, []float64{1, 2, 3}, 1. / 20},
		{"3v3 all above", []float64{1, 2, 3}, []float64{4, 5, 6}, 1},
		{"one each", []float64{2}, []float64{1}, 0.5},
		{"all equal", []float64{1, 1}, []float64{1, 1}, 1},
		{"one swap", []float64{3, 5, 6}, []float64{1, 2, 4}, 2. / 20},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if p := MannWhitneyBelow(tt.x, tt.y); math.Abs(p-tt.p) > 1e-12 {
				t.Errorf("p = %v, want %v", p, tt.p)
			}
		})
	}
	if p := MinExactOneSidedP(3, 3); math.Abs(p-0.05) > 1e-15 {
		t.Errorf("least p of 3 v 3 = %v", p)
	}
	if p := MinExactOneSidedP(1, 1); p != 0.5 {
		t.Errorf("least p of 1 v 1 = %v", p)
	}
	if !math.IsNaN(MannWhitneyBelow(nil, []float64{1})) {
		t.Error("an empty sample has no p")
	}
}

// The one-sided p by listing every split.
func TestMannWhitneyBelowOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.Custom(func(t *rapid.T) float64 { return float64(rapid.IntRange(0, 6).Draw(t, "v")) })
		x := rapid.SliceOfN(value, 1, 5).Draw(t, "x")
		y := rapid.SliceOfN(value, 1, 5).Draw(t, "y")
		pool := slices.Concat(x, y)
		u := func(in func(i int) bool) float64 {
			sum := 0.
			for i, b := range pool {
				for j, a := range pool {
					if in(i) && !in(j) {
						switch {
						case b > a:
							sum++
						case b == a:
							sum += 0.5
						}
					}
				}
			}
			return sum
		}
		observed := u(func(i int) bool { return i >= len(x) })
		var below, all float64
		for set := range 1 << len(pool) {
			members := 0
			for i := range pool {
				members += set >> i & 1
			}
			if members != len(y) {
				continue
			}
			all++
			if u(func(i int) bool { return set>>i&1 == 1 }) <= observed {
				below++
			}
		}
		if p := MannWhitneyBelow(x, y); math.Abs(p-below/all) > 1e-12 {
			t.Fatalf("p = %v, by listing %v", p, below/all)
		}
	})
}

// The interval is what the test does not reject.
func TestHodgesLehmannInterval(t *testing.T) {
	if _, _, ok := HodgesLehmannInterval([]float64{1, 2, 3}, []float64{4, 5, 6}, 0.95); ok {
		t.Error("3 v 3 have no 95 % interval")
	}
	x := []float64{1.1, 2.3, 3.2, 4.8, 5.05, 7.3}
	y := []float64{2.15, 3.9, 5.7, 6.2, 8.41, 9.6}
	lo, hi, ok := HodgesLehmannInterval(x, y, 0.95)
	if !ok || lo > HodgesLehmann(x, y) || hi < HodgesLehmann(x, y) {
		t.Fatalf("interval %v %v %v about %v", lo, hi, ok, HodgesLehmann(x, y))
	}
	shifted := func(by float64) []float64 {
		out := slices.Clone(y)
		for i := range out {
			out[i] -= by
		}
		return out
	}
	const step = 1e-9
	for _, inside := range []float64{lo + step, hi - step} {
		if p := MannWhitney(x, shifted(inside)).P; p <= 0.05 {
			t.Errorf("shift %v is in the interval and rejected: p = %v", inside, p)
		}
	}
	for _, outside := range []float64{lo - step, hi + step} {
		if p := MannWhitney(x, shifted(outside)).P; p > 0.05 {
			t.Errorf("shift %v is outside and not rejected: p = %v", outside, p)
		}
	}
}

func TestHodgesLehmannIntervalCoverage(t *testing.T) {
	rng := rand.New(rand.NewPCG(41, 7))
	const trials = 4000
	covered := 0
	for range trials {
		x, y := make([]float64, 6), make([]float64, 6)
		for i := range x {
			x[i], y[i] = rng.NormFloat64(), rng.NormFloat64()+1
		}
		lo, hi, ok := HodgesLehmannInterval(x, y, 0.95)
		if !ok {
			t.Fatal("6 v 6 have an interval")
		}
		if lo <= 1 && 1 <= hi {
			covered++
		}
	}
	// The attained level of 6 v 6 is 1 - 2 × 19/924 = 0.9589.
	want := 1 - 2*19./924
	if sd := math.Sqrt(want * (1 - want) / trials); math.Abs(float64(covered)/trials-want) > 3.3*sd {
		t.Errorf("coverage %v, want %v", float64(covered)/trials, want)
	}
}

func TestPairedShift(t *testing.T) {
	d := []float64{1, 2, 4, 7, 3, 5}
	if got := PairedShift(d); got != 3.5 {
		t.Errorf("shift %v, want the median of the Walsh averages, 3.5", got)
	}
	lo, hi, ok := PairedShiftInterval(d, 0.95)
	if !ok || lo != 1 || hi != 7 { // of 6 pairs only the full range has 95 %: 1 - 2/64
		t.Errorf("interval %v %v %v", lo, hi, ok)
	}
	if _, _, ok := PairedShiftInterval(d[:5], 0.95); ok {
		t.Error("5 pairs have no 95 % interval: 1 - 2/32 is less")
	}
	if p, ok := SignFlipBelow([]float64{-1, -2, -4, -3}); !ok || p != 1./16 {
		t.Errorf("one-sided p %v %v, want 1/16", p, ok)
	}
	if p, _ := SignFlipBelow([]float64{1, 2, 4, 3}); p != 1 {
		t.Errorf("all above: p = %v", p)
	}
}

func TestTwoLevelShift(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	side := func(runs int, shift float64) [][]float64 {
		out := make([][]float64, runs)
		for i := range out {
			between := 0.5 * rng.NormFloat64()
			out[i] = make([]float64, 400)
			for j := range out[i] {
				out[i][j] = 10 + shift + between + rng.NormFloat64()
			}
		}
		return out
	}
	x, y := side(6, 0), side(6, 3)
	ps := []float64{0.5, 0.9, 0.95, 0.99}
	got := TwoLevelShift(x, y, ps, 0.95, 1)
	for _, q := range got {
		if q.Lo > q.Y-q.X || q.Hi < q.Y-q.X || q.Lo > 3 || q.Hi < 3 {
			t.Errorf("p%v: shift %v in [%v, %v], truth 3", 100*q.P, q.Y-q.X, q.Lo, q.Hi)
		}
		if q.Hi-q.Lo < 0.3 {
			t.Errorf("p%v: [%v, %v] leaves the scatter between runs out", 100*q.P, q.Lo, q.Hi)
		}
	}
	if again := TwoLevelShift(x, y, ps, 0.95, 1); !slices.Equal(again, got) {
		t.Error("the same seed gave another interval")
	}
	if q := TwoLevelShift(x, nil, ps[:1], 0.95, 1)[0]; !math.IsNaN(q.Lo) || !math.IsNaN(q.Y) {
		t.Errorf("no runs: %+v", q)
	}
}

// Counting by rank is drawing and sorting.
func TestCountedQuantiles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(t, "n")
		sorted := make([]float64, n)
		for i := range sorted {
			sorted[i] = float64(i)
		}
		counts := make([]int32, n)
		var drawn []float64
		for range n {
			i := rapid.IntRange(0, n-1).Draw(t, "i")
			counts[i]++
			drawn = append(drawn, sorted[i])
		}
		slices.Sort(drawn)
		ps := []float64{0.5, 0.9, 0.99}
		countedQuantiles(sorted, counts, ps, func(i int, v float64) {
			if want := Quantile(drawn, ps[i], Type1); v != want {
				t.Fatalf("p%v = %v, want %v", ps[i], v, want)
			}
		})
	})
}

func BenchmarkTwoLevelShift(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	side := make([][]float64, 6)
	for i := range side {
		side[i] = make([]float64, 10_000)
		for j := range side[i] {
			side[i][j] = rng.ExpFloat64()
		}
	}
	for b.Loop() {
		TwoLevelShift(side, side, []float64{0.5, 0.9, 0.95, 0.99}, 0.95, 1)
	}
}
