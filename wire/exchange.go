package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/assay-bench/assay/record"
)

// Do sends one request and hands its reply to the sink, in the goroutine of the
// caller. It fills in of the attempt: ConnReady, Sent, SentLast, SentKernel (of
// those that are asked), Headers, EOF, DNS, Connect, TLS, ConnReused, RemoteAddr, Status and BodyBytes; DNS is that
// of the one attempt that resolved the name.
//
// It returns nil if the body ended properly or the sink saw the terminal
// marker, whatever the status, and else an *Error with the row of the ledger
// for what happened to the transport. After the terminal marker it reads on to
// the end of the body for a bounded time, so that the connection can be used
// again; what happens then is no failure.
//
// When ctx ends, the exchange is cut off. The outcome is that of the context's
// cause if it is an *Error, timeout_total if it was a deadline, and interrupted
// otherwise.
//
// An outcome of stale_connection means that a reused connection died before the
// first byte of a reply: the caller may try again.
func (c *Client) Do(ctx context.Context, a *record.Attempt, req *Request, sink Sink) error {
	// A stream is long and there may be thousands: neither req, whose body is
	// large, nor what preparing it took of the stack lasts as long.
	method := req.Method
	cn, out, err := c.prepare(ctx, a, req, sink)
	if err != nil {
		return err
	}
	return cn.finish(cn.receive(method, cn.dispatch(out)))
}

// Start is the first half of [Client.Do] where that needs no waiting: if an unused
// connection is there, the request is sent on it before Start returns, in the
// goroutine of the caller, and finish does the rest. So a pacer sends at the very
// moment at which it wakes, not when another thread has. Without such a connection
// nothing has happened (ok is false), and Do is to be called.
//
// The write waits if the request does not fit into the socket's buffer: what is
// larger than a few kilobytes is better left to Do.
func (c *Client) Start(ctx context.Context, a *record.Attempt, req *Request, sink Sink) (finish func() error, ok bool) {
	if req.Fresh {
		return nil, false
	}
	total := after(c.now(), c.cfg.Timeouts.Total)
	out := requestBuffers.Get().(*bytes.Buffer)
	if c.encode(out, req) != nil {
		recycleRequest(out)
		return nil, false // Do says what is wrong
	}
	cn, ok := c.unused()
	if !ok {
		recycleRequest(out)
		return nil, false
	}
	a.ConnReused, a.ConnReady, a.RemoteAddr = true, c.now(), cn.remote
	cn.begin(ctx, a, sink, total)
	cn.hidden = hiddenValues(req.Header)
	cn.stop = context.AfterFunc(ctx, cn.cut)
	method := req.Method
	werr := cn.dispatch(out)
	return func() error { return cn.finish(cn.receive(method, werr)) }, true
}

// prepare encodes the request, gets a connection for it and begins the exchange.
func (c *Client) prepare(ctx context.Context, a *record.Attempt, req *Request, sink Sink) (*conn, *bytes.Buffer, error) {
	total := after(c.now(), c.cfg.Timeouts.Total)
	hidden := hiddenValues(req.Header)
	out := requestBuffers.Get().(*bytes.Buffer)
	if err := c.encode(out, req); err != nil {
		recycleRequest(out)
		return nil, nil, c.explain(ctx, hidden, "", &Error{Outcome: record.NeverSent, Err: fmt.Errorf("building the request: %w", err)})
	}
	cn, err := c.connection(ctx, a, req.Fresh, total)
	if err != nil {
		recycleRequest(out)
		return nil, nil, c.explain(ctx, hidden, c.connectLimit(total), err)
	}
	cn.begin(ctx, a, sink, total)
	cn.hidden = hidden
	cn.stop = context.AfterFunc(ctx, cn.cut)
	return cn, out, nil
}

// finish ends the exchange and gives the connection back.
func (cn *conn) finish(err error) error {
	c := cn.client
	if err != nil {
		err = c.explain(cn.ctx, cn.hidden, cn.limit, err)
	}
	if !cn.stop() {
		cn.fit = false // its deadline may yet be moved
	}
	cn.end()
	c.release(cn)
	return err
}

// cut ends the exchange.
func (cn *conn) cut() { cn.raw.SetDeadline(longAgo) }

// connectLimit is the timeout that a connection which took too long has hit.
func (c *Client) connectLimit(total record.Stamp) record.Outcome {
	if total != 0 && c.now() >= total {
		return record.TimeoutTotal
	}
	return record.TimeoutConnect
}

// connection gets a connection and notes what it took.
func (c *Client) connection(ctx context.Context, a *record.Attempt, fresh bool, total record.Stamp) (*conn, error) {
	if total != 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, c.cfg.Clock.Time(int64(total)))
		defer cancel()
	}
	var t timings
	cn, reused, err := c.acquire(ctx, fresh, &t)
	a.DNS, a.Connect, a.TLS, a.ConnReused = t.dns, t.connect, t.tls, reused
	if err != nil {
		return nil, err
	}
	a.ConnReady, a.RemoteAddr = c.now(), cn.remote
	return cn, nil
}

// receive takes the reply to a request whose sending ended with werr.
func (cn *conn) receive(method string, werr error) error {
	more, err := cn.reply(method, werr)
	if err != nil {
		return err
	}
	err = cn.body(more)
	cn.attempt.BodyBytes = cn.dec.BodyBytes()
	finished := cn.terminal
	cn.endReply()
	cn.fit = err == nil && cn.keep && cn.dec.Ended() && cn.dec.Excess() == 0
	if finished {
		return nil
	}
	return err
}

// dispatch sends out, and gives that buffer back: a long stream must not hold it.
func (cn *conn) dispatch(out *bytes.Buffer) error {
	cn.bound(record.TimeoutFirst, after(cn.raw.now(), cn.client.cfg.Timeouts.First))
	err := cn.send(cn.attempt, out.Bytes())
	recycleRequest(out)
	return err
}

// reply takes the head of the reply, with what came behind it; more says that the
// body goes on.
func (cn *conn) reply(method string, werr error) (more bool, err error) {
	a := cn.attempt
	if werr != nil && cn.expiredOrCut(werr) {
		return false, fmt.Errorf("sending the request: %w", werr)
	}
	if werr != nil {
		// The server may have refused the request before it had all of it.
		cn.raw.SetDeadline(time.Time{})
		cn.bound(record.TimeoutFirst, cn.raw.now().Add(cn.client.cfg.Drain))
	}
	h, err := cn.readHead(method)
	if err != nil {
		return false, cn.noReply(cn.ctx, a, werr, err)
	}
	a.Headers = h.st.At
	if cn.raw.asking {
		a.SentKernel = cn.client.verified(cn.raw.tx.collect())
	}
	framing, transfer, err := cn.accept(a, h.resp, cn.sink)
	if err != nil {
		return false, err
	}
	cn.keep = werr == nil && reusable(h.resp)
	cn.dec.Reset(framing, transfer, cn.client.cfg.MaxEvent, cn.emitFunc)
	return cn.read(h.rest, h.st), nil
}

// accept takes the head of a reply, and says how its body is read.
func (k *link) accept(a *record.Attempt, resp *http.Response, sink Sink) (Framing, Transfer, error) {
	k.afterStream(true)
	k.streamed = false
	a.Status = resp.StatusCode
	k.learn(resp.Header)
	if ce := resp.Header.Get("Content-Encoding"); ce != "" && !strings.EqualFold(ce, "identity") {
		return 0, Transfer{}, &Error{Outcome: record.NotDialect, Err: fmt.Errorf("the reply is compressed (Content-Encoding: %.40s) though identity was asked for", ce)}
	}
	transfer := transferOf(resp)
	framing, err := sink.Head(resp)
	var known *Error
	if err != nil && !errors.As(err, &known) {
		err = &Error{Outcome: record.NotDialect, Err: err}
	}
	k.streamed = err == nil && framing != Whole
	return framing, transfer, err
}

// reusable reports whether the connection may carry another request after a
// complete reply with this head.
func reusable(resp *http.Response) bool { return !resp.Close && resp.ProtoAtLeast(1, 1) }

// send writes the request in as few raw writes as TLS allows.
func (cn *conn) send(a *record.Attempt, out []byte) error {
	cn.raw.arm(cn.client.verify())
	_, err := cn.top.Write(out)
	cn.raw.disarm()
	a.Sent, a.SentLast = cn.raw.sent, cn.raw.sentLast
	return err
}

// expiredOrCut reports whether a write failed by our own deadline.
func (cn *conn) expiredOrCut(err error) bool {
	return cn.ctx.Err() != nil || isDeadline(err)
}

// noReply explains a missing head. Of two errors the write's is the cause.
func (k *link) noReply(ctx context.Context, a *record.Attempt, werr, err error) error {
	var known *Error
	if errors.As(err, &known) {
		return err
	}
	silent := errors.Is(err, errNoReply) || isReset(err)
	if werr != nil {
		silent, err = true, fmt.Errorf("sending the request: %w", werr)
	}
	if !silent || ctx.Err() != nil {
		return err
	}
	if a.ConnReused {
		k.client.stats.stale.Add(1)
		k.afterStream(false)
		return &Error{Outcome: record.StaleConnection, Err: fmt.Errorf("reused connection: %w", err)}
	}
	return &Error{Outcome: record.StreamReset, Err: err}
}

// body reads to the end of the body, or after the terminal marker as far as
// the drain bound allows.
func (cn *conn) body(more bool) error {
	direct := cn.direct()
	if direct {
		cn.giveBack()
	}
	for n := 0; more; {
		var err error
		if direct {
			more, err = cn.raw.stream(cn.readFunc)
		} else {
			cn.grow(n)
			n, more, err = cn.readAgain()
		}
		if more && err != nil {
			return cutShort(&cn.dec, cn.attempt, err, cn.raw.now())
		}
	}
	return cn.bodyErr
}

// readAgain reads once into the buffer of the connection.
func (cn *conn) readAgain() (n int, more bool, err error) {
	b, st, err := cn.pull()
	if len(b) == 0 {
		return 0, true, err
	}
	return len(b), cn.read(b, st), err
}

// read takes the next bytes of the body, and reports whether to read on; if not,
// cn.bodyErr says why.
func (cn *conn) read(b []byte, st ReadStamp) (more bool) {
	draining := cn.terminal
	if err := cn.dec.Feed(b, st); err != nil {
		cn.bodyErr = &Error{Outcome: record.NotDialect, Err: err}
		return false
	}
	if cn.dec.Ended() {
		cn.attempt.EOF = st.At
		return false
	}
	cn.nextBound(draining, st)
	return true
}

// nextBound moves the deadline on if the exchange has reached another stage.
func (cn *conn) nextBound(draining bool, st ReadStamp) {
	switch {
	case cn.terminal && !draining:
		cn.total = 0
		cn.bound(record.TimeoutTotal, cn.raw.now().Add(cn.client.cfg.Drain))
	case cn.terminal || cn.frames == 0:
	case cn.idleSet == 0 || time.Duration(st.Read-cn.idleSet) > cn.client.cfg.Timeouts.Idle/4:
		idle := cn.client.cfg.Timeouts.Idle
		if cn.idleSet != 0 && idle == 0 {
			return
		}
		cn.idleSet = st.Read
		cn.bound(record.TimeoutIdle, after(st.Read, idle+idle/4))
	}
}

// cutShort takes the end of the connection inside a body, or of our patience.
func cutShort(dec *Decoder, a *record.Attempt, err error, now record.Stamp) error {
	if !isEOF(err) {
		return fmt.Errorf("reading the body: %w", err)
	}
	torn := errors.Is(err, io.ErrUnexpectedEOF) // inside a TLS record
	err = dec.Close()
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), err == nil && torn:
		return &Error{Outcome: record.Truncated, Err: errors.New("the server closed the connection in the middle of the body")}
	case err != nil:
		return &Error{Outcome: record.NotDialect, Err: err}
	}
	a.EOF = now
	return nil
}

// isEOF reports whether the peer ended the connection in order.
func isEOF(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
