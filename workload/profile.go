package workload

import (
	"math"
	"slices"
	"time"

	"github.com/assay-bench/assay/stat"
)

// Sample is what a workload or a trace asked for, request by request.
type Sample struct {
	// Sharing that is planned; nil without shared prefixes.
	Sharing *Sharing
	// Prompts and Outputs are lengths in tokens; empty if unknown.
	Prompts, Outputs []int
	// At are the times in nanoseconds from the start, rising; empty for a closed
	// loop. Of sessions they are those of the first turns.
	At []int64
	// Turns of each session; empty without. PromptTokens are those of all turns,
	// KnownTokens what of them had been said before: by the session itself, or as a
	// prefix by another.
	Turns                     []int
	PromptTokens, KnownTokens int64
}

// Profile sums up a sample.
type Profile struct {
	Requests int            `json:"requests"`
	Prompt   *LengthProfile `json:"prompt_tokens,omitempty"`
	Output   *LengthProfile `json:"output_tokens,omitempty"`
	// Correlation of the ranks of prompt and output lengths; nil if one is always
	// the same.
	Correlation *float64        `json:"length_rank_correlation,omitempty"`
	Arrivals    *ArrivalProfile `json:"arrivals,omitempty"`
	Sessions    *SessionProfile `json:"sessions,omitempty"`
}

// SessionProfile describes sessions, as if all went as planned. Arrivals are theirs
// then.
type SessionProfile struct {
	Sessions int            `json:"sessions"`
	Turns    *LengthProfile `json:"turns"`
	// HitRate is the share of prompt tokens that an infinite prefix cache would have:
	// histories, and prefixes that another session had.
	HitRate float64 `json:"infinite_cache_hit_rate"`
}

// LengthProfile describes lengths in tokens.
type LengthProfile struct {
	Mean      float64 `json:"mean"`
	CV        float64 `json:"cv"`
	Min       int     `json:"min"`
	P50       int     `json:"p50"`
	P95       int     `json:"p95"`
	P99       int     `json:"p99"`
	Max       int     `json:"max"`
	Histogram []Count `json:"histogram"`
}

// Count of lengths from Low to High, both included.
type Count struct {
	Low  int `json:"low"`
	High int `json:"high"`
	N    int `json:"n"`
}

// ArrivalProfile describes arrivals.
type ArrivalProfile struct {
	// OfSessions: of their first turns alone.
	OfSessions bool          `json:"of_sessions,omitempty"`
	Span       time.Duration `json:"span_ns"`
	// Rate is the realised mean, in requests per second.
	Rate float64 `json:"rate"`
	// CV of the gaps.
	CV *float64 `json:"cv,omitempty"`
	// Dispersion of the counts in windows of 1, 10 and 60 s; those of which fewer
	// than two fit are left out.
	Dispersion []Dispersion `json:"dispersion"`
	// Over time, in equal intervals.
	Over []Interval `json:"rate_over_time"`
}

// Dispersion is variance over mean of the counts in windows: 1 is Poisson.
type Dispersion struct {
	Window  time.Duration `json:"window_ns"`
	Index   float64       `json:"index"`
	Windows int           `json:"windows"`
}

// Interval of time and the rate in it, in requests per second.
type Interval struct {
	From time.Duration `json:"from_ns"`
	Rate float64       `json:"rate"`
}

// intervals that a span is shown in.
const intervals = 20

// Requests is how many there are.
func (s Sample) Requests() int { return max(len(s.Prompts), len(s.Outputs), len(s.At)) }

// Profile sums the sample up.
func (s Sample) Profile() Profile {
	p := Profile{
		Requests: s.Requests(),
		Prompt:   profileLengths(s.Prompts), Output: profileLengths(s.Outputs), Arrivals: profileArrivals(s.At),
	}
	if len(s.Turns) > 0 {
		if p.Arrivals != nil {
			p.Arrivals.OfSessions = true
		}
		p.Sessions = &SessionProfile{Sessions: len(s.Turns), Turns: profileLengths(s.Turns), HitRate: finite(float64(s.KnownTokens) / float64(s.PromptTokens))}
	}
	if len(s.Prompts) == len(s.Outputs) && len(s.Prompts) > 2 {
		if r := rankCorrelation(s.Prompts, s.Outputs); !math.IsNaN(r) {
			p.Correlation = &r
		}
	}
	return p
}

func profileLengths(x []int) *LengthProfile {
	if len(x) == 0 {
		return nil
	}
	sorted := slices.Sorted(slices.Values(x))
	f := floats(sorted)
	q := func(p float64) int { return sorted[min(int(p*float64(len(sorted))), len(sorted)-1)] }
	return &LengthProfile{
		Mean: stat.Mean(f), CV: finite(stat.CV(f)), Min: sorted[0], P50: q(0.5), P95: q(0.95), P99: q(0.99),
		Max: sorted[len(sorted)-1], Histogram: count(sorted),
	}
}

func floats(x []int) []float64 {
	f := make([]float64, len(x))
	for i, v := range x {
		f[i] = float64(v)
	}
	return f
}

func finite(x float64) float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return 0
	}
	return x
}

// bins of a histogram, at most.
const bins = 16

// count bins ascending lengths: in equal ratios if they span more than a factor
// of 20, else in equal widths; a bin each where there are few values.
func count(sorted []int) []Count {
	low, high := sorted[0], sorted[len(sorted)-1]
	edge := func(i int) int { return low + int(math.Round(float64(high+1-low)*float64(i)/bins)) }
	if high > 20*low {
		ratio := float64(high+1) / float64(low)
		edge = func(i int) int { return int(math.Round(float64(low) * math.Pow(ratio, float64(i)/bins))) }
	}
	var out []Count
	from, seen := low, 0
	for i := 1; i <= bins; i++ {
		to := edge(i)
		if to <= from {
			continue // a bin without a whole number
		}
		below, _ := slices.BinarySearch(sorted, to)
		out = append(out, Count{from, to - 1, below - seen})
		from, seen = to, below
	}
	return out
}

func profileArrivals(at []int64) *ArrivalProfile {
	if len(at) < 2 {
		return nil
	}
	first, last := at[0], at[len(at)-1]
	a := &ArrivalProfile{Span: time.Duration(last - first)}
	if last == first {
		return a
	}
	a.Rate = float64(len(at)-1) / a.Span.Seconds()
	if cv := stat.GapCV(at); !math.IsNaN(cv) {
		a.CV = &cv
	}
	for _, w := range []time.Duration{time.Second, 10 * time.Second, time.Minute} {
		if i, n := stat.IndexOfDispersion(at, first, last, int64(w)); n >= 2 && !math.IsNaN(i) {
			a.Dispersion = append(a.Dispersion, Dispersion{w, i, n})
		}
	}
	seen := 0
	for i := range intervals {
		from := float64(last-first) * float64(i) / intervals
		to := first + int64(float64(last-first)*float64(i+1)/intervals)
		below, _ := slices.BinarySearch(at, to)
		if i == intervals-1 {
			below = len(at)
		}
		a.Over = append(a.Over, Interval{time.Duration(from), float64(below-seen) / (a.Span.Seconds() / intervals)})
		seen = below
	}
	return a
}

// rankCorrelation is Spearman's, with mean ranks for ties; NaN if one of them is
// always the same.
func rankCorrelation(x, y []int) float64 {
	a, b := meanRanks(x), meanRanks(y)
	ma, mb := stat.Mean(a), stat.Mean(b)
	var ab, aa, bb float64
	for i := range a {
		ab += (a[i] - ma) * (b[i] - mb)
		aa += (a[i] - ma) * (a[i] - ma)
		bb += (b[i] - mb) * (b[i] - mb)
	}
	return ab / math.Sqrt(aa*bb)
}

func meanRanks(x []int) []float64 {
	order := make([]int, len(x))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return x[a] - x[b] })
	ranks := make([]float64, len(x))
	for i := 0; i < len(order); {
		j := i
		for j < len(order) && x[order[j]] == x[order[i]] {
			j++
		}
		for _, k := range order[i:j] {
			ranks[k] = float64(i+j-1) / 2
		}
		i = j
	}
	return ranks
}
