//go:build amd64 || arm64

package wire

import (
	"bytes"
	"context"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/assay-bench/assay/record"
)

// streamState is what an exchange waits for.
type streamState uint8

const (
	refused streamState = iota // for nothing: it has failed before it began
	connecting
	sending // for room in the socket
	heading // for the head of the reply
	reading // for its body
)

// stream is one exchange on a loop. It belongs to the goroutine that starts it
// until it is handed to its worker.
type stream struct {
	timed
	loop   *Loop
	worker *worker
	sock   *socket

	ctx    context.Context
	a      *record.Attempt
	sink   Sink // nil: open a connection, no more
	done   func(error)
	method string
	hidden []string // what no message may have

	// In the tables of the worker.
	slot       int32
	watch      *watch
	next, prev *stream // of the same watch

	state    streamState
	entered  bool // counted as in use
	terminal bool
	asking   bool // the transmit stamp of the first write, until the reply begins
	idling   bool // the idle timeout rules
	reusable bool
	frames   int
	err      error          // of a refused one
	werr     error          // of a write
	limit    record.Outcome // the timeout that the deadline stands for
	begin    record.Stamp
	total    record.Stamp // when the total timeout runs out; 0: never
	lastRead record.Stamp

	dial *dialing      // while connecting
	out  *bytes.Buffer // while sending
	sent int           // bytes of it
	head []byte        // a part of a head
	scan headScan

	dec      Decoder
	emitFunc func(Frame)
}

// refuse hands over a stream that has failed before anything was sent.
func (s *stream) refuse(err error) {
	s.state, s.err = refused, err
	s.hand()
}

// hand gives the stream to its worker.
func (s *stream) hand() {
	if !s.worker.post(s) {
		s.finish(&Error{Outcome: record.NeverSent, Err: errClosed})
	}
}

// bound sets the deadline of a stage, as conn.bound does.
func (s *stream) bound(kind record.Outcome, at record.Stamp) {
	if s.total != 0 && (at == 0 || s.total < at) {
		kind, at = record.TimeoutTotal, s.total
	}
	s.limit, s.deadline = kind, at
	if s.slot != 0 { // the worker has it
		s.worker.deadlines.set(s, at)
	}
}

// ready is called when there is a connection: it begins to send.
func (s *stream) ready() {
	c := s.loop.client
	s.a.ConnReady, s.a.RemoteAddr = c.now(), s.sock.remote
	s.state = sending
	s.bound(record.TimeoutFirst, after(s.a.ConnReady, c.cfg.Timeouts.First))
	s.asking = c.verify()
	s.a.Sent = c.now()
	if s.asking {
		s.writeAsking()
	}
	s.write()
}

// writeAsking writes a first part with its transmit stamp asked for. Our own
// epoll is not led astray by a stamp that comes later; see worker.handle.
func (s *stream) writeAsking() {
	rest := s.out.Bytes()
	n, err := sendAsking(s.sock.fd, rest[:min(len(rest), askedPart)])
	if err != nil {
		return // what is wrong with the connection, the next write says, too
	}
	s.sent = n
	s.a.SentLast = s.loop.client.now()
	s.takeTransmit()
}

// takeTransmit takes the transmit stamp if it has come.
func (s *stream) takeTransmit() {
	wall, ok := takeTransmit(s.sock.fd)
	if ok && s.asking {
		s.asking = false
		s.a.SentKernel = s.loop.client.verified(wall, true)
	}
}

// write writes what the socket takes.
func (s *stream) write() {
	c := s.loop.client
	rest := s.out.Bytes()[s.sent:]
	for len(rest) > 0 {
		n, err := unix.Write(s.sock.fd, rest)
		s.a.SentLast = c.now()
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return
		case err != nil:
			// The server may have refused the request before it had all of it.
			s.werr = os.NewSyscallError("write", err)
			s.bound(record.TimeoutFirst, s.a.SentLast.Add(c.cfg.Drain))
			rest = nil
		default:
			s.sent += n
			rest = rest[n:]
		}
	}
	recycleRequest(s.out)
	s.out = nil
	s.sock.floor = max(s.sock.floor, s.a.Sent)
	s.state, s.scan = heading, headScan{limit: c.cfg.MaxHead}
}

// received takes the bytes of one read.
func (s *stream) received(b []byte, st ReadStamp) {
	if st.At < s.sock.floor {
		s.loop.client.stats.back.Add(1)
	}
	st.At = max(min(st.At, st.Read), s.sock.floor)
	s.sock.floor = st.At
	if s.state == heading {
		s.takeHead(b, st)
	} else {
		s.takeBody(b, st)
	}
}

func (s *stream) takeHead(b []byte, st ReadStamp) {
	whole := b
	if len(s.head) > 0 {
		s.head = append(s.head, b...)
		whole = s.head
	}
	resp, rest, err := s.scan.next(whole, s.method)
	if err != nil {
		s.finish(err)
		return
	}
	if resp == nil {
		if len(s.head) == 0 {
			s.head = append(s.head, b...)
		}
		return
	}
	s.head = nil
	s.a.Headers = st.At
	if s.asking {
		if s.takeTransmit(); s.asking {
			s.loop.client.verified(0, false)
		}
	}
	framing, transfer, err := s.sock.accept(s.a, resp, s.sink)
	if err != nil {
		s.finish(err)
		return
	}
	s.reusable = reusable(resp)
	s.state = reading
	s.dec.Reset(framing, transfer, s.loop.client.cfg.MaxEvent, s.emitFunc)
	s.takeBody(rest, st)
}

func (s *stream) takeBody(b []byte, st ReadStamp) {
	draining := s.terminal
	s.worker.lend(&s.dec)
	err := s.dec.Feed(b, st)
	s.worker.reclaim(&s.dec)
	switch {
	case err != nil:
		s.endBody(&Error{Outcome: record.NotDialect, Err: err})
	case s.dec.Ended():
		s.a.EOF = st.At
		s.endBody(nil)
	default:
		s.nextBound(draining, st)
	}
}

// nextBound moves the deadline on if the exchange has reached another stage.
func (s *stream) nextBound(draining bool, st ReadStamp) {
	c := s.loop.client
	s.lastRead = st.Read
	switch {
	case s.terminal && !draining:
		s.total = 0
		s.bound(record.TimeoutTotal, c.now().Add(c.cfg.Drain))
	case s.terminal || s.frames == 0:
	case !s.idling:
		s.idling = true
		s.bound(record.TimeoutIdle, after(st.Read, c.cfg.Timeouts.Idle))
	}
}

// expire takes a deadline that has passed, unless there is a reason to go on.
func (s *stream) expire(now record.Stamp) {
	if s.limit == record.TimeoutIdle && !s.terminal {
		if at := s.lastRead.Add(s.loop.client.cfg.Timeouts.Idle); at > now {
			s.bound(record.TimeoutIdle, at)
			return
		}
	}
	s.broken(os.ErrDeadlineExceeded)
}

// broken takes the end of the connection, of our patience or of the context.
func (s *stream) broken(err error) {
	switch s.state {
	case connecting:
		s.nextAddress(err)
	case sending:
		s.finish(fmt.Errorf("sending the request: %w", err))
	case heading:
		s.finish(s.sock.noReply(s.ctx, s.a, s.werr, headError(s.scan.have, err)))
	case reading:
		s.worker.lend(&s.dec)
		err = cutShort(&s.dec, s.a, err, s.loop.client.now())
		s.worker.reclaim(&s.dec)
		s.endBody(err)
	}
}

// endBody ends an exchange that had a head; after the terminal marker nothing
// is a failure.
func (s *stream) endBody(err error) {
	s.a.BodyBytes = s.dec.BodyBytes()
	finished := s.terminal
	s.endReply()
	s.sock.fit = err == nil && s.werr == nil && s.dec.Ended() && s.dec.Excess() == 0 && s.reusable
	if finished {
		err = nil
	}
	s.finish(err)
}

// emit hands an event to the sink.
func (s *stream) emit(f Frame) {
	s.frames++
	if s.sink.Frame(f) {
		s.endReply()
	}
}

// endReply tells the sink, once, that the slot is free.
func (s *stream) endReply() {
	if !s.terminal {
		s.terminal = true
		s.sink.Terminal()
	}
}

// finish ends the exchange and gives everything back.
func (s *stream) finish(err error) {
	c, w := s.loop.client, s.worker
	if err != nil {
		err = c.explain(s.ctx, s.hidden, s.timeout(), err)
	}
	w.forget(s)
	if s.sock != nil {
		s.loop.pool.settle(s.sock)
	}
	if s.entered {
		c.leave()
	}
	if s.out != nil {
		recycleRequest(s.out)
	}
	done := s.done
	w.inFlight.Add(-1)
	s.recycle()
	done(err)
}

// timeout is the outcome that a passed deadline means.
func (s *stream) timeout() record.Outcome {
	if s.state <= connecting {
		return s.loop.client.connectLimit(s.total)
	}
	return s.limit
}

// recycle keeps the stream for another exchange.
func (s *stream) recycle() {
	emit, pool := s.emitFunc, &s.loop.streams
	*s = stream{emitFunc: emit}
	pool.Put(s)
}
