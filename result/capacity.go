package result

import "time"

// Void is the verdict on a load at which the client itself was not fit.
const Void = "VOID"

// Capacity is the highest load at which a server meets an objective, and the
// search for it.
type Capacity struct {
	SchemaVersion int              `json:"schema_version"`
	ID            string           `json:"id"`
	Dir           string           `json:"-"`
	ToolVersion   string           `json:"tool_version"`
	Complete      bool             `json:"complete"`
	Ended         string           `json:"ended,omitempty"`
	Began         time.Time        `json:"began"`
	Target        Target           `json:"target"`
	WorkloadText  string           `json:"workload_text"` // of the first run
	Seed          uint64           `json:"seed"`
	Check         *InstrumentCheck `json:"check,omitempty"`

	// Over is what the load is: "rate", in requests/s, or "concurrency".
	Over       string      `json:"over"`
	SLO        []Threshold `json:"slo"`
	Attainment float64     `json:"attainment"`
	Precision  float64     `json:"precision"`

	// Pass is the highest load that was shown to meet the objective, Fail the lowest
	// above it that was shown not to; nil where there is none. The capacity lies
	// between them. Text says it in words.
	Pass *float64 `json:"pass"`
	Fail *float64 `json:"fail"`
	Text string   `json:"text"`
	// Levels that were decided, ascending; Looked are the runs before them that
	// looked for the place.
	Levels []CapacityLevel `json:"levels"`
	Looked []CapacityLook  `json:"looked"`
	// Runs that were made, and their measured time together.
	Runs     int           `json:"runs"`
	Measured time.Duration `json:"measured_ns"`
	Warnings []Warning     `json:"warnings,omitempty"`
}

// CapacityLevel is the verdict on one load.
type CapacityLevel struct {
	Load float64 `json:"load"`
	// Verdict is PASS, FAIL, UNDECIDED, VOID, or empty before the last look.
	Verdict string `json:"verdict"`
	Cause   string `json:"cause,omitempty"`
	// Runs of the last look, and their measured time together.
	Runs   int           `json:"runs"`
	Window time.Duration `json:"measured_ns"`
	Due    int           `json:"due_requests"`
	Good   int           `json:"good_requests"`
	// NEff is the effective sample behind PercentCI, at the level of Confidence.
	NEff       float64   `json:"n_eff"`
	Percent    float64   `json:"percent"`
	PercentCI  *Interval `json:"percent_ci"`
	Confidence float64   `json:"confidence"`
	Stable     int       `json:"stable_runs"`
	Unstable   int       `json:"unstable_runs"`
	Invalid    int       `json:"invalid_client_runs"`
}

// CapacityLook is one run that looked for the place, and decides nothing.
type CapacityLook struct {
	Load      float64  `json:"load"`
	Percent   *float64 `json:"percent"`
	Stability string   `json:"stability,omitempty"`
	Error     string   `json:"error,omitempty"`
	Run       string   `json:"run"`
}
