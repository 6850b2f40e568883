package result

import (
	"strings"
	"time"

	"github.com/assay-bench/assay/record"
)

// Verdict words.
const (
	Valid      = "VALID"
	Invalid    = "INVALID"
	Stable     = "STABLE"
	Unstable   = "UNSTABLE"
	Undecided  = "UNDECIDED"
	NotChecked = "NOT CHECKED"
)

// Warning is a validity problem that travels with the result.
type Warning struct {
	// Code is a short stable name ("coalesced", "prompt-length").
	Code string `json:"code"`
	Text string `json:"text"`
}

// Check is one test behind a verdict, with its number and its threshold.
type Check struct {
	Name string `json:"name"`
	// Value and Threshold are in Unit; Value is nil if the check was not possible.
	Value     *float64 `json:"value"`
	Threshold *float64 `json:"threshold,omitempty"`
	Unit      string   `json:"unit,omitempty"`
	OK        bool     `json:"ok"`
	// Text says the finding in words.
	Text string `json:"text,omitempty"`
}

// ClientVerdict says whether our own client was fit to measure.
type ClientVerdict struct {
	Verdict string `json:"verdict"` // VALID, INVALID
	// Cause is the first check that failed, in words.
	Cause  string  `json:"cause,omitempty"`
	Checks []Check `json:"checks"`
	// Stamps says where the window's events were stamped: "kernel receive" or
	// "user space", or how many were which.
	Stamps string `json:"stamps"`
	// SendProof holds the send stamps against the kernel's; nil if that was not
	// wanted.
	SendProof *SendProof `json:"send_proof,omitempty"`
	// GapsWithheld is set when too many events shared a read for any gap figure.
	GapsWithheld bool `json:"gaps_withheld,omitempty"`
}

// SendProof is the proof that Sent is what it says: the distance from it to the
// kernel's transmit stamp, of a sample of the window's requests.
type SendProof struct {
	// Asked requests of the whole run; N of the window have a stamp.
	Asked int `json:"asked"`
	N     int `json:"n"`
	// Kernel's transmit stamp - Sent, in microseconds; nil if there is none.
	P50 *float64 `json:"p50_us"`
	P99 *float64 `json:"p99_us"`
	Max *float64 `json:"max_us"`
	// Before and After count the requests whose bytes the driver had before Sent,
	// which cannot be true, and after.
	Before int    `json:"before"`
	After  int    `json:"after"`
	Text   string `json:"text"`
}

// StabilityVerdict says whether the stage was in a steady state.
type StabilityVerdict struct {
	Verdict string  `json:"verdict"` // STABLE, UNSTABLE, UNDECIDED
	Cause   string  `json:"cause,omitempty"`
	Checks  []Check `json:"checks"`
}

// Warmup says how the warm-up ended.
type Warmup struct {
	// Rule that decided: "mser5", "median", "none" (declared off).
	Rule string `json:"rule"`
	// Detected: the rule found the stage stationary before the cap.
	Detected bool `json:"detected"`
	// Capped names the cap that ended it instead ("duration", "requests").
	Capped   string        `json:"capped,omitempty"`
	Requests int           `json:"requests"`
	Duration time.Duration `json:"duration_ns"`
	// MedianRule is the seed lesson's heuristic, shown beside: "fired at request
	// N" or "did not fire".
	MedianRule string `json:"median_rule"`
	// CUSUM is a second opinion on the series that the rule looked at, from where
	// MSER-5 cuts them: whether their means still change.
	CUSUM string `json:"cusum,omitempty"`
	// MeanResidence is the mean time from sent to ended of the requests that
	// completed in the warm-up; 0 if none did.
	MeanResidence time.Duration `json:"mean_residence_ns,omitempty"`
	Text          string        `json:"text"`
}

// Precision is how narrow the 95 % interval of one figure was to be before the
// measured window closed. Half-widths are shares of the estimate.
type Precision struct {
	// Metric is the figure, "ttft.p99".
	Metric string `json:"metric"`
	// Asked is the most half-width.
	Asked float64 `json:"asked"`
	// Looked is the half-width at the last look while the window was open, of the
	// LookedN requests due before the oldest that was still running; nil if there
	// was no interval.
	Looked  *float64 `json:"looked"`
	LookedN int      `json:"looked_n"`
	// HalfWidth is that of the whole window, as reported; nil if there is no interval.
	HalfWidth *float64 `json:"half_width"`
	// Reached: the window closed because it was narrow enough, or it is so at the cap.
	Reached bool   `json:"reached"`
	Text    string `json:"text,omitempty"`
}

// UntilCIMissed says which intervals were not as narrow as was asked when the window
// closed; empty if all were.
func (s *Stage) UntilCIMissed() string {
	var missed []string
	for _, p := range s.UntilCI {
		if !p.Reached {
			missed = append(missed, p.Text)
		}
	}
	return strings.Join(missed, "; ")
}

// Dispersion is the index of dispersion of arrival counts at one window length.
type Dispersion struct {
	WindowS float64 `json:"window_s"`
	Index   float64 `json:"index"`
}

// Observed is the workload as it really was.
type Observed struct {
	PromptTokens     *Summary `json:"prompt_tokens"`
	CompletionTokens *Summary `json:"completion_tokens"`
	// PromptTokensAsked is the mean length asked for, when lengths were planned.
	PromptTokensAsked *float64 `json:"prompt_tokens_asked,omitempty"`
	CachedTokens      int      `json:"cached_tokens"`
	// CachedShare is CachedTokens over the prompt tokens of the same requests.
	CachedShare *float64 `json:"cached_share,omitempty"`
	// PlannedSharing of the prompts, where they share parts on purpose.
	PlannedSharing *Sharing `json:"planned_sharing,omitempty"`
	// EarlyStopRate is the share of completed requests with n below max_tokens.
	EarlyStopRate *float64 `json:"early_stop_rate"`
	// Rate is arrivals (due requests) per second over the window, CV that of the
	// gaps between their scheduled times.
	Rate       *float64     `json:"rate"`
	CV         *float64     `json:"cv"`
	Dispersion []Dispersion `json:"dispersion,omitempty"`
	// InFlight is time-weighted over the window.
	InFlight InFlight `json:"in_flight"`
}

// Sharing is what a prefix cache that forgets nothing would have found of the
// requests that were due, warm-up included, in planned order: shared prefixes,
// recorded blocks, the histories of sessions.
type Sharing struct {
	PromptTokens int64 `json:"prompt_tokens"`
	HitTokens    int64 `json:"hit_tokens"`
	BlockSize    int   `json:"block_size_tokens"`
}

// InFlight counts attempts between Sent (or Dispatched) and Ended.
type InFlight struct {
	Mean *float64 `json:"mean"`
	Max  int      `json:"max"`
}

// Throughput is one rate with the three statements that give it a meaning.
type Throughput struct {
	// Name is "output_tps", "prompt_tps" or "rps".
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	// Numerator says what is counted, Denominator over what, Phases whether
	// warm-up or cooldown is inside.
	Numerator   string `json:"numerator"`
	Denominator string `json:"denominator"`
	Phases      string `json:"phases"`
	// CI is a 95 % interval of the rate from batches in time order; nil where there
	// is none.
	CI *Interval `json:"ci,omitempty"`
}

// Threshold is one limit of a service level objective.
type Threshold struct {
	Metric  string  `json:"metric"` // ttft, ttft_from_schedule, tpot, e2e
	LimitMS float64 `json:"limit_ms"`
	// Note, for instance that the limit is not the seed's for this length.
	Note string `json:"note,omitempty"`
}

// Goodput is percentage-goodput: due requests that met every threshold over
// all due requests.
type Goodput struct {
	SLO     []Threshold `json:"slo"`
	Due     int         `json:"due_requests"`
	Good    int         `json:"good_requests"`
	Percent float64     `json:"percent"`
	// NEff is how many independent requests would tell the share as precisely as
	// these do: misses come in episodes, when there is a queue. It is the smaller of
	// what batches and what episodes show; nil where it cannot be estimated. PercentCI is the exact binomial interval (Clopper-Pearson) of
	// such a sample, at 95 %.
	NEff      *float64  `json:"n_eff"`
	PercentCI *Interval `json:"percent_ci"`
	OneToken  int       `json:"one_token_requests"`
	// Misses by reason; a request is in one only, the first that applies.
	Misses map[string]int `json:"misses,omitempty"`
	// Rate is good requests per second of the window: the goodput rate.
	Rate *float64 `json:"goodput_rate"`
}

// ErrorSample is the first error of its kind.
type ErrorSample struct {
	Outcome record.Outcome `json:"outcome"`
	Status  int            `json:"status,omitempty"`
	Count   int            `json:"count"`
	Error   string         `json:"error"`
	Body    string         `json:"body,omitempty"`
}

// Stage is one steady load condition and what came of it.
type Stage struct {
	Name string `json:"name"`
	// Load in words, "closed loop, concurrency 16".
	Load   string        `json:"load"`
	Window record.Window `json:"window"`
	// WindowClosed says what closed the window: "duration", "requests",
	// "until-ci", "interrupted".
	WindowClosed string `json:"window_closed"`
	// UntilCI is the precision that was to close the window, and what became of it.
	UntilCI  []Precision   `json:"until_ci,omitempty"`
	Cooldown time.Duration `json:"cooldown_ns"`
	Warmup   Warmup        `json:"warmup"`
	// Ledger of the window; LedgerRun of every attempt of the stage.
	Ledger    record.Ledger `json:"ledger"`
	LedgerRun record.Ledger `json:"ledger_all_phases"`
	Metrics   Metrics       `json:"metrics"`
	Workload  Observed      `json:"workload"`
	// Sessions are nil where no request belongs to one.
	Sessions   *Sessions        `json:"sessions,omitempty"`
	Throughput []Throughput     `json:"throughput"`
	Goodput    *Goodput         `json:"goodput"`
	Client     ClientVerdict    `json:"client_verdict"`
	Stability  StabilityVerdict `json:"stability"`
	Server     *ServerAccount   `json:"server,omitempty"`
	// Diagnosis is a hypothesis on where the time goes; nil where none was made.
	Diagnosis *Diagnosis `json:"diagnosis,omitempty"`
	// Truth is what the built-in engine's own log says of the same requests.
	Truth *Truth `json:"truth,omitempty"`
	// CappedTime is how long an in-flight cap held arrivals back, in total.
	CappedTime time.Duration `json:"capped_time_ns,omitempty"`
	Errors     []ErrorSample `json:"errors,omitempty"`
	Warnings   []Warning     `json:"warnings,omitempty"`
}
