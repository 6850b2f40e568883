package workload

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/assay-bench/assay/arrival"
)

func sampleOf(t *testing.T, s Spec, n int) Sample {
	t.Helper()
	r, g := schedule(t, s, 3, n)
	var out Sample
	at := int64(0)
	for i := range r {
		out.Prompts, out.Outputs = append(out.Prompts, r[i].PromptTokens), append(out.Outputs, r[i].MaxTokens)
		if g != nil {
			at += int64(g[i])
			out.At = append(out.At, at)
		}
	}
	return out
}

// A fit finds the distribution that lengths were drawn from, with its parameters.
func TestFitLengths(t *testing.T) {
	for _, want := range []Length{
		FixedLength(7),
		UniformLength(300, 900),
		{Dist: Normal, Mean: 1000, CV: 0.2, Max: 3000},
		{Dist: LogNormal, Median: 200, Sigma: 0.8, Max: 100_000},
		{Dist: Gamma, Mean: 3000, CV: 0.7, Max: 90_000},
		{Dist: Pareto, Alpha: 1.5, Min: 20, Max: 1_000_000},
	} {
		x := sampleOf(t, with(func(s *Spec) { s.PromptTokens = want }), 20_000).Prompts
		fits := FitLengths(x)
		best := fits[0]
		for i := 0; best.IsTable(); i++ {
			best = fits[i]
		}
		if best.Length.Dist != want.Dist || best.Distance > 0.03 {
			t.Errorf("%v: nearest is %v at %v", want, best.Length, best.Distance)
		}
		for i, p := range best.Length.parameters() {
			if v := *want.parameters()[i].at; math.Abs(*p.at-v) > 0.05*v {
				t.Errorf("%v: %s = %v", want, p.name, *p.at)
			}
		}
		if mean := best.Length.ExpectedTokens(); want.Dist != Pareto && math.Abs(mean/want.ExpectedTokens()-1) > 0.03 {
			t.Errorf("%v: mean of the fit %v, want %v", want, mean, want.ExpectedTokens())
		}
	}
	if FitLengths(nil) != nil {
		t.Error("a fit of nothing")
	}
}

// The table of bins comes near to what no simple distribution is, also where that of
// quantiles puts a quarter of all between the humps.
func TestFitTwoHumps(t *testing.T) {
	x := sampleOf(t, with(func(s *Spec) {
		s.PromptTokens = Length{Dist: Mixture, Of: []Length{UniformLength(10, 20), UniformLength(5000, 6000)}}
	}), 10_000).Prompts
	f := FitLengths(x)
	if f[0].Length.Dist != Histogram || f[0].Distance > 1.0/fitBins || f[1].Distance < 0.1 {
		t.Errorf("nearest %v at %v, then %v at %v", f[0].Length, f[0].Distance, f[1].Length, f[1].Distance)
	}
	spec, _, err := (&Fits{Prompt: f, Output: FitLengths([]int{3, 3})}).Spec()
	if err != nil || spec.PromptTokens.Dist != Histogram || spec.Validate() != nil {
		t.Errorf("%v, %v, %v", spec.PromptTokens, err, spec.Validate())
	}
}

// The bins of a histogram hold all lengths, each once, and none of more than its share
// unless that is a single length.
func TestFitHistogram(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.SliceOfN(rapid.IntRange(1, rapid.IntRange(1, 5000).Draw(t, "max")), 1, 3000).Draw(t, "lengths")
		slices.Sort(x)
		l := histogramOf(x)
		n, last := 0.0, 0
		for _, b := range l.Bins {
			low, _ := slices.BinarySearch(x, b.Min)
			high, _ := slices.BinarySearch(x, b.Max+1)
			if b.Min <= last || float64(high-low) != b.Weight || b.Weight < 1 {
				t.Fatalf("bin %+v after %d has %d of %v", b, last, high-low, x)
			}
			below, _ := slices.BinarySearch(x, b.Max)
			if share := (len(x) + fitBins - 1) / fitBins; below-low >= share {
				t.Fatalf("bin %+v has %d below its end, the share is %d", b, below-low, share)
			}
			n += b.Weight
			last = b.Max
		}
		if int(n) != len(x) || len(l.Bins) > fitBins || l.Validate() != nil {
			t.Fatalf("%v of %d in %d bins, %v", n, len(x), len(l.Bins), l.Validate())
		}
	})
}

// Gaps that are cut to a microsecond are those of the process all the same: of a gamma
// of CV 3 one in three is shorter than that at 5/s, where it is not counted as wrong.
func TestFitCutStamps(t *testing.T) {
	at := sampleOf(t, with(func(s *Spec) { s.Arrival = Arrival{Process: Gamma, Rate: 5, CV: 3} }), 20_000).At
	for i := range at {
		at[i] -= at[i] % 1000
	}
	if f := FitArrivals(at)[0]; f.Arrival.Process != Gamma || f.Distance > 1.5*f.Rejected {
		t.Errorf("%+v", f)
	}
	// What is at multiples of its gap by itself is not cut, and is constant also where
	// its rate has more digits than are said.
	for _, gap := range []int64{200e6, 700e6, 123_456_789} {
		for i := range at {
			at[i] = int64(i) * gap
		}
		if f := FitArrivals(at); f[0].Arrival.Process != Constant || f[0].Distance > 0.01 || f[1].Distance < 0.5 {
			t.Errorf("%+v", f)
		}
	}
}

// Poisson is not passed over for one that has it as a case of its own, and a
// correlation of few is none.
func TestFitPlain(t *testing.T) {
	for seed := range uint64(20) {
		p, err := arrival.NewPoisson(5, stream(seed, "arrivals"))
		if err != nil {
			t.Fatal(err)
		}
		at := make([]int64, 5000)
		for i := range at[1:] {
			at[i+1] = at[i] + int64(p.Next())
		}
		if f := FitArrivals(at)[0]; f.Arrival.Process != Poisson {
			t.Errorf("seed %d: %+v", seed, f)
		}
	}
	spec, notes, err := (Sample{Prompts: []int{9, 4, 7, 8, 2, 5}, Outputs: []int{1, 2, 3, 5, 4, 9}}).Fit().Spec()
	if err != nil || spec.LengthCorrelation != 0 {
		t.Errorf("%v of six: %q, %v", spec.LengthCorrelation, notes, err)
	}
}

func TestFitArrivals(t *testing.T) {
	for _, want := range []Arrival{
		{Process: Constant, Rate: 8},
		{Process: Poisson, Rate: 8},
		{Process: Gamma, Rate: 8, CV: 2.5},
		{Process: Gamma, Rate: 8, CV: 0.4},
		{Process: Weibull, Rate: 8, CV: 2.5},
		{Process: Hyperexponential, Rate: 8, CV: 3},
	} {
		at := sampleOf(t, with(func(s *Spec) { s.Arrival = want }), 20_000).At
		fits := FitArrivals(at)
		best := fits[0]
		// A gamma of CV 1 is a Poisson process; either is right.
		if best.Arrival.Process != want.Process && !(want.Process == Poisson && math.Abs(best.Arrival.CV-1) < 0.05) {
			t.Errorf("%+v: nearest is %+v", want, best)
		}
		if math.Abs(best.Arrival.Rate/8-1) > 0.1 || math.Abs(best.Arrival.CV-want.CV) > 0.1*want.CV+0.05 && want.Process != Poisson {
			t.Errorf("%+v: fit %+v", want, best.Arrival)
		}
		if want.Process != Constant && best.Distance > 1.5*best.Rejected {
			t.Errorf("%+v: distance %v, rejected at %v", want, best.Distance, best.Rejected)
		}
	}
	if FitArrivals([]int64{1, 1, 1, 1}) != nil || FitArrivals(nil) != nil {
		t.Error("a fit of no time")
	}
}

func TestProfile(t *testing.T) {
	s := Sample{Prompts: []int{1, 2, 3, 4, 100}, Outputs: []int{5, 4, 3, 2, 1}, At: []int64{0, 1e9, 2e9, 3e9, 4e9}}
	p := s.Profile()
	if p.Requests != 5 || p.Prompt.Mean != 22 || p.Prompt.P50 != 3 || p.Prompt.Max != 100 || *p.Correlation != -1 {
		t.Errorf("%+v %+v", p, p.Prompt)
	}
	n := 0
	for i, c := range p.Prompt.Histogram {
		n += c.N
		if c.Low > c.High || i > 0 && c.Low != p.Prompt.Histogram[i-1].High+1 {
			t.Errorf("bin %+v", c)
		}
	}
	if n != 5 {
		t.Errorf("the bins hold %d", n)
	}
	if a := p.Arrivals; a.Rate != 1 || *a.CV != 0 || len(a.Over) != intervals || a.Dispersion[0].Windows != 4 || len(a.Dispersion) != 1 {
		t.Errorf("%+v", a)
	}
	if p := (Sample{Prompts: []int{5, 5, 5}, Outputs: []int{1, 2, 3}}).Profile(); p.Correlation != nil || p.Arrivals != nil || len(p.Prompt.Histogram) != 1 {
		t.Errorf("%+v", p)
	}
	if p := (Sample{At: []int64{3, 3}}).Profile(); p.Requests != 2 || p.Arrivals.Rate != 0 {
		t.Errorf("%+v", p)
	}
	_ = (Sample{}).Profile()
}

// What a profile says of a schedule is what was asked for.
func TestProfileOfSchedule(t *testing.T) {
	p := sampleOf(t, with(func(s *Spec) {
		s.Arrival = Arrival{Process: StepRates, Steps: []arrival.Step{{Rate: 5, For: 1000 * time.Second}, {Rate: 45, For: 1000 * time.Second}}}
	}), 49_900).Profile()
	first, last := p.Arrivals.Over[2].Rate, p.Arrivals.Over[17].Rate
	if math.Abs(first-5) > 1 || math.Abs(last-45) > 3 {
		t.Errorf("rates %v and %v", first, last)
	}
	// Between-rate variance 400 over mean 25, times the window: far above 1.
	if d := p.Arrivals.Dispersion[2].Index; d < 500 {
		t.Errorf("dispersion in 60 s: %v", d)
	}
}

func TestShort(t *testing.T) {
	for x, want := range map[float64]float64{0: 0, 1234.5: 1235, 123456: 123500, 0.00123456: 0.001235, 2.5: 2.5, 1: 1} {
		if got := short(x); math.Abs(got-want) > 1e-12*want {
			t.Errorf("%v: %v, want %v", x, got, want)
		}
	}
}
