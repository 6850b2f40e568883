package dataset

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// rowSource is one container being read. next fills the row, which is empty; it
// returns io.EOF at the end, a fatalError where reading cannot go on, and
// otherwise what is wrong with one row.
type rowSource interface {
	next(*Row) error
}

// Source yields rows until io.EOF: a [Reader], or what is laid over one. The row
// is valid until the next call.
type Source interface {
	Next() (*Row, error)
}

// Reader reads the rows of one file. It is not safe for concurrent use.
type Reader struct {
	name    string
	shape   shape
	o       Options
	set     *setter
	src     rowSource
	release []func()
	row     Row
	first   int64 // stamp of the first timed row
	begun   bool
	rows    int64
	skipped int64
	bad     error // the first row that was skipped
	end     error
}

// Open opens a file; of ServeGen, also the directory of its clients.
func Open(path string, o Options) (*Reader, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return openServeGen(path, o)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	r, err := New(f, path, o)
	if err != nil {
		f.Close()
		return nil, err
	}
	r.release = append(r.release, func() { f.Close() })
	return r, nil
}

// New reads from a stream; name is for messages. Parquet needs an io.ReaderAt
// that can seek, as a file is. The caller keeps the stream and closes it.
func New(rd io.Reader, name string, o Options) (*Reader, error) {
	r := &Reader{name: name, o: o}
	if err := r.open(rd); err != nil {
		r.Close()
		if errors.As(err, new(*RowError)) {
			return nil, err // it has the name
		}
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return r, nil
}

func (r *Reader) open(file io.Reader) error {
	rd, release, err := unpack(file)
	if err != nil {
		return err
	}
	r.release = append(r.release, release)
	in := newInput(rd, r.o.MaxRow)
	if r.o.Format == Text {
		return r.openText(in)
	}
	head, err := in.peek(maxSniff)
	if err != nil {
		return err
	}
	sn, err := look(head)
	if err != nil {
		return err
	}
	switch {
	case r.o.Format != "":
		given := shapeOf(r.o.Format)
		if given.format == "" {
			return fmt.Errorf("%w %q", ErrFormat, r.o.Format)
		}
		if given.in != sn.in && given.in != inAny {
			return fmt.Errorf("%w: %s is %s, but the file is %s", ErrFormat, given.format, given.in, sn.in)
		}
		sn.format = given.format
	case r.o.Columns != nil:
		sn.format = Columns
	}
	r.shape = shapeOf(sn.format)
	r.set = newSetter(r.shape, r.o)
	switch {
	case sn.in == inParquet:
		r.src, err = newParquet(file, r.set, r.o)
	case sn.format == ServeGen:
		r.src, err = newServeGenFile(in, r.name, r.o, r.skipper())
	case sn.in == inCSV:
		r.src, err = newCSV(in, sn, r.set, r.o)
	default:
		r.src, err = newJSON(in, sn, r.set, r.o, sn.format)
	}
	return err
}

// Close releases what the reader holds.
func (r *Reader) Close() {
	for _, f := range r.release {
		f()
	}
	r.release = nil
}

// Format that was found, or named.
func (r *Reader) Format() Format { return r.shape.format }

// Unit of the stamps and what says so. Both are empty until the first stamp was
// read, where only that tells.
func (r *Reader) Unit() (Unit, UnitSource) { return r.set.time.unit, r.set.time.from }

// Skipped is how many malformed rows were skipped, and the first one's error.
func (r *Reader) Skipped() (int64, error) { return r.skipped, r.bad }

// Next reads a row. It is valid until the next call. After the last it returns
// io.EOF; after a [RowError] it may be called again, for the row after. Other
// errors are final.
func (r *Reader) Next() (*Row, error) {
	if r.end != nil {
		return nil, r.end
	}
	for {
		r.row.reset()
		err := r.src.next(&r.row)
		if errors.Is(err, errNoRow) {
			continue
		}
		if err == nil {
			err = r.finish()
		}
		if err == nil {
			r.rows++
			return &r.row, nil
		}
		if err = r.sort(err); err != nil {
			return nil, err
		}
	}
}

// skipper counts what is skipped where rows are drawn of something else; nil if nothing
// may be.
func (r *Reader) skipper() func(error) {
	if !r.o.SkipBad {
		return nil
	}
	return func(err error) {
		r.skipped++
		var fatal fatalError
		if errors.As(err, &fatal) {
			err = fatal.error
		}
		if r.bad == nil {
			r.bad = err
		}
	}
}

// sort tells the kinds of errors apart: nil is a row that is skipped.
func (r *Reader) sort(err error) error {
	if errors.Is(err, io.EOF) && !errors.As(err, new(fatalError)) {
		r.end = io.EOF
		if r.rows == 0 && r.skipped > 0 {
			r.end = fmt.Errorf("none of %d rows could be read; the first: %w", r.skipped, r.bad)
		}
		return r.end
	}
	err = located(r.name, r.row.Line, err)
	var fatal fatalError
	if errors.As(err, &fatal) {
		r.end = fatal.error
		return r.end
	}
	if !r.o.SkipBad {
		return err
	}
	r.skipped++
	if r.bad == nil {
		r.bad = err
	}
	return nil
}

// finish checks the row as a whole.
func (r *Reader) finish() error {
	row := &r.row
	if row.PromptTokens == 0 || row.OutputTokens == 0 {
		row.Failed = true
	}
	for _, f := range r.o.Require {
		if f == FieldTime && !row.Timed ||
			f == FieldPromptTokens && row.PromptTokens == Unknown && !row.Failed ||
			f == FieldOutputTokens && row.OutputTokens == Unknown && !row.Failed {
			return &fieldError{column: string(f), err: errMissing}
		}
	}
	if row.Timed {
		if !r.begun {
			r.first, r.begun = row.stamp, true
		}
		row.At = duration(row.stamp - r.first)
		if err := r.checkSpan(row.At); err != nil {
			return err
		}
	}
	if row.BlockSize == 0 && len(row.HashIDs) > 0 {
		row.BlockSize = r.set.block
	}
	if len(row.HashIDs) == 0 || r.o.AnyBlocks || row.BlockSize == 0 || row.PromptTokens < 0 {
		return nil
	}
	if n, b, in := len(row.HashIDs), row.BlockSize, row.PromptTokens; n != in/b && n != (in+b-1)/b {
		return &fieldError{column: "hash_ids", err: fmt.Errorf("%w: %d ids of %d tokens against %d tokens, which are %d blocks",
			ErrBlocks, n, b, in, (in+b-1)/b)}
	}
	return nil
}

func (r *Reader) checkSpan(at time.Duration) error {
	limit := r.o.MaxSpan
	if limit == 0 {
		limit = max(r.shape.maxSpan, defaultMaxSpan)
	}
	if limit < 0 || at <= limit && at >= -limit {
		return nil
	}
	unit, from := r.Unit()
	return fatalError{fmt.Errorf("%w: this row is %.1f days from the first if stamps are %s (%s), more than %.1f: give their unit, or allow longer spans",
		ErrSpan, at.Hours()/24, unit, from, limit.Hours()/24)}
}
