package dataset

import (
	"errors"
	"fmt"
	"unicode/utf8"
)

var errUTF8 = errors.New("is not UTF-8")

// textSource reads a prompt from every line that is not empty.
type textSource struct{ in *input }

func (s *textSource) next(row *Row) error {
	for {
		b, line, err := s.in.readLine()
		if row.Line = line; err != nil {
			return err
		}
		if skipSpace(b, 0) == len(b) {
			continue
		}
		if !utf8.Valid(b) {
			return &fieldError{value: b, err: errUTF8}
		}
		row.Text = string(b)
		return nil
	}
}

// openText takes any text: nothing in it says what it is.
func (r *Reader) openText(in *input) error {
	if r.o.Columns != nil {
		return fmt.Errorf("%w: %s has no columns", ErrFormat, Text)
	}
	head, err := in.peek(maxSniff)
	if err != nil {
		return err
	}
	if len(head) == 0 {
		return fmt.Errorf("%w: the file is empty", ErrFormat)
	}
	if isUTF16(head) {
		return errUTF16
	}
	r.shape = shapeOf(Text)
	r.set = newSetter(r.shape, r.o)
	r.src = &textSource{in}
	return nil
}
