package metronome

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strconv"
	"sync"

	"github.com/assay-bench/assay/internal/clock"
)

// Server writes streams. See [New].
type Server struct {
	// TLS, if it is set before Serve, is spoken on every connection.
	TLS *tls.Config

	clock *clock.Clock
	zero  int64 // CLOCK_MONOTONIC at stamp 0
	pacer *clock.Pacer

	mu       sync.Mutex
	incoming []*stream // for the writer
	held     []*stream // until /start
	quit     bool
	conns    map[net.Conn]struct{}
	log      []*stream // that have ended
	payloads map[int][]byte
}

// ErrNoSharedClock is returned where processes have no clock in common.
var ErrNoSharedClock = errors.New("on this system two processes have no monotonic clock in common")

// New makes a server that has no streams yet.
func New() (*Server, error) {
	c := clock.Start()
	zero, ok := c.Monotonic()
	if !ok {
		return nil, ErrNoSharedClock
	}
	return &Server{clock: c, zero: zero, pacer: clock.NewPacer(c), conns: make(map[net.Conn]struct{}), payloads: make(map[int][]byte)}, nil
}

// stream is one reply.
type stream struct {
	truth   Truth // stamps of our own clock until it is handed over
	conn    net.Conn
	payload []byte // shared
	next    int    // event
	err     error
	done    chan struct{}
}

// Serve accepts connections until ctx ends. It closes ln and all connections.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	var all sync.WaitGroup
	all.Go(s.write)
	stop := context.AfterFunc(ctx, func() { _ = ln.Close() })
	defer stop()
	var err error
	for {
		var c net.Conn
		if c, err = ln.Accept(); err != nil {
			break
		}
		if !s.admit(c) {
			break
		}
		all.Go(func() { s.converse(c) })
	}
	_ = ln.Close()
	s.shut()
	all.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("accepting connections: %w", err)
}

func (s *Server) admit(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.quit {
		_ = c.Close()
		return false
	}
	s.conns[c] = struct{}{}
	return true
}

func (s *Server) shut() {
	s.mu.Lock()
	s.quit = true
	for c := range s.conns {
		_ = c.Close()
	}
	for _, st := range s.held {
		st.end(net.ErrClosed)
	}
	s.held = nil
	s.mu.Unlock()
	s.pacer.Wake()
}

// readBuffer holds a request with a small prompt.
const readBuffer = 1 << 10

// converse serves the requests of one connection, one after the other.
func (s *Server) converse(raw net.Conn) {
	defer func() {
		_ = raw.Close()
		s.mu.Lock()
		delete(s.conns, raw)
		s.mu.Unlock()
	}()
	r := newStampedReader(raw, s.clock)
	c := net.Conn(r)
	if s.TLS != nil {
		c = tls.Server(r, s.TLS)
	}
	br := bufio.NewReaderSize(c, readBuffer)
	for {
		req, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return
		}
		if req.URL.Path == "/take" && req.Method == http.MethodPost {
			_ = s.take(c)
			return
		}
		if req.URL.Path == "/start" && req.Method == http.MethodPost {
			s.start(c, req)
			continue
		}
		if !s.serve(c, req, r.stamp()) {
			return
		}
	}
}

// serve answers one request; false ends the connection.
func (s *Server) serve(c net.Conn, req *http.Request, arrival int64) bool {
	l, err := parseLoad(req.URL.Query())
	if err != nil {
		refuse(c, err)
		return false
	}
	if _, err := c.Write(Preamble()); err != nil {
		return false
	}
	st := &stream{
		truth:   Truth{ID: l.ID, Arrival: arrival, At: l.At - s.zero, Every: l.Every, Asked: l.Events, Began: make([]int64, 0, l.Events), Took: make([]uint32, 0, l.Events)},
		conn:    c,
		payload: s.payload(l.Size),
		done:    make(chan struct{}),
	}
	switch {
	case l.Held:
		st.truth.At = l.At
	case l.At == 0:
		st.truth.At = arrival + int64(l.Every)
	}
	if !s.enqueue(st, l.Held) {
		return false
	}
	<-st.done
	return st.err == nil
}

// enqueue hands a stream to the writer, now or at the start; false if the server
// ends.
func (s *Server) enqueue(st *stream, held bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.quit:
		return false
	case held:
		s.held = append(s.held, st)
	default:
		s.incoming = append(s.incoming, st)
		s.pacer.Wake()
	}
	return true
}

// start lets the held streams go, and says how many.
func (s *Server) start(c net.Conn, req *http.Request) {
	at, err := strconv.ParseInt(req.URL.Query().Get("at"), 10, 64)
	if err != nil {
		refuse(c, fmt.Errorf("start: %w", err))
		return
	}
	s.mu.Lock()
	n := len(s.held)
	for _, st := range s.held {
		st.truth.At += at - s.zero
	}
	s.incoming = append(s.incoming, s.held...)
	s.held = nil
	s.mu.Unlock()
	s.pacer.Wake()
	text := strconv.Itoa(n) + "\n"
	_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
}

func refuse(c net.Conn, err error) {
	text := err.Error() + "\n"
	_, _ = fmt.Fprintf(c, "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(text), text)
}

// payload is one event of that size, made once.
func (s *Server) payload(size int) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.payloads[size] == nil {
		s.payloads[size] = Event(size)
	}
	return s.payloads[size]
}

// take writes the log and forgets it.
func (s *Server) take(c net.Conn) error {
	s.mu.Lock()
	log := s.log
	s.log = nil
	s.mu.Unlock()
	w := bufio.NewWriterSize(c, 64<<10)
	fmt.Fprintf(w, "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nConnection: close\r\n\r\n%s", magic)
	var b []byte
	for _, st := range log {
		t := st.truth
		t.Arrival += s.zero
		t.At += s.zero
		t.Began = make([]int64, len(st.truth.Began))
		for k, v := range st.truth.Began {
			t.Began[k] = v + s.zero
		}
		b = appendTruth(b[:0], &t)
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	return w.Flush()
}

// write is the writer: one thread for all streams.
func (s *Server) write() {
	defer s.pacer.Pin()()
	var due queue
	next := clock.Never
	for {
		if s.pacer.SleepUntil(next) {
			if !s.arrivals(&due) {
				for _, e := range due {
					e.s.end(net.ErrClosed)
				}
				return // no stream comes in after that: see enqueue
			}
		} else {
			s.step(&due)
		}
		next = clock.Never
		if len(due) > 0 {
			next = due[0].at
		}
	}
}

// arrivals takes the new streams over; false if the server ends.
func (s *Server) arrivals(due *queue) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.incoming {
		due.push(entry{at: st.truth.At, s: st})
	}
	s.incoming = s.incoming[:0]
	return !s.quit
}

// step writes the event that is due first.
func (s *Server) step(due *queue) {
	e := (*due)[0]
	st := e.s
	if st.next == st.truth.Asked {
		due.pop()
		s.record(st) // who has read the end finds it in the log
		_, err := st.conn.Write(End(st.truth.Asked))
		st.end(err)
		return
	}
	began := s.clock.Now()
	_, err := st.conn.Write(st.payload)
	took := s.clock.Now() - began
	if err != nil {
		due.pop()
		s.record(st)
		st.end(err)
		return
	}
	st.truth.Began = append(st.truth.Began, began)
	st.truth.Took = append(st.truth.Took, uint32(min(took, math.MaxUint32)))
	st.next++
	due.replace(entry{at: e.at + int64(st.truth.Every), s: st})
}

func (s *Server) record(st *stream) {
	s.mu.Lock()
	s.log = append(s.log, st)
	s.mu.Unlock()
}

func (st *stream) end(err error) {
	st.err = err
	close(st.done)
}
