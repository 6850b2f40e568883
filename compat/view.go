package compat

import (
	"cmp"
	"math"
	"slices"

	"github.com/assay-bench/assay/result"
	"github.com/assay-bench/assay/stat"
)

// Views are all of them, in the order in which they are printed.
func Views(l *Log, ours *result.Stage) []result.PeerView {
	return []result.PeerView{
		vllm(l, ours), aiperf(l, ours), guidellm(l, ours), inferencePerf(l, ours), genaiPerf(l, ours), llmperf(l, ours), databricks(l, ours),
	}
}

// view collects the figures of one tool.
type view struct {
	l    *Log
	ours *result.Stage
	out  result.PeerView
}

// of is the values of the requests for which f has one.
func (v *view) of(f func(r *request) (float64, bool)) []float64 {
	var x []float64
	for i := range v.l.requests {
		if value, ok := f(&v.l.requests[i]); ok {
			x = append(x, value)
		}
	}
	return x
}

// add enters a figure over values with linear percentiles (type 7, as NumPy).
func (v *view) add(name, ours, unit, why string, x []float64) *result.PeerFigure {
	return v.addBy(name, ours, unit, why, x, stat.Mean(x), stat.Type7)
}

func (v *view) addBy(name, ours, unit, why string, x []float64, mean float64, t stat.Type) *result.PeerFigure {
	f := result.PeerFigure{Name: name, Ours: ours, Unit: unit, N: len(x), Why: why}
	if len(x) > 0 {
		sorted := slices.Clone(x)
		slices.Sort(sorted)
		f.Mean, f.P50, f.P99 = &mean, ptr(stat.Quantile(sorted, 0.5, t)), ptr(stat.Quantile(sorted, 0.99, t))
	}
	if s := summaryOf(ours, &v.ours.Metrics); s != nil {
		f.OurMean, f.OurP50, f.OurP99 = s.Mean, s.P50, s.P99
	}
	v.out.Figures = append(v.out.Figures, f)
	return &v.out.Figures[len(v.out.Figures)-1]
}

// rate enters a figure that is one number.
func (v *view) rate(name, ours, unit, why string, value float64, n int) {
	f := result.PeerFigure{Name: name, Ours: ours, Unit: unit, N: n, Why: why}
	if !math.IsNaN(value) && !math.IsInf(value, 0) {
		f.Mean = &value
	}
	for _, t := range v.ours.Throughput {
		if t.Name == ours {
			f.OurMean = &t.Value
		}
	}
	v.out.Figures = append(v.out.Figures, f)
}

func summaryOf(name string, m *result.Metrics) *result.Summary {
	switch name {
	case "ttft_ms":
		return m.TTFT
	case "tpot_ms":
		return m.TPOT
	case "e2e_ms":
		return m.E2E
	case "itl_ms":
		return cmp.Or(m.ITL, m.ChunkGap)
	case "user_tps":
		return m.UserTPS
	}
	return nil
}

func ptr(x float64) *float64 { return &x }

// span is from the first start to the last end of the requests in it, in s.
func (v *view) span(in func(r *request) bool, end func(r *request) float64) float64 {
	first, last := math.Inf(1), math.Inf(-1)
	for i := range v.l.requests {
		if r := &v.l.requests[i]; in(r) {
			first, last = min(first, r.start), max(last, end(r))
		}
	}
	return (last - first) / 1000
}

// sum of f over the requests in it.
func (v *view) sum(in func(r *request) bool, f func(r *request) int) (total float64, n int) {
	for i := range v.l.requests {
		if r := &v.l.requests[i]; in(r) {
			total += float64(f(r))
			n++
		}
	}
	return total, n
}

// The common start of most tools: before the request is handed to a library.
const beforePool = "the clock starts before the connection pool: waiting for a connection, DNS, TCP and TLS are inside; ours starts at the first byte written"
