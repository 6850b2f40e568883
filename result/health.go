package result

import "time"

// ClientHealth is what our own process went through during a run: the evidence
// behind the client verdict.
type ClientHealth struct {
	// Cores the process may use; GOMAXPROCS is set above it on purpose.
	Cores      int `json:"cores"`
	GOMAXPROCS int `json:"gomaxprocs"`
	// CPULimit of our cgroup in cores; 0 is none.
	CPULimit float64 `json:"cpu_limit_cores,omitzero"`
	// Steal is the share of the time of our cores that the hypervisor gave to
	// others; nil where it is not known.
	Steal *float64 `json:"steal_share,omitempty"`
	// CPU time that the process used, and over how long.
	CPU     time.Duration `json:"cpu_ns"`
	Elapsed time.Duration `json:"elapsed_ns"`
	// Garbage collections and the longest stop-the-world pause (upper bound of
	// its runtime/metrics bucket).
	GCs        int           `json:"gcs"`
	GCPauseMax time.Duration `json:"gc_pause_max_ns"`
	// SchedLatencyP99 is how long runnable goroutines waited for a thread, as the
	// upper bound of its bucket.
	SchedLatencyP99 time.Duration `json:"sched_latency_p99_ns"`
	// Throttled is how long the cgroup's CPU limit stopped us; nil where there is
	// no such limit or it cannot be read.
	Throttled *time.Duration `json:"throttled_ns"`
	// ClockSteps counts how often the wall clock, which the kernel stamps with, was
	// set by more than 10 us; ClockStep is the largest step, without its sign.
	ClockSteps int           `json:"clock_steps,omitzero"`
	ClockStep  time.Duration `json:"clock_step_ns,omitzero"`
	// SendsAsked is how many requests were asked their transmit stamp; nil if that
	// was not wanted (--verify-send).
	SendsAsked *int `json:"sends_asked,omitempty"`
	// Connections by how they came to be, over the whole run.
	ConnOpened int `json:"conn_opened"`
	ConnReused int `json:"conn_reused"`
	ConnStale  int `json:"conn_stale"`
	// ConnReconnects are connections that were opened although enough had been
	// before, had they not been closed. 0 where each request has its own.
	ConnReconnects int `json:"conn_reconnects"`
}
