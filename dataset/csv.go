package dataset

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
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
		return nil, fmt.Errorf("%w: no column has a known name (there are %q): say which is which", ErrFormat, sn.names)
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
	first, unclosed, err := splitFields(bytes.TrimSuffix(line, []byte("\r")), s.comma, nil)
	if err != nil || unclosed {
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

var errUnclosed = errors.New("a quoted field is not closed")

// record reads one record into s.fields.
func (s *csvSource) record() ([]byte, int64, error) {
	b, line, err := s.in.readLine()
	for err == nil && len(b) == 0 {
		b, line, err = s.in.readLine()
	}
	if err != nil {
		return nil, line, err
	}
	var unclosed bool
	s.fields, unclosed, err = splitFields(b, s.comma, s.fields[:0])
	for unclosed && err == nil {
		// Only a line with an odd number of quotes can close it.
		for n := 0; n%2 == 0; {
			had := len(b)
			if b, err = s.in.extend(); errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF // the end of the rows is no error
			}
			if err != nil {
				return nil, line, fatalError{fmt.Errorf("%w: %w", errUnclosed, err)}
			}
			n = bytes.Count(b[min(had, len(b)):], []byte(`"`))
		}
		s.fields, unclosed, err = splitFields(b, s.comma, s.fields[:0])
	}
	return b, line, err
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
		return fmt.Errorf("has %d fields, the header %d", len(s.fields), len(s.names))
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

// splitFields cuts a line at its commas, by RFC 4180. Unclosed says that a quoted
// field goes on in the next line. Fields are parts of the line, but for those
// with quotes inside.
func splitFields(line []byte, comma byte, dst [][]byte) (fields [][]byte, unclosed bool, err error) {
	for {
		if len(line) == 0 || line[0] != '"' {
			i := bytes.IndexByte(line, comma)
			if i < 0 {
				return append(dst, line), false, nil
			}
			dst = append(dst, line[:i])
			line = line[i+1:]
			continue
		}
		end, doubled := 1, false
		for {
			i := bytes.IndexByte(line[end:], '"')
			if i < 0 {
				return dst, true, nil
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
			return dst, false, nil
		}
		if line[0] != comma {
			return dst, false, fmt.Errorf("field %d: something follows its closing quote", len(dst))
		}
		line = line[1:]
	}
}
