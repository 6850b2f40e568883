package result

// ReplayStats describes one figure of a replay. A percentile is nil where
// n(1-p) < 1.
type ReplayStats struct {
	Mean float64  `json:"mean"`
	P50  *float64 `json:"p50"`
	P90  *float64 `json:"p90"`
	P99  *float64 `json:"p99"`
}

// ReplayFigure compares one figure of recorded requests with its simulation.
type ReplayFigure struct {
	// Name is "QUEUE", "TTFT", "TPOT" or "E2E"; all from the engine's boundary.
	Name string `json:"name"`
	Unit string `json:"unit"`
	N    int    `json:"n"`
	// Real is nil if the recording does not tell it; so is Error.
	Real      *ReplayStats `json:"real"`
	Simulated ReplayStats  `json:"simulated"`
	// Error is simulated / real - 1; nil for QUEUE, which is mostly near zero.
	Error *ReplayStats `json:"relative_error"`
	// Faster and Slower are the simulated figures if every step took 5 % less or
	// more: near saturation a small error of the step becomes a large one of the
	// figure.
	Faster ReplayStats `json:"simulated_steps_5_percent_faster"`
	Slower ReplayStats `json:"simulated_steps_5_percent_slower"`
}

// Replay is the comparison of a recorded run with its simulation.
type Replay struct {
	// File and Engine say what was replayed on what.
	File     string `json:"file"`
	Engine   string `json:"engine"`
	Requests int    `json:"requests"`
	// OutputTokens over all requests.
	OutputTokens int `json:"output_tokens"`
	// MakespanS is from the first arrival to the last token, seconds; the real one
	// is nil if it was not recorded.
	MakespanS     float64  `json:"makespan_s"`
	RealMakespanS *float64 `json:"real_makespan_s"`
	Steps         int      `json:"steps"`
	Preemptions   int      `json:"preemptions"`
	// KVUsageMax is the largest share of KV blocks in use.
	KVUsageMax float64        `json:"kv_usage_max"`
	Figures    []ReplayFigure `json:"figures"`
	Boundary   Boundary       `json:"boundary"`
	Warnings   []Warning      `json:"warnings,omitempty"`
}
