package result

// Hypotheses of a diagnosis: what most of the time of a request may go to.
const (
	HypothesisQueue     = "queue"
	HypothesisPrefill   = "prefill"
	HypothesisDecode    = "decode"
	HypothesisClient    = "client"
	HypothesisNetwork   = "network"
	HypothesisUndecided = "not decidable"
)

// Diagnosis is a hypothesis on what limits a stage or a sweep, never more: with
// the evidence for it and against it, and what to measure next.
type Diagnosis struct {
	// TTFT and E2E each have their own; a hypothesis is one of the words above.
	TTFT DiagnosisPart `json:"ttft"`
	E2E  DiagnosisPart `json:"e2e"`
	// Next is what to measure to decide, most useful first.
	Next []string `json:"next"`
}

// DiagnosisPart is the hypothesis on one latency. Figures of client and server
// stand side by side in it, and are never subtracted.
type DiagnosisPart struct {
	Hypothesis string   `json:"hypothesis"`
	For        []string `json:"for,omitempty"`
	Against    []string `json:"against,omitempty"`
}
