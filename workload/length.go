package workload

import (
	"fmt"
	"strconv"
	"strings"
)

// The distributions of a Length. docs/workloads.md has their formulas.
const (
	// Fixed is always Tokens.
	Fixed = "fixed"
	// Uniform is every length from Min to Max, equally often.
	Uniform = "uniform"
	// Normal, LogNormal and Gamma are by Mean and CV, cut to Min..Max. A lognormal
	// may also be by Median and Sigma, a normal by Mean and SD.
	Normal    = "normal"
	LogNormal = "lognormal"
	Gamma     = "gamma"
	// Pareto falls as a power with index Alpha from Min on, cut at Max.
	Pareto = "pareto"
	// Zipf has the k-th length from Min on with probability in proportion to
	// k^-Exponent, up to Max.
	Zipf = "zipf"
	// Quantiles is a table such as p50, p95 and Max, with straight lines between.
	Quantiles = "quantiles"
	// Histogram is Bins with weights, each length of a bin equally often.
	Histogram = "histogram"
	// Mixture draws from one of several, by their weights.
	Mixture = "mixture"
	// FromTrace takes the length of the trace's row.
	FromTrace = "trace"
)

// MaxTokens is the longest length taken, in tokens. Longer ones are typing errors.
const MaxTokens = 10_000_000

// Length is a distribution of lengths in tokens. In YAML and JSON it is a number
// (always that many) or an object: {dist: uniform, min: 100, max: 500}. As a
// flag it is "512", "100..500" or "lognormal:mean=512,cv=1.2,max=4096".
//
// A distribution with no end of its own needs a Max, the longest length that the
// server takes. What lies outside Min..Max is drawn again, so to speak: the rest
// keeps its shape, no length piles up at a bound, and the mean moves. Describe
// says to where.
type Length struct {
	// Dist names the distribution; empty means fixed.
	Dist string `yaml:"dist" json:"dist"`
	// Tokens of a fixed length.
	Tokens int `yaml:"tokens,omitempty" json:"tokens,omitempty"`
	// Min and Max, both included; Min is 1 if it is left out where it may be.
	Min int `yaml:"min,omitempty" json:"min,omitempty"`
	Max int `yaml:"max,omitempty" json:"max,omitempty"`

	// Mean in tokens, before the cut.
	Mean float64 `yaml:"mean,omitempty" json:"mean,omitempty"`
	// CV is the standard deviation over the mean, before the cut.
	CV float64 `yaml:"cv,omitempty" json:"cv,omitempty"`
	// SD is the standard deviation of a normal in tokens, instead of its CV.
	SD float64 `yaml:"sd,omitempty" json:"sd,omitempty"`
	// Median in tokens and Sigma, the standard deviation of the natural logarithm,
	// of a lognormal instead of its mean and CV.
	Median float64 `yaml:"median,omitempty" json:"median,omitempty"`
	Sigma  float64 `yaml:"sigma,omitempty" json:"sigma,omitempty"`
	// Alpha is the tail index of a Pareto.
	Alpha float64 `yaml:"alpha,omitempty" json:"alpha,omitempty"`
	// Exponent of a Zipf.
	Exponent float64 `yaml:"exponent,omitempty" json:"exponent,omitempty"`

	// The quantiles of a table, in tokens; those that are 0 are not given.
	P1   float64 `yaml:"p1,omitempty" json:"p1,omitempty"`
	P5   float64 `yaml:"p5,omitempty" json:"p5,omitempty"`
	P10  float64 `yaml:"p10,omitempty" json:"p10,omitempty"`
	P25  float64 `yaml:"p25,omitempty" json:"p25,omitempty"`
	P50  float64 `yaml:"p50,omitempty" json:"p50,omitempty"`
	P75  float64 `yaml:"p75,omitempty" json:"p75,omitempty"`
	P90  float64 `yaml:"p90,omitempty" json:"p90,omitempty"`
	P95  float64 `yaml:"p95,omitempty" json:"p95,omitempty"`
	P99  float64 `yaml:"p99,omitempty" json:"p99,omitempty"`
	P999 float64 `yaml:"p999,omitempty" json:"p999,omitempty"`

	// Bins of a histogram.
	Bins []Bin `yaml:"bins,omitempty" json:"bins,omitempty"`
	// Of are the parts of a mixture, Weight is that of one of them; 0 means 1.
	Of     []Length `yaml:"of,omitempty" json:"of,omitempty"`
	Weight float64  `yaml:"weight,omitempty" json:"weight,omitempty"`
}

// Bin of a histogram: lengths from Min to Max, both included, and how often
// relative to the other bins.
type Bin struct {
	Min    int     `yaml:"min" json:"min"`
	Max    int     `yaml:"max" json:"max"`
	Weight float64 `yaml:"weight" json:"weight"`
}

// FixedLength is always n tokens.
func FixedLength(n int) Length { return Length{Dist: Fixed, Tokens: n} }

// UniformLength is every length from low to high, equally often.
func UniformLength(low, high int) Length { return Length{Dist: Uniform, Min: low, Max: high} }

// isFixed reports whether it is always the same.
func (l Length) isFixed() bool { return l.Dist == Fixed || l.Dist == "" }

// Bounds are the shortest and the longest length that may come, in tokens; 0 and
// 0 for those of a trace.
func (l Length) Bounds() (low, high int) {
	switch l.Dist {
	case Fixed, "":
		return l.Tokens, l.Tokens
	case FromTrace:
		return 0, 0
	case Histogram:
		for i, b := range l.Bins {
			if i == 0 || b.Min < low {
				low = b.Min
			}
			high = max(high, b.Max)
		}
		return low, high
	case Mixture:
		for i, part := range l.Of {
			a, b := part.Bounds()
			if i == 0 || a < low {
				low = a
			}
			high = max(high, b)
		}
		return low, high
	}
	return max(l.Min, 1), l.Max
}

// ExpectedTokens is the mean of the lengths as drawn, after any cut; 0 for those
// of a trace. The length must be valid.
func (l Length) ExpectedTokens() float64 {
	if l.Dist == FromTrace {
		return 0
	}
	s, err := l.sampler()
	if err != nil {
		return 0
	}
	return s.mean
}

// parameter is a number of a Length with the name that it has in files.
type parameter struct {
	name string
	at   *float64
}

// parameters are all real ones, in the order in which they are written.
func (l *Length) parameters() []parameter {
	return append([]parameter{
		{"mean", &l.Mean}, {"cv", &l.CV}, {"sd", &l.SD}, {"median", &l.Median}, {"sigma", &l.Sigma},
		{"alpha", &l.Alpha}, {"exponent", &l.Exponent},
	}, l.quantiles()...)
}

// quantiles are those of a table, in rising order.
func (l *Length) quantiles() []parameter {
	return []parameter{
		{"p1", &l.P1}, {"p5", &l.P5}, {"p10", &l.P10}, {"p25", &l.P25}, {"p50", &l.P50},
		{"p75", &l.P75}, {"p90", &l.P90}, {"p95", &l.P95}, {"p99", &l.P99}, {"p999", &l.P999},
	}
}

// probability that a quantile's name says: p95 is 0.95, p999 is 0.999.
func probability(name string) float64 {
	p, _ := strconv.ParseFloat("0."+strings.TrimPrefix(name, "p"), 64)
	if len(name) == 2 { // p1 and p5
		p /= 10
	}
	return p
}

// String is the form that flags take: "512", "100..500",
// "gamma:max=4096,mean=512,cv=1". Histograms and mixtures have none: they say
// what they are.
func (l Length) String() string {
	switch l.Dist {
	case Fixed, "":
		return strconv.Itoa(l.Tokens)
	case Uniform:
		return fmt.Sprintf("%d..%d", l.Min, l.Max)
	case Histogram, Mixture, FromTrace:
		return l.Dist
	}
	return l.Dist + ":" + strings.Join(l.terms(), ",")
}

// terms are the parameters that are set, as name=value.
func (l *Length) terms() []string {
	var out []string
	for _, p := range l.parameters() {
		if *p.at != 0 {
			out = append(out, p.name+"="+number(*p.at))
		}
	}
	if l.Min != 0 {
		out = append(out, fmt.Sprintf("min=%d", l.Min))
	}
	if l.Max != 0 {
		out = append(out, fmt.Sprintf("max=%d", l.Max))
	}
	return out
}

func number(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// describe says the length in words, without the unit.
func (l Length) describe() string {
	low, high := l.Bounds()
	switch l.Dist {
	case Fixed, "":
		return strconv.Itoa(l.Tokens)
	case Uniform:
		return fmt.Sprintf("%d to %d (uniform)", l.Min, l.Max)
	case FromTrace:
		return "of the trace's"
	case Histogram:
		return fmt.Sprintf("%d to %d (histogram of %d bins, mean %.4g)", low, high, len(l.Bins), l.ExpectedTokens())
	case Mixture:
		var parts []string
		total := 0.0
		for _, part := range l.Of {
			total += part.weight()
		}
		for _, part := range l.Of {
			parts = append(parts, fmt.Sprintf("%.3g %% %s", 100*part.weight()/total, part.describe()))
		}
		return fmt.Sprintf("%d to %d (mixture: %s; mean %.4g)", low, high, strings.Join(parts, ", "), l.ExpectedTokens())
	}
	c := l
	c.Min, c.Max = 0, 0
	return fmt.Sprintf("%d to %d (%s, %s; mean %.4g as cut)", low, high, l.Dist, strings.ReplaceAll(strings.Join(c.terms(), ", "), "=", " "), l.ExpectedTokens())
}

func (l Length) weight() float64 {
	if l.Weight == 0 {
		return 1
	}
	return l.Weight
}
