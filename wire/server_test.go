package wire

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/assay-bench/assay/internal/clock"
	"github.com/assay-bench/assay/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// peer is one accepted connection of a test server.
type peer struct {
	net.Conn
	br *bufio.Reader
	n  int // which connection this is, from 0
}

// request reads one request and returns it, nil at the end of the connection.
func (p *peer) request() *http.Request {
	r, err := http.ReadRequest(p.br)
	if err != nil {
		return nil
	}
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return nil
	}
	r.Header.Set("Test-Body", string(b))
	return r
}

func (p *peer) send(s string) { io.WriteString(p.Conn, s) }

// reset makes the close of the connection a reset.
func (p *peer) reset() {
	type netConner interface{ NetConn() net.Conn }
	c := p.Conn
	if t, ok := c.(netConner); ok {
		c = t.NetConn()
	}
	c.(*net.TCPConn).SetLinger(0)
	c.Close()
}

// silent waits until the client has gone.
func (p *peer) silent() { io.Copy(io.Discard, p.br) }

// serve runs script on every connection; it ends with the test.
func serve(t testing.TB, tc *tls.Config, script func(p *peer)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		conns []net.Conn
	)
	wg.Go(func() {
		for n := 0; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
			if tc != nil {
				c = tls.Server(c, tc)
			}
			wg.Go(func() {
				defer c.Close()
				script(&peer{Conn: c, br: bufio.NewReader(c), n: n})
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, c := range conns {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return l.Addr().String()
}

// replies serves the same reply to every request of every connection.
func replies(reply string) func(p *peer) {
	return func(p *peer) {
		for p.request() != nil {
			p.send(reply)
		}
	}
}

const (
	sseHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
	done    = "data: [DONE]\n\n"
)

// recorder is a Sink that keeps what it is given.
type recorder struct {
	framing   Framing
	headErr   error
	status    int
	header    http.Header
	frames    []got
	raw       []Frame // without the bytes
	terminals int
	atEnd     int // frames when Terminal was called
	onFrame   func(Frame)
	ended     chan struct{} // closed by Terminal if set
}

func (r *recorder) Head(resp *http.Response) (Framing, error) {
	r.status, r.header = resp.StatusCode, resp.Header
	return r.framing, r.headErr
}

func (r *recorder) Frame(f Frame) bool {
	r.frames = append(r.frames, got{string(f.Name), string(f.Data), f.WireBytes, f.At, f.Flags})
	last := string(f.Data) == "[DONE]"
	if r.onFrame != nil {
		r.onFrame(f)
	}
	f.Name, f.Data = nil, nil
	r.raw = append(r.raw, f)
	return last
}

func (r *recorder) Terminal() {
	r.terminals++
	r.atEnd = len(r.frames)
	if r.ended != nil {
		close(r.ended)
	}
}

func (r *recorder) data() []string {
	var out []string
	for _, f := range r.frames {
		out = append(out, f.Data)
	}
	return out
}

// newClient makes a client for a test server; edit may change its configuration.
func newClient(t testing.TB, addr string, edit func(*Config)) *Client {
	t.Helper()
	cfg := Config{Scheme: "http", Host: addr, Clock: clock.Start()}
	if edit != nil {
		edit(&cfg)
	}
	c, err := NewClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func post() *Request {
	return &Request{Method: "POST", Path: "/v1/chat/completions", Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(`{"x":1}`)}
}

// exchanger is a client or a subject.
type exchanger interface {
	Do(ctx context.Context, a *record.Attempt, req *Request, sink Sink) error
}

// do runs one exchange that must not take long.
func do(t testing.TB, c exchanger, sink Sink) (record.Attempt, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var a record.Attempt
	err := c.Do(ctx, &a, post(), sink)
	return a, err
}

// outcome of an error of Do; empty for nil.
func outcome(t testing.TB, err error) record.Outcome {
	t.Helper()
	if err == nil {
		return ""
	}
	e, ok := err.(*Error)
	if !ok {
		t.Fatalf("%T is not an *Error: %v", err, err)
	}
	return e.Outcome
}
