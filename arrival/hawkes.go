package arrival

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// MaxBranching is the highest branching ratio taken: beyond it clusters are so
// long that no run shows the mean rate.
const MaxBranching = 0.95

// Hawkes excites itself: each arrival raises the rate by n/decay, and the excess
// falls by e each decay time (Hawkes, Biometrika 58, 1971). n is the branching
// ratio, the mean number of arrivals that one arrival brings about itself.
type Hawkes struct {
	rate, n float64
	decay   time.Duration
	r       *rand.Rand
	excess  float64 // above the base rate, after the last arrival
	s       stream
}

// NewHawkes makes a Hawkes process of the given mean rate: the base rate is
// rate·(1-n). It starts at its mean intensity, so the mean rate holds from the
// first second on; the clusters build up within about decay/(1-n). The index of
// dispersion of counts over long windows is 1/(1-n)².
func NewHawkes(rate, branching float64, decay time.Duration, src rand.Source) (*Hawkes, error) {
	if err := CheckHawkes(rate, branching, decay); err != nil {
		return nil, fmt.Errorf("Hawkes arrivals: %w", err)
	}
	return &Hawkes{rate: rate, n: branching, decay: decay, r: rand.New(src), excess: rate * branching}, nil
}

// CheckHawkes says what is wrong with the parameters; nil if nothing is.
func CheckHawkes(rate, branching float64, decay time.Duration) error {
	if err := CheckRate(rate); err != nil {
		return err
	}
	if !(branching >= 0 && branching <= MaxBranching) {
		return fmt.Errorf("branching %v is not within 0 and %v", branching, MaxBranching)
	}
	if decay <= 0 {
		return fmt.Errorf("decay %v is not above 0", decay)
	}
	return nil
}

// Next gap, exactly, as the sooner of two: the next arrival of the base rate, and
// the next one of the excess if it has any (Dassios and Zhao, "Exact simulation
// of Hawkes process with exponentially decaying intensity", 2013).
func (h *Hawkes) Next() time.Duration {
	beta := 1 / h.decay.Seconds()
	gap := h.r.ExpFloat64() / (h.rate * (1 - h.n))
	// The excess has excess/beta arrivals left in all; log1p is -Inf or NaN if the
	// draw is beyond them.
	if left := 1 - beta*h.r.ExpFloat64()/h.excess; left > 0 {
		gap = min(gap, -math.Log(left)/beta)
	}
	h.excess = h.excess*math.Exp(-beta*gap) + h.n*beta
	return h.s.round(gap)
}

func (h *Hawkes) String() string {
	return fmt.Sprintf("self-exciting (Hawkes), mean rate %s, branching %v, decay %v", perSecond(h.rate), h.n, h.decay)
}
