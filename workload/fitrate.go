package workload

import (
	"cmp"
	"fmt"
	"math"
	"math/cmplx"
	"slices"
	"strings"
	"time"

	"github.com/assay-bench/assay/arrival"
	"github.com/assay-bench/assay/stat"
)

// RateFit is a process whose rate changes in time beside observed arrivals: what
// independent gaps cannot be.
type RateFit struct {
	Arrival Arrival `json:"arrival"`
	// Distance of the gaps, as of an [ArrivalFit]: of a rate that is a function of
	// time, those of the expected count between arrivals from an exponential.
	Distance float64 `json:"distance"`
	Rejected float64 `json:"rejected_above"`
	// Counts are the dispersion of counts over what the process accounts for: 1 where
	// it is all of it.
	Counts []Dispersion `json:"dispersion_over_own"`
}

// Worst is the factor by which the dispersion of counts is off at most.
func (f RateFit) Worst() float64 {
	worst := 1.0
	for _, d := range f.Counts {
		worst = max(worst, d.Index, 1/d.Index)
	}
	return worst
}

// Text says the process and how far it accounts for what was seen.
func (f RateFit) Text() string {
	var parts []string
	for _, d := range f.Counts {
		parts = append(parts, fmt.Sprintf("%.2f in %v", d.Index, d.Window))
	}
	verdict := "not rejected"
	if f.Distance > f.Rejected {
		verdict = "rejected"
	}
	name := f.Arrival.describe()
	if n := len(f.Arrival.Steps); n > 0 {
		name = fmt.Sprintf("Poisson, %d rates of %v each", n, f.Arrival.Steps[0].For)
	}
	return fmt.Sprintf("%s; dispersion over its own %s; gaps %s at alpha 0.001, where %.2g is the limit",
		name, strings.Join(parts, ", "), verdict, f.Rejected)
}

// Fewest arrivals, and windows of counts, that a changing rate is fitted to.
const (
	fewestForRates   = 200
	fewestForCounts  = 10
	fewestPeriods    = 10
	leastDispersion  = 1.5 // over windows; less is explained by little else
	sameExplanation  = 1.25
	mostSteps        = 48
	rateBins         = 4096
	mostFrequencies  = 200
	dispersionPoints = 14
)

// FitRates fits processes with a changing rate to times in nanoseconds that do not
// fall: a sinusoid, two rates that alternate at random (on-off), and a rate for each
// interval of time. First comes the one that accounts best for the counts, a simpler
// one before another that is hardly better.
func FitRates(at []int64) []RateFit {
	if len(at) < fewestForRates || at[len(at)-1] <= at[0] {
		return nil
	}
	s := newRateSample(at)
	if s.windows == nil || arrival.CheckRate(s.rate) != nil {
		return nil
	}
	var fits []RateFit
	for _, fit := range []func() (RateFit, bool){s.sinusoid, s.onOff, s.steps} {
		if f, ok := fit(); ok && f.Arrival.check() == nil {
			fits = append(fits, f)
		}
	}
	// In the order of simplicity, as they are: the first within a factor of the best.
	if len(fits) > 1 {
		best := slices.MinFunc(fits, func(a, b RateFit) int { return cmp.Compare(a.Worst(), b.Worst()) }).Worst()
		slices.SortStableFunc(fits, func(a, b RateFit) int {
			return cmp.Compare(max(a.Worst(), sameExplanation*best), max(b.Worst(), sameExplanation*best))
		})
	}
	return fits
}

// rateSample is what rates are fitted to, in seconds from the first arrival.
type rateSample struct {
	at      []int64
	t       []float64
	span    float64
	rate    float64
	windows []Dispersion // as observed
	bins    []float64    // counts in equal bins
}

func newRateSample(at []int64) *rateSample {
	s := &rateSample{at: at, t: make([]float64, len(at)), bins: make([]float64, rateBins)}
	for i, x := range at {
		s.t[i] = float64(x-at[0]) / 1e9
	}
	s.span = s.t[len(s.t)-1]
	s.rate = float64(len(at)-1) / s.span
	for _, x := range s.t {
		s.bins[min(int(x/s.span*rateBins), rateBins-1)]++
	}
	for _, d := range profileArrivals(at).Dispersion {
		if d.Windows >= fewestForCounts {
			s.windows = append(s.windows, d)
		}
	}
	return s
}

// byTime is the fit of a rate that is a function of time, by its expected count.
// Windows longer than most tell nothing of it.
func (s *rateSample) byTime(a Arrival, expected func(t float64) float64, most float64) RateFit {
	f := RateFit{Arrival: a, Rejected: 1.9495 / math.Sqrt(float64(len(s.t)-1))}
	gaps := make([]float64, len(s.t)-1)
	last := expected(0)
	for i := range gaps {
		next := expected(s.t[i+1])
		gaps[i], last = next-last, next
	}
	slices.Sort(gaps)
	f.Distance = stat.KS(gaps, func(x float64) float64 { return -math.Expm1(-x) })
	for _, w := range s.windows {
		width := w.Window.Seconds()
		if width > most {
			continue
		}
		counts := make([]float64, w.Windows)
		for _, x := range s.t {
			if k := int(x / width); k < len(counts) {
				counts[k]++
			}
		}
		squares, all := 0.0, 0.0
		for k, n := range counts {
			mu := expected(float64(k+1)*width) - expected(float64(k)*width)
			squares += (n - mu) * (n - mu)
			all += mu
		}
		if index := squares / all; index > 0 && !math.IsInf(index, 0) {
			f.Counts = append(f.Counts, Dispersion{w.Window, index, w.Windows})
		}
	}
	return f
}

// sinusoid finds the strongest period of which the sample has two.
func (s *rateSample) sinusoid() (RateFit, bool) {
	// Of the counts in bins, at their middles.
	wave := func(cycles float64) complex128 {
		var sum complex128
		step := cmplx.Rect(1, -2*math.Pi*cycles/rateBins)
		turn := cmplx.Rect(1, -math.Pi*cycles/rateBins)
		for _, n := range s.bins {
			sum += complex(n, 0) * turn
			turn *= step
		}
		return sum
	}
	best, power := 0.0, 0.0
	try := func(cycles float64) {
		if p := cmplx.Abs(wave(cycles)); p > power {
			best, power = cycles, p
		}
	}
	for k := 2; k <= mostFrequencies; k++ {
		try(float64(k))
	}
	for i, k := -9, best; i <= 9; i++ {
		try(max(2, k+float64(i)/10))
	}
	// Noise of a Poisson process has |sum|^2/n exponential; alpha 0.001 over all tried.
	n := float64(len(s.t))
	if power*power/n < math.Log(mostFrequencies/0.001) {
		return RateFit{}, false
	}
	x := s.likeliest([3]float64{min(2*power/n, 0.99), best, cmplx.Phase(wave(best)) + math.Pi/2})
	phase := math.Mod(math.Mod(x[2], 2*math.Pi)+2*math.Pi, 2*math.Pi)
	a := Arrival{Process: Sinusoid, Amplitude: math.Round(x[0]*1000) / 1000, Phase: math.Round(phase*1000) / 1000, Period: coarsely(s.span / x[1])}
	omega := 2 * math.Pi / a.Period.Seconds()
	share := func(t float64) float64 {
		return t + a.Amplitude/omega*(math.Cos(a.Phase)-math.Cos(omega*t+a.Phase))
	}
	rate := (n - 1) / share(s.span)
	a.Rate = short(rate)
	return s.byTime(a, func(t float64) float64 { return rate * share(t) }, s.span), true
}

// likeliest climbs the likelihood of amplitude, cycles in the span and phase of a
// sinusoid from where the transform has it, which is off where cycles are not whole.
func (s *rateSample) likeliest(x [3]float64) [3]float64 {
	likelihood := func(x [3]float64) float64 {
		if x[0] < 0 || x[0] > 0.99 || x[1] < 1 {
			return math.Inf(-1)
		}
		omega := 2 * math.Pi * x[1] // over the span
		sum := 0.0
		for i, n := range s.bins {
			if n > 0 {
				sum += n * math.Log1p(x[0]*math.Sin(omega*(float64(i)+0.5)/rateBins+x[2]))
			}
		}
		return sum - float64(len(s.t))*math.Log1p(x[0]/omega*(math.Cos(x[2])-math.Cos(omega+x[2])))
	}
	step := [3]float64{0.1, 0.2, 0.4}
	top := likelihood(x)
	for range 60 {
		moved := false
		for i := range x {
			for _, d := range []float64{step[i], -step[i]} {
				y := x
				y[i] += d
				if l := likelihood(y); l > top {
					x, top, moved = y, l, true
					break
				}
			}
		}
		if !moved {
			for i := range step {
				step[i] /= 2
			}
		}
	}
	return x
}

// coarsely is a time of so many seconds to four digits.
func coarsely(seconds float64) time.Duration {
	return time.Duration(short(seconds) * float64(time.Second))
}

// steps has a rate for each of so many equal intervals; their number is that of the
// least Bayesian information criterion.
func (s *rateSample) steps() (RateFit, bool) {
	var rates []float64
	least := math.Inf(1)
	for _, m := range []int{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, mostSteps} {
		counts := make([]float64, m)
		for _, x := range s.t {
			counts[min(int(x/s.span*float64(m)), m-1)]++
		}
		bic := float64(m) * math.Log(float64(len(s.t)))
		for i, n := range counts {
			if n > 0 {
				bic -= 2 * n * math.Log(n*float64(m))
			}
			counts[i] = short(max(n, 0.5) * float64(m) / s.span)
		}
		if bic < least {
			least, rates = bic, counts
		}
	}
	if len(rates) < 2 {
		return RateFit{}, false
	}
	each := s.span / float64(len(rates))
	a := Arrival{Process: StepRates}
	sums := []float64{0}
	for _, r := range rates {
		a.Steps = append(a.Steps, arrival.Step{Rate: r, For: coarsely(each)})
		sums = append(sums, sums[len(sums)-1]+r*each)
	}
	f := s.byTime(a, func(t float64) float64 {
		k := min(int(t/each), len(rates)-1)
		return sums[k] + rates[k]*(t-float64(k)*each)
	}, each/2)
	return f, len(f.Counts) > 0
}

// onOff fits a two-state MMPP by the dispersion of counts over the length of the
// window, 1 + c(1 - (1-e^-st)/(st)), and the skew of the counts (Heffes and Lucantoni,
// IEEE JSAC 4(6), 1986).
func (s *rateSample) onOff() (RateFit, bool) {
	c, switching := s.dispersionCurve()
	if c < leastDispersion-1 {
		return RateFit{}, false
	}
	// Of the rate over its mean: variance, third moment over variance.
	v := c * switching / (2 * s.rate)
	d := s.thirdMoment(0.2/switching) / v
	up := (d + math.Sqrt(d*d+4*v)) / 2
	down := v / up
	if !(down < 1) {
		down, up = 1, v
	}
	if !(up > 0) || math.IsInf(up, 0) {
		return RateFit{}, false
	}
	on := down / (up + down)
	a := Arrival{
		Process: OnOff, Rate: short(s.rate), Peak: short(1 + up), Trough: short(max(1-down, 0)),
		On: coarsely(1 / ((1 - on) * switching)),
	}
	// So many periods at least, or it is not known that they come at random.
	return s.mmpp(a), s.span*on*(1-on)*switching >= fewestPeriods
}

// mmpp is the fit of a process of two rates, whose gaps are a mixture of two
// exponentials.
func (s *rateSample) mmpp(a Arrival) RateFit {
	on := (1 - a.Trough) / (a.Peak - a.Trough)
	leave := 1 / a.On.Seconds()
	enter := leave * on / (1 - on)
	hi, lo := a.Peak*a.Rate, a.Trough*a.Rate
	// Eigenvalues of the transitions without an arrival.
	mid, det := (hi+leave+lo+enter)/2, (hi+leave)*(lo+enter)-leave*enter
	root := math.Sqrt(max(mid*mid-det, 0))
	fast, slow := mid+root, mid-root
	first := (on*hi*hi + (1-on)*lo*lo) / a.Rate
	q := 1.0
	if root > 0 {
		q = (first - slow) / (fast - slow)
	}
	cdf := func(x float64) float64 {
		if x < 0 {
			return 0
		}
		return 1 - q*math.Exp(-fast*x) - (1-q)*math.Exp(-slow*x)
	}
	gaps := make([]float64, len(s.t)-1)
	for i := range gaps {
		gaps[i] = float64(s.at[i+1]-s.at[i]) / 1e9
	}
	slices.Sort(gaps)
	f := RateFit{Arrival: a, Distance: roundedKS(gaps, cdf, resolution(s.at, s.rate)), Rejected: 1.9495 / math.Sqrt(float64(len(gaps)))}
	switching := leave + enter
	c := 2 * leave * enter * (hi - lo) * (hi - lo) / (switching * switching * (hi*enter + lo*leave))
	for _, w := range s.windows {
		if own := 1 + c*buildUp(switching*w.Window.Seconds()); w.Index > 0 {
			f.Counts = append(f.Counts, Dispersion{w.Window, w.Index / own, w.Windows})
		}
	}
	return f
}

// buildUp is how much of its last dispersion a window has.
func buildUp(x float64) float64 {
	if x < 1e-4 {
		return x / 2
	}
	return 1 + math.Expm1(-x)/x
}

// dispersionCurve fits c and s of the dispersion over windows of many lengths, by
// least squares of logarithms.
func (s *rateSample) dispersionCurve() (c, switching float64) {
	short, long := max(2/s.rate, s.span/1e5), s.span/30
	if !(long > 2*short) {
		return 0, 0
	}
	var x, y []float64
	for i := range dispersionPoints {
		w := short * math.Pow(long/short, float64(i)/(dispersionPoints-1))
		index, n := stat.IndexOfDispersion(s.at, s.at[0], s.at[len(s.at)-1], int64(w*1e9))
		if n >= fewestForCounts && index > 0 {
			x, y = append(x, w), append(y, math.Log(index))
		}
	}
	least := math.Inf(1)
	for i := range 80 {
		rate := 0.1 / long * math.Pow(100*long/short, float64(i)/79)
		for k := range 100 {
			size := 0.1 * math.Pow(1e6, float64(k)/99)
			sum := 0.0
			for j := range x {
				d := y[j] - math.Log1p(size*buildUp(rate*x[j]))
				sum += d * d
			}
			if sum < least {
				least, c, switching = sum, size, rate
			}
		}
	}
	return c, switching
}

// thirdMoment is the third central moment of the rate over its mean, by the third
// factorial cumulant of counts in windows of about that length, short beside the
// time that the rate stays.
func (s *rateSample) thirdMoment(width float64) float64 {
	width = min(max(width, 1/s.rate), s.span/fewestForCounts)
	counts := make([]float64, int(s.span/width))
	for _, t := range s.t {
		if k := int(t / width); k < len(counts) {
			counts[k]++
		}
	}
	mean := stat.Mean(counts)
	m2, m3 := 0.0, 0.0
	for _, n := range counts {
		m2 += (n - mean) * (n - mean)
		m3 += (n - mean) * (n - mean) * (n - mean)
	}
	n := float64(len(counts))
	return (m3/n - 3*m2/n + 2*mean) / (mean * mean * mean)
}
