package replay

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Row is one recorded request. Times are nanoseconds after the earliest Queued
// of the recording; Scheduled, First and Last are -1 where they were not
// recorded.
type Row struct {
	Line                           int // of the file, from 1
	Input, Output                  int // tokens
	Queued, Scheduled, First, Last int64
}

// Field is a column that a recording can have. Times are in seconds on any one
// clock, unless the column's own name ends in _ms, _us or _ns.
type Field string

// The fields, with the short names that a mapping may use for them.
const (
	Input     Field = "input_toks"     // input: prompt tokens, at least 1
	Output    Field = "output_toks"    // output: completion tokens
	Queued    Field = "queued_ts"      // queued: when the engine got the request
	Scheduled Field = "scheduled_ts"   // scheduled: when it was first run; optional
	First     Field = "first_token_ts" // first: optional
	Last      Field = "last_token_ts"  // last: optional
)

// fields in the order of Row, required ones first.
func fields() []Field { return []Field{Input, Output, Queued, Scheduled, First, Last} }

const required = 3

// ParseField finds a field by its name, or by the part before the first "_".
func ParseField(name string) (Field, error) {
	for _, f := range fields() {
		short, _, _ := strings.Cut(string(f), "_")
		if name == string(f) || name == short {
			return f, nil
		}
	}
	return "", fmt.Errorf("unknown field %q: want input, output, queued, scheduled, first or last", name)
}

// Columns names the columns of a recording that are not called as their field.
type Columns map[Field]string

// column is where a field is read from.
type column struct {
	name     string
	unit     float64 // ns; 0 for a count
	optional bool
}

func (c Columns) resolve() ([]column, error) {
	var out []column
	taken := make(map[string]Field)
	for i, f := range fields() {
		col := column{name: string(f), optional: i >= required}
		if name, ok := c[f]; ok {
			col.name, col.optional = name, false
		}
		if other, ok := taken[col.name]; ok {
			return nil, fmt.Errorf("column %q is mapped to %s and to %s", col.name, other, f)
		}
		taken[col.name] = f
		if f != Input && f != Output {
			col.unit = unitOf(col.name)
		}
		out = append(out, col)
	}
	return out, nil
}

func unitOf(name string) float64 {
	for suffix, unit := range map[string]time.Duration{"_ms": time.Millisecond, "_us": time.Microsecond, "_ns": time.Nanosecond} {
		if strings.HasSuffix(name, suffix) {
			return float64(unit)
		}
	}
	return float64(time.Second)
}

// maxTokens bounds a count: beyond it is a typing error or another column.
const maxTokens = 100_000_000

// source yields one row after the other: the text of each column, "" where it
// is missing. It returns io.EOF after the last.
type source func(columns []column, text []string) (line int, err error)

// Read reads a recording of JSON lines or of CSV with a header; which of them,
// its first character tells; either may be gzipped. Columns that it does not know are passed over. Rows
// come back in the order of arrival. An error names the place as
// name:line:column name.
func Read(r io.Reader, name string, c Columns) ([]Row, error) {
	columns, err := c.resolve()
	if err != nil {
		return nil, err
	}
	in, err := plain(r, name)
	if err != nil {
		return nil, err
	}
	next, err := open(in, name)
	if err != nil {
		return nil, err
	}
	var parsed []parsedRow
	text := make([]string, len(columns))
	for {
		clear(text)
		line, err := next(columns, text)
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		p, at, err := parse(columns, text)
		if err != nil {
			return nil, fmt.Errorf("%s:%d:%s: %w", name, line, columns[at].name, err)
		}
		p.line = line
		if len(parsed) > 0 {
			if i, differs := p.differs(&parsed[0]); differs {
				return nil, fmt.Errorf("%s:%d:%s: it is missing in some rows and not in others", name, line, columns[i].name)
			}
		}
		parsed = append(parsed, p)
	}
	if len(parsed) == 0 {
		return nil, fmt.Errorf("%s: there is no request in it", name)
	}
	return rows(parsed, columns), nil
}

// parsedRow has the values by field; NaN where there is none.
type parsedRow struct {
	line  int
	value [6]float64
}

func (p *parsedRow) differs(q *parsedRow) (field int, differs bool) {
	for i := range p.value {
		if math.IsNaN(p.value[i]) != math.IsNaN(q.value[i]) {
			return i, true
		}
	}
	return 0, false
}

// parse checks one row; at is the field that an error is about.
func parse(columns []column, text []string) (p parsedRow, at int, err error) {
	for i, c := range columns {
		s := strings.TrimSpace(text[i])
		if s == "" || s == "null" {
			if !c.optional {
				return p, i, errors.New("missing")
			}
			p.value[i] = math.NaN()
			continue
		}
		x, err := strconv.ParseFloat(s, 64)
		if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
			return p, i, fmt.Errorf("%q is no number", s[:min(len(s), 40)])
		}
		p.value[i] = x
	}
	for i, least := range []float64{1, 0} {
		if x := p.value[i]; x < least || x > maxTokens || x != math.Trunc(x) {
			return p, i, fmt.Errorf("%v is no number of tokens from %v", x, least)
		}
	}
	// Times are in order: each after the last one before it that is there.
	before := 2
	for i := before; i < len(columns); i++ {
		x := p.value[i] * columns[i].unit
		if math.Abs(x) > math.MaxInt64/2 {
			return p, i, fmt.Errorf("%v is out of range", p.value[i])
		}
		if x < p.value[before]*columns[before].unit {
			return p, i, fmt.Errorf("%v is before %s, %v", p.value[i], columns[before].name, p.value[before])
		}
		if !math.IsNaN(x) {
			before = i
		}
	}
	return p, 0, nil
}

func clip(s string) string {
	if len(s) > 200 {
		return s[:200] + "..."
	}
	return s
}

// rows sorts by arrival and makes times relative to the first one.
func rows(parsed []parsedRow, columns []column) []Row {
	slices.SortStableFunc(parsed, func(a, b parsedRow) int {
		switch {
		case a.value[2] < b.value[2]:
			return -1
		case a.value[2] > b.value[2]:
			return 1
		}
		return 0
	})
	zero := parsed[0].value[2] * columns[2].unit
	ns := func(p *parsedRow, i int) int64 {
		if math.IsNaN(p.value[i]) {
			return -1
		}
		if columns[i].unit == columns[2].unit {
			// The difference first: it keeps the digits of large clocks.
			return int64(math.Round((p.value[i] - parsed[0].value[2]) * columns[i].unit))
		}
		return int64(math.Round(p.value[i]*columns[i].unit - zero))
	}
	out := make([]Row, len(parsed))
	for i := range parsed {
		p := &parsed[i]
		out[i] = Row{
			Line: p.line, Input: int(p.value[0]), Output: int(p.value[1]),
			Queued: ns(p, 2), Scheduled: ns(p, 3), First: ns(p, 4), Last: ns(p, 5),
		}
	}
	return out
}

// plain undoes gzip, which its first two bytes tell (RFC 1952).
func plain(r io.Reader, name string) (*bufio.Reader, error) {
	in := bufio.NewReaderSize(r, 1<<16)
	if magic, err := in.Peek(2); err != nil || string(magic) != "\x1f\x8b" {
		return in, nil // too short for gzip: what follows says what is wrong
	}
	z, err := gzip.NewReader(in)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	return bufio.NewReaderSize(z, 1<<16), nil
}

// open tells JSON lines from CSV.
func open(in *bufio.Reader, name string) (source, error) {
	if bom, err := in.Peek(3); err == nil && string(bom) == "\xef\xbb\xbf" {
		_, _ = in.Discard(3)
	}
	first, err := in.Peek(1)
	if err == io.EOF {
		return nil, fmt.Errorf("%s: the file is empty", name)
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	switch first[0] {
	case '{':
		return jsonLines(in, name), nil
	case '[':
		return nil, fmt.Errorf("%s: a JSON array: want one object a line, as jq -c '.[]' makes it", name)
	}
	return table(in, name)
}

// maxLine bounds a line of JSON.
const maxLine = 16 << 20

func jsonLines(in io.Reader, name string) source {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	n := 0
	return func(columns []column, text []string) (int, error) {
		for lines.Scan() {
			n++
			line := bytes.TrimSpace(lines.Bytes())
			if len(line) == 0 {
				continue
			}
			var object map[string]json.RawMessage
			if err := json.Unmarshal(line, &object); err != nil {
				return n, fmt.Errorf("%s:%d: %w", name, n, err)
			}
			for i, c := range columns {
				value, ok := object[c.name]
				if !ok && !c.optional {
					known := strings.Join(slices.Sorted(maps.Keys(object)), ",")
					return n, fmt.Errorf("%s:%d: there is no %q in %s; map one with FIELD=COLUMN", name, n, c.name, clip(known))
				}
				text[i] = string(value)
			}
			return n, nil
		}
		if err := lines.Err(); err != nil {
			return n, fmt.Errorf("%s:%d: %w", name, n+1, err)
		}
		return n, io.EOF
	}
}

func table(in io.Reader, name string) (source, error) {
	r := csv.NewReader(in)
	r.TrimLeadingSpace, r.ReuseRecord, r.Comment = true, true, '#'
	header, err := r.Read()
	if err != nil {
		return nil, wrapCSV(name, err)
	}
	at := make(map[string]int)
	for i, h := range header {
		h = strings.TrimSpace(h)
		if _, twice := at[h]; twice {
			return nil, fmt.Errorf("%s:1: column %q occurs twice", name, h)
		}
		at[h] = i
	}
	known := strings.Join(header, ",") // header is reused by the next Read
	return func(columns []column, text []string) (int, error) {
		for _, c := range columns {
			if _, ok := at[c.name]; !ok && !c.optional {
				return 1, fmt.Errorf("%s:1: there is no column %q in %s; map one with FIELD=COLUMN", name, c.name, clip(known))
			}
		}
		record, err := r.Read()
		if err == io.EOF {
			return 0, io.EOF
		}
		if err != nil {
			return 0, wrapCSV(name, err)
		}
		for i, c := range columns {
			if j, ok := at[c.name]; ok {
				text[i] = record[j]
			}
		}
		line, _ := r.FieldPos(0)
		return line, nil
	}, nil
}

func wrapCSV(name string, err error) error {
	var p *csv.ParseError
	switch {
	case errors.As(err, &p):
		return fmt.Errorf("%s:%d:%d: %w", name, p.Line, p.Column, p.Err)
	case err == io.EOF:
		return fmt.Errorf("%s: there is no header", name)
	}
	return fmt.Errorf("%s: %w", name, err)
}
