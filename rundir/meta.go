package rundir

import (
	"encoding/json"
	"time"

	"github.com/assay-bench/assay/environ"
	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/result"
)

// Meta is the content of run.json.
type Meta struct {
	SchemaVersion int    `json:"schema_version"`
	RecordVersion int    `json:"record_version"`
	ID            string `json:"id"`
	ToolVersion   string `json:"tool_version"`
	// Complete is true only when the run came to its planned end and everything
	// is on disk. Ended says why not.
	Complete bool   `json:"complete"`
	Ended    string `json:"ended,omitempty"`
	// Attempts is how many records a complete run has; fewer are a damaged file.
	Attempts int64 `json:"attempts,omitzero"`
	// Epoch is the wall time of stamp 0.
	Epoch time.Time `json:"epoch"`
	// EpochMonotonic is CLOCK_MONOTONIC at stamp 0 in nanoseconds, which relates
	// stamps to those of other processes of the same machine; 0 where unknown.
	EpochMonotonic int64 `json:"epoch_monotonic_ns,omitzero"`
	// Config as resolved, with secrets redacted.
	Config json.RawMessage `json:"config"`
	Seed   uint64          `json:"seed"`
	// Nonce began the prompts of this run, unless prompts were reused.
	Nonce        string        `json:"nonce,omitempty"`
	Target       result.Target `json:"target"`
	WorkloadText string        `json:"workload_text"`
	Fingerprint  string        `json:"workload_fingerprint"`
	PromptLength string        `json:"prompt_length"`
	// Labels that the user gave the run.
	Labels    map[string]string `json:"labels,omitempty"`
	Transport string            `json:"transport"`
	// SLO, TPOT form, percentiles and quantile type that the report used.
	SLO          string              `json:"slo,omitempty"`
	TPOT         string              `json:"tpot,omitempty"`
	QuantileType int                 `json:"quantile_type,omitzero"`
	Percentiles  []float64           `json:"percentiles,omitempty"`
	Limits       result.ClientLimits `json:"client_limits"`

	// Environment as far as it was known before the load.
	Environment *environ.Log `json:"environment,omitempty"`

	// Check that was made before the run, if one was.
	Check *result.InstrumentCheck `json:"check,omitempty"`

	Stages   []result.StageInfo `json:"stages"`
	Warnings []result.Warning   `json:"warnings,omitempty"`
}

// newMeta fills in the versions.
func (m Meta) versioned() Meta {
	m.SchemaVersion, m.RecordVersion = result.SchemaVersion, record.Version
	return m
}
