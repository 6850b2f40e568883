package workload

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/assay-bench/assay/arrival"
)

// The arrival processes of a Spec. All but the first are open loops.
// docs/workloads.md has their formulas.
const (
	// Closed: a fixed number of slots; each sends its next request when the
	// previous one has ended and the think time has passed.
	Closed = "closed"
	// Constant: at equal distances.
	Constant = "constant"
	// Poisson: independent exponential gaps.
	Poisson = "poisson"
	// Independent gaps of other distributions, by rate and CV. Those of a gamma
	// have the name of the length's distribution; see [Gamma].
	Weibull          = "weibull"
	Lomax            = "lomax"
	Hyperexponential = "hyperexponential"
	// OnOff switches between two rates.
	OnOff = "on-off"
	// Hawkes: each arrival brings about others.
	Hawkes = "hawkes"
	// Sinusoid: Poisson, with a rate that swings. Diurnal is one of 24 hours.
	Sinusoid = "sinusoid"
	Diurnal  = "diurnal"
	// Ramp and ExpRamp: Poisson, from one rate to another by equal amounts or by
	// equal factors.
	Ramp    = "ramp"
	ExpRamp = "exp-ramp"
	// StepRates: Poisson, with a list of rates.
	StepRates = "steps"
	// Burst: many at once.
	Burst = "burst"
	// ByTrace: at the times of a trace.
	ByTrace = FromTrace
)

// Arrival says when requests are due. Each process takes some of the fields and
// refuses the others.
type Arrival struct {
	// Process names it; empty means poisson if there is a rate and closed if not.
	Process string `yaml:"process,omitempty" json:"process,omitzero"`
	// Rate of an open loop, in requests per second: the mean where it varies.
	Rate float64 `yaml:"rate,omitempty" json:"rate,omitzero"`
	// MaxInFlight bounds the requests in flight of an open loop; 0 does not. At
	// the bound the loop is closed, and the time spent there is reported.
	MaxInFlight int `yaml:"max_in_flight,omitempty" json:"max_in_flight,omitzero"`

	// CV of the gaps, standard deviation over mean: gamma, weibull, pareto, lomax,
	// hyperexponential.
	CV float64 `yaml:"cv,omitempty" json:"cv,omitzero"`
	// Peak is the ON rate over the mean rate, Trough the OFF rate over it (0 if
	// left out), On the mean length of an ON period: on-off.
	Peak   float64       `yaml:"peak,omitempty" json:"peak,omitzero"`
	Trough float64       `yaml:"trough,omitempty" json:"trough,omitzero"`
	On     time.Duration `yaml:"mean_on,omitempty" json:"mean_on_ns,omitzero"`
	// Branching is how many arrivals one brings about, Decay how long that takes:
	// hawkes.
	Branching float64       `yaml:"branching,omitempty" json:"branching,omitzero"`
	Decay     time.Duration `yaml:"decay,omitempty" json:"decay_ns,omitzero"`
	// Amplitude from 0 to 1, Period, and Phase in radians: sinusoid and diurnal.
	Amplitude float64       `yaml:"amplitude,omitempty" json:"amplitude,omitzero"`
	Period    time.Duration `yaml:"period,omitempty" json:"period_ns,omitzero"`
	Phase     float64       `yaml:"phase,omitempty" json:"phase,omitzero"`
	// From and To in requests per second, and the time that it takes: ramps.
	From float64       `yaml:"from,omitempty" json:"from,omitzero"`
	To   float64       `yaml:"to,omitempty" json:"to,omitzero"`
	Over time.Duration `yaml:"over,omitempty" json:"over_ns,omitzero"`
	// Steps, and whether they start again after the last: steps.
	Steps  []arrival.Step `yaml:"steps,omitempty" json:"steps,omitempty"`
	Repeat bool           `yaml:"repeat,omitempty" json:"repeat,omitzero"`
	// Size of a burst, and the time from one to the next (0: one alone): burst.
	Size  int           `yaml:"size,omitempty" json:"size,omitzero"`
	Every time.Duration `yaml:"every,omitempty" json:"every_ns,omitzero"`

	// ExactCount rescales the random gaps so that every so many arrivals take
	// exactly that many over the rate, as some tools do. It hides how runs differ.
	// 0 does not.
	ExactCount int `yaml:"exact_count,omitempty" json:"exact_count,omitzero"`
}

// processes lists every process with the fields that it takes.
func processes() []struct {
	name   string
	fields string
} {
	return []struct{ name, fields string }{
		{Closed, ""},
		{Constant, "rate"},
		{Poisson, "rate exact_count"},
		{Gamma, "rate cv exact_count"},
		{Weibull, "rate cv exact_count"},
		{Pareto, "rate cv exact_count"},
		{Lomax, "rate cv exact_count"},
		{Hyperexponential, "rate cv exact_count"},
		{OnOff, "rate peak trough mean_on"},
		{Hawkes, "rate branching decay"},
		{Sinusoid, "rate amplitude period phase"},
		{Diurnal, "rate amplitude period phase"},
		{Ramp, "from to over"},
		{ExpRamp, "from to over"},
		{StepRates, "steps repeat"},
		{Burst, "size every"},
		{ByTrace, ""},
	}
}

// given are the fields that are set.
func (a Arrival) given() []string {
	var out []string
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"rate", a.Rate != 0}, {"cv", a.CV != 0}, {"peak", a.Peak != 0}, {"trough", a.Trough != 0}, {"mean_on", a.On != 0},
		{"branching", a.Branching != 0}, {"decay", a.Decay != 0}, {"amplitude", a.Amplitude != 0}, {"period", a.Period != 0},
		{"phase", a.Phase != 0}, {"from", a.From != 0}, {"to", a.To != 0}, {"over", a.Over != 0}, {"steps", len(a.Steps) > 0},
		{"repeat", a.Repeat}, {"size", a.Size != 0}, {"every", a.Every != 0}, {"exact_count", a.ExactCount != 0},
	} {
		if f.set {
			out = append(out, f.name)
		}
	}
	return out
}

// day is the period of a diurnal load.
const day = 24 * time.Hour

func (a Arrival) resolve() Arrival {
	if a.Process == "" {
		a.Process = Closed
		if a.Rate != 0 {
			a.Process = Poisson
		}
	}
	if a.Process == Diurnal && a.Period == 0 {
		a.Period = day
	}
	return a
}

// check says what is wrong with an open process; the key of each is its own.
func (a Arrival) check() error {
	takes, known := "", false
	var names []string
	for _, p := range processes() {
		names = append(names, p.name)
		if p.name == a.Process {
			takes, known = p.fields, true
		}
	}
	if !known {
		return faultf("process", "%q is none of %s", a.Process, strings.Join(names, ", "))
	}
	fields := strings.Fields(takes)
	for _, name := range a.given() {
		if slices.Contains(fields, name) {
			continue
		}
		if len(fields) == 0 {
			return faultf(name, "%s takes none", a.Process)
		}
		return faultf(name, "%s takes none; it takes %s", a.Process, strings.Join(fields, ", "))
	}
	if slices.Contains(fields, "rate") {
		if err := arrival.CheckRate(a.Rate); err != nil {
			return &fault{"rate", err}
		}
	}
	if slices.Contains(fields, "cv") {
		above := 0.0
		if a.Process == Lomax || a.Process == Hyperexponential {
			above = 1
		}
		if err := arrival.CheckCV(a.CV, above); err != nil {
			return &fault{"cv", err}
		}
	}
	if a.Process == ByTrace || a.Process == Closed {
		return nil
	}
	if _, err := a.process(rand.NewPCG(0, 0)); err != nil {
		// Without the name of the process, which the user has just written.
		if inner := errors.Unwrap(err); inner != nil {
			err = inner
		}
		return &fault{"", err}
	}
	return nil
}

// process of an open loop that is not a trace, drawn from src.
func (a Arrival) process(src rand.Source) (arrival.Process, error) {
	p, err := a.plain(src)
	if err != nil || a.ExactCount == 0 {
		return p, err
	}
	return arrival.NewExact(p, a.Rate, a.ExactCount)
}

func (a Arrival) plain(src rand.Source) (arrival.Process, error) {
	switch a.Process {
	case Constant:
		return arrival.NewConstant(a.Rate)
	case Gamma:
		return arrival.NewGamma(a.Rate, a.CV, src)
	case Weibull:
		return arrival.NewWeibull(a.Rate, a.CV, src)
	case Pareto:
		return arrival.NewPareto(a.Rate, a.CV, src)
	case Lomax:
		return arrival.NewLomax(a.Rate, a.CV, src)
	case Hyperexponential:
		return arrival.NewHyperexponential(a.Rate, a.CV, src)
	case OnOff:
		return arrival.NewOnOff(arrival.OnOffParams{Rate: a.Rate, Peak: a.Peak, Trough: a.Trough, On: a.On}, src)
	case Hawkes:
		return arrival.NewHawkes(a.Rate, a.Branching, a.Decay, src)
	case Burst:
		return arrival.NewBurst(a.Size, a.Every)
	}
	if s := a.shape(); s != nil {
		return arrival.NewVarying(s, src)
	}
	return arrival.NewPoisson(a.Rate, src)
}

// shape of a rate that varies in time by a plan; nil for the others.
func (a Arrival) shape() arrival.Shape {
	switch a.Process {
	case Sinusoid, Diurnal:
		return arrival.Sinusoid{Mean: a.Rate, Amplitude: a.Amplitude, Period: a.Period, Phase: a.Phase}
	case Ramp, ExpRamp:
		return arrival.Ramp{From: a.From, To: a.To, Over: a.Over, Exponential: a.Process == ExpRamp}
	case StepRates:
		return arrival.Steps{List: a.Steps, Repeat: a.Repeat}
	}
	return nil
}

// Name is short and says the load: "rate 4/s", "ramp 1/s to 10/s".
func (a Arrival) Name() string {
	switch a = a.resolve(); a.Process {
	case Ramp, ExpRamp:
		return fmt.Sprintf("ramp %v/s to %v/s", a.From, a.To)
	case StepRates:
		return fmt.Sprintf("%d steps of rate", len(a.Steps))
	case Burst:
		return fmt.Sprintf("burst of %d", a.Size)
	case ByTrace:
		return "trace"
	}
	return fmt.Sprintf("rate %v/s", a.Rate)
}

// describe says an open loop in words.
func (a Arrival) describe() string {
	switch a.Process {
	case Constant:
		return fmt.Sprintf("constant %v requests/s", a.Rate)
	case Poisson:
		text := fmt.Sprintf("Poisson %v requests/s", a.Rate)
		if a.ExactCount != 0 {
			text += fmt.Sprintf(", gaps rescaled to %d arrivals in exactly %.6gs", a.ExactCount, float64(a.ExactCount)/a.Rate)
		}
		return text
	case ByTrace:
		return "at the times of a trace"
	}
	p, err := a.process(rand.NewPCG(0, 0))
	if err != nil {
		return a.Process
	}
	return p.String()
}
