package result

import (
	"time"

	"github.com/assay-bench/assay/record"
)

// StageInfo is what a stage decided while it ran. With the records it is all
// that is needed to conclude the stage again.
type StageInfo struct {
	Name string `json:"name"`
	// Load in words, "closed loop, concurrency 16".
	Load        string        `json:"load"`
	OpenLoop    bool          `json:"open_loop"`
	Concurrency int           `json:"concurrency,omitzero"`
	Window      record.Window `json:"window"`
	// WindowClosed says what closed it: "duration", "requests", "until-ci",
	// "interrupted", "error".
	WindowClosed string `json:"window_closed"`
	// UntilCI is the precision that was to close the window.
	UntilCI []Precision `json:"until_ci,omitempty"`
	// Stopped is when new requests ceased to be sent.
	Stopped record.Stamp `json:"stopped_ns,omitzero"`
	Warmup  Warmup       `json:"warmup"`
	// CappedTime is how long an in-flight cap held arrivals back.
	CappedTime time.Duration `json:"capped_time_ns,omitzero"`
	// PlannedSharing of the prompts, where they share parts on purpose.
	PlannedSharing *Sharing       `json:"planned_sharing,omitempty"`
	Health         ClientHealth   `json:"client_health"`
	Server         *ServerAccount `json:"server,omitempty"`
	// MetricsLabels select the series of the server's metrics that are read: of each
	// label the value; series without it are kept.
	MetricsLabels map[string]string `json:"metrics_labels,omitempty"`
	// Truth is the comparison with the log of the built-in engine, if it kept one.
	Truth *Truth `json:"truth,omitempty"`
}

// ClientLimits are the thresholds of the client verdict, declared before the
// run.
type ClientLimits struct {
	SendLateness time.Duration `yaml:"send_lateness" json:"send_lateness_ns"` // p99
	ReadLag      time.Duration `yaml:"read_lag" json:"read_lag_ns"`           // p99 of the events
	Coalesced    float64       `yaml:"coalesced" json:"coalesced"`            // most, share of text events
	Sent         float64       `yaml:"sent" json:"sent"`                      // least, share of due requests
	GCPause      time.Duration `yaml:"gc_pause" json:"gc_pause_ns"`           // longest
	Stale        float64       `yaml:"stale" json:"stale"`                    // most, share of attempts
	SchedLatency time.Duration `yaml:"sched_latency" json:"sched_latency_ns"` // p99
	CPU          float64       `yaml:"cpu" json:"cpu"`                        // most, share of the cores that we may use
	Steal        float64       `yaml:"steal" json:"steal"`                    // most, share of the time of those cores
}

// DefaultClientLimits are those of MEASUREMENT.md section 5.
func DefaultClientLimits() ClientLimits {
	return ClientLimits{
		SendLateness: time.Millisecond, ReadLag: time.Millisecond, Coalesced: 0.05, Sent: 0.98,
		GCPause: time.Millisecond, Stale: 0.01,
		SchedLatency: 2 * time.Millisecond, CPU: 0.9, Steal: 0.05,
	}
}
