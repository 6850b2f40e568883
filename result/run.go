package result

import (
	"time"

	"github.com/assay-bench/assay/environ"
)

// Target is what was measured.
type Target struct {
	// URL of the endpoint, without userinfo.
	URL     string `json:"url"`
	Model   string `json:"model"`
	Dialect string `json:"dialect"`
	// Engine and EngineVersion as far as the server tells, "vllm" "0.32.0".
	Engine        string `json:"engine,omitempty"`
	EngineVersion string `json:"engine_version,omitempty"`
	// ServerHeader is the Server header of its replies.
	ServerHeader string `json:"server_header,omitempty"`
	// Addresses that the host resolved to.
	Addresses []string `json:"addresses,omitempty"`
	TLS       string   `json:"tls,omitempty"`
	Proxy     string   `json:"proxy,omitempty"`
	// BuiltIn: the target is our own simulated engine.
	BuiltIn bool `json:"built_in,omitempty"`
	// Virtual: the engine ran in virtual time, with no network and no frontend.
	Virtual bool `json:"virtual,omitempty"`
}

// Run is the whole of what a run concluded: the content of report.json.
type Run struct {
	SchemaVersion int    `json:"schema_version"`
	ID            string `json:"id"`
	Dir           string `json:"-"`
	ToolVersion   string `json:"tool_version"`
	// Complete is false for a run that was interrupted or died.
	Complete bool      `json:"complete"`
	Ended    string    `json:"ended,omitempty"` // why an incomplete run ended
	Epoch    time.Time `json:"epoch"`
	Target   Target    `json:"target"`
	Seed     uint64    `json:"seed"`
	// Nonce that began the prompts of this run.
	Nonce string `json:"nonce,omitempty"`
	// WorkloadText says the workload in words; Fingerprint is a hash of the
	// resolved workload and seed, without the nonce.
	WorkloadText string `json:"workload_text"`
	Fingerprint  string `json:"workload_fingerprint"`
	// PromptLength says how prompt lengths were made exact ("token ids",
	// "/tokenize", "usage"), or that they are not.
	PromptLength string `json:"prompt_length"`
	// Labels that the user gave the run.
	Labels map[string]string `json:"labels,omitempty"`
	// Stamps says where stamps were taken ("user space", "kernel receive").
	Stamps    string `json:"stamps"`
	Transport string `json:"transport"`
	// Environment of client and target; nil where none was logged.
	Environment *environ.Log `json:"environment,omitempty"`
	// Check that was made before the run; nil if none was asked for.
	Check    *InstrumentCheck `json:"check,omitempty"`
	Stages   []Stage          `json:"stages"`
	Warnings []Warning        `json:"warnings,omitempty"`
}
