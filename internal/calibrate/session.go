package calibrate

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/assay-bench/assay/internal/clock"
	"github.com/assay-bench/assay/internal/metronome"
)

// Drive is a client: it opens the session's streams, tells it when each is
// ready, and stamps their events. It returns when all replies have ended.
type Drive func(ctx context.Context, s *Session) error

// Session is one load on one client.
type Session struct {
	// Addr of the truth server, host:port; PID is its process, to tell its CPU
	// from that of others (0: not known).
	Addr string
	PID  int
	Load Load
	// Midway has the memory read in the middle of the load, which disturbs it, and
	// not before it.
	Midway bool
	// TLS is spoken to it, whatever its certificate.
	TLS bool
	// Clock stamps. Zero is CLOCK_MONOTONIC at its epoch.
	Clock *clock.Clock
	Zero  int64

	start   atomic.Int64 // CLOCK_MONOTONIC
	waiting atomic.Int64
	ready   chan struct{}
	seen    []reply
	at      []int64 // of all events, by reply
	lag     []int32
	back    int64
}

// reply is what a client saw of one reply, in stamps of the session's clock.
type reply struct {
	sent      int64
	events    int
	coalesced int
}

// NewSession prepares a load. What the client's stamps need is there before it
// begins.
func NewSession(addr string, pid int, l Load, c *clock.Clock) (*Session, error) {
	zero, ok := c.Monotonic()
	if !ok {
		return nil, metronome.ErrNoSharedClock
	}
	n := l.Streams * l.Replies
	s := &Session{
		Addr: addr, PID: pid, Load: l, Clock: c, Zero: zero, ready: make(chan struct{}),
		seen: make([]reply, n), at: make([]int64, n*l.Events), lag: make([]int32, n*l.Events),
	}
	for i := range s.at { // touched now, so that they are no part of what a stream takes
		s.at[i], s.lag[i] = -1, -1
	}
	for i := range s.seen {
		s.seen[i].sent = -1
	}
	s.waiting.Store(int64(l.Streams))
	return s, nil
}

// URL of the truth server.
func (s *Session) URL() string {
	if s.TLS {
		return "https://" + s.Addr
	}
	return "http://" + s.Addr
}

// TLSConfig trusts the server on this machine, which made its certificate itself.
func (s *Session) TLSConfig() *tls.Config { return &tls.Config{InsecureSkipVerify: true} }

// Query is what stream slot asks for as its nth reply, to put behind a path.
func (s *Session) Query(slot, nth int) string {
	return s.Load.reply(slot, nth, s.start.Load()).Query()
}

// Ready tells that a stream has its first preamble.
func (s *Session) Ready() {
	if s.waiting.Add(-1) == 0 {
		close(s.ready)
	}
}

// Sent stamps a request. The replies of one stream are stamped by one goroutine.
func (s *Session) Sent(slot, nth int, at int64) { s.seen[s.Load.index(slot, nth)].sent = at }

// Event stamps the next event with text of a reply.
func (s *Session) Event(slot, nth int, at, read int64, coalesced bool) {
	i := s.Load.index(slot, nth)
	r := &s.seen[i]
	if r.events < s.Load.Events {
		k := i*s.Load.Events + r.events
		s.at[k], s.lag[k] = at, int32(min(read-at, math.MaxInt32))
	}
	r.events++
	if coalesced {
		r.coalesced++
	}
}

// settle is what lies between the last stream's being ready and the first event.
const settle = 200 * time.Millisecond

// Run drives the client through the load.
func (s *Session) Run(ctx context.Context, drive Drive) (*Figures, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Load.Duration()+30*time.Second)
	defer cancel()
	var (
		wg       sync.WaitGroup
		startErr error
		before   usage
		memory   Footprint
	)
	base := footprint()
	wg.Go(func() {
		select {
		case <-s.ready:
		case <-ctx.Done():
			return
		}
		memory = footprint()
		before = readUsage(s.PID)
		at := s.Clock.Now() + s.Zero + int64(settle)
		s.start.Store(at)
		startErr = s.release(ctx, at)
		if startErr != nil {
			cancel()
		}
		if s.Midway {
			s.Clock.SleepUntil(at - s.Zero + int64(s.Load.Duration()/2))
			memory = footprint()
		}
	})
	err := drive(ctx, s)
	after := readUsage(s.PID)
	cancel()
	wg.Wait()
	if err := errors.Join(startErr, err); err != nil {
		return nil, fmt.Errorf("%v: %w", s.Load, err)
	}
	log, err := s.take(context.WithoutCancel(ctx))
	if err != nil {
		return nil, err
	}
	f := s.compare(log)
	f.Memory, f.Footprint = (memory.Resident-base.Resident)/int64(s.Load.Streams), memory
	f.Back = int(s.back)
	f.use(before, after)
	return f, nil
}

// release starts the held streams.
func (s *Session) release(ctx context.Context, at int64) error {
	text, err := s.post(ctx, fmt.Sprintf("/start?at=%d", at), func(r io.Reader) (string, error) {
		b, err := io.ReadAll(io.LimitReader(r, 1<<10))
		return strings.TrimSpace(string(b)), err
	})
	if err != nil {
		return fmt.Errorf("starting the streams: %w", err)
	}
	if want := fmt.Sprint(s.Load.Streams); text != want {
		return fmt.Errorf("the server started %s streams of %s", text, want)
	}
	return nil
}

// take gets the server's log.
func (s *Session) take(ctx context.Context) (log []metronome.Truth, err error) {
	_, err = s.post(ctx, "/take", func(r io.Reader) (string, error) {
		var err error
		log, err = metronome.ReadLog(r)
		return "", err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the server's log: %w", err)
	}
	return log, nil
}

func (s *Session) post(ctx context.Context, path string, read func(io.Reader) (string, error)) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL()+path, nil)
	if err != nil {
		return "", err
	}
	tr := &http.Transport{DisableKeepAlives: true, TLSClientConfig: s.TLSConfig()} // and no proxy
	resp, err := tr.RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: HTTP %d", path, resp.StatusCode)
	}
	return read(resp.Body)
}
