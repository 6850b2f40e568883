package simserver

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"
)

const (
	maxHeaderBytes = 1 << 20
	maxBodyBytes   = 64 << 20
	// maxPending is how much a client may leave unread before it is cut off.
	maxPending = 512 << 20
)

var (
	errTooLarge = errors.New("request is too large")
	errGone     = errors.New("client is gone")
)

// budgetReader stops at a number of bytes that is set anew for each part of a request.
type budgetReader struct {
	r    io.Reader
	left int
}

func (b *budgetReader) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLarge
	}
	n, err := b.r.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// conn is one connection. Its goroutine reads requests, and while one is being
// answered waits for the client to leave. Answers are written by whoever has
// them: the engine's loop, or a goroutine of the moment.
type conn struct {
	srv *Server
	nc  net.Conn
	in  budgetReader
	br  *bufio.Reader

	mu       sync.Mutex
	fd       int    // of nc, open until broken is set; -1: every write goes through the flusher
	pending  []byte // what the socket has not taken yet
	flushing bool   // a flusher is on its way
	held     bool   // a fault: nothing is written for now
	drip     time.Duration
	broken   bool // nothing can be written any more
	closing  bool // close when all is written
	// received is when the first byte of the request at hand was there; of serve only.
	received int64
	current  *stream
}

func newConn(s *Server, nc net.Conn) *conn {
	c := &conn{srv: s, nc: nc, fd: descriptor(nc)}
	c.in.r = nc
	c.br = bufio.NewReader(&c.in)
	return c
}

// descriptor is that of a socket, or -1.
func descriptor(nc net.Conn) (fd int) {
	fd = -1
	if sc, ok := nc.(syscall.Conn); ok {
		if raw, err := sc.SyscallConn(); err == nil {
			// It fails on a closed socket, and then there is none.
			_ = raw.Control(func(open uintptr) { fd = int(open) })
		}
	}
	return fd
}

// serve answers requests until the client leaves, misbehaves, or is idle for too long.
func (c *conn) serve() {
	for {
		c.in.left = maxHeaderBytes
		// After the first answer this wait has the keep-alive deadline.
		if _, err := c.br.Peek(1); err != nil {
			break
		}
		c.received = c.srv.clk.Now()
		c.nc.SetReadDeadline(time.Time{})
		req, err := http.ReadRequest(c.br)
		if err != nil {
			c.refuse(err)
			break
		}
		if !c.handle(req) {
			break
		}
	}
	c.finishWrites()
}

// finishWrites lets what is queued go out, then closes.
func (c *conn) finishWrites() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken || (len(c.pending) == 0 && !c.flushing) {
		c.shut()
		return
	}
	c.closing = true
}

// refuse answers bytes that are no request.
func (c *conn) refuse(err error) {
	status, text := "400 Bad Request", "Invalid HTTP request received."
	if errors.Is(err, errTooLarge) {
		status, text = "431 Request Header Fields Too Large", "Request headers are too large."
	} else if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
		return
	}
	c.send([]byte("HTTP/1.1 " + status + "\r\ncontent-type: text/plain; charset=utf-8\r\nconnection: close\r\n\r\n" + text))
}

// readBody reads the whole body, asking for it first if the client waits to be asked.
func (c *conn) readBody(req *http.Request) ([]byte, error) {
	defer req.Body.Close()
	if req.ContentLength > maxBodyBytes {
		return nil, errTooLarge
	}
	if req.Header.Get("Expect") == "100-continue" {
		c.send([]byte("HTTP/1.1 100 Continue\r\n\r\n"))
	}
	c.in.left = maxBodyBytes
	return io.ReadAll(req.Body)
}

// send makes one write call, which does not wait. What the socket does not take
// is queued for a flusher; direct is false then.
func (c *conn) send(b []byte) (direct bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sendLocked(b)
}

func (c *conn) sendLocked(b []byte) (direct bool, err error) {
	if c.broken {
		return false, errGone
	}
	if c.fd >= 0 && len(c.pending) == 0 && !c.flushing && !c.held && c.drip == 0 {
		n, err := writeNow(c.fd, b)
		if err != nil {
			c.broken = true
			return false, errGone
		}
		if b = b[n:]; len(b) == 0 {
			return true, nil
		}
	}
	if len(c.pending)+len(b) > maxPending {
		c.shut()
		return false, errGone
	}
	c.pending = append(c.pending, b...)
	c.startFlush()
	return false, nil
}

func (c *conn) startFlush() {
	if c.flushing || c.held || c.broken || len(c.pending) == 0 {
		return
	}
	c.flushing = true
	c.srv.wg.Go(c.flush)
}

// flush writes what is queued, waiting for the socket.
func (c *conn) flush() {
	for {
		c.mu.Lock()
		b, pause := c.pending, time.Duration(0)
		c.pending = nil
		if c.drip > 0 && len(b) > DripBytes {
			b, c.pending = b[:DripBytes], b[DripBytes:]
		}
		if c.drip > 0 {
			pause = c.drip
		}
		if len(b) == 0 || c.broken {
			c.flushing = false
			if c.closing {
				c.shut()
			}
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
		if _, err := c.nc.Write(b); err != nil {
			c.mu.Lock()
			c.broken = true
			c.mu.Unlock()
		}
		if pause > 0 {
			timer := time.NewTimer(pause)
			select {
			case <-timer.C:
			case <-c.srv.quit:
				timer.Stop()
			}
		}
	}
}

// hold stops all writing for d.
func (c *conn) hold(d time.Duration) {
	c.mu.Lock()
	c.held = true
	c.mu.Unlock()
	time.AfterFunc(d, c.release)
}

// release undoes a hold.
func (c *conn) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = false
	c.startFlush()
}

// sendSplit makes n write calls of about the same size.
func (c *conn) sendSplit(b []byte, n int) (direct bool, err error) {
	direct = true
	for n = min(n, len(b)); n > 0 && err == nil; n-- {
		piece := len(b) / n
		var now bool
		now, err = c.send(b[:piece])
		direct = direct && now
		b = b[piece:]
	}
	return direct, err
}

// shut closes the connection at once; nothing else does. c.mu is held.
func (c *conn) shut() {
	c.broken = true
	c.pending = nil
	c.nc.Close()
	c.srv.forget(c)
}

// reset closes the connection so that the peer sees RST.
func (c *conn) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if tcp, ok := c.nc.(*net.TCPConn); ok {
		tcp.SetLinger(0) // an error means that it is closed already
	}
	c.shut()
}

// watch waits until st has been answered, or the client has left, whichever is
// first. It reports whether the connection can take another request.
func (c *conn) watch(st *stream) bool {
	c.in.left = maxHeaderBytes
	_, err := c.br.Peek(1)
	if err == nil {
		// A pipelined request, or the next one: it waits for its turn.
		<-st.over
		return !st.close
	}
	c.mu.Lock()
	left := c.current == st
	if left {
		c.broken = true
		c.current = nil
	}
	c.mu.Unlock()
	if left {
		st.leave()
	}
	return false
}

// answered ends the turn of st after its last write. c.mu is not held.
func (c *conn) answered(st *stream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current != st {
		return // the client left first
	}
	c.current = nil
	c.drip = 0
	if st.close {
		c.closing = true
		if len(c.pending) == 0 && !c.flushing {
			c.shut()
		}
	} else {
		// Before over is closed: the reader clears it for the next request.
		c.nc.SetReadDeadline(c.srv.clk.Time(c.srv.clk.Now() + int64(c.srv.cfg.KeepAlive)))
	}
	close(st.over)
}
