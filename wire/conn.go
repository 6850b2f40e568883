package wire

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/assay-bench/assay/record"
)

// Sizes of one read, in bytes: at first, after a read that was full, and under
// TLS, where one record must fit.
const (
	smallRead = 4 << 10
	largeRead = 64 << 10
	tlsRead   = 16 << 10
)

// conn is one connection, and the exchange that runs on it.
type conn struct {
	link
	raw *stampConn
	top net.Conn // raw, or TLS over it

	dec      Decoder
	emitFunc func(Frame)
	readFunc func(p []byte, st ReadStamp) bool
	buf      []byte // nil while it is not needed
	readSize int

	// The exchange.
	ctx      context.Context
	stop     func() bool // the watch over ctx
	hidden   []string    // what no message may have
	sink     Sink
	total    record.Stamp   // when the total timeout runs out; 0: never
	limit    record.Outcome // the timeout that the deadline stands for
	frames   int
	terminal bool
	idleSet  record.Stamp // when the idle deadline was last set
	attempt  *record.Attempt
	bodyErr  error
	keep     bool // the connection can be used again after a complete reply
}

func (cn *conn) close() { cn.top.Close() }

// begin starts an exchange.
func (cn *conn) begin(ctx context.Context, a *record.Attempt, sink Sink, total record.Stamp) {
	cn.ctx, cn.attempt, cn.sink, cn.total, cn.bodyErr = ctx, a, sink, total, nil
	cn.frames, cn.terminal, cn.idleSet = 0, false, 0
	switch {
	case cn.buf != nil:
	case cn.readSize == smallRead:
		cn.buf = smallBuffers.Get().(*[smallRead]byte)[:]
	default:
		cn.buf = make([]byte, cn.readSize)
	}
}

// direct says that the body can be read right from the socket, in a buffer that
// is there only while there is something to read.
func (cn *conn) direct() bool { return cn.raw.rx != nil && cn.top == net.Conn(cn.raw) }

// giveBack gives up the buffer of the head.
func (cn *conn) giveBack() {
	if len(cn.buf) == smallRead {
		smallBuffers.Put((*[smallRead]byte)(cn.buf))
	}
	cn.buf = nil
}

// end forgets the exchange and what only a large one needed.
func (cn *conn) end() {
	cn.ctx, cn.stop, cn.hidden, cn.sink, cn.attempt, cn.bodyErr = nil, nil, nil, nil, nil, nil
	switch {
	case len(cn.buf) == largeRead:
		largeBuffers.Put((*[largeRead]byte)(cn.buf))
		cn.buf = nil
	case len(cn.buf) > tlsRead:
		cn.buf = nil
	}
}

// bound sets the deadline of a stage: at, or when the total timeout runs out if
// that is earlier; 0 for none. Kind is the outcome if it passes.
func (cn *conn) bound(kind record.Outcome, at record.Stamp) {
	if cn.total != 0 && (at == 0 || cn.total < at) {
		kind, at = record.TimeoutTotal, cn.total
	}
	cn.limit = kind
	var t time.Time
	if at != 0 {
		t = cn.client.cfg.Clock.Time(int64(at))
	}
	cn.raw.SetDeadline(t)
	// A cancellation between the last look and here has set its deadline too
	// early; one after here will set it again.
	if cn.ctx.Err() != nil {
		cn.raw.SetDeadline(longAgo)
	}
}

var longAgo = time.Unix(1, 0)

// after returns the moment d after s; 0, meaning never, if d is 0.
func after(s record.Stamp, d time.Duration) record.Stamp {
	if d <= 0 {
		return 0
	}
	return s.Add(d)
}

// pull reads once.
func (cn *conn) pull() ([]byte, ReadStamp, error) {
	n, st, err := cn.raw.pull(cn.top, cn.buf)
	return cn.buf[:max(n, 0)], st, err
}

// grow gets a larger buffer for the rest of the exchange if a read of n bytes
// has filled this one.
func (cn *conn) grow(n int) {
	if n == len(cn.buf) && n < largeRead {
		cn.buf = largeBuffers.Get().(*[largeRead]byte)[:]
	}
}

var smallBuffers = sync.Pool{New: func() any { return new([smallRead]byte) }}

var largeBuffers = sync.Pool{New: func() any { return new([largeRead]byte) }}

// emit hands an event to the sink.
func (cn *conn) emit(f Frame) {
	cn.frames++
	if cn.sink.Frame(f) {
		cn.endReply()
	}
}

// endReply tells the sink, once, that the slot is free.
func (cn *conn) endReply() {
	if !cn.terminal {
		cn.terminal = true
		cn.sink.Terminal()
	}
}

// explain makes the *Error of a failure. Limit is the timeout that was set; the
// text has none of the hidden values.
func (c *Client) explain(ctx context.Context, hidden []string, limit record.Outcome, err error) error {
	outcome, cause := record.StreamReset, err
	var known *Error
	isKnown := errors.As(err, &known)
	timeout := isDeadline(err)
	switch {
	case ctx.Err() != nil:
		outcome, cause = cancelled(ctx)
	case isKnown && (known.Outcome == record.ConnectDNS || known.Outcome == record.ConnectTCP || known.Outcome == record.ConnectTLS):
		outcome = known.Outcome
		if timeout {
			outcome = limit
		}
	case isKnown:
		outcome = known.Outcome
	case timeout:
		outcome = limit
	}
	text := cause.Error()
	if timeout && outcome == limit {
		text = c.timeoutText(limit)
	}
	return &Error{Outcome: outcome, Err: cause, text: redact(text, hidden)}
}

// cancelled says how an exchange ended that its caller cut off. The cause of
// the context may be an *Error, which then names the outcome.
func cancelled(ctx context.Context) (record.Outcome, error) {
	cause := context.Cause(ctx)
	var e *Error
	switch {
	case errors.As(cause, &e):
		return e.Outcome, cause
	case errors.Is(cause, context.DeadlineExceeded):
		return record.TimeoutTotal, cause
	}
	return record.Interrupted, cause
}

func (c *Client) timeoutText(limit record.Outcome) string {
	t := c.cfg.Timeouts
	switch limit {
	case record.TimeoutConnect:
		return "no connection within " + t.Connect.String()
	case record.TimeoutFirst:
		return "no event within " + t.First.String() + " of sending"
	case record.TimeoutIdle:
		return "the stream was silent for " + t.Idle.String()
	case record.TimeoutTotal:
		return "not finished within " + t.Total.String()
	}
	return "timeout"
}
