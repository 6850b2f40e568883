package dataset

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"
)

func duration(ns int64) time.Duration { return time.Duration(ns) }

// csvSource reads rows of a CSV. Fields are cut from the line without copying.
type csvSource struct {
	in     *input
	comma  byte
	names  []string
	cols   []columnOf
	extra  []columnOf
	set    *setter
	fields [][]byte
	turns  *turnQueue // of files with prompt_0, prompt_1 …
}

func newCSV(in *input, sn sniff, set *setter, o Options) (*csvSource, error) {
	s := &csvSource{in: in, comma: sn.comma, names: sn.names, set: set}
	if sn.header {
		if _, _, err := s.record(); err != nil {
			return nil, err
		}
	}
	cols, err := resolve(sn.names, o.Columns)
	if err != nil {
		return nil, err
	}
	s.cols = s.numbers(cols)
	if len(s.cols) == 0 {
		return nil, errNames("column", sn.names)
	}
	set.columns(s.cols)
	if slices.ContainsFunc(s.cols, func(c columnOf) bool { return c.turn >= 0 }) {
		s.turns = newTurnQueue(s.cols)
	}
	if o.KeepExtra {
		for i, n := range sn.names {
			if !slices.ContainsFunc(s.cols, func(c columnOf) bool { return c.index == i }) {
				s.extra = append(s.extra, columnOf{index: i, name: n})
			}
		}
	}
	return s, nil
}

// numbers takes columns called input or output for counts if the first row has
// numbers there.
func (s *csvSource) numbers(cols []columnOf) []columnOf {
	head, err := s.in.peek(maxSniff)
	if err != nil {
		return cols
	}
	line, _, _ := bytes.Cut(head, []byte("\n"))
	first, _, err := splitFields(bytes.TrimSuffix(line, []byte("\r")), s.comma, nil)
	if err != nil {
		return cols
	}
	has := func(f Field) bool {
		return slices.ContainsFunc(cols, func(c columnOf) bool { return c.field == f })
	}
	for i, c := range cols {
		if c.index >= len(first) || !isNumber(first[c.index]) {
			continue
		}
		if c.field == FieldPrompt && !has(FieldPromptTokens) {
			cols[i].field = FieldPromptTokens
		}
		if c.field == FieldReply && !has(FieldOutputTokens) {
			cols[i].field = FieldOutputTokens
		}
	}
	return cols
}

// record reads one record into s.fields. A quote that is never closed, or by what
// opened another, costs its own line and none behind it.
func (s *csvSource) record() ([]byte, int64, error) {
	b, line, err := s.in.readLine()
	for err == nil && len(b) == 0 {
		b, line, err = s.in.readLine()
	}
	if err != nil {
		return nil, line, err
	}
	open := -1
	s.fields, open, err = splitFields(b, s.comma, s.fields[:0])
	if open < 0 || err != nil {
		return b, line, err
	}
	first, behind, from, field := s.in.last, s.in.line, open, len(s.fields)
	for open >= 0 && err == nil {
		if b, err = s.odd(len(b)); err != nil {
			break
		}
		if s.fields, open, err = splitFields(b, s.comma, s.fields[:0]); open >= 0 {
			from, field = open, len(s.fields)
		}
	}
	if err == nil || errors.As(err, new(fatalError)) {
		return b, line, err
	}
	all := s.in.buf[s.in.r-s.in.last : s.in.r]
	if open >= 0 {
		// In lines with an even number of quotes one may have closed, and another opened.
		var wrong error
		if s.fields, open, wrong = splitFields(all, s.comma, s.fields[:0]); open >= 0 {
			from, field = open, len(s.fields)
		} else if wrong != nil {
			err = wrong
		}
	}
	why := errUnclosed
	switch {
	case errors.Is(err, io.EOF):
	case errors.As(err, new(errLong)):
		why = fmt.Errorf("%w in the %d bytes that follow", errUnclosed, s.in.limit)
	default:
		why = fmt.Errorf("%w as it should be: %w", errUnclosed, err)
	}
	s.in.backTo(first, behind)
	above := all[:from]
	value, _, _ := bytes.Cut(all[from:], []byte("\n"))
	bad := &fieldError{value: bytes.TrimRight(value, "\r"), col: from - bytes.LastIndexByte(above, '\n'), err: why}
	if field < len(s.names) {
		bad.column = s.names[field]
	}
	return nil, line + int64(bytes.Count(above, []byte("\n"))), bad
}

var errUnclosed = errors.New("opens a quoted field that is not closed")

// odd is the record, of which had bytes were read, up to the next line with an odd
// number of quotes: only that can close a field.
func (s *csvSource) odd(had int) ([]byte, error) {
	for {
		b, err := s.in.extend()
		if err != nil || bytes.Count(b[min(had, len(b)):], []byte(`"`))%2 == 1 {
			return b, err
		}
		had = len(b)
	}
}

func (s *csvSource) next(row *Row) error {
	if s.turns != nil && s.turns.pop(row) {
		return nil
	}
	b, line, err := s.record()
	row.Line = line
	if err != nil {
		return err
	}
	if len(s.fields) != len(s.names) {
		return fmt.Errorf("has %s, the header %d", fieldCount(len(s.fields)), len(s.names))
	}
	if s.turns != nil {
		return s.nextTurns(row, b)
	}
	for _, c := range s.cols {
		if err := s.set.text(row, c.field, s.fields[c.index]); err != nil {
			return s.failed(b, c, err)
		}
	}
	for _, c := range s.extra {
		row.Extra = append(row.Extra, Column{c.name, string(s.fields[c.index])})
	}
	return nil
}

func fieldCount(n int) string {
	if n == 1 {
		return "1 field"
	}
	return strconv.Itoa(n) + " fields"
}

func (s *csvSource) nextTurns(row *Row, b []byte) error {
	err := s.turns.push(row, func(row *Row, c columnOf) error {
		if err := s.set.text(row, c.field, s.fields[c.index]); err != nil {
			return s.failed(b, c, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if !s.turns.pop(row) {
		return errNoRow
	}
	return nil
}

func (s *csvSource) failed(line []byte, c columnOf, err error) error {
	v := s.fields[c.index]
	// A field is a part of the line, unless it had quotes inside.
	col := cap(line) - cap(v) + 1
	if col < 1 || col > len(line)+1 {
		col = 0
	}
	return &fieldError{column: c.name, value: v, col: col, err: err}
}

// maxFields of a record: a line of 64 MB may be all commas.
const maxFields = 1 << 16

// splitFields cuts a line at its commas, by RFC 4180. A quoted field that goes on in
// the next line opens at the byte open of this one; open is -1 if none does. Fields
// are parts of the line, but for those with quotes inside.
func splitFields(line []byte, comma byte, dst [][]byte) (fields [][]byte, open int, err error) {
	whole := len(line)
	for {
		if len(dst) >= maxFields {
			return dst, -1, fmt.Errorf("has more than %d fields", maxFields)
		}
		if len(line) == 0 || line[0] != '"' {
			i := bytes.IndexByte(line, comma)
			if i < 0 {
				return append(dst, line), -1, nil
			}
			dst = append(dst, line[:i])
			line = line[i+1:]
			continue
		}
		end, doubled := 1, false
		for {
			i := bytes.IndexByte(line[end:], '"')
			if i < 0 {
				return dst, whole - len(line), nil
			}
			end += i
			if end+1 >= len(line) || line[end+1] != '"' {
				break
			}
			doubled = true
			end += 2
		}
		v := line[1:end]
		if doubled {
			v = bytes.ReplaceAll(v, []byte(`""`), []byte(`"`))
		}
		dst = append(dst, v)
		line = line[end+1:]
		if len(line) == 0 {
			return dst, -1, nil
		}
		if line[0] != comma {
			return dst, -1, fmt.Errorf("field %d: something follows its closing quote", len(dst))
		}
		line = line[1:]
	}
}
