package dataset

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrFormat: the content is none of the formats, or not the one named.
	ErrFormat = errors.New("unknown format")
	errUTF16  = fmt.Errorf("%w: the text is UTF-16 (convert the file: iconv -f UTF-16 -t UTF-8)", ErrFormat)

	// ErrColumns: no column or key has a known name, or not the name that was given.
	ErrColumns = fmt.Errorf("%w", ErrFormat)
	// ErrUnit: nothing says what unit the stamps have.
	ErrUnit = errors.New("the unit of the stamps is not known")
	// ErrSpan: the stamps span more than Options.MaxSpan.
	ErrSpan = errors.New("absurd span")
	// ErrBlocks: the number of hash ids does not fit the input length.
	ErrBlocks = errors.New("hash_ids do not fit the input length")
)

// RowError is a row that could not be read. Reading may go on with the next one.
type RowError struct {
	File   string
	Line   int64  // from 1; of Parquet, the row
	Col    int    // byte of the line, from 1; 0 if not known
	Column string // name of the column or key; empty if the row as a whole is wrong
	Value  string // as written, shortened; empty if there is none
	Err    error
}

func (e *RowError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:%d", e.File, e.Line)
	if e.Col > 0 {
		fmt.Fprintf(&b, ":%d", e.Col)
	}
	b.WriteString(": ")
	if e.Column != "" {
		fmt.Fprintf(&b, "column %q: ", e.Column)
	}
	if e.Value != "" {
		fmt.Fprintf(&b, "%q: ", e.Value)
	}
	b.WriteString(e.Err.Error())
	return b.String()
}

func (e *RowError) Unwrap() error { return e.Err }

// maxShown is how much of a bad value an error repeats.
const maxShown = 80

// shorten makes a value fit for a message.
func shorten(v []byte) string {
	if len(v) <= maxShown {
		return string(v)
	}
	return strings.ToValidUTF8(string(v[:maxShown]), "") + "…"
}

// maxNames is how many names of columns an error lists.
const maxNames = 12

// listed are the names of columns, the first of them if there are many.
func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	var b strings.Builder
	for i, n := range names[:min(len(names), maxNames)] {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%q", shorten([]byte(n)))
	}
	if more := len(names) - maxNames; more > 0 {
		fmt.Fprintf(&b, " and %d more", more)
	}
	return b.String()
}

// errNames: none of the columns or keys is known.
func errNames(what string, names []string) error {
	example := "input_tokens"
	if len(names) > 0 {
		example = string([]rune(names[0])[:min(len([]rune(names[0])), 20)])
	}
	return fmt.Errorf("%w: no %s has a known name (there are %s): name those of time, prompt_tokens and output_tokens, as in prompt_tokens=%s",
		ErrColumns, what, listed(names), example)
}

// fieldError is a value that does not fit its field, before its place is known.
type fieldError struct {
	column string
	value  []byte
	col    int
	err    error
}

func (e *fieldError) Error() string { return fmt.Sprintf("column %q: %v", e.column, e.err) }
func (e *fieldError) Unwrap() error { return e.err }

// fatalError is one that SkipBad does not skip: the file as a whole is not what
// it was taken for.
type fatalError struct{ error }

func (e fatalError) Unwrap() error { return e.error }

// located turns an error of one row into a RowError, unless it is one; a fatal
// one keeps its kind.
func located(file string, line int64, err error) error {
	if errors.As(err, new(*RowError)) {
		return err
	}
	row := &RowError{File: file, Line: line, Err: err}
	var f *fieldError
	if errors.As(err, &f) {
		row.Col, row.Column, row.Value, row.Err = f.col, f.column, shorten(f.value), f.err
	}
	var fatal fatalError
	if errors.As(err, &fatal) {
		return fatalError{row}
	}
	return row
}
