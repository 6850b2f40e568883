package arrival

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"gonum.org/v1/gonum/stat/distuv"
)

// The coefficients of variation taken for gaps, standard deviation over mean.
// Beyond them a run of any length shows nothing of the distribution.
const (
	MinCV = 0.01
	MaxCV = 20
)

// Renewal has independent gaps of one distribution.
type Renewal struct {
	gap  func() float64          // seconds
	cdf  func(x float64) float64 // of a gap in seconds
	rate float64                 // arrivals per second
	cv   float64                 // of the gaps
	name string                  // in words
	s    stream
}

// Next gap.
func (r *Renewal) Next() time.Duration { return r.s.round(r.gap()) }

// CDF is the probability of a gap of at most so many seconds.
func (r *Renewal) CDF(seconds float64) float64 { return r.cdf(seconds) }

// CV is the coefficient of variation of the gaps.
func (r *Renewal) CV() float64 { return r.cv }

func (r *Renewal) String() string {
	return fmt.Sprintf("%s, mean rate %s, CV %.4g", r.name, perSecond(r.rate), r.cv)
}

// CheckCV says what is wrong with a coefficient of variation that must lie
// above the bound; nil if nothing is.
func CheckCV(cv, above float64) error {
	switch {
	case math.IsNaN(cv) || math.IsInf(cv, 0):
		return fmt.Errorf("CV %v is not a finite number", cv)
	case cv <= above:
		return fmt.Errorf("CV %v is not above %v", cv, above)
	case cv < MinCV || cv > MaxCV:
		return fmt.Errorf("CV %v is not within %v and %v", cv, MinCV, MaxCV)
	}
	return nil
}

func checkRenewal(name string, rate, cv, above float64) error {
	err := CheckRate(rate)
	if err == nil {
		err = CheckCV(cv, above)
	}
	if err != nil {
		return fmt.Errorf("%s arrivals: %w", name, err)
	}
	return nil
}

// NewGamma has gamma gaps: shape k = 1/CV², scale 1/(k·rate). CV 1 is a Poisson
// process, below it is smoother, above it is burstier. vLLM's burstiness is k.
func NewGamma(rate, cv float64, src rand.Source) (*Renewal, error) {
	if err := checkRenewal("gamma", rate, cv, 0); err != nil {
		return nil, err
	}
	k := 1 / (cv * cv)
	d := distuv.Gamma{Alpha: k, Beta: k * rate, Src: src}
	return &Renewal{gap: d.Rand, cdf: d.CDF, rate: rate, cv: cv, name: "gamma gaps"}, nil
}

// NewWeibull has Weibull gaps: shape k solves CV² + 1 = Γ(1+2/k)/Γ(1+1/k)², scale
// 1/(rate·Γ(1+1/k)).
func NewWeibull(rate, cv float64, src rand.Source) (*Renewal, error) {
	if err := checkRenewal("Weibull", rate, cv, 0); err != nil {
		return nil, err
	}
	k := weibullShape(cv)
	d := distuv.Weibull{K: k, Lambda: 1 / (rate * math.Gamma(1+1/k)), Src: src}
	return &Renewal{gap: d.Rand, cdf: d.CDF, rate: rate, cv: cv, name: "Weibull gaps"}, nil
}

// weibullShape is the shape with that CV, by bisection of its logarithm: the CV
// falls as the shape grows.
func weibullShape(cv float64) float64 {
	lo, hi := math.Log(0.1), math.Log(200)
	for range 100 {
		mid := (lo + hi) / 2
		if weibullCV(math.Exp(mid)) > cv {
			lo = mid
		} else {
			hi = mid
		}
	}
	return math.Exp((lo + hi) / 2)
}

func weibullCV(k float64) float64 {
	two, _ := math.Lgamma(1 + 2/k)
	one, _ := math.Lgamma(1 + 1/k)
	return math.Sqrt(math.Expm1(two - 2*one))
}

// NewPareto has Pareto gaps of the first kind, none below x_m: shape
// α = 1 + √(1 + 1/CV²), x_m = (α-1)/(α·rate). The tail is heavy: sample means
// and CVs come slowly to the true ones, and the sample CV from below.
func NewPareto(rate, cv float64, src rand.Source) (*Renewal, error) {
	if err := checkRenewal("Pareto", rate, cv, 0); err != nil {
		return nil, err
	}
	a := 1 + math.Sqrt(1+1/(cv*cv))
	d := distuv.Pareto{Xm: (a - 1) / (a * rate), Alpha: a, Src: src}
	return &Renewal{gap: d.Rand, cdf: d.CDF, rate: rate, cv: cv, name: "Pareto gaps"}, nil
}

// NewLomax has Pareto gaps of the second kind, from 0 on: shape
// α = 2CV²/(CV²-1), scale (α-1)/rate. The CV must be above 1.
func NewLomax(rate, cv float64, src rand.Source) (*Renewal, error) {
	if err := checkRenewal("Lomax", rate, cv, 1); err != nil {
		return nil, err
	}
	a := 2 * cv * cv / (cv*cv - 1)
	scale := (a - 1) / rate
	r := rand.New(src)
	return &Renewal{
		// U^(-1/α) - 1 with an exponential draw for -ln U.
		gap: func() float64 { return scale * math.Expm1(r.ExpFloat64()/a) },
		cdf: func(x float64) float64 {
			if x <= 0 {
				return 0
			}
			return -math.Expm1(-a * math.Log1p(x/scale))
		},
		rate: rate, cv: cv, name: "Lomax gaps",
	}, nil
}

// NewHyperexponential has gaps of two exponential kinds with balanced means (H2):
// with probability p = ½(1 + √((CV²-1)/(CV²+1))) at rate 2p·rate, else at
// 2(1-p)·rate. The CV must be above 1. Its tail is light: sample CVs are near.
func NewHyperexponential(rate, cv float64, src rand.Source) (*Renewal, error) {
	if err := checkRenewal("hyperexponential", rate, cv, 1); err != nil {
		return nil, err
	}
	p := (1 + math.Sqrt((cv*cv-1)/(cv*cv+1))) / 2
	fast, slow := 2*p*rate, 2*(1-p)*rate
	r := rand.New(src)
	return &Renewal{
		gap: func() float64 {
			if r.Float64() < p {
				return r.ExpFloat64() / fast
			}
			return r.ExpFloat64() / slow
		},
		cdf: func(x float64) float64 {
			return -p*math.Expm1(-fast*max(x, 0)) - (1-p)*math.Expm1(-slow*max(x, 0))
		},
		rate: rate, cv: cv, name: "hyperexponential gaps",
	}, nil
}
