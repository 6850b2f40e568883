package result

import (
	"time"

	"github.com/assay-bench/assay/record"
)

// Quantities of a server's own account that a client can count too, in the
// words of the catalogue of package scrape.
const (
	TokensOut        = "tokens_out"
	TokensIn         = "tokens_in"
	TokensInComputed = "tokens_in_computed" // without those from a cache
	RequestsFinished = "requests_finished"
)

// Counter compares the server's own counter with the client's sum, over the
// whole run: both count every attempt, warm-up included.
type Counter struct {
	// Quantity is the catalogue's word ("tokens_out"), Name the series on the wire.
	Quantity string `json:"quantity"`
	Name     string `json:"name"`
	// Delta of the server's counter, nil if it could not be read.
	Delta  *float64 `json:"delta"`
	Client float64  `json:"client"`
	// Resolution is by how much Delta may be off, since the server rounds what it
	// prints; 0 where it does not.
	Resolution float64 `json:"resolution,omitzero"`
	// Agrees: both are the same number, as far as the server prints it.
	Agrees bool `json:"agrees"`
	// Semantics says what one unit of the server's counter is; Text what the
	// comparison shows.
	Semantics string `json:"semantics,omitempty"`
	Text      string `json:"text"`
}

// ServerAccount is what the server says of itself.
type ServerAccount struct {
	MetricsURL string    `json:"metrics_url,omitempty"`
	Counters   []Counter `json:"counters,omitempty"`
	// Text says why there is no account, or less of one than there might be.
	Text string `json:"text,omitempty"`
	// Targets that were scraped. Numbers are sums over all of them.
	Targets []ServerTarget `json:"targets,omitempty"`
	// Window is the server's account of the measured window alone.
	Window *ServerWindow `json:"window,omitempty"`
}

// ServerTarget is one source of metrics and how well it could be read.
type ServerTarget struct {
	URL string `json:"url"`
	// Engine that the names of its metrics show, and on what evidence.
	Engine   string `json:"engine,omitempty"`
	Evidence string `json:"evidence,omitempty"`
	// Selected says which series were taken where the target has those of several
	// models.
	Selected string `json:"selected,omitempty"`
	// Scrapes of the whole run, Failed of them with FirstError.
	Scrapes    int    `json:"scrapes"`
	Failed     int    `json:"failed"`
	FirstError string `json:"first_error,omitempty"`
	// Longest is how long the slowest scrape took.
	Longest time.Duration `json:"longest_ns"`
	// Skew is how far the server's clock (Date) is ahead of ours, in seconds, no
	// less than [0] and no more than [1]; nil if it sends none, or if no one
	// offset explains all that it sent.
	Skew *Interval `json:"clock_skew_s,omitempty"`
}

// ServerWindow is what the server says of the time between two scrapes, the
// first and the last that lie wholly inside the measured window.
type ServerWindow struct {
	// Start and End: the first scrape was taken no earlier than Start, the last
	// no later than End, on the run's clock.
	Start record.Stamp `json:"start_ns"`
	End   record.Stamp `json:"end_ns"`
	// LengthLo and LengthHi bound the time between the moments at which the
	// server sampled.
	LengthLo time.Duration `json:"length_lo_ns"`
	LengthHi time.Duration `json:"length_hi_ns"`
	// Scrapes that lie in the window, both ends included.
	Scrapes int `json:"scrapes"`
	// Text says why there are no numbers. Void: the two ends are not of one
	// process and one set of series.
	Text string `json:"text,omitempty"`
	Void bool   `json:"void,omitempty"`

	Distributions []ServerDistribution `json:"distributions,omitempty"`
	Totals        []ServerTotal        `json:"totals,omitempty"`
	Gauges        []ServerGauge        `json:"gauges,omitempty"`
	// PrefixHitRate is hits over queries, in tokens; nil if there were no queries.
	PrefixHitRate *ServerShare `json:"prefix_hit_rate,omitempty"`
	// SpecAcceptance is accepted over proposed draft tokens, without the token
	// that each step yields anyway.
	SpecAcceptance *ServerShare `json:"spec_acceptance,omitempty"`
	// Checks hold the totals against what the client counted in the same time.
	Checks []WindowCheck `json:"checks,omitempty"`
}

// ServerNumber is what every number of a server's window carries.
type ServerNumber struct {
	// Quantity is the catalogue's word, Name the family on the wire.
	Quantity string `json:"quantity"`
	Name     string `json:"name"`
	Unit     string `json:"unit"`
	// Semantics says what one sample is and when it is taken.
	Semantics string `json:"semantics"`
	// Defects that the catalogue knows of.
	Defects []string `json:"defects,omitempty"`
	// Note says how the entry was found, where no release number vouches for it.
	Note string `json:"note,omitempty"`
	// Flags are conditions and doubts of this window.
	Flags []string `json:"flags,omitempty"`
	// Hidden says why there is no number.
	Hidden string `json:"hidden,omitempty"`
	// Series that were added up.
	Series int `json:"series,omitzero"`
}

// ServerDistribution is a histogram over the window. Times are in milliseconds.
type ServerDistribution struct {
	ServerNumber
	N uint64 `json:"n"`
	// Mean is exact: the growth of the sum over the growth of the count.
	Mean *float64 `json:"mean"`
	// The percentiles are no points: see [ServerBound].
	P50 *ServerBound `json:"p50"`
	P95 *ServerBound `json:"p95"`
	P99 *ServerBound `json:"p99"`
}

// ServerBound is where a percentile lies: in the bucket (Lo, Hi], and by the sum
// of all samples in [TightLo, TightHi], which is never wider. A nil Hi is beyond
// the last bound, a nil Lo below the first.
type ServerBound struct {
	Lo      *float64 `json:"lo"`
	Hi      *float64 `json:"hi"`
	TightLo *float64 `json:"tight_lo"`
	TightHi *float64 `json:"tight_hi"`
	// Share of all samples that lie in the bucket.
	Share float64 `json:"share_in_bucket"`
	// SumFits is false if no samples with these buckets can have the sum.
	SumFits bool `json:"sum_fits"`
	// Resolved: the bucket tells something. It does not start at 0 and is no
	// wider than a factor of 2.
	Resolved bool `json:"resolved"`
}

// ServerTotal is the growth of a counter over the window.
type ServerTotal struct {
	ServerNumber
	Total float64 `json:"total"`
	// Resolution as in [Counter].
	Resolution float64 `json:"resolution,omitzero"`
	// PerSecond is no less than [0] and no more than [1], since the moments of
	// the scrapes are known to within their stamps only.
	PerSecond *Interval `json:"per_second"`
	// By is the total in parts, for instance by finished_reason.
	By map[string]float64 `json:"by,omitempty"`
}

// ServerGauge is a gauge as the scrapes of the window saw it. Between them it is
// unknown.
type ServerGauge struct {
	ServerNumber
	Samples int     `json:"samples"`
	Min     float64 `json:"min"`
	Mean    float64 `json:"mean"`
	Max     float64 `json:"max"`
}

// ServerShare is one total over another of the same window.
type ServerShare struct {
	Part  float64 `json:"part"`
	Whole float64 `json:"whole"`
	Share float64 `json:"share"`
	Name  string  `json:"name"` // of both families
}

// WindowCheck holds a total of the server's window against what the client saw
// between the same two moments. The two are compared, never combined.
type WindowCheck struct {
	Quantity string  `json:"quantity"`
	Name     string  `json:"name"`
	Server   float64 `json:"server"`
	Client   float64 `json:"client"`
	// InFlight is how much of it may have been on its way at the two edges.
	InFlight float64 `json:"in_flight"`
	// Tolerance is max(1 %, InFlight), and the resolution of what is printed.
	Tolerance float64 `json:"tolerance"`
	Agrees    bool    `json:"agrees"`
	// Possible is false for engines that count when a request ends: Text says so.
	Possible bool   `json:"possible"`
	Text     string `json:"text"`
}
