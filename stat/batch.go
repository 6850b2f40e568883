package stat

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// Batches used for an interval. Fewer than MinBatches support none; more than
// maxBatches would only shorten them and let correlation back in.
const (
	MinBatches = 20
	maxBatches = 64
)

// Method names how an [Interval] was made.
type Method string

// The methods.
const (
	MethodBatchMeans Method = "batch means"                     // Student t on batch means
	MethodEffective  Method = "order statistics at effective n" // ranks of a sample of NEff
	MethodBootstrap  Method = "circular block bootstrap"        // percentile interval of resampled blocks
)

// Refusal says why there is no interval. The empty Refusal means there is one.
// The text can follow "no interval:" in a report.
type Refusal string

// The refusals.
const (
	TooFewBatches   Refusal = "fewer than 20 batches"
	StillDependent  Refusal = "batch means are still correlated at 20 batches: the series is too short for its memory, or drifts"
	TooFewBeyond    Refusal = "no sample beyond the quantile"
	TooFewEffective Refusal = "the effective sample is too small for this quantile"
	BadArgument     Refusal = "quantile or level outside (0, 1)"
)

// Interval is a confidence interval from one autocorrelated series, in the
// unit of the series.
type Interval struct {
	Lo, Hi  float64 // NaN if refused
	Level   float64 // nominal, for example 0.95
	NEff    float64 // independent samples that would be as precise; NaN if not estimated
	Batches int     // batches (or bootstrap blocks) used
	Length  int     // observations in each
	Method  Method
	Why     Refusal // empty if Lo and Hi hold
}

// String gives the interval or the reason for its absence.
func (v Interval) String() string {
	if v.Why != "" {
		return "no interval: " + string(v.Why)
	}
	return fmt.Sprintf("[%g, %g] (%g %%, n_eff %.0f, %s)", v.Lo, v.Hi, 100*v.Level, v.NEff, v.Method)
}

func (v Interval) refuse(why Refusal) (Interval, bool) {
	v.Lo, v.Hi, v.Why = math.NaN(), math.NaN(), why
	return v, false
}

// BatchMeans returns the means of b adjacent batches of floor(n/b) values. The
// values that do not fill a batch are left out at the start, where a transient
// would be. It is nil if there are fewer than b values.
func BatchMeans(series []float64, b int) []float64 {
	if b < 1 || len(series) < b {
		return nil
	}
	length := len(series) / b
	series = series[len(series)-b*length:]
	means := make([]float64, b)
	for i := range means {
		means[i] = Mean(series[i*length : (i+1)*length])
	}
	return means
}

// batching is a choice of batches and what it says about the series.
type batching struct {
	count, length int
	longRun       float64 // n times the variance of the series' mean
	nEff          float64
	why           Refusal
}

// Below minEffective effective samples nothing is given. Not more is asked: an
// interval that is given only where chance makes the effective sample look large
// is wrong just there, so that few samples mean a wide interval instead (see
// [batching.freedom]).
//
// The lag-1 test of batch means has two levels. Batches grow at the lenient
// one, since a missed correlation costs coverage and a needless growth costs
// only a little width (20 % as in Skart, Tafazzoli and Wilson 2011); the
// interval is refused at the strict one.
const (
	minEffective = 10
	growZ        = 0.8416 // one-sided 20 %
	refuseZ      = 3.0902 // one-sided 0.1 %
)

// chooseBatches starts with 64 batches and lengthens them by a quarter until
// the lag-1 autocorrelation of their means is insignificant, down to 20. What
// correlation is left inflates the variance by (1+r)/(1-r), as in Skart, and the
// larger of that at the chosen length and at 20 batches is taken. The
// effective size is n times the variance of the series over the long-run
// variance, capped at n. Cost: about 6 passes.
func chooseBatches(series []float64) batching {
	n := len(series)
	if n < MinBatches {
		return batching{count: n, length: 1, nEff: math.NaN(), why: TooFewBatches}
	}
	b := min(n, maxBatches)
	for {
		means := BatchMeans(series, b)
		r := Autocorrelation(means, 1)
		// Under independence r has mean -1/b and standard deviation 1/sqrt(b).
		z := (r + 1/float64(b)) * math.Sqrt(float64(b))
		if z > growZ && b > MinBatches {
			b = max(MinBatches, b*4/5)
			continue
		}
		c := batching{count: b, length: n / b}
		if z > refuseZ {
			c.why = StillDependent
		}
		c.longRun = longRun(means, c.length)
		if b > MinBatches {
			// Short batches that look independent by luck are the ones that get an
			// interval: the longest are asked too, and the larger answer counts.
			c.longRun = max(c.longRun, longRun(BatchMeans(series, MinBatches), n/MinBatches))
		}
		c.nEff = effective(Variance(series), c.longRun, n)
		if c.why == "" && c.nEff < minEffective {
			c.why = TooFewEffective
		}
		return c
	}
}

// longRun is the long-run variance by batch means. What correlation is left between
// them inflates it.
func longRun(means []float64, length int) float64 {
	v := Variance(means) * float64(length)
	if r := Autocorrelation(means, 1); r > 0 {
		v *= (1 + r) / (1 - r)
	}
	return v
}

// freedom is the degrees of freedom of Student's t: an interval from few effective
// samples is wide, rather than given only where chance made them look like many.
func (c *batching) freedom() int { return max(2, min(c.count-1, int(c.nEff/3))) }

func effective(variance, longRun float64, n int) float64 {
	if !(longRun > 0) {
		return float64(n) // constant batches
	}
	return min(float64(n), max(1, variance/longRun*float64(n)))
}

// EffectiveN returns how many independent samples would give the mean of this
// series in time order the precision that it has, at most len(series), from the
// variance of batch means. It is NaN with fewer than 20 values.
func EffectiveN(series []float64) float64 { return chooseBatches(series).nEff }

// MeanInterval returns a confidence interval for the steady-state mean of a
// series in time order: Student's t on at least 20 non-overlapping batch means
// (Law, "Simulation Modeling and Analysis", section 9.5), the batch length
// chosen from the data. Independence of single observations is not assumed;
// stationarity is. ok is false, and Why says why, if the series is too short
// or its batch means stay correlated; NEff is filled in that case too.
//
// docs/protocol.md has the measured coverage on a simulated engine. A thousand
// requests of a queue near capacity are a handful of busy periods, and nothing in
// them tells of the long ones not yet seen: no method covers there.
func MeanInterval(series []float64, level float64) (v Interval, ok bool) {
	c := chooseBatches(series)
	v = Interval{Level: level, NEff: c.nEff, Batches: c.count, Length: c.length, Method: MethodBatchMeans}
	if !(level > 0 && level < 1) {
		return v.refuse(BadArgument)
	}
	if c.why != "" {
		return v.refuse(c.why)
	}
	half := student(c.freedom(), level) * math.Sqrt(c.longRun/float64(len(series)))
	mean := Mean(series)
	v.Lo, v.Hi = mean-half, mean+half
	return v, true
}

// QuantileInterval returns a confidence interval for the p-quantile of a series
// in time order; sorted is the same sample ascending.
//
// The effective sample size is that of the indicator "above the quantile",
// from batch means, shortened by the squared ratio of the normal to Student's
// quantile for the batches it came from (Korn and Graubard, Survey Methodology
// 24, 1998). The ranks of [OrderStatCI] for a sample of that size are then read
// off the whole sample (the idea of Woodruff, JASA 47, 1952). For independent
// samples it tends to the order-statistic interval. It is refused where that
// does not exist: for p99 at 95 % below 368 effective samples. No density is
// estimated, no random number is drawn, and the cost is linear.
//
// docs/protocol.md has the measured coverage on a simulated engine, and how often
// an interval is given. The independent-sample interval covers 13 to 21 % for p99
// of an M/M/1 queue at 80 % load.
func QuantileInterval(series, sorted []float64, p, level float64) (v Interval, ok bool) {
	n := len(series)
	v = Interval{Level: level, NEff: math.NaN(), Method: MethodEffective}
	if !(level > 0 && level < 1) || !(p > 0 && p < 1) {
		return v.refuse(BadArgument)
	}
	c := exceedanceBatches(series, sorted, p)
	v.NEff, v.Batches, v.Length = c.nEff, c.count, c.length
	switch {
	case c.why != "":
		return v.refuse(c.why)
	case !Describable(n, p):
		return v.refuse(TooFewBeyond)
	}
	normal := distuv.UnitNormal.Quantile((1 + level) / 2)
	ratio := normal / student(c.freedom(), level)
	size := int(c.nEff * ratio * ratio)
	lo, hi, exists := OrderStatCI(size, p, level)
	if !exists {
		return v.refuse(TooFewEffective)
	}
	v.Lo = Quantile(sorted, float64(lo)/float64(size+1), Type6)
	v.Hi = Quantile(sorted, float64(hi)/float64(size+1), Type6)
	return v, true
}

// milderTail is how much more of the sample the milder quantile leaves beyond.
const milderTail = 5

// exceedanceBatches looks at p, at a milder quantile with five times its tail (p95
// for p99; at most the median) and at the series itself, and returns the batching
// with the smallest effective size. The few exceedances of a far tail can look
// independent by luck, above all where there were too few bursts to tell; five
// times as many cannot. Without it a queue's p99 was let through just where it
// was wrong.
func exceedanceBatches(series, sorted []float64, p float64) batching {
	c := chooseBatches(exceedances(series, Quantile(sorted, p, Type1)))
	tail := min(p, 1-p)
	milder := min(.5, milderTail*tail)
	if milder <= tail || c.why != "" {
		return c
	}
	if p > .5 {
		milder = 1 - milder
	}
	for _, other := range [][]float64{exceedances(series, Quantile(sorted, milder, Type1)), series} {
		m := chooseBatches(other)
		if m.why != "" {
			return m
		}
		if m.nEff < c.nEff {
			c = m
		}
	}
	return c
}

// exceedances marks with 1 the observations above a threshold.
func exceedances(series []float64, threshold float64) []float64 {
	above := make([]float64, len(series))
	for i, x := range series {
		if x > threshold {
			above[i] = 1
		}
	}
	return above
}

// student is the two-sided Student quantile.
func student(df int, level float64) float64 {
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(df)}.Quantile((1 + level) / 2)
}
