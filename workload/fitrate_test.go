package workload

import (
	"math"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/assay-bench/assay/arrival"
)

// TestFitRates: of a rate that changes, the fit finds the process and about its
// parameters, and what it writes is a workload again.
func TestFitRates(t *testing.T) {
	steps := make([]arrival.Step, 4)
	for i, r := range []float64{4, 20, 10, 2} {
		steps[i] = arrival.Step{Rate: r, For: 500 * time.Second}
	}
	for _, test := range []struct {
		name string
		want Arrival
		n    int
		near func(a Arrival) bool
	}{
		{"sinusoid", Arrival{Process: Sinusoid, Rate: 8, Amplitude: 0.7, Period: 5 * time.Minute, Phase: 1}, 20_000, func(a Arrival) bool {
			return math.Abs(a.Amplitude-0.7) < 0.05 && math.Abs(a.Period.Seconds()-300) < 6 && math.Abs(a.Phase-1) < 0.3
		}},
		{"on-off", Arrival{Process: OnOff, Rate: 8, Peak: 4, Trough: 0.25, On: 10 * time.Second}, 60_000, func(a Arrival) bool {
			return math.Abs(a.Peak-4) < 1 && math.Abs(a.Trough-0.25) < 0.25 && a.On > 6*time.Second && a.On < 16*time.Second
		}},
		{"on-off, silent between", Arrival{Process: OnOff, Rate: 8, Peak: 5, On: 3 * time.Second}, 60_000, func(a Arrival) bool {
			return math.Abs(a.Peak-5) < 1 && a.Trough < 0.15 && a.On > 2*time.Second && a.On < 4500*time.Millisecond
		}},
		{"steps", Arrival{Process: StepRates, Steps: steps}, 17_900, func(a Arrival) bool {
			return len(a.Steps) >= 4 && math.Abs(a.Steps[0].Rate-4) < 1
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := sampleOf(t, with(func(s *Spec) { s.Arrival = test.want; s.PromptTokens = UniformLength(10, 99) }), test.n)
			fits := s.Fit()
			best := fits.Rates[0]
			if best.Arrival.Process != test.want.Process || !test.near(best.Arrival) || best.Worst() > 1.5 {
				t.Errorf("nearest %+v, off by a factor of %.2f", best.Arrival, best.Worst())
			}
			spec, notes, err := fits.Spec()
			if err != nil || spec.Arrival.Process != test.want.Process {
				t.Fatalf("%+v, %v, %q", spec.Arrival, err, notes)
			}
			// And back: a workload that is read again, with as much dispersion.
			text, err := yaml.Marshal(spec)
			if err != nil {
				t.Fatal(err)
			}
			again := Default()
			if err := yaml.UnmarshalWithOptions(text, &again, yaml.Strict()); err != nil || again.Validate() != nil {
				t.Fatalf("%s: %v, %v", text, err, again.Validate())
			}
			was, is := s.Profile().Arrivals, sampleOf(t, again, test.n).Profile().Arrivals
			for i := range min(len(was.Dispersion), len(is.Dispersion)) {
				if f := is.Dispersion[i].Index / was.Dispersion[i].Index; f < 0.5 || f > 2 {
					t.Errorf("dispersion in %v: %v, was %v", was.Dispersion[i].Window, is.Dispersion[i].Index, was.Dispersion[i].Index)
				}
			}
		})
	}
}

// TestFitRatesOfIndependentGaps: where gaps are independent no changing rate takes
// their place.
func TestFitRatesOfIndependentGaps(t *testing.T) {
	for _, want := range []Arrival{
		{Process: Constant, Rate: 8}, {Process: Poisson, Rate: 8}, {Process: Gamma, Rate: 8, CV: 0.5}, {Process: Gamma, Rate: 8, CV: 3},
	} {
		spec, notes, err := sampleOf(t, with(func(s *Spec) { s.Arrival = want }), 20_000).Fit().Spec()
		if err != nil {
			t.Fatal(err)
		}
		if p := spec.Arrival.Process; p == Sinusoid || p == OnOff || p == StepRates {
			t.Errorf("%+v became %+v: %q", want, spec.Arrival, notes)
		}
	}
	for _, at := range [][]int64{nil, make([]int64, 500), {0, 5}} {
		if f := FitRates(at); f != nil {
			t.Errorf("a fit of %d times: %+v", len(at), f)
		}
	}
}
