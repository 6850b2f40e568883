package arrival

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// OnOffParams say an ON-OFF process by what an operator knows of it.
type OnOffParams struct {
	// Rate is the mean of the whole, in arrivals per second.
	Rate float64
	// Peak is the rate while ON over the mean rate, above 1.
	Peak float64
	// Trough is the rate while OFF over the mean rate, from 0 and below 1.
	Trough float64
	// On is the mean length of an ON period.
	On time.Duration
}

// OnFraction is the share of time that is ON.
func (p OnOffParams) OnFraction() float64 { return (1 - p.Trough) / (p.Peak - p.Trough) }

// Off is the mean length of an OFF period, in seconds.
func (p OnOffParams) off() float64 {
	on := p.OnFraction()
	return p.On.Seconds() * (1 - on) / on
}

// Dispersion is the index of dispersion of counts over long windows:
// 1 + 2σ₁σ₂(λ₁-λ₂)² / ((σ₁+σ₂)²(λ₁σ₂+λ₂σ₁)).
func (p OnOffParams) Dispersion() float64 {
	s1, s2 := 1/p.On.Seconds(), 1/p.off()
	l1, l2 := p.Rate*p.Peak, p.Rate*p.Trough
	return 1 + 2*s1*s2*(l1-l2)*(l1-l2)/((s1+s2)*(s1+s2)*(l1*s2+l2*s1))
}

// Check says what is wrong; nil if nothing is.
func (p OnOffParams) Check() error {
	if err := CheckRate(p.Rate); err != nil {
		return err
	}
	switch {
	case !(p.Peak > 1) || p.Peak > 1e6:
		return fmt.Errorf("peak %v is not above 1 and up to 1e6: it is the ON rate over the mean rate", p.Peak)
	case !(p.Trough >= 0) || p.Trough >= 1:
		return fmt.Errorf("trough %v is not from 0 to below 1: it is the OFF rate over the mean rate", p.Trough)
	case p.On <= 0:
		return fmt.Errorf("the mean ON time %v is not above 0", p.On)
	case p.off() > math.MaxInt64/1e9:
		return errors.New("the mean OFF time is longer than 292 years")
	}
	return nil
}

// OnOff is a Poisson process whose rate switches between two values, with
// exponential periods: a Markov-modulated Poisson process of two states
// (Fischer and Meier-Hellstern, "The Markov-modulated Poisson process cookbook",
// Performance Evaluation 18, 1993). It starts in the stationary state: ON with
// the probability that a random moment is.
type OnOff struct {
	p     OnOffParams
	r     *rand.Rand
	rates [2]float64 // of OFF and ON
	ends  [2]float64 // periods an OFF and an ON second
	state int
	left  float64 // seconds of this period
	s     stream
}

// NewOnOff makes an ON-OFF process.
func NewOnOff(p OnOffParams, src rand.Source) (*OnOff, error) {
	if err := p.Check(); err != nil {
		return nil, fmt.Errorf("ON-OFF arrivals: %w", err)
	}
	o := &OnOff{
		p: p, r: rand.New(src),
		rates: [2]float64{p.Rate * p.Trough, p.Rate * p.Peak},
		ends:  [2]float64{1 / p.off(), 1 / p.On.Seconds()},
	}
	if o.r.Float64() < p.OnFraction() {
		o.state = 1
	}
	o.left = o.r.ExpFloat64() / o.ends[o.state]
	return o, nil
}

// Next gap.
func (o *OnOff) Next() time.Duration {
	gap := 0.0
	for work := o.r.ExpFloat64(); ; {
		if need := work / o.rates[o.state]; need <= o.left {
			o.left -= need
			return o.s.round(gap + need)
		}
		work -= o.left * o.rates[o.state]
		gap += o.left
		o.state = 1 - o.state
		o.left = o.r.ExpFloat64() / o.ends[o.state]
	}
}

func (o *OnOff) String() string {
	return fmt.Sprintf("ON-OFF, mean rate %s: %.4g/s for a mean of %v, then %.4g/s for %.4gs",
		perSecond(o.p.Rate), o.rates[1], o.p.On, o.rates[0], o.p.off())
}
