package result

// Boundary names whose clock a number comes from.
type Boundary string

// The boundaries. Numbers of two boundaries are never subtracted or averaged.
const (
	Client Boundary = "client"
	Server Boundary = "server"
	Engine Boundary = "engine"
)

// Weighting names what each sample of a mean stands for.
type Weighting string

// The weightings.
const (
	RequestWeighted Weighting = "request"
	GapWeighted     Weighting = "gap"
)

// Interval is a confidence interval [Lo, Hi].
type Interval [2]float64

// Summary describes the sample of one quantity in one window.
type Summary struct {
	// N samples, all of them measured (no warm-up, no cooldown).
	N    int      `json:"n"`
	Mean *float64 `json:"mean"`
	// Percentiles are nil where n(1-p) < 1: then only Max is known of the tail.
	P50 *float64 `json:"p50"`
	P95 *float64 `json:"p95"`
	P99 *float64 `json:"p99"`
	// Percentiles holds further ones that were asked for, by name ("p99.9").
	Percentiles map[string]*float64 `json:"percentiles,omitempty"`
	Min         *float64            `json:"min"`
	Max         *float64            `json:"max"`
	// MAD is the raw median absolute deviation from the median.
	MAD *float64 `json:"mad"`
	// MeanCI and those of the percentiles are 95 % intervals from batches in time
	// order and allow for dependence; nil when there are fewer than 20 batches, and
	// where CIMethod says why else.
	P99CI  *Interval `json:"p99_ci"`
	P95CI  *Interval `json:"p95_ci"`
	P50CI  *Interval `json:"p50_ci"`
	MeanCI *Interval `json:"mean_ci"`
	// P99CIIID is the order-statistic interval. It holds only for independent
	// samples and is labelled so; nil for n < 368.
	P99CIIID *Interval `json:"p99_ci_iid"`
	P50CIIID *Interval `json:"p50_ci_iid"`
	// NEff is the effective sample size for the mean; nil when unknown.
	NEff *float64 `json:"n_eff"`
	// CIMethod says how the intervals were made, or why there are none.
	CIMethod string `json:"ci_method,omitempty"`

	Unit      string    `json:"unit"`
	Boundary  Boundary  `json:"boundary"`
	Weighting Weighting `json:"weighting"`
	// QuantileType is the Hyndman-Fan type (1 to 9) of the percentiles.
	QuantileType int `json:"quantile_type"`
	// Excluded counts completed requests of the window that are not in the
	// sample, by reason ("one token", "no usage", "single event").
	Excluded map[string]int `json:"excluded,omitempty"`
	// Note is a sentence that must stand beside the number wherever it is shown.
	Note string `json:"note,omitempty"`
}

// Stratum is one bin of observed completion tokens, [LoTokens, HiTokens].
type Stratum struct {
	LoTokens int `json:"lo_tokens"`
	HiTokens int `json:"hi_tokens"`
	N        int `json:"n"`
	// EarlyStopRate is the share of them with n below max_tokens, of those with a
	// max_tokens; nil if none has one.
	EarlyStopRate *float64 `json:"early_stop_rate"`
	TPOT          *Summary `json:"tpot_ms,omitempty"`
	E2E           *Summary `json:"e2e_ms,omitempty"`
}

// Metrics of a stage. A nil Summary is a quantity that does not exist there,
// for instance TTFT when nothing was streamed.
type Metrics struct {
	TTFT             *Summary `json:"ttft_ms"`
	TTFTFromSchedule *Summary `json:"ttft_from_schedule_ms"`
	TTFAnswer        *Summary `json:"time_to_first_answer_ms,omitempty"`
	Headers          *Summary `json:"headers_ms,omitempty"`
	DNS              *Summary `json:"dns_ms,omitempty"`
	Connect          *Summary `json:"connect_ms"`
	TLS              *Summary `json:"tls_ms,omitempty"`
	TPOT             *Summary `json:"tpot_ms"`
	TPOTPaired       *Summary `json:"tpot_paired_ms"`
	// ITL is set only if every completed request with n >= 2 passes the
	// one-token-an-event check; else ChunkGap is.
	ITL      *Summary `json:"itl_ms,omitempty"`
	ChunkGap *Summary `json:"chunk_gap_ms,omitempty"`
	// GapMean is the gap-weighted mean ITL: sum of (E2E - TTFT) over sum of
	// (n - 1), over n >= 2. It needs no gap to be known.
	GapMean *float64 `json:"gap_weighted_mean_itl_ms"`
	E2E     *Summary `json:"e2e_ms"`
	UserTPS *Summary `json:"user_tps"`
	SendLag *Summary `json:"send_lateness_ms"`
	ReadLag *Summary `json:"read_lag_ms,omitempty"`
	// OneToken is the one-token-an-event check over the stage.
	OneToken OneTokenCheck `json:"one_token_an_event"`
	Strata   []Stratum     `json:"strata,omitempty"`
}

// OneTokenCheck says whether gaps between events are gaps between tokens.
type OneTokenCheck struct {
	// Checked requests: completed with n >= 2.
	Checked int `json:"checked_requests"`
	// Proven ones: every token event has a known delta of 1.
	Proven int `json:"proven_requests"`
	// Inferred ones passed by counting text events against n.
	Inferred int `json:"inferred_requests"`
	Failed   int `json:"failed_requests"`
	// Verdict is "proven", "inferred", "failed" or "not checked".
	Verdict string `json:"verdict"`
}
