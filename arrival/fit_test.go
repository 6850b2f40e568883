package arrival_test

// The goodness-of-fit tests of every process, at alpha 0.001 with fixed seeds:
// 3.29 standard errors, and a Kolmogorov-Smirnov distance of 1.9495/√n.

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"gonum.org/v1/gonum/stat"

	"github.com/assay-bench/assay/arrival"
)

const z001 = 3.2905

func must[P arrival.Process](p P, err error) arrival.Process {
	if err != nil {
		panic(err)
	}
	return p
}

func src(seed uint64) rand.Source { return rand.NewPCG(seed, 77) }

// renewals are makers of all renewal processes of a mean rate.
func renewals(rate float64) map[string]func(seed uint64) (*arrival.Renewal, error) {
	m := map[string]func(uint64) (*arrival.Renewal, error){}
	add := func(name string, make func(rate, cv float64, s rand.Source) (*arrival.Renewal, error), cvs ...float64) {
		for _, cv := range cvs {
			m[fmt.Sprintf("%s CV %v", name, cv)] = func(seed uint64) (*arrival.Renewal, error) { return make(rate, cv, src(seed)) }
		}
	}
	add("gamma", arrival.NewGamma, 0.2, 1, 2.5, 4)
	add("Weibull", arrival.NewWeibull, 0.5, 1, 2, 3)
	add("Pareto", arrival.NewPareto, 0.3, 1, 3)
	add("Lomax", arrival.NewLomax, 1.5, 3)
	add("hyperexponential", arrival.NewHyperexponential, 1.5, 3)
	return m
}

// ksRounded is ks where values are known to a nanosecond: the part of the
// distance that rounding explains does not count. Of gamma gaps with a CV of 4 a
// quarter is below 1 ns.
func ksRounded(x []float64, cdf func(float64) float64) float64 {
	x = slices.Sorted(slices.Values(x))
	d, n := 0.0, float64(len(x))
	for i, v := range x {
		d = max(d, cdf(v-1e-9)-float64(i)/n, float64(i+1)/n-cdf(v+1e-9))
	}
	return d
}

// ks is the largest distance between the sample and a distribution.
func ks(x []float64, cdf func(float64) float64) float64 {
	x = slices.Sorted(slices.Values(x))
	d, n := 0.0, float64(len(x))
	for i, v := range x {
		f := cdf(v)
		d = max(d, f-float64(i)/n, float64(i+1)/n-f)
	}
	return d
}

// Gaps follow the known distribution, are independent, and have the mean asked
// for. Where the tail is so heavy that a sample mean is not normal, the mean of
// the distribution is checked instead (TestRenewalMoments).
func TestRenewal(t *testing.T) {
	const n, rate = 20_000, 4.0
	for name, make := range renewals(rate) {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(2) {
				p, err := make(seed)
				if err != nil {
					t.Fatal(err)
				}
				g := gaps(p, n)
				if d := ksRounded(g, p.CDF); d > 1.9495/math.Sqrt(n) {
					t.Errorf("seed %d: KS distance %v", seed, d)
				}
				// Uniform by the distribution: then correlations have light tails too.
				u := slices.Clone(g)
				for i := range u {
					u[i] = p.CDF(u[i])
				}
				// Box and Pierce over ten lags: chi-squared, 29.59 at alpha 0.001.
				q := 0.0
				for lag := 1; lag <= 10; lag++ {
					r := stat.Correlation(u[lag:], u[:n-lag], nil)
					q += n * r * r
				}
				if q > 29.59 {
					t.Errorf("seed %d: gaps are correlated: Box-Pierce %v", seed, q)
				}
			}
		})
	}
}

// The mean and CV of each distribution, integrated from its survival function,
// are those asked for: E[X] = ∫S, E[X²] = 2∫xS.
func TestRenewalMoments(t *testing.T) {
	const rate = 4.0
	for name, make := range renewals(rate) {
		t.Run(name, func(t *testing.T) {
			p, err := make(1)
			if err != nil {
				t.Fatal(err)
			}
			var m1, m2 float64
			// x = e^v/rate, by Simpson's rule from tiny to huge.
			const steps = 40_000
			lo, hi := -60.0, 26.0
			h := (hi - lo) / steps
			for i := range steps + 1 {
				w := 2.0
				switch {
				case i == 0 || i == steps:
					w = 1
				case i%2 == 1:
					w = 4
				}
				x := math.Exp(lo+float64(i)*h) / rate
				s := (1 - p.CDF(x)) * w * h / 3
				m1 += s * x
				m2 += 2 * x * s * x
			}
			if math.Abs(m1*rate-1) > 1e-4 {
				t.Errorf("mean gap × rate = %v", m1*rate)
			}
			// 1 - CDF loses its digits in a heavy tail: the second moment needs more room.
			if name == "Pareto CV 3" {
				// The second moment lies beyond where S has digits; its index does not:
				// CV² = 1/(α(α-2)).
				s := func(x float64) float64 { return 1 - p.CDF(x) }
				a := math.Log2(s(1) / s(2))
				m2 = m1 * m1 * (1 + 1/(a*(a-2)))
			}
			if cv := math.Sqrt(m2-m1*m1) / m1; math.Abs(cv/p.CV()-1) > 0.02 {
				t.Errorf("CV %v, want %v", cv, p.CV())
			}
		})
	}
}

// Shapes of the reference table.
func TestWeibullShape(t *testing.T) {
	for cv, k := range map[float64]float64{0.5: 2.101, 1: 1, 2: 0.543, 3: 0.411, 5: 0.311} {
		p, err := arrival.NewWeibull(1, cv, src(1))
		if err != nil {
			t.Fatal(err)
		}
		// At the scale, CDF = 1 - 1/e.
		scale := 1 / math.Gamma(1+1/k)
		if got := p.CDF(scale); math.Abs(got-(1-1/math.E)) > 1e-3 {
			t.Errorf("CV %v: CDF(scale) = %v", cv, got)
		}
	}
}

// meanRate is the number of arrivals in a time, over that time.
func meanRate(p arrival.Process, seconds float64) float64 {
	n, at := 0, time.Duration(0)
	for end := time.Duration(seconds * 1e9); ; n++ {
		g := p.Next()
		if g == arrival.Never || at+g > end {
			return float64(n) / seconds
		}
		at += g
	}
}

// The mean rate is kept: its standard error over a long time T is
// √(rate·IDC(∞)/T), where IDC(∞) is CV² for a renewal process.
func TestMeanRate(t *testing.T) {
	const rate = 20.0
	onoff := arrival.OnOffParams{Rate: rate, Peak: 4, On: 5 * time.Second}
	mmpp := arrival.OnOffParams{Rate: rate, Peak: 3, Trough: 0.5, On: 2 * time.Second}
	tests := map[string]struct {
		make func(seed uint64) arrival.Process
		idc  float64
	}{
		"constant":         {func(uint64) arrival.Process { return must(arrival.NewConstant(rate)) }, 0.01},
		"Poisson":          {func(s uint64) arrival.Process { return must(arrival.NewPoisson(rate, src(s))) }, 1},
		"gamma":            {func(s uint64) arrival.Process { return must(arrival.NewGamma(rate, 2.5, src(s))) }, 6.25},
		"Weibull":          {func(s uint64) arrival.Process { return must(arrival.NewWeibull(rate, 2, src(s))) }, 4},
		"Pareto":           {func(s uint64) arrival.Process { return must(arrival.NewPareto(rate, 0.4, src(s))) }, 0.16},
		"Lomax":            {func(s uint64) arrival.Process { return must(arrival.NewLomax(rate, 1.2, src(s))) }, 1.44},
		"hyperexponential": {func(s uint64) arrival.Process { return must(arrival.NewHyperexponential(rate, 3, src(s))) }, 9},
		"ON-OFF":           {func(s uint64) arrival.Process { return must(arrival.NewOnOff(onoff, src(s))) }, onoff.Dispersion()},
		"MMPP":             {func(s uint64) arrival.Process { return must(arrival.NewOnOff(mmpp, src(s))) }, mmpp.Dispersion()},
		"Hawkes":           {func(s uint64) arrival.Process { return must(arrival.NewHawkes(rate, 0.6, time.Second, src(s))) }, 1 / (0.4 * 0.4)},
		"sinusoid": {func(s uint64) arrival.Process {
			return must(arrival.NewVarying(arrival.Sinusoid{Mean: rate, Amplitude: 0.9, Period: 100 * time.Second}, src(s)))
		}, 1},
		"bursts": {func(uint64) arrival.Process { return must(arrival.NewBurst(10, 500*time.Millisecond)) }, 0.1},
		"exact": {func(s uint64) arrival.Process {
			return must(arrival.NewExact(must(arrival.NewGamma(rate, 3, src(s))), rate, 100))
		}, 0.5},
	}
	const seconds = 4000.0
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(3) {
				got := meanRate(tt.make(seed), seconds)
				if z := (got - rate) / math.Sqrt(rate*tt.idc/seconds); math.Abs(z) > z001 {
					t.Errorf("seed %d: rate %v is %v standard errors off", seed, got, z)
				}
			}
		})
	}
}

// The start is stationary: over many seeds the first short interval has the mean
// rate already.
func TestStationaryStart(t *testing.T) {
	const rate, seeds, seconds = 10.0, 4000, 0.5
	for name, make := range map[string]func(seed uint64) arrival.Process{
		"ON-OFF": func(s uint64) arrival.Process {
			return must(arrival.NewOnOff(arrival.OnOffParams{Rate: rate, Peak: 5, On: 10 * time.Second}, src(s)))
		},
		"Hawkes": func(s uint64) arrival.Process { return must(arrival.NewHawkes(rate, 0.7, 2*time.Second, src(s))) },
	} {
		counts := []float64{}
		for seed := range uint64(seeds) {
			counts = append(counts, meanRate(make(seed), seconds))
		}
		mean, sd := stat.MeanStdDev(counts, nil)
		if z := (mean - rate) / (sd / math.Sqrt(seeds)); math.Abs(z) > z001 {
			t.Errorf("%s: first rate %v is %v standard errors off", name, mean, z)
		}
	}
}

// Given their number, the arrivals of a Poisson process of varying rate in [0, T]
// are uniform once mapped by Λ(t)/Λ(T): conditional uniformity, by
// Kolmogorov-Smirnov. The gaps of Λ are exponential (the Lewis transform's
// ground), which has more power against clusters.
func TestVarying(t *testing.T) {
	for _, shape := range shapes() {
		t.Run(shape.String(), func(t *testing.T) {
			for seed := range uint64(2) {
				p := must(arrival.NewVarying(shape, src(seed)))
				const end = 1000.0
				var u, unit []float64
				last := 0.0
				for at := 0.0; ; {
					g := p.Next()
					if at += g.Seconds(); g == arrival.Never || at > end {
						break
					}
					sum := shape.Arrivals(at)
					u, unit = append(u, sum/shape.Arrivals(end)), append(unit, sum-last)
					last = sum
				}
				n := float64(len(u))
				if n < 1000 {
					t.Fatalf("only %v arrivals", n)
				}
				if d := ks(u, func(x float64) float64 { return x }); d > 1.9495/math.Sqrt(n) {
					t.Errorf("seed %d: conditional uniformity: KS distance %v of n = %v", seed, d, n)
				}
				if d := ks(unit, func(x float64) float64 { return -math.Expm1(-x) }); d > 1.9495/math.Sqrt(n) {
					t.Errorf("seed %d: mapped gaps are not exponential: KS distance %v", seed, d)
				}
				if want := shape.Arrivals(end); math.Abs(n-want) > z001*math.Sqrt(want) {
					t.Errorf("seed %d: %v arrivals, expected %v", seed, n, want)
				}
			}
		})
	}
}

func shapes() []arrival.Shape {
	return []arrival.Shape{
		arrival.Sinusoid{Mean: 10, Amplitude: 0.8, Period: 60 * time.Second, Phase: 1},
		arrival.Sinusoid{Mean: 10, Amplitude: 1, Period: 333 * time.Second},
		arrival.Ramp{From: 1, To: 20, Over: 800 * time.Second},
		arrival.Ramp{From: 0, To: 10, Over: 500 * time.Second},
		arrival.Ramp{From: 10, To: 0, Over: 900 * time.Second},
		arrival.Ramp{From: 0.1, To: 50, Over: 900 * time.Second, Exponential: true},
		arrival.Ramp{From: 5, To: 5, Over: time.Second, Exponential: true},
		arrival.Steps{List: []arrival.Step{{Rate: 2, For: 300 * time.Second}, {Rate: 0, For: 100 * time.Second}, {Rate: 8}}},
		arrival.Steps{List: []arrival.Step{{Rate: 2, For: 7 * time.Second}, {Rate: 0, For: 3 * time.Second}, {Rate: 8, For: 4 * time.Second}}, Repeat: true},
	}
}

// A shape's three functions agree: Time inverts Arrivals, and Arrivals is the
// sum of Rate.
func TestShapes(t *testing.T) {
	for _, s := range shapes() {
		t.Run(s.String(), func(t *testing.T) {
			if err := s.Check(); err != nil {
				t.Fatal(err)
			}
			sum, h := 0.0, 0.01
			for i := range 100_000 {
				at := (float64(i) + 0.5) * h
				sum += s.Rate(at) * h
				if i%997 != 0 {
					continue
				}
				if got := s.Arrivals(at + h/2); math.Abs(got-sum) > 1e-3*max(1, sum) {
					t.Fatalf("Arrivals(%v) = %v, the sum of rates is %v", at+h/2, got, sum)
				}
				if back := s.Arrivals(s.Time(sum)); math.Abs(back-sum) > 1e-6 && sum < s.Arrivals(1e9) {
					t.Fatalf("Time(%v) = %v, where Arrivals is %v", sum, s.Time(sum), back)
				}
			}
		})
	}
}

// The index of dispersion of counts at three window lengths: with its limit for
// long windows, and (windows-1)·IDC/IDC(∞) near chi-squared there.
func TestDispersionOfProcesses(t *testing.T) {
	const rate = 20.0
	onoff := arrival.OnOffParams{Rate: rate, Peak: 3, On: 400 * time.Millisecond}
	tests := map[string]struct {
		make func(seed uint64) arrival.Process
		idc  float64 // over long windows
	}{
		"Poisson":          {func(s uint64) arrival.Process { return must(arrival.NewPoisson(rate, src(s))) }, 1},
		"gamma, smooth":    {func(s uint64) arrival.Process { return must(arrival.NewGamma(rate, 0.5, src(s))) }, 0.25},
		"gamma":            {func(s uint64) arrival.Process { return must(arrival.NewGamma(rate, 2, src(s))) }, 4},
		"Weibull":          {func(s uint64) arrival.Process { return must(arrival.NewWeibull(rate, 2, src(s))) }, 4},
		"hyperexponential": {func(s uint64) arrival.Process { return must(arrival.NewHyperexponential(rate, 2, src(s))) }, 4},
		"ON-OFF":           {func(s uint64) arrival.Process { return must(arrival.NewOnOff(onoff, src(s))) }, onoff.Dispersion()},
		"Hawkes":           {func(s uint64) arrival.Process { return must(arrival.NewHawkes(rate, 0.5, 50*time.Millisecond, src(s))) }, 4},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for i, window := range []float64{5, 10, 20} {
				const windows = 600
				got := dispersion(tt.make(uint64(i)), window, windows)
				// The limit is not reached in 5 s of slow processes: a tenth is allowed.
				if z := (got/tt.idc - 1) / math.Sqrt(2.0/windows); math.Abs(z) > z001+0.1/math.Sqrt(2.0/windows) {
					t.Errorf("windows of %v s: index %v, want %v", window, got, tt.idc)
				}
			}
			// Short windows see a Poisson process in all but the smooth one: the index
			// grows with the window where arrivals cluster.
			if short := dispersion(tt.make(9), 0.02, 100_000); tt.idc > 1.5 && short > tt.idc/1.5 {
				t.Errorf("windows of 20 ms: index %v, not below that of long ones, %v", short, tt.idc)
			}
		})
	}
}

// Gaps of an ON-OFF and of a Hawkes process are positively correlated, those of
// renewal processes are not: a test of gaps alone would miss it.
func TestAutocorrelation(t *testing.T) {
	const n = 20_000
	for name, p := range map[string]arrival.Process{
		"ON-OFF": must(arrival.NewOnOff(arrival.OnOffParams{Rate: 5, Peak: 2, Trough: 0.2, On: 20 * time.Second}, src(1))),
		"Hawkes": must(arrival.NewHawkes(5, 0.7, 5*time.Second, src(1))),
	} {
		g := gaps(p, n)
		for lag := 1; lag <= 3; lag++ {
			if z := stat.Correlation(g[lag:], g[:n-lag], nil) * math.Sqrt(n); z < z001 {
				t.Errorf("%s: lag-%d correlation of only %v standard errors", name, lag, z)
			}
		}
	}
}

// ON and OFF periods, the rate in each and the share of time: with a rate so
// high that every period shows itself.
func TestOnOffPeriods(t *testing.T) {
	p := arrival.OnOffParams{Rate: 1000, Peak: 4, On: time.Second}
	if f := p.OnFraction(); f != 0.25 {
		t.Fatalf("ON fraction %v", f)
	}
	g := gaps(must(arrival.NewOnOff(p, src(3))), 400_000)
	var on, off []float64
	run := 0.0
	for _, x := range g {
		if x > 0.02 { // e^-80 within an ON period
			on, off, run = append(on, run), append(off, x), 0
			continue
		}
		run += x
	}
	for name, period := range map[string]struct {
		x    []float64
		mean float64
	}{"ON": {on, 1}, "OFF": {off, 3}} {
		mean, n := stat.Mean(period.x, nil), float64(len(period.x))
		// OFF periods under 20 ms join two ON periods: 0.7 % of them.
		if math.Abs(mean/period.mean-1) > z001/math.Sqrt(n)+0.01 {
			t.Errorf("mean %s period %v s of n = %v", name, mean, n)
		}
	}
}

func TestBurst(t *testing.T) {
	once := must(arrival.NewBurst(2, 0))
	again := must(arrival.NewBurst(2, time.Second))
	got := fmt.Sprint(once.Next(), once.Next(), once.Next() == arrival.Never, again.Next(), again.Next(), again.Next(), again.Next(), again.Next())
	if want := "0s 0s true 0s 0s 1s 0s 1s"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Every block of an exact count ends where it should, to the nanosecond, and no
// gap is negative.
func TestExact(t *testing.T) {
	e := must(arrival.NewExact(must(arrival.NewGamma(7, 3, src(2))), 7, 70))
	at := time.Duration(0)
	for i := 1; i <= 7000; i++ {
		g := e.Next()
		if g < 0 {
			t.Fatalf("gap %v", g)
		}
		at += g
		if i%70 == 0 && at != time.Duration(i/7)*time.Second {
			t.Fatalf("arrival %d at %v", i, at)
		}
	}
}

func TestRefusals(t *testing.T) {
	for want, err := range map[string]error{
		"gamma arrivals: CV 0 is not above 0":                           second(arrival.NewGamma(1, 0, src(1))),
		"gamma arrivals: CV 21 is not within 0.01 and 20":               second(arrival.NewGamma(1, 21, src(1))),
		"Lomax arrivals: CV 1 is not above 1":                           second(arrival.NewLomax(1, 1, src(1))),
		"hyperexponential arrivals: CV 0.5 is not above 1":              second(arrival.NewHyperexponential(1, 0.5, src(1))),
		"Weibull arrivals: rate 0 is not above 0":                       second(arrival.NewWeibull(0, 1, src(1))),
		"Pareto arrivals: CV NaN is not a finite number":                second(arrival.NewPareto(1, math.NaN(), src(1))),
		"ON-OFF arrivals: the mean ON time 0s is not above 0":           second(arrival.NewOnOff(arrival.OnOffParams{Rate: 1, Peak: 2}, src(1))),
		"Hawkes arrivals: branching 1 is not within 0 and 0.95":         second(arrival.NewHawkes(1, 1, 1, src(1))),
		"arrivals of varying rate: no steps":                            second(arrival.NewVarying(arrival.Steps{}, src(1))),
		"arrivals of varying rate: both ends of the ramp are 0":         second(arrival.NewVarying(arrival.Ramp{Over: 1}, src(1))),
		"arrivals of varying rate: from: rate 0 is not above 0":         second(arrival.NewVarying(arrival.Ramp{To: 1, Over: 1, Exponential: true}, src(1))),
		"arrivals of varying rate: amplitude 2 is not within 0 and 1":   second(arrival.NewVarying(arrival.Sinusoid{Mean: 1, Amplitude: 2, Period: time.Hour}, src(1))),
		"burst arrivals: size 0 is not above 0":                         second(arrival.NewBurst(0, 0)),
		"exact count: 0 arrivals a block are not within 1 and 10000000": second(arrival.NewExact(nil, 1, 0)),
	} {
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func second[P any](_ P, err error) error { return err }

// A draw longer than a time.Duration can say is cut, not wrapped around.
func TestHeavyTailDoesNotOverflow(t *testing.T) {
	p := must(arrival.NewPareto(arrival.MinRate, 20, src(4)))
	for range 100_000 {
		if g := p.Next(); g < 0 {
			t.Fatalf("gap %v", g)
		}
	}
}

func BenchmarkProcesses(b *testing.B) {
	for _, bench := range []struct {
		name string
		p    arrival.Process
	}{
		{"constant", must(arrival.NewConstant(100))},
		{"Poisson", must(arrival.NewPoisson(100, src(1)))},
		{"gamma", must(arrival.NewGamma(100, 2.5, src(1)))},
		{"Weibull", must(arrival.NewWeibull(100, 2.5, src(1)))},
		{"Pareto", must(arrival.NewPareto(100, 2.5, src(1)))},
		{"Lomax", must(arrival.NewLomax(100, 2.5, src(1)))},
		{"hyperexponential", must(arrival.NewHyperexponential(100, 2.5, src(1)))},
		{"on-off", must(arrival.NewOnOff(arrival.OnOffParams{Rate: 100, Peak: 4, On: time.Second}, src(1)))},
		{"Hawkes", must(arrival.NewHawkes(100, 0.5, time.Second, src(1)))},
		{"sinusoid", must(arrival.NewVarying(arrival.Sinusoid{Mean: 100, Amplitude: 0.5, Period: time.Hour}, src(1)))},
		{"ramp", must(arrival.NewVarying(arrival.Ramp{From: 1, To: 100, Over: time.Hour}, src(1)))},
		{"steps", must(arrival.NewVarying(arrival.Steps{List: []arrival.Step{{Rate: 10, For: time.Minute}, {Rate: 100, For: time.Minute}}, Repeat: true}, src(1)))},
		{"burst", must(arrival.NewBurst(100, time.Second))},
		{"exact", must(arrival.NewExact(must(arrival.NewGamma(100, 2.5, src(1))), 100, 1000))},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				bench.p.Next()
			}
		})
	}
}
