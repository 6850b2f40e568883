package workload

import (
	"math"
	"testing"
	"time"

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
		for i := 0; best.Length.Dist == Quantiles; i++ {
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

// The table of quantiles comes near to what no simple distribution is.
func TestFitTwoHumps(t *testing.T) {
	x := sampleOf(t, with(func(s *Spec) {
		s.PromptTokens = Length{Dist: Mixture, Of: []Length{UniformLength(10, 20), UniformLength(5000, 6000)}}
	}), 10_000).Prompts
	if f := FitLengths(x); f[0].Length.Dist != Quantiles || f[1].Distance < 0.1 {
		t.Errorf("nearest %v at %v, then %v at %v", f[0].Length, f[0].Distance, f[1].Length, f[1].Distance)
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
