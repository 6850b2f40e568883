package workload

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/assay-bench/assay/arrival"
	"github.com/assay-bench/assay/dataset"
)

// Rows are the requests of a recorded trace, in the order of their times.
type Rows interface {
	// Next is the next row: when it arrived, from any fixed moment on, and its
	// lengths in tokens. ok is false after the last row and with an error, which
	// says where in the trace it is.
	Next() (at time.Duration, prompt, output int, ok bool, err error)
}

// blockRows are rows whose prompts are made of recorded blocks.
type blockRows interface {
	Rows
	// Blocks of the row that Next gave last: what each stands for, and its tokens.
	Blocks() (blocks []uint64, tokens int)
}

// Trace names the trace that arrivals or lengths come from.
type Trace struct {
	// File of the trace.
	File string `yaml:"file" json:"file"`
	// SHA256 of the file in hexadecimal; part of the fingerprint, in place of the
	// file's name, if it is there.
	SHA256 string `yaml:"sha256,omitempty" json:"sha256,omitzero"`
	// Format, and Unit of its stamps (s, ms, us, ns, date), where they are not to
	// be found out; Columns name the file's column of a field (time, prompt_tokens,
	// output_tokens). All are package dataset's.
	Format  string            `yaml:"format,omitempty" json:"format,omitzero"`
	Unit    string            `yaml:"unit,omitempty" json:"unit,omitzero"`
	Columns map[string]string `yaml:"columns,omitempty" json:"columns,omitempty"`
	// SkipBad leaves malformed rows out, and counts them.
	SkipBad bool `yaml:"skip_bad,omitempty" json:"skip_bad,omitzero"`
	// AnySpan takes a trace that spans absurdly long: mostly one whose unit is
	// wrong.
	AnySpan bool `yaml:"any_span,omitempty" json:"any_span,omitzero"`
	// Dither spreads stamps within their quantum: "quantum" is the one that is
	// found, else a duration.
	Dither string `yaml:"dither,omitempty" json:"dither,omitzero"`
	// HashIDs says what becomes of the blocks of prompts, where rows have their ids:
	// "replay" makes prompts that share exactly those, each row a request of its own,
	// at its own time; "sessions" makes the same prompts, of turns that wait for each
	// other as those of sessions do; "ignore" leaves them out. Empty replays them
	// unless rows are turns of sessions, whose histories they are.
	HashIDs string `yaml:"hash_ids,omitempty" json:"hash_ids,omitzero"`
	// BlockSize is how many tokens an id stands for, where the file does not say and
	// the format's own is wrong.
	BlockSize int `yaml:"block_size_tokens,omitempty" json:"block_size_tokens,omitzero"`
	// Scale changes the rate.
	Scale *TraceScale `yaml:"scale,omitempty" json:"scale,omitempty"`
}

// TraceScale changes the rate of a trace by a factor. The three ways are not the
// same workload; see package dataset.
type TraceScale struct {
	// By is thinning (factors below 1), compression of time, or superposition of
	// shifted copies (factors above 1; what is left of a whole number is thinned).
	By string `yaml:"by" json:"by"`
	// Factor of the rate.
	Factor float64 `yaml:"factor" json:"factor"`
}

// The ways to scale.
const (
	Thinning      = "thinning"
	Compression   = "compression"
	Superposition = "superposition"
)

// What becomes of hash ids.
const (
	ReplayBlocks  = "replay"
	SessionBlocks = "sessions"
	IgnoreBlocks  = "ignore"
)

// maxScale bounds factors: more is a typing error.
const maxScale = 1000

// check says what is wrong, by the name of the field.
func (t *Trace) check(field func(string, error)) {
	if _, err := dataset.ParseFormat(t.Format); err != nil {
		field("trace.format", err)
	}
	if t.Unit != "" {
		_, err := dataset.ParseUnit(t.Unit)
		field("trace.unit", err)
	}
	if t.Dither != "" && t.Dither != ditherQuantum {
		if d, err := time.ParseDuration(t.Dither); err != nil || d <= 0 {
			field("trace.dither", fmt.Errorf("%q is neither quantum nor a duration above 0", t.Dither))
		}
	}
	if h := t.HashIDs; h != "" && h != ReplayBlocks && h != SessionBlocks && h != IgnoreBlocks {
		field("trace.hash_ids", fmt.Errorf("%q is none of replay, sessions, ignore", h))
	}
	if t.BlockSize != 0 {
		field("trace.block_size_tokens", checkTokens(t.BlockSize))
	}
	s := t.Scale
	if s == nil {
		return
	}
	if !(s.Factor > 0 && s.Factor <= maxScale) {
		field("trace.scale.factor", fmt.Errorf("%v is not above 0 and at most %d", s.Factor, maxScale))
	}
	switch {
	case s.By != Thinning && s.By != Compression && s.By != Superposition:
		field("trace.scale.by", fmt.Errorf("%q is none of %s, %s, %s", s.By, Thinning, Compression, Superposition))
	case s.By == Thinning && s.Factor > 1:
		field("trace.scale.factor", errors.New("thinning only lowers a rate: want at most 1"))
	case s.By == Superposition && s.Factor < 1:
		field("trace.scale.factor", errors.New("superposition only raises a rate: want at least 1"))
	}
}

const ditherQuantum = "quantum"

// describe says what is done to the trace.
func (t *Trace) describe() string {
	d := "; trace " + filepath.Base(t.File)
	if t.Dither != "" {
		d += ", stamps dithered"
		if t.Dither != ditherQuantum {
			d += " by " + t.Dither
		}
	}
	switch t.HashIDs {
	case IgnoreBlocks:
		d += ", its blocks not replayed"
	case SessionBlocks:
		d += ", turns with the recorded blocks for prompts"
	}
	if t.Scale != nil {
		d += fmt.Sprintf(", rate times %v by %s", t.Scale.Factor, t.Scale.By)
	}
	return d
}

// TraceSummary is what one pass over a trace finds.
type TraceSummary struct {
	// Rows that are requests, and Failed rows without a prompt or without an
	// output, which are left out: they are no load that a server has served.
	Rows, Failed int64
	// Span from the first row to the last.
	Span time.Duration
	// The bounds of the lengths, in tokens.
	ShortestPrompt, LongestPrompt int
	ShortestOutput, LongestOutput int
}

// Rate is the mean rate over the span, in requests per second.
func (s TraceSummary) Rate() float64 {
	if s.Span <= 0 {
		return 0
	}
	return float64(s.Rows-1) / s.Span.Seconds()
}

// traceRow is a row that is a request, its time counted from the first one.
type traceRow struct {
	at             time.Duration
	prompt, output int
}

// traceReader passes over what is no request, and checks the order.
type traceReader struct {
	rows   Rows
	start  time.Duration
	last   time.Duration
	n      int64
	failed int64
}

func (t *traceReader) next() (traceRow, bool, error) {
	for {
		at, prompt, output, ok, err := t.rows.Next()
		if err != nil || !ok {
			return traceRow{}, false, err
		}
		if prompt < 1 || output < 1 {
			t.failed++
			continue
		}
		if t.n == 0 {
			t.start, t.last = at, at
		}
		t.n++
		switch {
		case at < t.last:
			return traceRow{}, false, fmt.Errorf("request %d arrives at %v, before the one ahead of it at %v", t.n, at, t.last)
		case prompt > MaxTokens || output > MaxTokens:
			return traceRow{}, false, fmt.Errorf("request %d has %d prompt and %d output tokens: more than %d", t.n, prompt, output, MaxTokens)
		}
		t.last = at
		return traceRow{at - t.start, prompt, output}, true, nil
	}
}

// Summarize passes over a trace once.
func Summarize(rows Rows) (TraceSummary, error) {
	t := traceReader{rows: rows}
	var s TraceSummary
	for {
		row, ok, err := t.next()
		if err != nil {
			return s, fmt.Errorf("reading the trace: %w", err)
		}
		if !ok {
			s.Rows, s.Failed = t.n, t.failed
			if s.Rows == 0 {
				return s, errors.New("reading the trace: it has no request with both lengths")
			}
			return s, nil
		}
		if s.LongestPrompt == 0 {
			s.ShortestPrompt, s.ShortestOutput = row.prompt, row.output
		}
		s.Span = row.at
		s.ShortestPrompt, s.LongestPrompt = min(s.ShortestPrompt, row.prompt), max(s.LongestPrompt, row.prompt)
		s.ShortestOutput, s.LongestOutput = min(s.ShortestOutput, row.output), max(s.LongestOutput, row.output)
	}
}

// traceArrivals are the times of a trace.
type traceArrivals struct {
	t    traceReader
	last time.Duration
	over bool
}

// Next implements arrival.Process. What is wrong with a row was found when the
// plan was made, in a pass of its own.
func (a *traceArrivals) Next() time.Duration {
	row, ok, err := a.t.next()
	if a.over = a.over || err != nil || !ok; a.over {
		return arrival.Never
	}
	gap := row.at - a.last
	a.last = row.at
	return gap
}

func (a *traceArrivals) String() string { return "at the times of a trace" }
