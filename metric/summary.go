package metric

import (
	"fmt"
	"math"
	"slices"

	"github.com/assay-bench/assay/result"
	"github.com/assay-bench/assay/stat"
)

// level of every interval.
const level = 0.95

// dependence says what is known of the order and the ties between samples.
type dependence int

const (
	inTime    dependence = iota // a series in time order: batch intervals
	unordered                   // one sample a request, but no times: iid interval only
)

// sample is one quantity on its way to a summary.
type sample struct {
	series   []float64
	excluded *exclusions // nil for none
	unit     string
	weights  result.Weighting
	depends  dependence
}

// num is x, or nil where there is no such number.
func num(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}

// summarize describes a sample. It is nil if the quantity does not exist in
// this traffic; a summary with N = 0 says that all requests were excluded, and
// why.
func (o Options) summarize(s sample) *result.Summary {
	n := len(s.series)
	if n == 0 && !s.excluded.any() {
		return nil
	}
	sum := &result.Summary{
		N: n, Unit: s.unit, Boundary: result.Client, Weighting: s.weights, QuantileType: o.QuantileType,
	}
	sum.Excluded = s.excluded.byName()
	if n == 0 {
		return sum
	}
	sorted := slices.Clone(s.series)
	slices.Sort(sorted)
	// The mean of the sorted sample is the same in whatever order it came.
	sum.Mean, sum.MAD = num(stat.Mean(sorted)), num(stat.MAD(sorted))
	o.quantiles(sum, func(rank int) float64 { return sorted[rank] })
	o.intervals(sum, s, sorted)
	return sum
}

// summarizeSpans describes spans of which a request has many: they depend on each
// other, so there is no interval. It is nil if there are none.
func (o Options) summarizeSpans(d *durations) *result.Summary {
	if d.n == 0 {
		return nil
	}
	d.seal()
	sum := &result.Summary{
		N: int(d.n), Unit: "ms", Boundary: result.Client, Weighting: result.GapWeighted, QuantileType: o.QuantileType,
		Mean: num(d.meanMS()), MAD: num(d.madMS()),
		CIMethod: "none: the gaps of one request depend on each other",
	}
	o.quantiles(sum, d.ms)
	return sum
}

// quantiles fills in what is read off the order statistics; at gives that of a
// rank from 0.
func (o Options) quantiles(sum *result.Summary, at func(rank int) float64) {
	n := sum.N
	quantile := func(p float64) *float64 {
		if !stat.Describable(n, p) {
			return nil
		}
		return num(stat.QuantileAt(n, at, p, stat.Type(o.QuantileType)))
	}
	sum.Min, sum.Max = num(at(0)), num(at(n-1))
	sum.P50, sum.P95, sum.P99 = quantile(0.50), quantile(0.95), quantile(0.99)
	for _, percent := range o.Percentiles {
		if sum.Percentiles == nil {
			sum.Percentiles = make(map[string]*float64)
		}
		sum.Percentiles[percentileName(percent)] = quantile(percent / 100)
	}
}

// exclusions counts the requests that are not in a sample by reason.
type exclusions [reasons]int

func (e *exclusions) byName() map[string]int {
	var names map[string]int
	for why := range Reason(reasons) {
		if e == nil || e[why] == 0 {
			continue
		}
		if names == nil {
			names = make(map[string]int)
		}
		names[why.String()] = e[why]
	}
	return names
}

// any reports whether a request was excluded from a quantity that exists.
func (e *exclusions) any() bool {
	for why := range Reason(reasons) {
		if e != nil && e[why] > 0 && !why.absence() {
			return true
		}
	}
	return false
}

func (o Options) intervals(sum *result.Summary, s sample, sorted []float64) {
	sum.P50CIIID, sum.P99CIIID = iid(sorted, 0.50), iid(sorted, 0.99)
	if s.depends == unordered {
		sum.CIMethod = "none: no order in time, so that dependence cannot be seen"
		return
	}
	sum.NEff = num(stat.EffectiveN(s.series))
	mean, _ := o.meanInterval(s.series)
	p50, _ := o.quantileInterval(s.series, sorted, 0.50)
	p95, _ := o.quantileInterval(s.series, sorted, 0.95)
	p99, _ := o.quantileInterval(s.series, sorted, 0.99)
	sum.MeanCI, sum.P50CI, sum.P95CI, sum.P99CI = bounds(mean), bounds(p50), bounds(p95), bounds(p99)
	sum.CIMethod = "mean " + method(mean) + "; p50 " + method(p50) + "; p95 " + method(p95) + "; p99 " + method(p99)
	if p50.Why != "" && mean.Why == p50.Why && p95.Why == p50.Why && p99.Why == p50.Why {
		sum.CIMethod = "none: " + string(p50.Why)
	}
}

func (o Options) meanInterval(series []float64) (stat.Interval, bool) {
	if o.Bootstrap {
		return stat.BootstrapMean(series, level, o.Seed)
	}
	return stat.MeanInterval(series, level)
}

func (o Options) quantileInterval(series, sorted []float64, p float64) (stat.Interval, bool) {
	if o.Bootstrap {
		return stat.BootstrapQuantile(series, sorted, p, level, o.Seed)
	}
	return stat.QuantileInterval(series, sorted, p, level)
}

func bounds(v stat.Interval) *result.Interval {
	if v.Why != "" {
		return nil
	}
	return &result.Interval{v.Lo, v.Hi}
}

func method(v stat.Interval) string {
	if v.Why != "" {
		return "none: " + string(v.Why)
	}
	return fmt.Sprintf("%s, %d batches of %d, n_eff %.0f", v.Method, v.Batches, v.Length, v.NEff)
}

func iid(sorted []float64, p float64) *result.Interval {
	lo, hi, ok := stat.OrderStatCI(len(sorted), p, level)
	if !ok {
		return nil
	}
	return &result.Interval{sorted[lo-1], sorted[hi-1]}
}
