package sweep

import (
	"slices"

	"github.com/assay-bench/assay/result"
	"github.com/assay-bench/assay/stat"
)

// A figure is one number of a run; ok is false where the run has none.
type figure func(*result.Stage) (value float64, ok bool)

func summary(of func(*result.Metrics) *result.Summary, number func(*result.Summary) *float64) figure {
	return func(s *result.Stage) (float64, bool) {
		sum := of(&s.Metrics)
		if sum == nil {
			return 0, false
		}
		return value(number(sum))
	}
}

func value(v *float64) (float64, bool) {
	if v == nil {
		return 0, false
	}
	return *v, true
}

func ofTTFT(m *result.Metrics) *result.Summary { return m.TTFT }
func ofTPOT(m *result.Metrics) *result.Summary { return m.TPOT }
func ofE2E(m *result.Metrics) *result.Summary  { return m.E2E }
func p50(s *result.Summary) *float64           { return s.P50 }
func p99(s *result.Summary) *float64           { return s.P99 }
func mean(s *result.Summary) *float64          { return s.Mean }

// TTFTp50 is the median TTFT of a run, in milliseconds.
func TTFTp50(s *result.Stage) (float64, bool) { return summary(ofTTFT, p50)(s) }

// TTFTp99 is the 99th percentile of the TTFT of a run, in milliseconds.
func TTFTp99(s *result.Stage) (float64, bool) { return summary(ofTTFT, p99)(s) }

// TPOTMean is the request-weighted mean TPOT of a run, in milliseconds.
func TPOTMean(s *result.Stage) (float64, bool) { return summary(ofTPOT, mean)(s) }

// E2Ep50 is the median E2E of a run, in milliseconds.
func E2Ep50(s *result.Stage) (float64, bool) { return summary(ofE2E, p50)(s) }

func perSecond(name string) figure {
	return func(s *result.Stage) (float64, bool) {
		if t := rate(s, name); t != nil {
			return t.Value, true
		}
		return 0, false
	}
}

func inFlight(s *result.Stage) (float64, bool) { return value(s.Workload.InFlight.Mean) }

func goodput(s *result.Stage) (float64, bool) {
	if s.Goodput == nil || s.Goodput.Due == 0 {
		return 0, false
	}
	return s.Goodput.Percent, true
}

func goodputRate(s *result.Stage) (float64, bool) {
	if s.Goodput == nil {
		return 0, false
	}
	return value(s.Goodput.Rate)
}

// serverMean is the mean of a quantity by the server's own account.
func serverMean(quantity string) figure {
	return func(s *result.Stage) (float64, bool) {
		if s.Server == nil || s.Server.Window == nil {
			return 0, false
		}
		for i := range s.Server.Window.Distributions {
			if d := &s.Server.Window.Distributions[i]; d.Quantity == quantity && d.Hidden == "" {
				return value(d.Mean)
			}
		}
		return 0, false
	}
}

// values of a figure in the runs that have it.
func values(runs []*result.Stage, f figure) []float64 {
	var out []float64
	for _, r := range runs {
		if v, ok := f(r); ok {
			out = append(out, v)
		}
	}
	return out
}

// spread of a figure over runs; nil if none has it.
func spread(runs []*result.Stage, f figure) *result.Spread {
	v := values(runs, f)
	if len(v) == 0 {
		return nil
	}
	slices.Sort(v)
	return &result.Spread{N: len(v), Median: stat.Median(v), MAD: stat.MAD(v), Min: v[0], Max: v[len(v)-1]}
}
