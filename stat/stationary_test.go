package stat

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestMSER5Oracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.SliceOfN(rapid.Float64Range(0, 100), 15, 120).Draw(t, "x")
		z := make([]float64, len(x)/5)
		for i := range z {
			z[i] = Mean(x[5*i : 5*i+5])
		}
		score := func(d int) (sum float64) {
			rest := z[d:]
			for _, v := range rest {
				sum += (v - Mean(rest)) * (v - Mean(rest))
			}
			return sum / float64(len(rest)*len(rest))
		}
		got := MSER5(x)
		best := math.Inf(1)
		for d := 0; d <= len(z)/2; d++ {
			best = min(best, score(d))
		}
		if s := score(got.At / 5); s > best*(1+1e-9)+1e-9 {
			t.Fatalf("At=%d scores %v, the best is %v", got.At, s, best)
		}
		if got.AtBound != (got.At/5 == len(z)/2) || got.N != len(x) {
			t.Fatalf("%+v of %d batches", got, len(z))
		}
	})
}

func TestMSER5(t *testing.T) {
	rng := seeded(31)
	settle := make([]float64, 400) // starts 10 sd high and settles in 60
	for i := range settle {
		settle[i] = rng.NormFloat64() + 10*max(0, 1-float64(i)/60)
	}
	for name, c := range map[string]struct {
		series    []float64
		low, up   int
		bound     bool
		ok, trust bool
	}{
		"too short":    {ramp(14), 0, 0, false, false, false},
		"constant":     {make([]float64, 100), 0, 0, false, true, true},
		"drift":        {ramp(400), 200, 200, true, true, false},
		"settles":      {settle, 40, 70, false, true, true},
		"settles late": {settle[:130], 40, 65, false, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := MSER5(c.series)
			if got.At < c.low || got.At > c.up || got.AtBound != c.bound || got.OK != c.ok || got.InFirstThird() != c.trust {
				t.Errorf("%+v, in the first third: %v", got, got.InFirstThird())
			}
		})
	}
}

func TestCUSUM(t *testing.T) {
	rng := seeded(41)
	x := ar1(rng, 1000, .3)
	for i := 600; i < len(x); i++ {
		x[i] += 1
	}
	got := CUSUM(x)
	if !got.OK || !got.Changed || got.At < 560 || got.At > 640 {
		t.Errorf("a change at 600: %+v", got)
	}
	if got := CUSUM(ramp(19)); got.OK {
		t.Errorf("a verdict from 19: %+v", got)
	}
	if got := CUSUM(make([]float64, 100)); !got.OK || got.Changed {
		t.Errorf("a constant: %+v", got)
	}
	if got := CUSUM(ramp(1000)); got.OK || got.Changed || got.Why == "" {
		t.Errorf("a drift: %+v", got)
	}
	levels := make([]float64, 100)
	for i := 40; i < 100; i++ {
		levels[i] = 1
	}
	if got := CUSUM(levels); !got.Changed || got.At != 40 {
		t.Errorf("two levels: %+v", got)
	}
}

func TestCUSUMSize(t *testing.T) {
	for _, c := range []struct{ phi, want float64 }{{0, .06}, {.5, .07}} {
		rng := seeded(43)
		changed := 0
		for range 500 {
			if CUSUM(ar1(rng, 1000, c.phi)).Changed {
				changed++
			}
		}
		t.Logf("phi %v: %v", c.phi, float64(changed)/500)
		near(t, "size", float64(changed)/500, c.want, .04)
	}
}

func TestMedianRule(t *testing.T) {
	window := func(levels ...float64) (x []float64) {
		for _, v := range levels {
			for i := range 10 {
				x = append(x, v+float64(i%2)*1e-6)
			}
		}
		return x
	}
	for name, c := range map[string]struct {
		series []float64
		at     int
		fired  bool
	}{
		"at once":               {window(100, 101, 100, 101), 40, true},
		"three windows":         {window(100, 101, 100), 0, false},
		"a jump starts anew":    {window(100, 101, 100, 90, 90, 91, 91), 70, true},
		"2 % is not below 2 %":  {window(100, 102.001, 104.1, 106.2), 0, false},
		"zeros":                 {make([]float64, 40), 40, true},
		"a part of a window":    {window(100, 101, 100, 101)[:39], 0, false},
		"empty":                 {nil, 0, false},
		"drift of 1 % a window": {window(100, 101, 102, 103), 40, true}, // the heuristic's own blind spot
	} {
		t.Run(name, func(t *testing.T) {
			if at, fired := MedianRule(c.series); at != c.at || fired != c.fired {
				t.Errorf("got %d %v, want %d %v", at, fired, c.at, c.fired)
			}
		})
	}
}

// How often the rule fires on stationary noise: nearly always at a coefficient
// of variation of 0.05, hardly ever at 0.5.
func TestMedianRuleRate(t *testing.T) {
	for _, c := range []struct{ cv, low, up float64 }{{.05, .99, 1}, {.5, .01, .09}} {
		rng := seeded(51)
		sigma := math.Sqrt(math.Log(1 + c.cv*c.cv))
		fired := 0.
		for range 400 {
			x := make([]float64, 2000)
			for i := range x {
				x[i] = math.Exp(sigma * rng.NormFloat64())
			}
			if _, ok := MedianRule(x); ok {
				fired++
			}
		}
		if rate := fired / 400; rate < c.low || rate > c.up {
			t.Errorf("CV %v: fired in %v of cases", c.cv, rate)
		}
	}
}
