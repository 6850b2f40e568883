package arrival

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"
)

// Shape is a rate that changes in time. Times are seconds from the start.
type Shape interface {
	// Rate at a time, in arrivals per second.
	Rate(t float64) float64
	// Arrivals expected up to a time: the integral of Rate.
	Arrivals(t float64) float64
	// Time by which so many arrivals are expected, the inverse of Arrivals; +Inf
	// if it never comes to that.
	Time(arrivals float64) float64
	// Check says what is wrong; nil if nothing is.
	Check() error
	// String says the shape in words.
	String() string
}

// Varying is a Poisson process whose rate follows a shape in time.
type Varying struct {
	shape Shape
	r     *rand.Rand
	sum   float64 // of unit exponential gaps
	at    float64 // seconds
	s     stream
}

// NewVarying makes arrivals at the times t with Λ(t) = E₁, E₁ + E₂, …, where Λ
// is the expected number of arrivals and the E are independent and exponential
// with mean 1 (Çinlar 1975: the inversion method, exact).
func NewVarying(shape Shape, src rand.Source) (*Varying, error) {
	if err := shape.Check(); err != nil {
		return nil, fmt.Errorf("arrivals of varying rate: %w", err)
	}
	return &Varying{shape: shape, r: rand.New(src)}, nil
}

// Next gap.
func (v *Varying) Next() time.Duration {
	if math.IsInf(v.at, 1) {
		return Never
	}
	v.sum += v.r.ExpFloat64()
	at := max(v.at, v.shape.Time(v.sum))
	gap := at - v.at
	v.at = at
	if math.IsInf(at, 1) {
		return Never
	}
	return v.s.round(gap)
}

func (v *Varying) String() string { return "Poisson, " + v.shape.String() }

// Sinusoid is Mean·(1 + Amplitude·sin(2πt/Period + Phase)). Its mean is kept over
// whole periods only.
type Sinusoid struct {
	Mean      float64 // arrivals per second
	Amplitude float64 // from 0 to 1
	Period    time.Duration
	Phase     float64 // radians
}

func (s Sinusoid) omega() float64 { return 2 * math.Pi / s.Period.Seconds() }

// Rate implements [Shape].
func (s Sinusoid) Rate(t float64) float64 {
	return s.Mean * (1 + s.Amplitude*math.Sin(s.omega()*t+s.Phase))
}

// Arrivals implements [Shape].
func (s Sinusoid) Arrivals(t float64) float64 {
	w := s.omega()
	return s.Mean * (t - s.Amplitude/w*(math.Cos(w*t+s.Phase)-math.Cos(s.Phase)))
}

// Time implements [Shape], by bisection and Newton's method between the bounds
// that the amplitude sets.
func (s Sinusoid) Time(arrivals float64) float64 {
	t := arrivals / s.Mean
	swing := 2 * s.Amplitude / s.omega()
	lo, hi := max(0, t-swing), t+swing
	for range 200 {
		f := s.Arrivals(t) - arrivals
		if f > 0 {
			hi = t
		} else {
			lo = t
		}
		next := t - f/s.Rate(t)
		if !(next > lo && next < hi) {
			next = (lo + hi) / 2
		}
		if math.Abs(next-t) < 1e-10 || next == t {
			return next
		}
		t = next
	}
	return t
}

// Check implements [Shape].
func (s Sinusoid) Check() error {
	if err := CheckRate(s.Mean); err != nil {
		return err
	}
	switch {
	case !(s.Amplitude >= 0 && s.Amplitude <= 1):
		return fmt.Errorf("amplitude %v is not within 0 and 1", s.Amplitude)
	case s.Period < time.Millisecond:
		return fmt.Errorf("period %v is shorter than 1ms", s.Period)
	case math.IsNaN(s.Phase) || math.IsInf(s.Phase, 0):
		return fmt.Errorf("phase %v is not a finite number", s.Phase)
	}
	return nil
}

func (s Sinusoid) String() string {
	return fmt.Sprintf("mean rate %s, ±%.4g %% over %v", perSecond(s.Mean), 100*s.Amplitude, s.Period)
}

// Ramp goes from one rate to another over a time, and stays there.
type Ramp struct {
	From, To float64 // arrivals per second
	Over     time.Duration
	// Exponential changes the rate by equal factors in equal times; else it
	// changes by equal amounts.
	Exponential bool
}

// Rate implements [Shape].
func (r Ramp) Rate(t float64) float64 {
	x := min(max(t/r.Over.Seconds(), 0), 1)
	if r.Exponential {
		return r.From * math.Pow(r.To/r.From, x)
	}
	return r.From + (r.To-r.From)*x
}

// Arrivals implements [Shape].
func (r Ramp) Arrivals(t float64) float64 {
	over := r.Over.Seconds()
	in, after := min(t, over), max(t-over, 0)*r.To
	if r.Exponential && r.From != r.To {
		g := math.Log(r.To/r.From) / over
		return r.From*math.Expm1(g*in)/g + after
	}
	return r.From*in + (r.To-r.From)*in*in/(2*over) + after
}

// Time implements [Shape].
func (r Ramp) Time(arrivals float64) float64 {
	over := r.Over.Seconds()
	all := r.Arrivals(over)
	if arrivals > all {
		return over + (arrivals-all)/r.To // +Inf where it ends at 0
	}
	if r.Exponential && r.From != r.To {
		g := math.Log(r.To/r.From) / over
		return math.Log1p(arrivals*g/r.From) / g
	}
	// from·t + slope·t²/2 = arrivals, in the form that does not cancel.
	slope := (r.To - r.From) / over
	root := math.Sqrt(max(r.From*r.From+2*slope*arrivals, 0))
	if r.From+root == 0 {
		return 0
	}
	return 2 * arrivals / (r.From + root)
}

// Check implements [Shape].
func (r Ramp) Check() error {
	for _, end := range []struct {
		name string
		rate float64
	}{{"from", r.From}, {"to", r.To}} {
		if end.rate == 0 && !r.Exponential {
			continue
		}
		if err := CheckRate(end.rate); err != nil {
			return fmt.Errorf("%s: %w", end.name, err)
		}
	}
	if r.From == 0 && r.To == 0 {
		return errors.New("both ends of the ramp are 0")
	}
	if r.Over <= 0 {
		return fmt.Errorf("over %v is not above 0", r.Over)
	}
	return nil
}

func (r Ramp) String() string {
	how := "linearly"
	if r.Exponential {
		how = "exponentially"
	}
	return fmt.Sprintf("rate %s to %s %s over %v", perSecond(r.From), perSecond(r.To), how, r.Over)
}

// Step is a rate for a time.
type Step struct {
	Rate float64       `yaml:"rate" json:"rate"`
	For  time.Duration `yaml:"for,omitempty" json:"for_ns,omitzero"`
}

// Steps are rates one after the other. The last one stays, unless they repeat.
type Steps struct {
	List   []Step
	Repeat bool
}

func (s Steps) length() float64 {
	sum := 0.0
	for _, x := range s.List {
		sum += x.For.Seconds()
	}
	return sum
}

func (s Steps) round() (seconds, arrivals float64) {
	for _, x := range s.List {
		seconds += x.For.Seconds()
		arrivals += x.For.Seconds() * x.Rate
	}
	return seconds, arrivals
}

// Rate implements [Shape].
func (s Steps) Rate(t float64) float64 {
	if s.Repeat {
		t = math.Mod(t, s.length())
	}
	for _, x := range s.List {
		if t < x.For.Seconds() {
			return x.Rate
		}
		t -= x.For.Seconds()
	}
	return s.List[len(s.List)-1].Rate
}

// Arrivals implements [Shape].
func (s Steps) Arrivals(t float64) float64 {
	sum := 0.0
	if s.Repeat {
		seconds, arrivals := s.round()
		whole := math.Floor(t / seconds)
		sum, t = whole*arrivals, t-whole*seconds
	}
	for _, x := range s.List {
		in := min(t, x.For.Seconds())
		sum += in * x.Rate
		t -= in
	}
	if s.Repeat {
		return sum
	}
	return sum + t*s.List[len(s.List)-1].Rate
}

// Time implements [Shape].
func (s Steps) Time(arrivals float64) float64 {
	t := 0.0
	if s.Repeat {
		seconds, all := s.round()
		whole := math.Floor(arrivals / all)
		t, arrivals = whole*seconds, arrivals-whole*all
	}
	for _, x := range s.List {
		if n := x.Rate * x.For.Seconds(); arrivals > n {
			arrivals -= n
			t += x.For.Seconds()
			continue
		}
		if x.Rate == 0 {
			return t // arrivals is 0
		}
		return t + arrivals/x.Rate
	}
	last := s.List[len(s.List)-1].Rate
	if last == 0 {
		if arrivals == 0 {
			return t
		}
		return math.Inf(1)
	}
	return t + arrivals/last
}

// Check implements [Shape].
func (s Steps) Check() error {
	if len(s.List) == 0 {
		return errors.New("no steps")
	}
	any := false
	for i, x := range s.List {
		if x.Rate != 0 {
			if err := CheckRate(x.Rate); err != nil {
				return fmt.Errorf("step %d: %w", i+1, err)
			}
			any = true
		}
		last := i == len(s.List)-1 && !s.Repeat
		if x.For < 0 || x.For == 0 && !last {
			return fmt.Errorf("step %d: its time, %v, is not above 0", i+1, x.For)
		}
	}
	if !any {
		return errors.New("all steps have rate 0")
	}
	return nil
}

func (s Steps) String() string {
	var parts []string
	for _, x := range s.List {
		text := perSecond(x.Rate)
		if x.For > 0 {
			text += fmt.Sprintf(" for %v", x.For)
		}
		parts = append(parts, text)
	}
	text := "rate " + strings.Join(parts, ", then ")
	if s.Repeat {
		text += ", over and over"
	}
	return text
}
