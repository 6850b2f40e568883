package dataset

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// input is a stream that is read by lines or by JSON values, with one buffer
// that grows to the largest of them.
type input struct {
	rd    io.Reader
	buf   []byte
	r, w  int
	last  int   // bytes of the line just read, before r
	line  int64 // of buf[r], from 1
	err   error // of rd: io.EOF at the end
	limit int   // bytes of a row
}

const (
	firstBuffer = 256 << 10
	emptyReads  = 100 // without data, until the stream is given up
)

func newInput(rd io.Reader, limit int) *input {
	if limit <= 0 {
		limit = defaultMaxRow
	}
	return &input{rd: rd, buf: make([]byte, firstBuffer), line: 1, limit: limit}
}

// unpack looks at the first bytes and undoes gzip or zstd. The function releases
// what it holds.
func unpack(rd io.Reader) (io.Reader, func(), error) {
	var head [4]byte
	n, err := io.ReadFull(rd, head[:])
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, nil, err
	}
	whole := io.MultiReader(bytes.NewReader(head[:n:n]), rd)
	switch {
	case bytes.HasPrefix(head[:n], []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(whole)
		if err != nil {
			return nil, nil, fmt.Errorf("gzip: %w", err)
		}
		return unpacked{z, "gzip"}, func() { z.Close() }, nil
	case bytes.Equal(head[:n], []byte{0x28, 0xb5, 0x2f, 0xfd}):
		// One decoder and a bounded window: a trace is read beside a measurement.
		z, err := zstd.NewReader(whole, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(256<<20))
		if err != nil {
			return nil, nil, fmt.Errorf("zstd: %w", err)
		}
		return unpacked{z, "zstd"}, z.Close, nil
	}
	return whole, func() {}, nil
}

// unpacked says which packing is broken, and that a file is cut off.
type unpacked struct {
	rd   io.Reader
	name string
}

func (u unpacked) Read(p []byte) (int, error) {
	n, err := u.rd.Read(p)
	switch {
	case err == nil || errors.Is(err, io.EOF):
	case errors.Is(err, io.ErrUnexpectedEOF):
		err = fmt.Errorf("the %s stream ends too soon: the file is cut off", u.name)
	default:
		err = fmt.Errorf("the %s stream is broken: %w", u.name, err)
	}
	return n, err
}

// fill reads more behind what is there. It is false when nothing more comes.
func (in *input) fill() bool {
	if in.err != nil {
		return false
	}
	if in.r > 0 {
		copy(in.buf, in.buf[in.r:in.w])
		in.w -= in.r
		in.r = 0
	}
	if in.w == len(in.buf) {
		in.buf = append(in.buf, make([]byte, len(in.buf))...)
	}
	for range emptyReads {
		n, err := in.rd.Read(in.buf[in.w:])
		in.w += n
		in.err = err
		if n > 0 || err != nil {
			return n > 0
		}
	}
	in.err = io.ErrNoProgress
	return false
}

// peek is the first bytes, at most n, without reading them; a byte order mark is
// dropped.
func (in *input) peek(n int) ([]byte, error) {
	for in.w-in.r < n && in.fill() {
	}
	if in.err != nil && !errors.Is(in.err, io.EOF) {
		return nil, in.err
	}
	if bytes.HasPrefix(in.buf[in.r:in.w], []byte("\xef\xbb\xbf")) {
		in.r += 3
	}
	return in.buf[in.r:min(in.w, in.r+n)], nil
}

// errLong is a row that is not held.
type errLong int

func (e errLong) Error() string { return fmt.Sprintf("row is longer than %d bytes", int(e)) }

// readLine returns the next line without its end, and its number. It is valid
// until the next call. At the end it returns io.EOF. A line that is too long is
// passed over.
func (in *input) readLine() ([]byte, int64, error) {
	b, line, err := in.readLines(0)
	if err != nil && errors.As(err, new(errLong)) {
		in.skipLine()
	}
	return b, line, err
}

// skipLine goes on to the next line.
func (in *input) skipLine() {
	for {
		if i := bytes.IndexByte(in.buf[in.r:in.w], '\n'); i >= 0 {
			in.r += i + 1
			in.line++
			return
		}
		if in.r = in.w; !in.fill() {
			return
		}
	}
}

// extend returns the line just read with the one behind it: a quoted field goes
// on there. It is io.EOF if there is none. With an error, what was read stays.
func (in *input) extend() ([]byte, error) {
	n := in.last
	in.r -= n
	b, _, err := in.readLines(n)
	if err != nil {
		in.r += n
		return nil, err
	}
	if in.last == n {
		return nil, io.EOF
	}
	return b, nil
}

// backTo goes back to where the first n bytes of what was just read ended, in front
// of that line.
func (in *input) backTo(n int, line int64) {
	in.r += n - in.last
	in.last, in.line = n, line
}

// readLines reads to the end of the line that begins after from bytes.
func (in *input) readLines(from int) ([]byte, int64, error) {
	for {
		if i := bytes.IndexByte(in.buf[in.r+from:in.w], '\n'); i >= 0 {
			return in.take(from + i + 1)
		}
		from = in.w - in.r
		if from > in.limit {
			return nil, in.line, errLong(in.limit)
		}
		if in.fill() {
			continue
		}
		if !errors.Is(in.err, io.EOF) {
			return nil, in.line, fatalError{in.err}
		}
		if from == 0 {
			return nil, in.line, io.EOF
		}
		return in.take(from)
	}
}

// take consumes n bytes, and returns them without the end of line.
func (in *input) take(n int) ([]byte, int64, error) {
	if n > in.limit+2 {
		return nil, in.line, errLong(in.limit)
	}
	b, line := in.buf[in.r:in.r+n], in.line
	in.r += n
	in.last = n
	if len(b) > 0 && b[len(b)-1] == '\n' {
		in.line++
		b = b[:len(b)-1]
	}
	if len(b) > 0 && b[len(b)-1] == '\r' {
		b = b[:len(b)-1]
	}
	return b, line, nil
}

// readValue returns the next JSON value of a stream of them, with or without
// commas between, and its line. A bracket that closes what is not open ends the
// stream: that of the array around the values.
func (in *input) readValue() ([]byte, int64, error) {
	if err := in.skipSpace(); err != nil {
		return nil, in.line, err
	}
	if in.buf[in.r] == ']' {
		in.r++
		if err := in.skipSpace(); !errors.Is(err, io.EOF) {
			if err != nil {
				return nil, in.line, err
			}
			return nil, in.line, fatalError{errors.New("something follows the end of the array")}
		}
		return nil, in.line, io.EOF
	}
	line := in.line
	n, err := in.valueEnd()
	if err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = fmt.Errorf("the value that begins here does not end in the %d bytes that follow", in.w-in.r)
			in.r = in.w
		}
		return nil, line, err
	}
	b := in.buf[in.r : in.r+n]
	in.r += n
	in.line += int64(bytes.Count(b, []byte("\n")))
	return b, line, nil
}

// skipSpace goes on to the next byte that is neither space nor comma.
func (in *input) skipSpace() error {
	for {
		for in.r < in.w {
			switch in.buf[in.r] {
			case '\n':
				in.line++
			case ' ', '\t', '\r', ',':
			default:
				return nil
			}
			in.r++
		}
		if in.fill() {
			continue
		}
		if errors.Is(in.err, io.EOF) {
			return io.EOF
		}
		return fatalError{in.err}
	}
}

// valueEnd is the length of the value at in.r: to the bracket that closes its
// first one, or to the end of the line if it begins with none.
func (in *input) valueEnd() (int, error) {
	depth, text, escaped := 0, false, false
	for i := 0; ; i++ {
		if in.r+i == in.w {
			if i > in.limit {
				return 0, fatalError{errLong(in.limit)} // where the next one begins is not known
			}
			if !in.fill() {
				if !errors.Is(in.err, io.EOF) {
					return 0, fatalError{in.err}
				}
				if depth > 0 {
					return 0, io.ErrUnexpectedEOF
				}
				return i, nil
			}
		}
		c := in.buf[in.r+i]
		switch {
		case escaped:
			escaped = false
		case text:
			escaped = c == '\\'
			text = c != '"'
		case c == '"':
			text = true
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
			if depth <= 0 {
				return i + 1, nil
			}
		case depth == 0 && (c == '\n' || c == ','):
			return i, nil
		}
	}
}
