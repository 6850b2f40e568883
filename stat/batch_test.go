package stat

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 17)) }

// ar1 is a stationary first-order autoregression with unit variance.
func ar1(rng *rand.Rand, n int, phi float64) []float64 {
	x := make([]float64, n)
	x[0] = rng.NormFloat64()
	scale := math.Sqrt(1 - phi*phi)
	for i := 1; i < n; i++ {
		x[i] = phi*x[i-1] + scale*rng.NormFloat64()
	}
	return x
}

// queueWaits are waiting times of a stationary M/M/1 queue at the given load,
// in mean service times (Lindley), after a warm-up.
func queueWaits(rng *rand.Rand, n int, load float64) []float64 {
	x := make([]float64, n)
	w := 0.
	for i := -2000; i < n; i++ {
		w = max(0, w+rng.ExpFloat64()-rng.ExpFloat64()/load)
		if i >= 0 {
			x[i] = w
		}
	}
	return x
}

func TestBatchMeans(t *testing.T) {
	if got := BatchMeans([]float64{99, 1, 3, 5, 7}, 2); !slices.Equal(got, []float64{2, 6}) {
		t.Errorf("the remainder is not left out at the start: %v", got)
	}
	if BatchMeans(ramp(3), 4) != nil || BatchMeans(ramp(3), 0) != nil {
		t.Error("batches from too little")
	}
}

type intervalFunc func(series, sorted []float64, seed uint64) (Interval, bool)

// coverage draws series and returns the share of them that gave an interval and
// the share of intervals that cover the truth.
func coverage(replicas int, draw func(*rand.Rand) []float64, truth float64, interval intervalFunc) (given, covered float64) {
	rng := seeded(99)
	for i := range replicas {
		x := draw(rng)
		v, ok := interval(x, slices.Sorted(slices.Values(x)), uint64(i))
		if !ok {
			continue
		}
		given++
		if v.Lo <= truth && truth <= v.Hi {
			covered++
		}
	}
	return given / float64(replicas), covered / max(1, given)
}

func meanInterval(x, _ []float64, _ uint64) (Interval, bool) { return MeanInterval(x, .95) }

func quantileInterval(p float64) intervalFunc {
	return func(x, sorted []float64, _ uint64) (Interval, bool) { return QuantileInterval(x, sorted, p, .95) }
}

// The tables in the doc comments were made by this function with more replicas.
func TestCoverage(t *testing.T) {
	ar := func(n int, phi float64) func(*rand.Rand) []float64 {
		return func(rng *rand.Rand) []float64 { return ar1(rng, n, phi) }
	}
	queue := func(n int) func(*rand.Rand) []float64 {
		return func(rng *rand.Rand) []float64 { return queueWaits(rng, n, .8) }
	}
	const p99 = 2.326348 // of the normal distribution
	wait := func(p float64) float64 { return math.Log(.8/(1-p)) / .2 }
	iid := func(x, sorted []float64, _ uint64) (Interval, bool) {
		lo, hi, ok := OrderStatCI(len(x), .99, .95)
		return Interval{Lo: sorted[lo-1], Hi: sorted[hi-1]}, ok
	}
	bootMean := func(x, _ []float64, seed uint64) (Interval, bool) { return BootstrapMean(x, .95, seed) }
	bootP99 := func(x, sorted []float64, seed uint64) (Interval, bool) {
		return BootstrapQuantile(x, sorted, .99, .95, seed)
	}
	for _, c := range []struct {
		name                 string
		replicas             int
		draw                 func(*rand.Rand) []float64
		truth                float64
		interval             intervalFunc
		givenLow, givenHigh  float64
		coverLow, coverUpper float64
	}{
		{"mean, independent", 100, ar(1000, 0), 0, meanInterval, .98, 1, .92, .99},
		{"mean, phi 0.9", 50, ar(5000, .9), 0, meanInterval, .95, 1, .91, .99},
		{"mean, phi 0.98 in 200", 200, ar(200, .98), 0, meanInterval, 0, .1, 0, 1},
		{"mean, queue", 20, queue(20_000), 4, meanInterval, .9, 1, .84, 1},
		{"median, phi 0.9", 100, ar(2000, .9), 0, quantileInterval(.5), .95, 1, .91, 1},
		{"p99, independent", 200, ar(1000, 0), p99, quantileInterval(.99), .93, 1, .94, 1},
		{"p99, phi 0.5", 100, ar(2000, .5), p99, quantileInterval(.99), .8, 1, .93, 1},
		{"p99, phi 0.9", 25, ar(20_000, .9), p99, quantileInterval(.99), .9, 1, .94, 1},
		{"p99, phi 0.9 in 5,000", 25, ar(5000, .9), p99, quantileInterval(.99), 0, .02, 0, 1},
		{"p99, phi 0.98 in 5,000", 30, ar(5000, .98), p99, quantileInterval(.99), 0, .02, 0, 1},
		{"p99, queue", 8, queue(50_000), wait(.99), quantileInterval(.99), .7, 1, .8, 1},
		{"p99, queue in 1,000", 100, queue(1000), wait(.99), quantileInterval(.99), 0, .03, 0, 1},
		{"p99, queue, taken as independent", 100, queue(2000), wait(.99), iid, 1, 1, 0, .35},
		{"bootstrap mean, phi 0.9", 25, ar(5000, .9), 0, bootMean, .95, 1, .88, 1},
		{"bootstrap p99, phi 0.5", 12, ar(2000, .5), p99, bootP99, .9, 1, .8, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			given, covered := coverage(c.replicas, c.draw, c.truth, c.interval)
			t.Logf("given %.3f, covered %.3f", given, covered)
			if given < c.givenLow || given > c.givenHigh {
				t.Errorf("given in %.3f of cases, want %v to %v", given, c.givenLow, c.givenHigh)
			}
			if covered < c.coverLow || covered > c.coverUpper {
				t.Errorf("covers in %.3f of cases, want %v to %v", covered, c.coverLow, c.coverUpper)
			}
		})
	}
}

func TestIntervalRefusals(t *testing.T) {
	rng := seeded(8)
	noise := ar1(rng, 2000, 0)
	quantile := func(x []float64, p, level float64) (Interval, bool) {
		return QuantileInterval(x, slices.Sorted(slices.Values(x)), p, level)
	}
	for name, c := range map[string]struct {
		interval func() (Interval, bool)
		want     Refusal
	}{
		"mean of 19":          {func() (Interval, bool) { return MeanInterval(noise[:19], .95) }, TooFewBatches},
		"mean of nothing":     {func() (Interval, bool) { return MeanInterval(nil, .95) }, TooFewBatches},
		"mean of a drift":     {func() (Interval, bool) { return MeanInterval(ramp(2000), .95) }, StillDependent},
		"quantile of a drift": {func() (Interval, bool) { return quantile(ramp(2000), .5, .95) }, StillDependent},
		"p99 of 300":          {func() (Interval, bool) { return quantile(noise[:300], .99, .95) }, TooFewEffective},
		"p99.9 of 999":        {func() (Interval, bool) { return quantile(noise[:999], .9999, .95) }, TooFewBeyond},
		"p100":                {func() (Interval, bool) { return quantile(noise, 1, .95) }, BadArgument},
		"level 1":             {func() (Interval, bool) { return MeanInterval(noise, 1) }, BadArgument},
		"bootstrap of 10":     {func() (Interval, bool) { return BootstrapMean(noise[:10], .95, 1) }, TooFewBatches},
		"bootstrap level 0":   {func() (Interval, bool) { return BootstrapMean(noise, 0, 1) }, BadArgument},
		"bootstrap p99 of 99": {func() (Interval, bool) { return BootstrapQuantile(noise[:99], ramp(99), .99, .95, 1) }, TooFewBeyond},
	} {
		t.Run(name, func(t *testing.T) {
			v, ok := c.interval()
			if ok || v.Why != c.want || !math.IsNaN(v.Lo) || !math.IsNaN(v.Hi) {
				t.Errorf("got %v, want a refusal: %s", v, c.want)
			}
		})
	}
}

func TestIntervalOfConstant(t *testing.T) {
	same := slices.Repeat([]float64{7}, 400)
	v, ok := MeanInterval(same, .95)
	if !ok || v.Lo != 7 || v.Hi != 7 || v.NEff != 400 {
		t.Errorf("mean: %v", v)
	}
	v, ok = QuantileInterval(same, same, .5, .95)
	if !ok || v.Lo != 7 || v.Hi != 7 {
		t.Errorf("median: %v", v)
	}
}

func TestEffectiveN(t *testing.T) {
	near(t, "phi 0.6", EffectiveN(ar1(seeded(1), 50_000, .6)), 50_000*.4/1.6, 3500)
	if !math.IsNaN(EffectiveN(ramp(19))) {
		t.Error("an effective size from 19")
	}
}

// Unit of measure and origin must not matter, and the interval must enclose the
// point estimate that is printed beside it.
func TestIntervalEquivariance(t *testing.T) {
	rng := seeded(12)
	for range 20 {
		x := queueWaits(rng, 3000, .5)
		y := make([]float64, len(x))
		for i := range x {
			y[i] = 1024*x[i] + 65536
		}
		sortedX, sortedY := slices.Sorted(slices.Values(x)), slices.Sorted(slices.Values(y))
		for _, p := range []float64{.5, .9, .95} {
			a, okA := QuantileInterval(x, sortedX, p, .95)
			b, okB := QuantileInterval(y, sortedY, p, .95)
			if okA != okB {
				t.Fatalf("p=%v: %v against %v", p, a, b)
			}
			if !okA {
				continue
			}
			near(t, "lo", b.Lo, 1024*a.Lo+65536, 1e-6)
			near(t, "hi", b.Hi, 1024*a.Hi+65536, 1e-6)
			if q := Quantile(sortedX, p, Type7); q < a.Lo || q > a.Hi {
				t.Errorf("p=%v: %v lies outside %v", p, q, a)
			}
		}
	}
}

func TestBootstrapOracle(t *testing.T) {
	x := ar1(seeded(21), 600, .3)
	for i := range x {
		x[i] = math.Round(x[i]*20) / 20 // ties
	}
	sorted := slices.Sorted(slices.Values(x))
	for _, p := range []float64{.1, .9} {
		got, ok := BootstrapQuantile(x, sorted, p, .95, 5)
		if !ok {
			t.Fatal(got)
		}
		draws := drawBlocks(len(x), batching{count: got.Batches, length: got.Length}, 5)
		var quantiles, means []float64
		for _, starts := range draws.starts {
			var sample []float64
			for _, s := range starts {
				for i := range draws.length {
					sample = append(sample, x[(s+i)%len(x)])
				}
			}
			means = append(means, Mean(sample))
			slices.Sort(sample)
			quantiles = append(quantiles, Quantile(sample, p, Type1))
		}
		slices.Sort(quantiles)
		if got.Lo != quantiles[24] || got.Hi != quantiles[975] {
			t.Errorf("p=%v: got %v, want %v to %v", p, got, quantiles[24], quantiles[975])
		}
		for i, m := range draws.means(x) {
			near(t, "mean of a resample", m, means[i], 1e-12)
		}
	}
}

func TestBootstrapSeed(t *testing.T) {
	x := ar1(seeded(2), 2000, .5)
	a, _ := BootstrapMean(x, .95, 1)
	b, _ := BootstrapMean(x, .95, 1)
	c, _ := BootstrapMean(x, .95, 2)
	if a != b || a == c {
		t.Errorf("%v, %v, %v: the seed alone must decide", a, b, c)
	}
}

func TestInputsKept(t *testing.T) {
	x := ar1(seeded(6), 500, .2)
	sorted := slices.Sorted(slices.Values(x))
	before, beforeSorted := slices.Clone(x), slices.Clone(sorted)
	MeanInterval(x, .95)
	QuantileInterval(x, sorted, .5, .95)
	BootstrapMean(x, .95, 1)
	BootstrapQuantile(x, sorted, .5, .95, 1)
	MSER5(x)
	CUSUM(x)
	MedianRule(x)
	MannKendall(x)
	TheilSen(before, x)
	MannWhitney(x, sorted)
	HodgesLehmann(x[:50], sorted)
	SignFlip(x[:10])
	Holm(x)
	if !slices.Equal(x, before) || !slices.Equal(sorted, beforeSorted) {
		t.Error("an input was modified")
	}
}

// Even coverage of the unit interval gives an effective size of n, so the ranks
// can be worked out by hand: only Student's allowance for 64 batches shortens it.
func TestQuantileIntervalRanks(t *testing.T) {
	const n = 4000
	x := make([]float64, n)
	for i := range x {
		x[i] = float64(1 + i*2473%n) // a permutation of 1..n, 2473/4000 near the golden ratio
	}
	v, ok := QuantileInterval(x, ramp(n), .9, .95)
	if !ok || v.NEff != n || v.Batches != 64 {
		t.Fatalf("%v", v)
	}
	const size = 3847 // 4000 * (1.959964/1.998341)^2 = 3847.8, rounded down
	lo, hi, _ := OrderStatCI(size, .9, .95)
	near(t, "lo", v.Lo, float64(lo)*(n+1)/(size+1), 1e-9)
	near(t, "hi", v.Hi, float64(hi)*(n+1)/(size+1), 1e-9)
}

// What correlation is left between batches inflates their variance.
func TestResidualCorrelation(t *testing.T) {
	rng := seeded(61)
	inflated := 0
	for range 50 {
		x := ar1(rng, 2000, .9)
		c := chooseBatches(x)
		means := BatchMeans(x, c.count)
		r := max(0, Autocorrelation(means, 1))
		if r > 0 {
			inflated++
		}
		// Never below what the chosen batches say, nor what twenty do.
		want := Variance(means) * float64(c.length) * (1 + r) / (1 - r)
		twenty := BatchMeans(x, MinBatches)
		q := max(0, Autocorrelation(twenty, 1))
		want = max(want, Variance(twenty)*float64(len(x)/MinBatches)*(1+q)/(1-q))
		near(t, "long-run variance", c.longRun, want, 1e-9)
	}
	if inflated == 0 {
		t.Error("no case to look at")
	}
}
