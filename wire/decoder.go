package wire

import (
	"errors"
	"fmt"
	"io"

	"github.com/assay-bench/assay/record"
)

// DefaultMaxEvent is the largest event that is accepted unless a smaller or
// larger bound is asked for, in bytes.
const DefaultMaxEvent = 64 << 20

// Bounds on what a chunked body may hold beside its content, in bytes.
const (
	maxChunkLine = 16 << 10
	maxTrailer   = 64 << 10
)

// ErrTooLarge is returned for an event, or a whole body, above the bound.
var ErrTooLarge = errors.New("event exceeds the size limit")

// ErrChunk is returned for a chunked body whose framing is malformed.
var ErrChunk = errors.New("malformed chunked transfer coding")

// Transfer is how the end of a body is known (RFC 9112, section 6).
type Transfer struct {
	// Chunked bodies end with a chunk of length zero.
	Chunked bool
	// Length of the body in bytes if it is not chunked; below zero, the body
	// ends where the connection does.
	Length int64
}

type transferState uint8

const (
	inLength     transferState = iota // counted body bytes
	inClose                           // body bytes until the connection ends
	inSizeStart                       // first hex digit of a chunk size
	inSize                            // more hex digits
	inSizeExt                         // chunk extension, skipped
	inSizeLF                          // LF after the CR of the size line
	inChunk                           // counted chunk bytes
	inChunkCR                         // line end after a chunk
	inChunkLF                         // LF of it
	inTrailer                         // start of a trailer line
	inTrailerRow                      // rest of a trailer line
	inTrailerLF                       // LF that ends the trailer
	inNothing                         // the body has ended
)

// Decoder undoes the transfer coding of one body and splits its content into
// events. It is pure and incremental: any way of cutting a body into pieces
// gives the same events. It keeps its buffers when it is reset, and then
// allocates nothing for events that fit into them.
//
// SSE follows the WHATWG rules (LF, CRLF and CR end lines; one space after the
// colon is dropped; a byte order mark is skipped; an event without data is
// none) with two additions that serving engines need:
//
//   - A last event without its blank line is given at the end of the body if
//     it has data. If the body ended too early, this holds only for complete
//     lines: half a line is dropped.
//   - A line that starts with '{' where an event could start is bare JSON
//     (Gemini sends errors so). It is given as an event without a name, up to
//     its own end if it ends with '}', else up to the next line that starts
//     with '}', a blank line, or a line that starts with "data:" or "event:".
type Decoder struct {
	emit    func(Frame)
	framing Framing
	limit   int

	state   transferState
	chunked bool
	remain  int64 // bytes left of the chunk or the body
	digits  int   // of the chunk size, so far
	lineLen int   // of the chunk-size line or the trailer, so far
	err     error

	wire   int64 // wire bytes consumed
	mark   int64 // wire position at the end of the last event
	body   int64 // content bytes
	excess int64 // bytes after the end of the body

	st        ReadStamp
	completed int // events that the current feed completed

	// The event that the current feed completed last, held back until it is
	// known whether other bytes of events share its read.
	pending    Frame
	hasPending bool

	split splitter
}

// Reset prepares d for a new body. Limit bounds one event in bytes; 0 means
// DefaultMaxEvent. Emit is called for every event, from Feed and Close alone.
func (d *Decoder) Reset(framing Framing, t Transfer, limit int, emit func(Frame)) {
	if limit <= 0 {
		limit = DefaultMaxEvent
	}
	sp := d.split
	sp.reset()
	*d = Decoder{emit: emit, framing: framing, limit: limit, chunked: t.Chunked, split: sp}
	switch {
	case t.Chunked:
		d.state = inSizeStart
	case t.Length < 0:
		d.state = inClose
	default:
		d.state, d.remain = inLength, t.Length
	}
}

// Ended reports whether the body is known to be complete.
func (d *Decoder) Ended() bool { return d.state == inNothing }

// BodyBytes counts the content bytes so far, without the transfer coding.
func (d *Decoder) BodyBytes() int64 { return d.body }

// Rest counts the wire bytes since the last event: framing, comments, or an
// event that is not complete.
func (d *Decoder) Rest() int64 { return d.wire - d.mark }

// Excess counts bytes that were fed after the end of the body. A connection
// that brought any is not fit for reuse.
func (d *Decoder) Excess() int64 { return d.excess }

// Feed takes the next bytes of the body with the stamp of the read that
// brought them. It keeps no reference to b. After an error it only repeats it.
func (d *Decoder) Feed(b []byte, st ReadStamp) error {
	if d.err != nil {
		return d.err
	}
	d.st, d.completed = st, 0
	if d.state == inLength && d.remain == 0 {
		d.endBody()
	}
	for len(b) > 0 && d.state != inNothing && d.err == nil {
		b = b[d.step(b):]
	}
	if d.state == inNothing {
		d.excess += int64(len(b))
	}
	d.settle()
	d.flush(false)
	return d.err
}

// Close tells d that the connection has ended. It returns nil if the body was
// complete and io.ErrUnexpectedEOF if not.
func (d *Decoder) Close() error {
	switch {
	case d.err != nil:
		return d.err
	case d.state == inNothing:
		return nil
	case d.state == inClose, d.state == inLength && d.remain == 0:
		d.endBody()
		d.flush(false)
		return d.err
	}
	d.finish(false)
	d.flush(false)
	d.err = io.ErrUnexpectedEOF
	return d.err
}

// step consumes at least one byte of b and returns how many.
func (d *Decoder) step(b []byte) int {
	switch d.state {
	case inClose:
		d.content(b)
		return len(b)
	case inLength, inChunk:
		return d.counted(b)
	case inSizeStart, inSize, inSizeExt, inSizeLF:
		return d.sizeLine(b)
	case inTrailer, inTrailerRow, inTrailerLF:
		d.wire++
		d.trailer(b[0])
		return 1
	}
	// The line end after a chunk.
	d.wire++
	switch {
	case b[0] == '\n':
		d.state = inSizeStart
	case b[0] == '\r' && d.state == inChunkCR:
		d.state = inChunkLF
	default:
		d.fail(fmt.Errorf("%w: no line end after a chunk", ErrChunk))
	}
	return 1
}

func (d *Decoder) fail(err error) {
	if d.err == nil {
		d.err = err
	}
}

func (d *Decoder) counted(b []byte) int {
	n := int(min(int64(len(b)), d.remain))
	d.remain -= int64(n)
	d.content(b[:n])
	if d.remain > 0 || d.err != nil {
		return n
	}
	if d.chunked {
		d.state = inChunkCR
	} else {
		d.endBody()
	}
	return n
}

// sizeLine consumes bytes of a chunk-size line.
func (d *Decoder) sizeLine(b []byte) int {
	for i, c := range b {
		d.wire++
		d.lineLen++
		if d.lineLen > maxChunkLine {
			d.fail(fmt.Errorf("%w: chunk-size line too long", ErrChunk))
			return i + 1
		}
		if d.sizeByte(c) {
			return i + 1
		}
	}
	return len(b)
}

// sizeByte reports whether the line, or the hope of reading it, has ended.
func (d *Decoder) sizeByte(c byte) bool {
	if c == '\n' && d.state != inSizeStart {
		d.endSizeLine()
		return true
	}
	switch d.state {
	case inSizeExt:
		return false
	case inSizeLF:
		d.fail(fmt.Errorf("%w: CR without LF", ErrChunk))
		return true
	}
	if v, ok := unhex(c); ok {
		d.state = inSize
		d.digits++
		if d.digits > 15 {
			d.fail(fmt.Errorf("%w: chunk too large", ErrChunk))
			return true
		}
		d.remain = d.remain<<4 | int64(v)
		return false
	}
	switch {
	case d.state == inSize && c == '\r':
		d.state = inSizeLF
	case d.state == inSize && (c == ';' || c == ' ' || c == '\t'):
		d.state = inSizeExt
	default:
		d.fail(fmt.Errorf("%w: invalid chunk size", ErrChunk))
		return true
	}
	return false
}

func (d *Decoder) endSizeLine() {
	d.lineLen, d.digits = 0, 0
	d.state = inChunk
	if d.remain == 0 {
		d.state = inTrailer
	}
}

func unhex(c byte) (byte, bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10, true
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}

// trailer skips the trailer section, up to and including its empty line.
func (d *Decoder) trailer(c byte) {
	d.lineLen++
	switch {
	case d.lineLen > maxTrailer:
		d.fail(fmt.Errorf("%w: trailer too long", ErrChunk))
	case d.state == inTrailerLF && c != '\n':
		d.fail(fmt.Errorf("%w: CR without LF", ErrChunk))
	case c == '\n' && d.state != inTrailerRow:
		d.endBody()
	case c == '\n':
		d.state = inTrailer
	case c == '\r' && d.state == inTrailer:
		d.state = inTrailerLF
	default:
		d.state = inTrailerRow
	}
}

func (d *Decoder) endBody() {
	d.state = inNothing
	d.finish(true)
}

// flush gives the event that was held back. Shared says that bytes of another
// event are known to have come with it.
func (d *Decoder) flush(shared bool) {
	if !d.hasPending {
		return
	}
	f := d.pending
	d.pending, d.hasPending = Frame{}, false
	if shared {
		f.Flags |= record.FlagCoalesced
	}
	d.emit(f)
}

// complete makes an event that ends at wire position end. The frame before it
// must have been flushed.
func (d *Decoder) complete(name, data []byte, end int64) {
	f := Frame{Name: name, Data: data, At: d.st.At, Read: d.st.Read, WireBytes: int(end - d.mark)}
	d.mark = end
	if d.st.Kernel {
		f.Flags |= record.FlagKernel
	}
	if d.st.Shared || d.completed > 0 {
		f.Flags |= record.FlagCoalesced
	}
	d.completed++
	d.pending, d.hasPending = f, true
}
