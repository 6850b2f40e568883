// Package arrival holds arrival processes: seeded sequences of gaps between
// requests. It has no clock and sends nothing.
//
// A process is a stream of gaps. It never looks at the system under test, which
// is what makes a load open-loop (Schroeder, Wierman, Harchol-Balter, "Open
// versus closed: a cautionary tale", NSDI 2006). The same parameters and the
// same source give the same gaps on every machine.
//
// # Which processes
//
// [Constant] and [Poisson] are the plain ones. [Renewal] has independent gaps of
// another distribution (gamma, Weibull, Pareto, Lomax, hyperexponential), made
// by mean rate and CV. [OnOff] switches between two rates, [Hawkes] excites
// itself, [Varying] is a Poisson process whose rate follows a [Shape] in time
// ([Sinusoid], [Ramp], [Steps]). [Burst] sends many at once.
//
// The mean rate of each is the one asked for, in the long run. Gaps are not
// rescaled to hit it in a given run: that would hide what a random arrival is.
// [Exact] does so on request.
//
// Gaps are whole nanoseconds. Each process rounds the arrival times, not the
// gaps, so that its rate holds over any number of arrivals.
package arrival

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"time"
)

// Process is a sequence of arrivals.
type Process interface {
	// Next is the gap between the previous arrival and the next one; the first
	// gap counts from the start. It is [Never] if no further one comes.
	Next() time.Duration
	// String says the process in words, with its rate.
	String() string
}

// Never is the gap before an arrival that does not come.
const Never = time.Duration(math.MaxInt64)

// MaxRate is the highest rate taken, in arrivals per second: one a nanosecond.
const MaxRate = 1e9

// MinRate is the lowest rate taken, in arrivals per second: about one in 11
// days. It keeps gaps far from overflow.
const MinRate = 1e-6

// CheckRate says what is wrong with a rate in arrivals per second; nil if
// nothing is.
func CheckRate(rate float64) error {
	switch {
	case math.IsNaN(rate) || math.IsInf(rate, 0):
		return fmt.Errorf("rate %v is not a finite number", rate)
	case rate <= 0:
		return fmt.Errorf("rate %v is not above 0", rate)
	case rate < MinRate || rate > MaxRate:
		return fmt.Errorf("rate %v is not within %g and %g per second", rate, MinRate, MaxRate)
	}
	return nil
}

// longest gap in nanoseconds, 146 years: a draw from a heavy tail may be longer
// than a time.Duration can say.
const longest = 1 << 62

// stream turns exact gaps in seconds into whole nanoseconds without letting
// rounding errors add up: what a gap is rounded by is carried to the next.
type stream struct {
	carry float64 // nanoseconds, within ±0.5
}

func (s *stream) round(seconds float64) time.Duration {
	ns := seconds*1e9 + s.carry
	if ns >= longest {
		s.carry = 0
		return longest
	}
	whole := math.Round(ns)
	s.carry = ns - whole
	return time.Duration(whole)
}

// Constant arrives at equal distances.
type Constant struct {
	rate float64
	i    int64
	last time.Duration
}

// NewConstant makes arrivals at i/rate seconds for i = 1, 2, …, each rounded to
// the nearest nanosecond, so that no rounding error adds up.
func NewConstant(rate float64) (*Constant, error) {
	if err := CheckRate(rate); err != nil {
		return nil, fmt.Errorf("constant arrivals: %w", err)
	}
	return &Constant{rate: rate}, nil
}

// Next gap.
func (c *Constant) Next() time.Duration {
	c.i++
	at := constantAt(c.i, c.rate)
	gap := at - c.last
	c.last = at
	return gap
}

// constantAt is the i-th arrival. Whole seconds and the rest are taken apart:
// one float64 of nanoseconds would be off by 100 ns and more after 50 days.
func constantAt(i int64, rate float64) time.Duration {
	seconds := math.Floor(float64(i) / rate)
	rest := math.FMA(-seconds, rate, float64(i)) / rate
	return time.Duration(seconds)*time.Second + time.Duration(math.Round(rest*1e9))
}

func (c *Constant) String() string { return "constant rate " + perSecond(c.rate) }

// Poisson arrives with independent exponential gaps.
type Poisson struct {
	rate float64
	r    *rand.Rand
	s    stream
}

// NewPoisson makes a Poisson process of the given mean rate, drawn from src.
// Gaps are not rescaled to hit the rate exactly: over n arrivals the realised
// rate is off by about 1/√n.
func NewPoisson(rate float64, src rand.Source) (*Poisson, error) {
	if err := CheckRate(rate); err != nil {
		return nil, fmt.Errorf("Poisson arrivals: %w", err)
	}
	return &Poisson{rate: rate, r: rand.New(src)}, nil
}

// Next gap.
func (p *Poisson) Next() time.Duration { return p.s.round(p.r.ExpFloat64() / p.rate) }

func (p *Poisson) String() string { return "Poisson, mean rate " + perSecond(p.rate) }

func perSecond(rate float64) string { return strconv.FormatFloat(rate, 'g', -1, 64) + "/s" }
