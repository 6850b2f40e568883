package rundir

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// CSVKind is what a CSV holds, by its header.
type CSVKind int

// The kinds of CSV that can be analysed.
const (
	UnknownCSV CSVKind = iota
	// FiveColumnCSV has one request a row.
	FiveColumnCSV
	// TraceCSV has one token of one request a row.
	TraceCSV
)

// The columns of a five-column CSV.
const (
	colRequest    = "request_id"
	colPrompt     = "prompt_tokens"
	colCompletion = "completion_tokens"
	colTTFT       = "TTFT_ms"
	colE2E        = "E2E_ms"
)

func fiveColumns() []string { return []string{colRequest, colPrompt, colCompletion, colTTFT, colE2E} }

// The columns of a trace, and the units of its times by column name.
const colEvent = "event"

func timeColumns() map[string]time.Duration {
	return map[string]time.Duration{
		"t_ns": time.Nanosecond, "t_us": time.Microsecond, "t_ms": time.Millisecond, "t_s": time.Second,
		"timestamp_ns": time.Nanosecond, "timestamp_us": time.Microsecond, "timestamp_ms": time.Millisecond, "timestamp_s": time.Second,
	}
}

// CSVReader reads a CSV that was not written by us: columns by header name, in
// any order, unknown ones ignored. Errors name file, line and column.
type CSVReader struct {
	name string
	kind CSVKind
	csv  *csv.Reader
	col  map[string]int
	unit time.Duration // of a trace's times
	time int           // its column
}

// NewCSVReader reads the header and tells the kind. name is for errors.
func NewCSVReader(r io.Reader, name string) (*CSVReader, error) {
	buffered := bufio.NewReaderSize(r, 1<<16)
	if bom, err := buffered.Peek(3); err == nil && string(bom) == "\xef\xbb\xbf" {
		_, _ = buffered.Discard(3)
	}
	c := &CSVReader{name: name, csv: csv.NewReader(buffered), col: make(map[string]int)}
	c.csv.ReuseRecord = true
	c.csv.TrimLeadingSpace = true
	c.csv.Comment = '#'
	header, err := c.csv.Read()
	if err == io.EOF {
		return nil, fmt.Errorf("%s: the file is empty", name)
	}
	if err != nil {
		return nil, c.wrap(err)
	}
	for i, h := range header {
		h = strings.TrimSpace(h)
		if _, twice := c.col[h]; twice {
			return nil, fmt.Errorf("%s:1: column %q occurs twice", name, h)
		}
		c.col[h] = i
		if unit, ok := timeColumns()[h]; ok {
			c.unit, c.time = unit, i
		}
	}
	_, isFive := c.col[colE2E]
	switch {
	case isFive:
		c.kind = FiveColumnCSV
		for _, want := range fiveColumns() {
			if _, ok := c.col[want]; !ok {
				return nil, fmt.Errorf("%s:1: column %q is missing; a request table has %s", name, want, strings.Join(fiveColumns(), ","))
			}
		}
	case c.unit != 0:
		c.kind = TraceCSV
	default:
		return nil, fmt.Errorf("%s:1: unknown columns %q: want %s (one request a row), or event,t_ms (one token of one request a row)",
			name, strings.Join(header, ","), strings.Join(fiveColumns(), ","))
	}
	return c, nil
}

// Kind of the file.
func (c *CSVReader) Kind() CSVKind { return c.kind }

// wrap puts file and line before an error of encoding/csv.
func (c *CSVReader) wrap(err error) error {
	var p *csv.ParseError
	if errors.As(err, &p) {
		return fmt.Errorf("%s:%d:%d: %w", c.name, p.Line, p.Column, p.Err)
	}
	return fmt.Errorf("%s: %w", c.name, err)
}

// at names the place of a field of the current row.
func (c *CSVReader) at(i int) string {
	line, column := c.csv.FieldPos(i)
	return fmt.Sprintf("%s:%d:%d", c.name, line, column)
}

// RequestRow is one row of a five-column CSV. TTFT is 0 where the cell is empty.
type RequestRow struct {
	ID                             string
	PromptTokens, CompletionTokens int
	TTFT, E2E                      time.Duration
	// line in the file, for later complaints.
	line int
}

// Place of the row in its file, "requests.csv:12".
func (r RequestRow) Place(c *CSVReader) string { return fmt.Sprintf("%s:%d", c.name, r.line) }

// Request returns the next row of a five-column CSV; io.EOF at the end.
func (c *CSVReader) Request() (RequestRow, error) {
	rec, err := c.csv.Read()
	if err == io.EOF {
		return RequestRow{}, io.EOF
	}
	if err != nil {
		return RequestRow{}, c.wrap(err)
	}
	line, _ := c.csv.FieldPos(0)
	r := RequestRow{ID: strings.Clone(rec[c.col[colRequest]]), line: line}
	if r.PromptTokens, err = c.count(rec, colPrompt); err != nil {
		return r, err
	}
	if r.CompletionTokens, err = c.count(rec, colCompletion); err != nil {
		return r, err
	}
	if strings.TrimSpace(rec[c.col[colTTFT]]) != "" {
		if r.TTFT, err = c.duration(rec, c.col[colTTFT], colTTFT, time.Millisecond); err != nil {
			return r, err
		}
	}
	r.E2E, err = c.duration(rec, c.col[colE2E], colE2E, time.Millisecond)
	return r, err
}

func (c *CSVReader) count(rec []string, name string) (int, error) {
	i := c.col[name]
	n, err := strconv.Atoi(strings.TrimSpace(rec[i]))
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%s: %s is %q: want a whole number from 0", c.at(i), name, rec[i])
	}
	return n, nil
}

func (c *CSVReader) duration(rec []string, i int, name string, unit time.Duration) (time.Duration, error) {
	v, err := strconv.ParseFloat(strings.TrimSpace(rec[i]), 64)
	ns := v * float64(unit)
	if err != nil || math.IsNaN(ns) || ns < 0 || ns >= math.MaxInt64 {
		return 0, fmt.Errorf("%s: %s is %q: want a number from 0", c.at(i), name, rec[i])
	}
	return time.Duration(math.Round(ns)), nil
}

// TokenTimes is a trace of one request.
type TokenTimes struct {
	Sent   time.Duration
	Tokens []time.Duration
	// SentAssumed: the file has no "sent" row, so its times count from 0.
	SentAssumed bool
}

// Trace reads a whole trace. Rows whose event is "sent" mark the start; rows
// whose event is "token", or all rows if there is no event column, are tokens.
// Other events are refused, so that no usage frame is taken for a token.
func (c *CSVReader) Trace() (TokenTimes, error) {
	t := TokenTimes{SentAssumed: true}
	event, hasEvent := c.col[colEvent]
	for {
		rec, err := c.csv.Read()
		if err == io.EOF {
			return t, nil
		}
		if err != nil {
			return t, c.wrap(err)
		}
		at, err := c.duration(rec, c.time, "the time", c.unit)
		if err != nil {
			return t, err
		}
		kind := "token"
		if hasEvent {
			kind = strings.ToLower(strings.TrimSpace(rec[event]))
		}
		switch {
		case kind == "sent" && !t.SentAssumed:
			return t, fmt.Errorf("%s: a second sent row: a trace has one request", c.at(event))
		case kind == "sent":
			t.Sent, t.SentAssumed = at, false
		case slices.Contains([]string{"token", "first_token"}, kind):
			t.Tokens = append(t.Tokens, at)
		default:
			return t, fmt.Errorf("%s: event is %q: want sent or token", c.at(event), rec[event])
		}
	}
}
