package wire

import (
	"net"
	"sync/atomic"

	"github.com/assay-bench/assay/internal/clock"
	"github.com/assay-bench/assay/record"
)

// stampConn is a connection that stamps its raw reads and writes. It lies
// below TLS. Only one goroutine may use it, but for Close and the deadlines.
type stampConn struct {
	net.Conn
	clock *clock.Clock
	rx    *receiver // reads with the kernel's stamps; nil: user space

	// The latest raw read.
	reads  uint64 // how many there were
	last   ReadStamp
	floor  record.Stamp  // no later read is stamped before this
	back   *atomic.Int64 // counts those that would have been; nil: nobody does
	behind bool          // more bytes came with, or were queued behind, the first record

	tls bool // raw bytes are TLS records
	rec recordTracker

	// Writes, while armed. The first one is asked its transmit stamp if it is to be.
	armed, asking  bool
	sent, sentLast record.Stamp
	tx             *transmitter // nil: no transmit stamps
}

func newStampConn(c net.Conn, clk *clock.Clock) *stampConn {
	return &stampConn{Conn: c, clock: clk}
}

func (c *stampConn) now() record.Stamp { return record.Stamp(c.clock.Now()) }

// arm makes the next raw write the start of a request. Asking is to take its
// transmit stamp, where there are any.
func (c *stampConn) arm(asking bool) {
	c.armed, c.asking, c.sent, c.sentLast = true, asking && c.tx != nil, 0, 0
}

// disarm ends a request: later writes are not part of it. No reply can be
// stamped before its request was.
func (c *stampConn) disarm() {
	c.armed = false
	c.floor = max(c.floor, c.sent)
}

func (c *stampConn) Write(p []byte) (int, error) {
	if !c.armed {
		return c.Conn.Write(p)
	}
	first := 0
	if c.sent == 0 {
		c.sent = c.now()
		if c.asking {
			var err error
			if first, err = c.tx.write(p); err != nil || first == len(p) {
				c.sentLast = c.now()
				return first, err
			}
		}
	}
	n, err := c.Conn.Write(p[first:])
	c.sentLast = c.now()
	return first + n, err
}

func (c *stampConn) Read(p []byte) (int, error) {
	n, st, err := c.receive(p)
	if n <= 0 {
		return n, err
	}
	c.note(&st)
	c.behind = st.Shared
	if c.tls && c.rec.advance(p[:n]) {
		c.behind = true
	}
	c.last = st
	return n, err
}

// note counts a raw read and settles its stamp.
func (c *stampConn) note(st *ReadStamp) {
	c.reads++
	// Stamps never go back: after loss the kernel's may.
	if st.At < c.floor && c.back != nil {
		c.back.Add(1)
	}
	st.At = max(min(st.At, st.Read), c.floor)
	c.floor = st.At
}

// stream reads until take returns false, without a layer between; see receiver.
func (c *stampConn) stream(take func(p []byte, st ReadStamp) bool) (more bool, err error) {
	return c.rx.stream(c, take)
}

// receive is one raw read. Shared in its stamp says that more bytes were queued.
func (c *stampConn) receive(p []byte) (int, ReadStamp, error) {
	if c.rx != nil {
		return c.rx.read(p, c.clock)
	}
	n, err := c.Conn.Read(p)
	now := c.now()
	// A full read leaves open whether more was queued; assume that it was.
	return n, ReadStamp{At: now, Read: now, Shared: n == len(p)}, err
}

// pull reads from top, which is c or TLS over c, by the last-read rule.
func (c *stampConn) pull(top net.Conn, p []byte) (int, ReadStamp, error) {
	before := c.reads
	n, err := top.Read(p)
	st := c.last
	st.Shared = c.behind || c.reads == before
	return n, st, err
}

// recordTracker follows the borders of TLS records (RFC 8446, section 5.1) in
// the raw bytes.
type recordTracker struct {
	header [5]byte
	have   int // header bytes
	left   int // payload bytes
}

// advance takes the bytes of a raw read and reports whether a record ended
// before the last of them.
func (t *recordTracker) advance(p []byte) (behind bool) {
	for len(p) > 0 {
		if t.have < len(t.header) {
			n := copy(t.header[t.have:], p)
			t.have += n
			p = p[n:]
			if t.have < len(t.header) {
				return behind
			}
			t.left = int(t.header[3])<<8 | int(t.header[4])
		}
		n := min(t.left, len(p))
		t.left -= n
		p = p[n:]
		if t.left > 0 {
			return behind
		}
		t.have = 0
		behind = behind || len(p) > 0
	}
	return behind
}
