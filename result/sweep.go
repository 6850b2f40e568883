package result

import "time"

// SweepAxis is one key of the configuration and the values that it takes.
type SweepAxis struct {
	// Key of the configuration, "workload.concurrency"; Name is the short word for
	// it in names of stages, "concurrency".
	Key  string `json:"key"`
	Name string `json:"name"`
	// Values as YAML, in the order in which they were given.
	Values []string `json:"values"`
}

// Sweep is what the runs of a sweep say together.
type Sweep struct {
	SchemaVersion int       `json:"schema_version"`
	ID            string    `json:"id"`
	Dir           string    `json:"-"`
	ToolVersion   string    `json:"tool_version"`
	Complete      bool      `json:"complete"`
	Ended         string    `json:"ended,omitempty"` // why an incomplete one ended
	Began         time.Time `json:"began"`
	Target        Target    `json:"target"`
	// WorkloadText says the workload of the first run in words.
	WorkloadText string           `json:"workload_text"`
	Seed         uint64           `json:"seed"`
	Repeats      int              `json:"repeats"`
	Quick        bool             `json:"quick,omitempty"`
	Duration     time.Duration    `json:"duration_ns"` // of each measured window; 0 if requests alone close it
	Axes         []SweepAxis      `json:"axes"`
	Stages       []SweepStage     `json:"stages"`
	Stops        []SweepStop      `json:"stops,omitempty"`
	Scaling      []Scaling        `json:"scaling,omitempty"`
	Diagnosis    []SweepDiagnosis `json:"diagnosis,omitempty"`
	Check        *InstrumentCheck `json:"check,omitempty"`
	Warnings     []Warning        `json:"warnings,omitempty"`
}

// States of a cell: one run of one stage.
const (
	CellPlanned     = "planned"
	CellRunning     = "running"
	CellDone        = "done"
	CellFailed      = "failed"
	CellInterrupted = "interrupted"
	CellSkipped     = "skipped" // beyond the level at which the climb stopped
)

// SweepStage is one load condition and what its runs say together.
type SweepStage struct {
	Name string `json:"name"`
	// Settings by key, as YAML.
	Settings map[string]string `json:"settings"`
	// Series names the stages that differ from this one in their load alone; Load is
	// the concurrency or the rate, nil if neither is swept.
	Series string     `json:"series"`
	Load   *float64   `json:"load,omitempty"`
	Runs   []SweepRun `json:"runs"`
	// Excluded says why the stage is no point of the scaling; empty if it is one.
	Excluded string `json:"excluded,omitempty"`

	// Of each quantity: its value in each run that completed, summarised over the
	// runs. Nothing is pooled. Latencies are in milliseconds.
	TTFTp50     *Spread `json:"ttft_p50_ms"`
	TTFTp99     *Spread `json:"ttft_p99_ms"`
	TPOTMean    *Spread `json:"tpot_mean_ms"`
	E2Ep50      *Spread `json:"e2e_p50_ms"`
	OutputTPS   *Spread `json:"output_tps"`
	RPS         *Spread `json:"rps"`
	InFlight    *Spread `json:"in_flight_mean"`
	Goodput     *Spread `json:"goodput_percent"`
	GoodputRate *Spread `json:"goodput_rate"`
	// ServerQueue and ServerPrefill are the server's own means over each run's
	// window: another boundary. nil where it does not tell.
	ServerQueue   *Spread `json:"server_queue_mean_ms,omitempty"`
	ServerPrefill *Spread `json:"server_prefill_mean_ms,omitempty"`
}

// SweepDiagnosis is a hypothesis on what grows with the load of a series.
type SweepDiagnosis struct {
	Series     string   `json:"series"`
	Hypothesis string   `json:"hypothesis"`
	For        []string `json:"for,omitempty"`
	Against    []string `json:"against,omitempty"`
	// Next is what to measure to decide.
	Next []string `json:"next"`
}

// SweepRun is one run of a stage.
type SweepRun struct {
	Repeat int    `json:"repeat"`
	Seed   uint64 `json:"seed"`
	State  string `json:"state"`
	// Run is the run's directory, inside that of the sweep.
	Run string `json:"run,omitempty"`
	// Error says why it failed or was skipped.
	Error     string `json:"error,omitempty"`
	Client    string `json:"client_verdict,omitempty"`
	Stability string `json:"stability,omitempty"`
	Warmup    string `json:"warmup,omitempty"` // the cap that ended it, if one did
	Due       int    `json:"due_requests,omitzero"`
	Completed int    `json:"completed_requests,omitzero"`
	// Causes of the verdicts, where they have one.
	ClientCause    string `json:"client_cause,omitempty"`
	StabilityCause string `json:"stability_cause,omitempty"`
	// UntilCI says which intervals were not as narrow as asked, if some were not.
	UntilCI string `json:"until_ci_missed,omitempty"`
	// Balances is false if the ledger does not.
	Balances bool `json:"ledger_balances"`
}

// Spread summarises one number of each run over the runs: the run is the unit.
type Spread struct {
	N      int     `json:"n_runs"`
	Median float64 `json:"median"`
	// MAD is the raw median absolute deviation from the median.
	MAD float64 `json:"mad"`
	Min float64 `json:"min"`
	Max float64 `json:"max"`
}

// SweepStop says why a climb went no further.
type SweepStop struct {
	Series string `json:"series"`
	// Stage is the level that showed it.
	Stage string `json:"stage"`
	// Rule is "unstable", "no-gain", "waiting", "errors", "capped" or "failed".
	Rule string `json:"rule"`
	Text string `json:"text"`
	// Skipped stages are those that would have come next.
	Skipped []string `json:"skipped,omitempty"`
}

// Scaling is how a series grows with its load, over its STABLE points alone.
type Scaling struct {
	Series string `json:"series"`
	// Over is what the load is ("concurrency", "rate"), Of what was looked at
	// ("output_tps", "rps", "e2e_p50_ms").
	Over   string         `json:"over"`
	Of     string         `json:"of"`
	Points []ScalingPoint `json:"points"`
	// Knee by Kneedle; nil if there is none, and KneeText says why. KneeRange is
	// the knees that 95 % of the resamples of the runs have at most and at least.
	Knee      *float64  `json:"knee"`
	KneeRange *Interval `json:"knee_range"`
	KneeText  string    `json:"knee_text"`
	// USL is the Universal Scalability Law; nil if it was not fitted, and USLText
	// says why.
	USL     *USL   `json:"usl"`
	USLText string `json:"usl_text"`
}

// ScalingPoint is the median over the STABLE runs of one stage.
type ScalingPoint struct {
	Stage string  `json:"stage"`
	Load  float64 `json:"load"`
	Value float64 `json:"value"`
	Runs  int     `json:"runs"`
}

// USL is X(N) = lambda N / (1 + sigma (N-1) + kappa N (N-1)), fitted by least
// squares. Intervals are those of 95 % of the resamples of the runs of each
// stage; nil if some stage has fewer than 3 runs.
type USL struct {
	Lambda   float64   `json:"lambda"`
	LambdaCI *Interval `json:"lambda_ci"`
	Sigma    float64   `json:"sigma"`
	SigmaCI  *Interval `json:"sigma_ci"`
	Kappa    float64   `json:"kappa"`
	KappaCI  *Interval `json:"kappa_ci"`
	// NMax is the load at which throughput is largest; nil if the law only rises.
	// The upper end of its interval is nil in the same case.
	NMax   *float64 `json:"n_max"`
	NMaxLo *float64 `json:"n_max_lo"`
	NMaxHi *float64 `json:"n_max_hi"`
	// Limit is lambda / sigma, the throughput that the law approaches when kappa is
	// 0; nil otherwise.
	Limit *float64 `json:"limit"`
	R2    float64  `json:"r2"`
	// WorstOff is the largest distance of a point from the law, as a share of it.
	WorstOff float64 `json:"worst_off"`
}
