package arrival_test

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/gonum/stat"
	"pgregory.net/rapid"

	"github.com/assay-bench/assay/arrival"
)

func gaps(p arrival.Process, n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = p.Next().Seconds()
	}
	return out
}

func poisson(t testing.TB, rate float64, seed uint64) arrival.Process {
	t.Helper()
	p, err := arrival.NewPoisson(rate, rand.NewPCG(seed, 1))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestCheckRate(t *testing.T) {
	tests := []struct {
		name string
		rate float64
		want string
	}{
		{"usual", 4, ""},
		{"slow", 1e-6, ""},
		{"fast", 1e9, ""},
		{"zero", 0, "rate 0 is not above 0"},
		{"negative", -1, "rate -1 is not above 0"},
		{"NaN", math.NaN(), "rate NaN is not a finite number"},
		{"infinite", math.Inf(1), "rate +Inf is not a finite number"},
		{"negative infinite", math.Inf(-1), "rate -Inf is not a finite number"},
		{"too slow", 1e-9, "rate 1e-09 is not within 1e-06 and 1e+09 per second"},
		{"too fast", 2e9, "rate 2e+09 is not within 1e-06 and 1e+09 per second"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, c := arrival.NewConstant(tt.rate)
			_, p := arrival.NewPoisson(tt.rate, rand.NewPCG(1, 1))
			for _, err := range []error{arrival.CheckRate(tt.rate), c, p} {
				if (err == nil) != (tt.want == "") || err != nil && !strings.HasSuffix(err.Error(), tt.want) {
					t.Errorf("err = %v, want %q", err, tt.want)
				}
			}
		})
	}
}

// The i-th arrival of a constant rate is i/rate, rounded, for any i: against
// exact arithmetic.
func TestConstantDoesNotDrift(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.Float64Range(1e-3, 1e6).Draw(t, "rate")
		n := rapid.IntRange(1, 2000).Draw(t, "n")
		c, err := arrival.NewConstant(rate)
		if err != nil {
			t.Fatal(err)
		}
		var at time.Duration
		for range n {
			at += c.Next()
		}
		exact := new(big.Rat).SetInt64(int64(n) * 1e9)
		exact.Quo(exact, new(big.Rat).SetFloat64(rate))
		f, _ := new(big.Rat).Sub(exact, new(big.Rat).SetInt64(int64(at))).Float64()
		if math.Abs(f) > 0.5001 {
			t.Fatalf("arrival %d at rate %v is off by %v ns", n, rate, f)
		}
	})
}

func TestConstantLong(t *testing.T) {
	c, err := arrival.NewConstant(3)
	if err != nil {
		t.Fatal(err)
	}
	var at time.Duration
	for range 3_000_000 {
		at += c.Next()
	}
	if at != 1_000_000*time.Second {
		t.Errorf("3,000,000 arrivals at 3/s take %v", at)
	}
}

func TestSameSeedSameGaps(t *testing.T) {
	a, b, other := gaps(poisson(t, 7, 5), 1000), gaps(poisson(t, 7, 5), 1000), gaps(poisson(t, 7, 6), 1000)
	if !slices.Equal(a, b) {
		t.Error("one seed gave two sequences")
	}
	if slices.Equal(a, other) {
		t.Error("two seeds gave one sequence")
	}
}

// The first gaps of a seed are part of what a stored seed means: a change here
// changes every schedule.
func TestPoissonIsPinned(t *testing.T) {
	p := poisson(t, 1, 1)
	got := fmt.Sprint(p.Next(), p.Next(), p.Next())
	if want := "882.035509ms 142.044582ms 1.125510853s"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Kolmogorov-Smirnov against the exponential distribution, alpha 0.001
// (critical value 1.9495/√n), and mean, CV and lag-1 correlation within their
// sampling error at the same level (3.29 standard errors).
func TestPoissonIsPoisson(t *testing.T) {
	const n = 50_000
	for _, rate := range []float64{0.01, 4, 2500, 3e6} {
		for seed := range uint64(3) {
			g := gaps(poisson(t, rate, seed), n)
			if d, limit := ksExponential(g, rate), 1.9495/math.Sqrt(n); d > limit {
				t.Errorf("rate %v, seed %d: KS distance %v > %v", rate, seed, d, limit)
			}
			mean, sd := stat.MeanStdDev(g, nil)
			if z := (mean*rate - 1) * math.Sqrt(n); math.Abs(z) > 3.29 {
				t.Errorf("rate %v, seed %d: mean gap %v is %v standard errors off", rate, seed, mean, z)
			}
			// The CV of an exponential sample has a standard error of 1/√n.
			if z := (sd/mean - 1) * math.Sqrt(n); math.Abs(z) > 3.29 {
				t.Errorf("rate %v, seed %d: CV %v is %v standard errors off", rate, seed, sd/mean, z)
			}
			if z := stat.Correlation(g[1:], g[:n-1], nil) * math.Sqrt(n); math.Abs(z) > 3.29 {
				t.Errorf("rate %v, seed %d: lag-1 correlation of %v standard errors", rate, seed, z)
			}
		}
	}
}

func ksExponential(g []float64, rate float64) float64 {
	sorted := slices.Sorted(slices.Values(g))
	d := 0.0
	for i, x := range sorted {
		f := -math.Expm1(-rate * x)
		n := float64(len(sorted))
		d = max(d, f-float64(i)/n, float64(i+1)/n-f)
	}
	return d
}

// The index of dispersion of counts (variance over mean) is 1 for a Poisson
// process and near 0 for a constant one.
func TestDispersion(t *testing.T) {
	const rate, window, windows = 20.0, 1.0, 5000
	c, err := arrival.NewConstant(rate)
	if err != nil {
		t.Fatal(err)
	}
	if d := dispersion(c, window, windows); d > 0.02 {
		t.Errorf("constant: index of dispersion %v", d)
	}
	// Standard error √(2/windows) for a Poisson process.
	d := dispersion(poisson(t, rate, 9), window, windows)
	if z := (d - 1) / math.Sqrt(2.0/windows); math.Abs(z) > 3.29 {
		t.Errorf("Poisson: index of dispersion %v is %v standard errors off", d, z)
	}
}

func dispersion(p arrival.Process, window float64, windows int) float64 {
	counts := make([]float64, windows)
	for at := p.Next().Seconds(); at < window*float64(windows); at += p.Next().Seconds() {
		counts[int(at/window)]++
	}
	mean, sd := stat.MeanStdDev(counts, nil)
	return sd * sd / mean
}

// Rounding carries over: at a rate where gaps are a few nanoseconds the mean
// still holds, and no gap is negative.
func TestPoissonAtNanoseconds(t *testing.T) {
	const n = 200_000
	p := poisson(t, 4e8, 3)
	var sum time.Duration
	for range n {
		g := p.Next()
		if g < 0 {
			t.Fatalf("gap %v", g)
		}
		sum += g
	}
	if z := (float64(sum)/n/2.5 - 1) * math.Sqrt(n); math.Abs(z) > 3.29 {
		t.Errorf("mean gap %v ns", float64(sum)/n)
	}
}

func TestStrings(t *testing.T) {
	c, _ := arrival.NewConstant(2.5)
	for p, want := range map[arrival.Process]string{c: "constant rate 2.5/s", poisson(t, 4, 1): "Poisson, mean rate 4/s"} {
		if p.String() != want {
			t.Errorf("%q, want %q", p, want)
		}
	}
}

func ExampleConstant() {
	p, err := arrival.NewConstant(3)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p.Next(), p.Next(), p.Next())
	// Output: 333.333333ms 333.333334ms 333.333333ms
}

func BenchmarkPoisson(b *testing.B) {
	p := poisson(b, 100, 1)
	b.ReportAllocs()
	for b.Loop() {
		p.Next()
	}
}
