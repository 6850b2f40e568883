package compare

import (
	"fmt"
	"slices"
	"strings"

	"github.com/assay-bench/assay/metric"
	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/result"
)

// Metric is one number of a stage that can be compared.
type Metric struct {
	// Name is a quantity, and where it is a distribution, a statistic: "ttft.p99",
	// "output_tps".
	Name   string
	Unit   string
	Higher bool // is better
	quantity
	statistic string
}

// quantity of a stage.
type quantity struct {
	name    string
	summary func(*result.Metrics) *result.Summary // of a distribution
	request func(*record.Attempt) (float64, metric.Reason)
	value   func(*result.Stage) *float64 // of all else
	unit    string
	higher  bool
}

// quantities that have a name in gates.
func quantities() []quantity {
	type m = result.Metrics
	return []quantity{
		{name: "ttft", unit: "ms", summary: func(x *m) *result.Summary { return x.TTFT }, request: metric.TTFT},
		{name: "ttft_from_schedule", unit: "ms", summary: func(x *m) *result.Summary { return x.TTFTFromSchedule }, request: metric.TTFTFromSchedule},
		{name: "tpot", unit: "ms", summary: func(x *m) *result.Summary { return x.TPOT }, request: metric.TPOT},
		{name: "itl", unit: "ms", summary: func(x *m) *result.Summary { return x.ITL }},
		{name: "e2e", unit: "ms", summary: func(x *m) *result.Summary { return x.E2E }, request: metric.E2E},
		{name: "output_tps", unit: "tokens/s", higher: true, value: rate("output_tps")},
		{name: "rps", unit: "requests/s", higher: true, value: rate("rps")},
		{name: "goodput", unit: "%", higher: true, value: func(st *result.Stage) *float64 {
			if st.Goodput == nil {
				return nil
			}
			return &st.Goodput.Percent
		}},
		{name: "completed", unit: "%", higher: true, value: func(st *result.Stage) *float64 {
			if st.Ledger.Attempts == 0 {
				return nil
			}
			share := 100 * float64(st.Ledger.Completed) / float64(st.Ledger.Attempts)
			return &share
		}},
	}
}

func rate(name string) func(*result.Stage) *float64 {
	return func(st *result.Stage) *float64 {
		for _, t := range st.Throughput {
			if t.Name == name {
				return &t.Value
			}
		}
		return nil
	}
}

// statistics of a distribution.
func statistics() []string { return []string{"mean", "p50", "p95", "p99"} }

// DefaultMetrics are the six of a comparison in which nothing else is asked for:
// five runs a side can carry them.
func DefaultMetrics() []string {
	return []string{"ttft.p50", "ttft.p99", "tpot.mean", "e2e.p50", "e2e.p99", "output_tps"}
}

// ParseMetric reads a name such as "ttft.p99" or "output_tps".
func ParseMetric(name string) (Metric, error) {
	base, statistic, distribution := strings.Cut(name, ".")
	var names []string
	for _, q := range quantities() {
		names = append(names, q.name)
		if q.name != base {
			continue
		}
		switch {
		case q.summary == nil && distribution:
			return Metric{}, fmt.Errorf("metric %q: %s is one number and has no %s", name, base, statistic)
		case q.summary != nil && !slices.Contains(statistics(), statistic):
			return Metric{}, fmt.Errorf("metric %q: say which statistic, as in %s.p99: one of %s", name, base, strings.Join(statistics(), ", "))
		}
		return Metric{Name: name, Unit: q.unit, Higher: q.higher, quantity: q, statistic: statistic}, nil
	}
	return Metric{}, fmt.Errorf("metric %q: there is %s", name, strings.Join(names, ", "))
}

// ParseMetrics reads several, each once.
func ParseMetrics(names []string) ([]Metric, error) {
	var out []Metric
	for _, name := range names {
		m, err := ParseMetric(strings.TrimSpace(name))
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(out, func(o Metric) bool { return o.Name == m.Name }) {
			out = append(out, m)
		}
	}
	return out, nil
}

// of a stage; nil if it has none, with the reason.
func (m *Metric) of(st *result.Stage) (value *float64, why string) {
	if m.summary == nil {
		v := m.value(st)
		if v == nil {
			return nil, "the run has none"
		}
		return v, ""
	}
	s := m.summary(&st.Metrics)
	if s == nil {
		return nil, "the run has none"
	}
	v := map[string]*float64{"mean": s.Mean, "p50": s.P50, "p95": s.P95, "p99": s.P99}[m.statistic]
	if v == nil {
		return nil, fmt.Sprintf("n = %d is too few", s.N)
	}
	return v, ""
}

// Samples are the values of one quantity over the measured, completed requests
// of a run, in the order in which they were due.
type Samples struct {
	Request []int64 // index of the request in the plan
	Value   []float64
}

// Quantities that [Gather] can take from records: those of single requests.
func (m *Metric) perRequest() bool { return m.request != nil }

// Gather takes from stored attempts the samples of all quantities of single
// requests among metrics, by the name of the quantity. Records are read once.
func Gather(info *result.StageInfo, metrics []Metric, records func(yield func(*record.Attempt, []record.Event) bool)) map[string]*Samples {
	type entry struct {
		due     record.Stamp
		request int64
		value   float64
	}
	entries := make(map[string][]entry)
	measure := make(map[string]func(*record.Attempt) (float64, metric.Reason))
	for _, m := range metrics {
		if m.perRequest() {
			measure[m.quantity.name] = m.request
		}
	}
	if len(measure) == 0 {
		return nil
	}
	for a := range records {
		if a.Stage != info.Name || a.Outcome != record.Completed || !info.Window.Contains(a.Scheduled) {
			continue
		}
		for name, f := range measure {
			if v, why := f(a); why == metric.Defined {
				entries[name] = append(entries[name], entry{a.Scheduled, a.Request, v})
			}
		}
	}
	out := make(map[string]*Samples, len(entries))
	for name, list := range entries {
		slices.SortStableFunc(list, func(a, b entry) int { return int(min(1, max(-1, a.due-b.due))) })
		s := &Samples{Request: make([]int64, len(list)), Value: make([]float64, len(list))}
		for i, e := range list {
			s.Request[i], s.Value[i] = e.request, e.value
		}
		out[name] = s
	}
	return out
}
