package scrape

// Kind says what is wrong with a number of a window.
type Kind string

// Kinds of problem.
const (
	NoScrape     Kind = "no scrape"      // one end of the window was not fetched or not parsed
	Overlap      Kind = "overlap"        // the second scrape began before the first had ended
	Restarted    Kind = "restarted"      // another process answers, or the metric was created anew
	Decreased    Kind = "decreased"      // a value that only grows went down
	Missing      Kind = "missing"        // no such series at either end
	WrongType    Kind = "wrong type"     // the family is not what was asked for
	Appeared     Kind = "appeared"       // a series of unknown past is there at the end only
	Vanished     Kind = "vanished"       // a series is there at the start only
	Duplicate    Kind = "duplicate"      // one scrape has the same series twice
	NotFinite    Kind = "not finite"     // NaN, an infinity, or a fraction where counts are whole
	Bounds       Kind = "bounds changed" // the buckets of the two ends are not the same
	Inconsistent Kind = "inconsistent"   // buckets, count and sum contradict each other
	Born         Kind = "born"           // a series began inside the window and was counted from 0
	Contaminated Kind = "contaminated"   // samples of another kind are mixed in
	NotMeant     Kind = "not meant"      // the catalogue forbids this reading of the metric
)

// Problem is a fault of a number, with its reason. One that voids the number
// means that no value may be shown; others are printed beside it.
type Problem struct {
	Kind   Kind   `json:"kind"`
	Metric string `json:"metric,omitempty"`
	// Series are the labels of the first series concerned, as in the text format.
	Series string `json:"series,omitempty"`
	Detail string `json:"detail"`
	Void   bool   `json:"void"`
}

// String is one line for a report.
func (p *Problem) String() string {
	if p == nil {
		return ""
	}
	s := string(p.Kind) + ": "
	if p.Metric != "" {
		s += p.Metric
		if p.Series != "" {
			s += "{" + p.Series + "}"
		}
		s += " "
	}
	return s + p.Detail
}

// Voids reports whether the number must not be shown. It is false for nil.
func (p *Problem) Voids() bool { return p != nil && p.Void }

// void makes a problem that voids a number.
func void(kind Kind, metric, series, detail string) *Problem {
	return &Problem{Kind: kind, Metric: metric, Series: series, Detail: detail, Void: true}
}
