package result

// Words of a comparison's findings. "No difference shown" is not "equal": what
// could have been shown stands beside it.
const (
	NoDifference  = "no difference shown"
	Regression    = "regression"
	Improvement   = "improvement"
	NotEnoughRuns = "not enough runs"
)

// GateUndecided is a gate that was neither shown to hold nor to be broken. The
// other words of a gate are [Pass] and [Fail].
const GateUndecided = "undecided"

// Comparison is what several runs of two or more configurations say of the
// differences between them. The run is the unit of every test: requests of one
// run are not independent.
type Comparison struct {
	SchemaVersion int `json:"schema_version"`
	// Base is what the others are compared with, Sides all of them, it first.
	Base  string         `json:"base"`
	Sides []ComparedSide `json:"sides"`
	// Paired runs have the same seed, hence the same schedule and lengths.
	Paired bool `json:"paired,omitempty"`
	// Test in words. Alpha is the chance of any false alarm in the whole family of
	// Hypotheses, by Holm's method.
	Test       string  `json:"test"`
	Alpha      float64 `json:"alpha"`
	Hypotheses int     `json:"hypotheses"`
	// NeedRuns is how many runs a side this family needs before any difference
	// could be shown.
	NeedRuns int `json:"need_runs"`
	// Objections against comparing at all, which were overruled (--force).
	Objections []string     `json:"objections,omitempty"`
	Notes      []string     `json:"notes,omitempty"`
	Findings   []Difference `json:"findings"`
	// Untested metrics of the family that was asked for, with the reason.
	Untested []string `json:"untested,omitempty"`
	Gates    []Gate   `json:"gates,omitempty"`
}

// ComparedSide is one configuration.
type ComparedSide struct {
	Label string        `json:"label"`
	Runs  []ComparedRun `json:"runs"`
}

// ComparedRun is one stage of one of its runs.
type ComparedRun struct {
	ID  string `json:"id"`
	Dir string `json:"-"`
	// Seed of schedule and lengths.
	Seed  uint64 `json:"seed"`
	Stage string `json:"stage"`
	// Client and Stability are the verdicts of that stage.
	Client    string `json:"client_verdict"`
	Stability string `json:"stability"`
}

// RunValues is one metric over the runs of a side.
type RunValues struct {
	Spread
	// Values of the runs in the order of the side.
	Values []float64 `json:"values"`
}

// Difference of one metric between the base and another side.
type Difference struct {
	Stage string `json:"stage"`
	// Metric is its name in gates and on the command line ("ttft.p99").
	Metric string `json:"metric"`
	Unit   string `json:"unit"`
	// Higher is better, as of throughput.
	Higher bool      `json:"higher_is_better,omitempty"`
	Side   string    `json:"side"`
	Base   RunValues `json:"base"`
	Other  RunValues `json:"other"`
	// Medians is the other median less the base's, in Unit; Percent is that of the
	// base's median, nil where it is 0.
	Medians float64  `json:"difference_of_medians"`
	Percent *float64 `json:"percent"`
	// Shift is the Hodges-Lehmann estimate, ShiftCI its exact interval at
	// 1 - alpha, without regard to the family; nil where there are too few runs.
	Shift   float64   `json:"shift"`
	ShiftCI *Interval `json:"shift_ci"`
	// Delta is Cliff's: -1 all runs below the base's, 1 all above. nil if paired.
	Delta *float64 `json:"cliffs_delta,omitempty"`
	// P is the test's, PHolm adjusted for the family.
	P     float64 `json:"p"`
	PHolm float64 `json:"p_holm"`
	// Detectable is the smallest difference, in percent of the base's median, that
	// so many runs with this scatter would show in 80 % of cases: an estimate by
	// the normal approximation. nil where nothing can be shown.
	Detectable *float64 `json:"minimum_detectable_effect_percent"`
	// Finding is one of the words above; Text says what it means here.
	Finding string `json:"finding"`
	Text    string `json:"text,omitempty"`
	// Quantiles is the shift function of the requests' distribution; for metrics
	// that have one, once a side.
	Quantiles []QuantileShift `json:"shift_function,omitempty"`
	// Requests is the paired difference per request, where both sides sent the same.
	Requests *PairedRequests `json:"paired_requests,omitempty"`
}

// QuantileShift is by how much a quantile over requests differs, in ms, with the
// interval of a two-level bootstrap (runs, then blocks of requests).
type QuantileShift struct {
	P     float64   `json:"p"`
	Base  float64   `json:"base"`
	Other float64   `json:"other"`
	Shift float64   `json:"shift"`
	CI    *Interval `json:"ci"`
}

// PairedRequests sums up differences of the same request between paired runs.
type PairedRequests struct {
	N      int     `json:"n"`
	Median float64 `json:"median_difference"`
	// Above is the share of requests whose value is higher than in the base.
	Above float64 `json:"share_above"`
}

// Gate is a limit on a difference, as --gate states it: "ttft.p99<+5%".
type Gate struct {
	Text   string  `json:"gate"`
	Metric string  `json:"metric"`
	Stage  string  `json:"stage"`
	Side   string  `json:"side"`
	Margin float64 `json:"margin_percent"`
	// PWithin is the one-sided p of "the difference is beyond the margin": small
	// means shown to be within. PBeyond is of "the difference is within".
	PWithin float64 `json:"p_within"`
	PBeyond float64 `json:"p_beyond"`
	Verdict string  `json:"verdict"` // pass, FAIL, undecided
	Finding string  `json:"finding"`
}
