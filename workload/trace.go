package workload

import (
	"errors"
	"fmt"
	"time"

	"github.com/assay-bench/assay/arrival"
)

// Rows are the requests of a recorded trace, in the order of their times.
type Rows interface {
	// Next is the next row: when it arrived, from any fixed moment on, and its
	// lengths in tokens. ok is false after the last row and with an error, which
	// says where in the trace it is.
	Next() (at time.Duration, prompt, output int, ok bool, err error)
}

// Trace names the trace that arrivals or lengths come from.
type Trace struct {
	// File of the trace.
	File string `yaml:"file" json:"file"`
	// SHA256 of the file in hexadecimal; part of the fingerprint if it is there.
	SHA256 string `yaml:"sha256,omitempty" json:"sha256,omitzero"`
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
