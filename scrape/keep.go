package scrape

import (
	"slices"

	dto "github.com/prometheus/client_model/go"
)

// modelLabels are those by which engines say of which model a series is.
var modelLabels = []string{"model_name", "model"}

// Models lists the values of the labels that name a model, each once, in
// alphabetical order, with the label that has them; none if no series has one.
func (s *Scrape) Models() (label string, models []string) {
	for _, label := range modelLabels {
		var found []string
		for _, family := range s.Families {
			for _, m := range family.GetMetric() {
				if v := labelOf(m, label); v != "" && !slices.Contains(found, v) {
					found = append(found, v)
				}
			}
		}
		if len(found) > 0 {
			slices.Sort(found)
			return label, found
		}
	}
	return "", nil
}

// KeepLabel drops the series in which the label has another value. Series without
// it are of the whole process, and stay.
func (s *Scrape) KeepLabel(label, value string) {
	for name, family := range s.Families {
		kept := slices.DeleteFunc(slices.Clone(family.GetMetric()), func(m *dto.Metric) bool {
			v := labelOf(m, label)
			return v != "" && v != value
		})
		if len(kept) == len(family.GetMetric()) {
			continue
		}
		s.Families[name] = &dto.MetricFamily{Name: family.Name, Help: family.Help, Type: family.Type, Unit: family.Unit, Metric: kept}
	}
}
