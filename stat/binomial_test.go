package stat

import (
	"math"
	"testing"
)

func TestOrderStatCI(t *testing.T) {
	for _, c := range []struct{ n, lo, hi int }{{500, 490, 500}, {1000, 983, 997}, {5000, 4936, 4964}, {10000, 9880, 9920}} {
		lo, hi, ok := OrderStatCI(c.n, .99, .95)
		if !ok || lo != c.lo || hi != c.hi {
			t.Errorf("n=%d: got %d..%d %v, want %d..%d", c.n, lo, hi, ok, c.lo, c.hi)
		}
	}
	for p, first := range map[float64]int{.99: 368, .95: 72, .9: 36, .5: 6, .999: 3688} {
		if _, _, ok := OrderStatCI(first-1, p, .95); ok {
			t.Errorf("p=%v: an interval at n=%d", p, first-1)
		}
		if _, _, ok := OrderStatCI(first, p, .95); !ok {
			t.Errorf("p=%v: no interval at n=%d", p, first)
		}
	}
	if _, _, ok := OrderStatCI(0, .5, .95); ok {
		t.Error("an interval from nothing")
	}
	if lo, hi, ok := OrderStatCI(1_000_000, .999, .95); !ok || lo < 998_900 || hi > 999_100 {
		t.Errorf("n=1e6: %d..%d %v", lo, hi, ok)
	}
}

// pmfCDF sums the probability mass function term by term.
func pmfCDF(n, k int, p float64) float64 {
	var sum float64
	for i := 0; i <= k; i++ {
		a, _ := math.Lgamma(float64(n + 1))
		b, _ := math.Lgamma(float64(i + 1))
		c, _ := math.Lgamma(float64(n - i + 1))
		sum += math.Exp(a - b - c + float64(i)*math.Log(p) + float64(n-i)*math.Log1p(-p))
	}
	return sum
}

func TestOrderStatCIOracle(t *testing.T) {
	for _, n := range []int{1, 2, 5, 6, 17, 36, 100, 368} {
		for _, p := range []float64{.05, .3, .5, .9, .95, .99} {
			upTo := make([]float64, n) // P(B <= k)
			for k := range upTo {
				upTo[k] = pmfCDF(n, k, p)
			}
			for _, level := range []float64{.5, .9, .95, .99} {
				a := 1 - level
				lo, hi := 0, 0
				for i := 1; i <= n; i++ {
					if upTo[i-1] <= a/2 {
						lo = i
					}
				}
				for j := n; j >= 1 && upTo[j-1] >= 1-a/2; j-- {
					hi = j
				}
				gotLo, gotHi, ok := OrderStatCI(n, p, level)
				if ok != (lo > 0 && hi > 0) || ok && (gotLo != lo || gotHi != hi) {
					t.Errorf("n=%d p=%v level=%v: got %d..%d %v, want %d..%d", n, p, level, gotLo, gotHi, ok, lo, hi)
				}
			}
		}
	}
}

func TestBinomialCDF(t *testing.T) {
	for _, c := range []struct {
		n, k int
		p    float64
	}{{10, 3, .2}, {1000, 985, .99}, {100_000, 950, .01}, {1_000_000, 990_100, .99}} {
		near(t, "cdf", binomialCDF(c.n, c.k, c.p), pmfCDF(c.n, c.k, c.p), 2e-8)
	}
}

func TestEarlyStop(t *testing.T) {
	if n, ok := EarlyStopMaxOver(10_000, .99, .99); !ok || n != 77 {
		t.Errorf("accepts %d of 10,000", n)
	}
	if !EarlyStopAccepts(10_000, 77, .99, .99) || EarlyStopAccepts(10_000, 78, .99, .99) || EarlyStopAccepts(458, 0, .99, .99) {
		t.Error("EarlyStopAccepts disagrees")
	}
	for p, want := range map[float64]int{.99: 662, .95: 130, .9: 64, .999: 6636, .5: 11} {
		if got := EarlyStopFloor(1, p, .99); got != want {
			t.Errorf("p=%v: an estimate needs %d, want %d", p, got, want)
		}
	}
	if got := EarlyStopFloor(0, .99, .99); got != 459 {
		t.Errorf("zero-over floor %d", got)
	}
	if _, _, ok := EarlyStopEstimate(ramp(661), .99, .99); ok {
		t.Error("an estimate at 661")
	}
	if v, n, ok := EarlyStopEstimate(ramp(10_000), .99, .99); !ok || n != 77 || v != 10_000-77+1 {
		t.Errorf("estimate %v with t=%d", v, n)
	}
	if EarlyStopFloor(0, 1, .99) != 0 || EarlyStopFloor(-1, .5, .99) != 0 {
		t.Error("a floor for arguments without meaning")
	}
}

func TestClopperPearson(t *testing.T) {
	for _, c := range []struct {
		k, n   int
		lo, hi float64
	}{
		{0, 10, 0, .30850}, {10, 10, .69150, 1}, {5, 10, .18709, .81291}, {1, 20, .00127, .24873}, {90, 100, .82378, .95099},
	} {
		lo, hi := ClopperPearson(c.k, c.n, .95)
		near(t, "lo", lo, c.lo, 6e-6)
		near(t, "hi", hi, c.hi, 6e-6)
	}
	// The defining equations, at a size where approximations are tempting.
	lo, hi := ClopperPearson(990_000, 1_000_000, .95)
	near(t, "lower tail", 1-binomialCDF(1_000_000, 989_999, lo), .025, 1e-6)
	near(t, "upper tail", binomialCDF(1_000_000, 990_000, hi), .025, 1e-6)
	if lo, hi := ClopperPearson(0, 0, .95); lo != 0 || hi != 1 {
		t.Error("no trials say something")
	}
	if lo, _ := ClopperPearson(3, 2, .95); !math.IsNaN(lo) {
		t.Error("3 of 2")
	}
}
