package workload

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/assay-bench/assay/arrival"
	"github.com/assay-bench/assay/stat"
)

// LengthFit is a simple distribution beside observed lengths.
type LengthFit struct {
	Length Length `json:"length"`
	// Distance is the largest difference of the two cumulative distributions
	// (Kolmogorov-Smirnov): the share of requests by which they differ at most.
	Distance float64 `json:"distance"`
}

// FitLengths fits simple distributions to lengths, the nearest first. Each is cut
// to the bounds that were seen. Among them are two tables, of quantiles and of bins:
// they come near to anything, and say nothing of why.
func FitLengths(x []int) []LengthFit {
	if len(x) == 0 {
		return nil
	}
	sorted := slices.Sorted(slices.Values(x))
	var fits []LengthFit
	for _, l := range nearby(sorted) {
		s, err := l.sampler()
		if l.Validate() != nil || err != nil {
			continue
		}
		fits = append(fits, LengthFit{l, distance(sorted, s)})
	}
	slices.SortStableFunc(fits, func(a, b LengthFit) int { return cmp.Compare(a.Distance, b.Distance) })
	return fits
}

// nearby distributions for ascending lengths: by moments, the lognormal and the Pareto by
// maximum likelihood.
func nearby(sorted []int) []Length {
	low, high := sorted[0], sorted[len(sorted)-1]
	if low == high {
		return []Length{FixedLength(low)}
	}
	f := floats(sorted)
	mean, cv := stat.Mean(f), stat.CV(f)
	logs := make([]float64, len(f))
	above := 0.0
	for i, v := range f {
		logs[i] = math.Log(v)
		above += logs[i] - math.Log(float64(low)-0.5)
	}
	out := []Length{
		UniformLength(low, high),
		{Dist: Normal, Mean: short(mean), CV: short(cv), Min: low, Max: high},
		{Dist: LogNormal, Median: short(math.Exp(stat.Mean(logs))), Sigma: short(stat.StdDev(logs)), Min: low, Max: high},
		{Dist: Gamma, Mean: short(mean), CV: short(cv), Min: low, Max: high},
		{Dist: Pareto, Alpha: short(float64(len(f)) / above), Min: low, Max: high},
	}
	table := Length{Dist: Quantiles, Min: low, Max: high}
	for _, q := range table.quantiles() {
		if v := stat.Quantile(f, probability(q.name), 7); len(f) >= 1000 || q.name != "p999" {
			*q.at = short(v)
		}
	}
	return append(out, table, histogramOf(sorted))
}

// fitBins are the bins of a histogram that is fitted, at most.
const fitBins = 32

// histogramOf has bins of about as many lengths each, between lengths that were seen:
// what lies between two humps is in none, or in one.
func histogramOf(sorted []int) Length {
	l := Length{Dist: Histogram}
	for from := 0; from < len(sorted); {
		low := sorted[from]
		// The length at the end of the bin's share belongs to it wholly.
		last := sorted[min(from+(len(sorted)+fitBins-1)/fitBins, len(sorted))-1]
		to, _ := slices.BinarySearch(sorted, last+1)
		l.Bins = append(l.Bins, Bin{low, last, float64(to - from)})
		from = to
	}
	return l
}

// IsTable reports whether a fit is a table of what was seen.
func (f LengthFit) IsTable() bool { return f.Length.Dist == Quantiles || f.Length.Dist == Histogram }

// Text is the distribution with its parameters.
func (f LengthFit) Text() string {
	if n := len(f.Length.Bins); n > 0 {
		return fmt.Sprintf("histogram of %d bins", n)
	}
	return f.Length.String()
}

// digitsOfShort is what short changes a number by, of itself, at most.
const digitsOfShort = 0.5e-3

// short has four digits: more are noise of the sample.
func short(x float64) float64 {
	if x == 0 || math.IsInf(x, 0) || math.IsNaN(x) {
		return x
	}
	unit := math.Pow(10, math.Floor(math.Log10(math.Abs(x)))-3)
	if unit >= 1 {
		return math.Round(x/unit) * unit
	}
	return math.Round(x*math.Round(1/unit)) / math.Round(1/unit)
}

// quantilePoints at which a fit is compared with a sample.
const quantilePoints = 2000

// distance is that of a sample and of a distribution given by its quantiles.
func distance(sorted []int, s *sampler) float64 {
	d := 0.0
	n := float64(len(sorted))
	for i := range quantilePoints {
		// Of the fit, a share of at most u is below v and at least u is up to v.
		u := (float64(i) + 0.5) / quantilePoints
		v := s.quantile(u)
		below, _ := slices.BinarySearch(sorted, v)
		upTo, _ := slices.BinarySearch(sorted, v+1)
		d = max(d, float64(below)/n-u, u-float64(upTo)/n)
	}
	return d
}

// ArrivalFit is a simple process beside observed arrivals.
type ArrivalFit struct {
	Arrival Arrival `json:"arrival"`
	// Distance of the gaps from the process's own (Kolmogorov-Smirnov), from 0 to
	// 1, and the least that a sample of this size would be rejected for at alpha
	// 0.001 were the parameters known beforehand.
	Distance float64 `json:"distance"`
	Rejected float64 `json:"rejected_above"`
}

// FitArrivals fits processes with independent gaps to times in nanoseconds that
// do not fall, the nearest first; but Poisson before all if neither distance nor CV
// speaks against it, since the others have it as a case of theirs. Their rate is the
// mean, their CV that of the gaps. What they cannot have, a rate that changes in time, shows in the
// dispersion of counts, not here.
func FitArrivals(at []int64) []ArrivalFit {
	p := profileArrivals(at)
	if p == nil || p.Rate == 0 || p.CV == nil || arrival.CheckRate(p.Rate) != nil {
		return nil
	}
	gaps := make([]float64, len(at)-1)
	for i := range gaps {
		gaps[i] = float64(at[i+1]-at[i]) / 1e9
	}
	slices.Sort(gaps)
	near := resolution(at, p.Rate)
	rate, cv := short(p.Rate), short(*p.CV)
	var fits []ArrivalFit
	for _, a := range []Arrival{
		{Process: Constant, Rate: rate},
		{Process: Poisson, Rate: rate},
		{Process: Gamma, Rate: rate, CV: cv},
		{Process: Weibull, Rate: rate, CV: cv},
		{Process: Lomax, Rate: rate, CV: cv},
		{Process: Hyperexponential, Rate: rate, CV: cv},
	} {
		cdf, off := a.gapCDF(), near
		if a.Process == Constant {
			// All of its gaps are one, to the digits of the rate.
			off = max(near, digitsOfShort/rate)
		}
		if a.check() == nil && cdf != nil {
			fits = append(fits, ArrivalFit{a, roundedKS(gaps, cdf, off), 1.9495 / math.Sqrt(float64(len(gaps)))})
		}
	}
	// The CV of so many exponential gaps has a standard error of 1/sqrt(n).
	plain := math.Abs(*p.CV-1) <= 3.3/math.Sqrt(float64(len(gaps)))
	distance := func(f ArrivalFit) float64 {
		if plain && f.Arrival.Process == Poisson && f.Distance <= f.Rejected {
			return -1
		}
		return f.Distance
	}
	slices.SortStableFunc(fits, func(a, b ArrivalFit) int { return cmp.Compare(distance(a), distance(b)) })
	return fits
}

// finelyStamped is the most that times are cut to, over the mean gap, where the cut is
// taken into account as one of each gap; where it is more, the times may be at
// multiples of something by themselves.
const finelyStamped = 0.02

// resolution is what times are cut to, in seconds.
func resolution(at []int64, rate float64) float64 {
	unit := int64(0)
	for _, t := range at {
		for d := t - at[0]; d != 0; {
			unit, d = d, unit%d
		}
		if unit == 1 {
			break
		}
	}
	if s := float64(unit) / 1e9; s*rate < finelyStamped {
		return max(s, 1e-9)
	}
	return 1e-9
}

// roundedKS is the Kolmogorov-Smirnov distance of ascending gaps between times that
// are cut to a resolution: what that explains does not count.
func roundedKS(gaps []float64, cdf func(float64) float64, resolution float64) float64 {
	d, n := 0.0, float64(len(gaps))
	off := 1.5 * resolution
	for i, x := range gaps {
		d = max(d, cdf(x-off)-float64(i)/n, float64(i+1)/n-cdf(x+off))
	}
	return d
}

// gapCDF is the distribution of the gaps in seconds; nil if it has none.
func (a Arrival) gapCDF() func(float64) float64 {
	switch a.Process {
	case Constant:
		return func(x float64) float64 {
			if x < 1/a.Rate {
				return 0
			}
			return 1
		}
	case Poisson:
		return func(x float64) float64 { return -math.Expm1(-a.Rate * x) }
	}
	p, err := a.process(rand.NewPCG(0, 0))
	if r, ok := p.(*arrival.Renewal); ok && err == nil {
		return r.CDF
	}
	return nil
}

// Fits are the simple forms beside a sample, the nearest first.
type Fits struct {
	Prompt   []LengthFit  `json:"prompt_tokens"`
	Output   []LengthFit  `json:"output_tokens"`
	Arrivals []ArrivalFit `json:"arrivals"`
	Rates    []RateFit    `json:"changing_rates"`

	profile Profile
}

// Fit fits simple forms to all that the sample has.
func (s Sample) Fit() *Fits {
	return &Fits{Prompt: FitLengths(s.Prompts), Output: FitLengths(s.Outputs), Arrivals: FitArrivals(s.At), Rates: FitRates(s.At), profile: s.Profile()}
}

// Text says the process, its distance and the verdict.
func (f ArrivalFit) Text() string {
	verdict := "not rejected"
	if f.Distance > f.Rejected {
		verdict = "rejected"
	}
	return fmt.Sprintf("%s (%s at alpha 0.001, where %.2g is the limit)", f.Arrival.describe(), verdict, f.Rejected)
}

// Warnings say what the nearest process does not have.
func (f *Fits) Warnings() []string {
	a := f.profile.Arrivals
	if a == nil || a.CV == nil {
		return nil
	}
	var out []string
	for i := len(a.Dispersion) - 1; i >= 0; i-- {
		d := a.Dispersion[i]
		// Three standard errors of a sample of few windows, and a factor of 2.
		limit := max(1, *a.CV**a.CV)
		if d.Index > 2*limit && d.Index > limit*(1+3*math.Sqrt(2/float64(d.Windows))) {
			out = append(out, fmt.Sprintf("counts in windows of %v have a dispersion of %.3g, where independent gaps with this CV come to %.3g at most: "+
				"the rate changes in time, and no process with independent gaps has that (replay the trace itself: process trace)", d.Window, d.Index, limit))
			break
		}
	}
	return out
}

// nearEnough is how far a length's simple form may be from what was seen; beyond
// it a table of quantiles says it better, or, if that is as far, one of bins.
const nearEnough = 0.05

// Changes reports whether a changing rate is a better account than independent gaps:
// counts vary more, or no distribution of gaps comes as near.
func (f *Fits) Changes() bool {
	if len(f.Rates) == 0 || len(f.Arrivals) == 0 {
		return false
	}
	near := f.Arrivals[0]
	return len(f.Warnings()) > 0 || near.Distance > near.Rejected && f.Rates[0].Distance < near.Distance/2
}

// explained is the factor that a dispersion of counts may be off where a changing
// rate is taken for an explanation.
const explained = 2

// Spec is a workload of the nearest forms, with notes that say how near they
// are. It fails without lengths.
func (f *Fits) Spec() (Spec, []string, error) {
	switch {
	case len(f.Prompt) == 0:
		return Spec{}, nil, errors.New("fitting a workload: there are no lengths of prompts")
	case len(f.Output) == 0:
		return Spec{}, nil, errors.New("fitting a workload: there are no lengths of outputs")
	}
	s := Default()
	var notes []string
	pick := func(name string, fits []LengthFit) Length {
		best := fits[0]
		for _, x := range fits {
			if x.Distance > nearEnough {
				break
			}
			if best.IsTable() && (!x.IsTable() || x.Length.Dist == Quantiles) {
				best = x
			}
		}
		note := fmt.Sprintf("%s: %s at a distance of %.3f (Kolmogorov-Smirnov)", name, best.Length.Dist, best.Distance)
		for _, x := range fits {
			if x.Length.Dist != best.Length.Dist {
				note += fmt.Sprintf("; %s %.3f", x.Length.Dist, x.Distance)
			}
		}
		notes = append(notes, note)
		return best.Length
	}
	s.PromptTokens, s.OutputTokens = pick("prompt_tokens", f.Prompt), pick("output_tokens", f.Output)
	// Of so few pairs that are independent, a correlation has a standard error of 1/sqrt(n-1).
	if c := f.profile.Correlation; c != nil && math.Abs(*c) > max(0.05, 3.3/math.Sqrt(float64(f.profile.Requests-1))) {
		s.LengthCorrelation = math.Round(*c*100) / 100
		notes = append(notes, fmt.Sprintf("length_correlation: of the ranks, %.2f", *c))
	}
	if len(f.Arrivals) == 0 {
		return s, append(notes, "arrivals: none to fit; a closed loop stands here"), nil
	}
	s.Arrival = f.Arrivals[0].Arrival
	notes = append(notes, fmt.Sprintf("gaps: distance %.3f, %s", f.Arrivals[0].Distance, f.Arrivals[0].Text()))
	for _, x := range f.Arrivals[1:] {
		notes[len(notes)-1] += fmt.Sprintf("; %s %.3f", x.Arrival.Process, x.Distance)
	}
	warnings := f.Warnings()
	if !f.Changes() {
		return s, append(notes, warnings...), nil
	}
	for _, x := range f.Rates {
		notes = append(notes, fmt.Sprintf("changing rate: distance %.3f, %s", x.Distance, x.Text()))
	}
	if best := f.Rates[0]; best.Worst() < explained {
		s.Arrival = best.Arrival
		return s, append(notes, "no independent gaps are like that: "+best.Arrival.Process+" stands here"), nil
	}
	return s, append(notes, warnings...), nil
}
