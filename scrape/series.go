package scrape

import (
	"slices"
	"strconv"
	"strings"

	dto "github.com/prometheus/client_model/go"
)

// Match selects series: each label named must have one of the values listed. An
// absent label counts as the empty value. The zero value selects all series.
type Match map[string][]string

// selects reports whether m has the labels asked for.
func (match Match) selects(m *dto.Metric) bool {
	for name, values := range match {
		if !slices.Contains(values, labelOf(m, name)) {
			return false
		}
	}
	return true
}

// With returns a Match that asks for both; a label named in both takes the
// values of other.
func (match Match) With(other Match) Match {
	out := Match{}
	for name, values := range match {
		out[name] = values
	}
	for name, values := range other {
		out[name] = values
	}
	return out
}

func labelOf(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// seriesKey is the identity of a series inside its family: its labels in order
// of name, written as in the text format.
func seriesKey(m *dto.Metric) string {
	pairs := make([]string, 0, len(m.GetLabel()))
	for _, l := range m.GetLabel() {
		pairs = append(pairs, l.GetName()+"="+strconv.Quote(l.GetValue()))
	}
	slices.Sort(pairs)
	return strings.Join(pairs, ",")
}

// seriesOf maps the selected series of a family by their keys. A series that
// stands there twice is named in duplicate.
func (s *Scrape) seriesOf(name string, match Match) (byKey map[string]*dto.Metric, duplicate string) {
	byKey = map[string]*dto.Metric{}
	for _, m := range s.Families[name].GetMetric() {
		if m == nil || !match.selects(m) {
			continue
		}
		key := seriesKey(m)
		if byKey[key] != nil {
			duplicate = key
		}
		byKey[key] = m
	}
	return byKey, duplicate
}

// scalar is the value of a series of a counter, gauge or untyped family.
func scalar(m *dto.Metric) float64 {
	switch {
	case m.GetCounter() != nil:
		return m.GetCounter().GetValue()
	case m.GetGauge() != nil:
		return m.GetGauge().GetValue()
	default:
		return m.GetUntyped().GetValue()
	}
}

// createdOf tells by key when the series of a family began, in Unix seconds,
// for those of which the exposition tells it: by a field (protobuf) or by a
// _created series of its own (text).
func (s *Scrape) createdOf(name string) map[string]float64 {
	family := s.Families[name]
	base := name
	if family.GetType() != dto.MetricType_HISTOGRAM {
		base = strings.TrimSuffix(name, "_total")
	}
	seconds := map[string]float64{}
	for _, m := range s.Families[base+"_created"].GetMetric() {
		seconds[seriesKey(m)] = scalar(m)
	}
	for _, m := range family.GetMetric() {
		stamp := m.GetCounter().GetCreatedTimestamp()
		if stamp == nil {
			stamp = m.GetHistogram().GetCreatedTimestamp()
		}
		if stamp != nil {
			seconds[seriesKey(m)] = float64(stamp.GetSeconds()) + float64(stamp.GetNanos())/1e9
		}
	}
	return seconds
}
