//go:build amd64 || arm64

package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/assay-bench/assay/record"
)

// taken waits until the client behind a local port, which is in this process,
// has read all that its socket holds: the server cannot see that from its end.
func taken(port int) {
	for fd := 3; fd < 1000; fd++ {
		for holds(fd, port) {
			if n, err := unix.IoctlGetInt(fd, unix.SIOCINQ); err != nil || n == 0 {
				return
			}
			runtime.Gosched()
		}
	}
}

// holds reports whether fd is a socket with a local port.
func holds(fd, port int) bool {
	sa, err := unix.Getsockname(fd)
	in, ok := sa.(*unix.SockaddrInet4)
	return err == nil && ok && in.Port == port
}

// play is a server's part: pieces that are read one by one, and an end.
type play struct {
	pieces []string
	end    string // "", close or reset
}

// plays serves what it is told to on every request.
func plays(t testing.TB, next <-chan play) string {
	return serve(t, nil, func(p *peer) {
		port := p.RemoteAddr().(*net.TCPAddr).Port
		for p.request() != nil {
			now := <-next
			for _, piece := range now.pieces {
				p.send(piece)
				taken(port)
			}
			switch now.end {
			case "close":
				return
			case "reset":
				p.reset()
				return
			}
		}
	})
}

// seen is a record without its stamps.
type seen struct {
	Outcome   record.Outcome
	Error     string
	Status    int
	Bytes     int64
	Sent, EOF bool
	Reused    bool
	Terminals int
	AtEnd     int
	Frames    []got
}

func look(t testing.TB, s *subject, framing Framing) seen {
	sink := recorder{framing: framing}
	a, err := do(t, s, &sink)
	out := seen{
		Outcome: outcome(t, err), Status: a.Status, Bytes: a.BodyBytes, Sent: a.Sent.Known() && a.SentLast.Known(), EOF: a.EOF.Known(),
		Reused: a.ConnReused, Terminals: sink.terminals, AtEnd: sink.atEnd, Frames: sink.frames,
	}
	if err != nil {
		out.Error = err.Error()
	}
	last := a.Headers
	for i := range out.Frames {
		f := &out.Frames[i]
		if f.At < last {
			t.Errorf("frame %d is stamped %d after %d", i, f.At, last)
		}
		last, f.At = f.At, 0
		f.Flags &^= record.FlagKernel // the kernel begins to stamp when it likes to
	}
	return out
}

// pair is the two transports before the same server.
type pair struct {
	next      chan play
	goroutine *subject
	epoll     *subject
}

func newPair(t testing.TB, edit func(*Config)) pair {
	next := make(chan play, 1)
	addr := plays(t, next)
	return pair{next, &subject{Client: newClient(t, addr, edit)}, newLoop(t, addr, edit)}
}

func (p pair) same(t testing.TB, what play, framing Framing) {
	t.Helper()
	p.next <- what
	want := look(t, p.goroutine, framing)
	p.next <- what
	if diff := cmp.Diff(want, look(t, p.epoll, framing)); diff != "" {
		t.Fatalf("%q\nthe transports differ (-goroutine +epoll):\n%s", what, diff)
	}
}

// TestSameRecords: a reply that is read in two parts, split at every byte, and
// one that ends there, gives the same record on both transports.
func TestSameRecords(t *testing.T) {
	p := newPair(t, func(c *Config) { c.Drain = 10 * time.Second })
	reply := "HTTP/1.1 100 Continue\r\n\r\n" + sseHead + chunk("data: é\r\n\r\nda", "ta: b\n\n: c\n\n"+done, "event: t\ndata: x\n\n")
	for n := 1; n < len(reply); n++ {
		p.same(t, play{[]string{reply[:n], reply[n:]}, ""}, SSE)
		p.same(t, play{[]string{reply[:n]}, "close"}, SSE)
	}
}

// TestSameRecordsOfAny is the same for replies of any kind and any pieces.
func TestSameRecordsOfAny(t *testing.T) {
	p := newPair(t, func(c *Config) {
		c.MaxHead, c.MaxEvent, c.Drain = 300, 200, 10*time.Second
		c.ConnMode = ConnPerRequest // what comes after a reply is nobody's
	})
	events := map[Framing][]string{
		SSE: {
			"data: a\n\n", "data: b\r\n\r\n", ": ping\n\n", "event: e\ndata: 1\ndata: 2\n\n", "data:" + strings.Repeat("x", 150) + "\n\n",
			done, "{\"error\": 1}\n\n", "data: " + strings.Repeat("y", 250) + "\n\n", "\n", "data: tail",
		},
		NDJSON: {"{}\n", "{\"a\":1}\r\n", "\n", strings.Repeat("z", 250) + "\n", "[DONE]\n", "{"},
		Whole:  {"{", "}", "[DONE]", strings.Repeat("w", 150)},
	}
	heads := []string{
		"HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nKeep-Alive: timeout=100\r\n", "HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 200 OK\r\n",
		"HTTP/1.1 200 OK\r\nConnection: close\r\n", "HTTP/1.0 200 OK\r\n", "HTTP/1.1 503 Busy\r\n", "HTTP/1.1 204 None\r\n",
		"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n", "HTTP/1.1 200 OK\r\nA: " + strings.Repeat("a", 300) + "\r\n", "HTTP/2 200\r\n", "\x16\x03",
	}
	rapid.Check(t, func(rt *rapid.T) {
		framing := rapid.SampledFrom([]Framing{SSE, NDJSON, Whole}).Draw(rt, "framing")
		head := rapid.OneOf(rapid.Just(heads[0]), rapid.SampledFrom(heads)).Draw(rt, "head")
		parts := rapid.SliceOfN(rapid.SampledFrom(events[framing]), 0, 6).Draw(rt, "events")
		body, end := strings.Join(parts, ""), rapid.SampledFrom([]string{"close", "reset"}).Draw(rt, "end")
		switch rapid.IntRange(0, 3).Draw(rt, "transfer") {
		case 0:
			head += "\r\n"
		case 1:
			head += "Content-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n"
		case 2:
			head += "Content-Length: " + strconv.Itoa(len(body)+rapid.IntRange(0, 3).Draw(rt, "missing")) + "\r\n\r\n"
		default:
			head += "Transfer-Encoding: chunked\r\n\r\n"
			body = chunk(parts...)
		}
		reply := head + body
		var pieces []string
		for len(reply) > 0 {
			n := rapid.IntRange(1, len(reply)).Draw(rt, "piece")
			pieces, reply = append(pieces, reply[:n]), reply[n:]
		}
		p.same(fatal{t, rt}, play{pieces, end}, framing)
	})
}

// fatal is a testing.TB whose failures are rapid's.
type fatal struct {
	testing.TB
	t *rapid.T
}

func (f fatal) Helper()                           {}
func (f fatal) Fatal(args ...any)                 { f.t.Fatal(args...) }
func (f fatal) Fatalf(format string, args ...any) { f.t.Fatalf(format, args...) }
func (f fatal) Errorf(format string, args ...any) { f.t.Errorf(format, args...) }

// TestManyStreams holds thousands of streams open at once.
func TestManyStreams(t *testing.T) {
	const n, events = 5000, 3
	if limit := openFiles(t); limit < 2*n+200 {
		t.Skipf("only %d open files are allowed", limit)
	}
	sv := newRawServer(t)
	l := newLoop(t, sv.addr, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	var failed atomic.Int64
	sinks := make([]counter, n)
	attempts := make([]record.Attempt, n)
	wg.Add(n)
	go func() { // beside the server, whose backlog is shorter
		for i := range n {
			l.loop.Start(ctx, &attempts[i], post(), &sinks[i], func(err error) {
				if err != nil && failed.Add(1) == 1 {
					t.Error(i, err)
				}
				wg.Done()
			})
		}
	}()
	sv.await(n)
	for range events {
		sv.all(event200())
	}
	sv.all(chunk(done))
	wg.Wait()
	for i := range n {
		if a := &attempts[i]; sinks[i].n != events+1 || a.EOF < a.Headers || a.Headers < a.Sent || a.Sent < a.ConnReady {
			t.Fatalf("stream %d: %d events, %+v", i, sinks[i].n, a)
		}
	}
	if s := l.Stats(); s.Opened != n || s.Closed != 0 || l.inUse != 0 {
		t.Errorf("%+v, %d in use", s, l.inUse)
	}
}

// TestCutAll: one context ends all of its streams, and no other.
func TestCutAll(t *testing.T) {
	sv := newRawServer(t)
	l := newLoop(t, sv.addr, nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	results := make(chan error, 200)
	start := func(ctx context.Context) {
		l.loop.Start(ctx, &record.Attempt{}, post(), &counter{}, func(err error) { results <- err })
	}
	for range 100 {
		start(ctx)
	}
	start(context.Background())
	sv.await(101)
	cancel(&Error{Outcome: record.Censored, Err: errors.New("bound")})
	for range 100 {
		if got := outcome(t, <-results); got != record.Censored {
			t.Fatal(got)
		}
	}
	sv.all(chunk(done))
	if err := <-results; err != nil {
		t.Error(err)
	}
}

// TestLoopClose: what is in flight is cut off, and what comes later is refused.
func TestLoopClose(t *testing.T) {
	sv := newRawServer(t)
	l := newLoop(t, sv.addr, nil)
	results := make(chan error, 10)
	start := func() {
		l.loop.Start(t.Context(), &record.Attempt{}, post(), &counter{}, func(err error) { results <- err })
	}
	for range 5 {
		start()
	}
	sv.await(5)
	l.loop.Close()
	start()
	for i := range 6 {
		want := record.Interrupted
		if i == 5 {
			want = record.NeverSent
		}
		if err := <-results; outcome(t, err) != want || !errors.Is(err, net.ErrClosed) {
			t.Errorf("%d: %v", i, err)
		}
	}
	l.loop.Close()
}

// TestConnectTimeout: a listener whose backlog is full does not answer.
func TestConnectTimeout(t *testing.T) { both(t, testConnectTimeout) }

func testConnectTimeout(t *testing.T, newClient opener) {
	addr := fullListener(t)
	for want, timeouts := range map[record.Outcome]Timeouts{
		record.TimeoutConnect: {Connect: 30 * time.Millisecond},
		record.TimeoutTotal:   {Connect: time.Hour, Total: 30 * time.Millisecond},
	} {
		c := newClient(t, addr, func(c *Config) { c.Timeouts = timeouts })
		a, err := do(t, c, &recorder{})
		// The bound counts from before the dial, Connect from its begin.
		if outcome(t, err) != want || a.Connect <= 0 {
			t.Errorf("%v, want %s; %+v", err, want, a)
		}
	}
}

// fullListener is an address that takes no more connections.
func fullListener(t testing.TB) string {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	sa, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", sa.(*unix.SockaddrInet4).Port)
	for {
		c, err := net.DialTimeout("tcp", addr, 100*time.Millisecond)
		if err != nil {
			return addr
		}
		t.Cleanup(func() { c.Close() })
	}
}

// TestLoopNoAllocation: an event on a loop allocates nothing, whole or split.
func TestLoopNoAllocation(t *testing.T) {
	sv := newRawServer(t)
	l := newLoop(t, sv.addr, nil)
	frames := make(chan struct{}, 16)
	over := make(chan error, 1)
	sink := &recorderFunc{func(f Frame) bool {
		frames <- struct{}{}
		return string(f.Data) == "[DONE]"
	}}
	l.loop.Start(t.Context(), &record.Attempt{}, post(), sink, func(err error) { over <- err })
	sv.await(1)
	whole := event200()
	for name, pieces := range map[string][]string{"whole": {whole}, "split": {whole[:50], whole[50:120], whole[120:]}} {
		raw := make([][]byte, len(pieces))
		for i, p := range pieces {
			raw[i] = []byte(p)
		}
		send := func() {
			for _, b := range raw {
				if _, err := syscall.Write(sv.fds[0], b); err != nil {
					t.Fatal(err)
				}
			}
			<-frames
		}
		for range 20 {
			send()
		}
		if got := testing.AllocsPerRun(200, send); got != 0 {
			t.Errorf("%s: %v allocations an event", name, got)
		}
	}
	sv.all(chunk(done))
	if err := <-over; err != nil {
		t.Fatal(err)
	}
}

// TestLoopRefuses what it does not speak.
func TestLoopRefuses(t *testing.T) {
	c := newClient(t, "x", func(c *Config) { c.Scheme = "https" })
	if _, err := NewLoop(c, 0); err == nil || !strings.Contains(err.Error(), "TLS") {
		t.Error(err)
	}
}

func openFiles(t testing.TB) uint64 {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		t.Fatal(err)
	}
	return r.Cur
}
