package real

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/assay-bench/assay/dialect"
	"github.com/assay-bench/assay/internal/clock"
	"github.com/assay-bench/assay/load/sched"
	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve runs script on every connection until the test ends.
func serve(t *testing.T, script func(c net.Conn, br *bufio.Reader)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				script(c, bufio.NewReader(c))
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		wg.Wait()
	})
	return l.Addr().String()
}

// take reads a request, and reports whether there was one.
func take(br *bufio.Reader) bool {
	r, err := http.ReadRequest(br)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, r.Body)
	return err == nil
}

const (
	streamHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
	textEvent  = `data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}` + "\n\n"
	lastEvents = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"
)

func chunked(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }

// gathered is an observer that keeps attempts and stops when it has enough.
type gathered struct {
	mu       sync.Mutex
	due      int
	attempts []record.Attempt
	halt     func(g *gathered) (stop, abandon bool)
}

func (g *gathered) Due(record.Stamp) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.due++
}

func (g *gathered) Ended(a *record.Attempt, events []record.Event) {
	g.attempts = append(g.attempts, *a)
}

func (g *gathered) Tick(record.Stamp, int, record.Stamp) (stop, abandon bool) { return g.halt(g) }

// runOver applies a load of so many requests, four at a time, over a transport.
func runOver(t *testing.T, transport, addr string, requests int64, halt func(g *gathered) (stop, abandon bool)) *gathered {
	t.Helper()
	clk := clock.Start()
	endpoint, err := ParseEndpoint("http://" + addr + "/v1")
	if err != nil {
		t.Fatal(err)
	}
	client, err := wire.NewClient(wire.Config{Scheme: endpoint.Scheme, Host: endpoint.Host, Clock: clk})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	target := NewTarget(endpoint, client, clk, nil)
	target.Dialect, target.Options = dialect.Chat{}, dialect.Options{Model: "m", Stream: true}
	if transport == "epoll" {
		closeLoop, err := target.UseLoop()
		if err != nil {
			t.Fatal(err)
		}
		defer closeLoop()
	}
	if !strings.HasPrefix(target.Transport(), transport) {
		t.Errorf("transport %q", target.Transport())
	}
	var n int64
	r, err := NewRunner(target, sched.Config{Concurrency: 4, MaxRequests: requests}, 1, func() (record.Request, bool) {
		n++
		return record.Request{Index: n - 1, Prompt: record.Prompt{Text: "x"}, MaxTokens: 2}, n <= requests
	})
	if err != nil {
		t.Fatal(err)
	}
	g := &gathered{halt: halt}
	if err := r.Run(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	return g
}

func transports() []string {
	if runtime.GOOS != "linux" {
		return []string{"goroutine"}
	}
	return []string{"goroutine", "epoll"}
}

// TestRunOver: every request is in the ledger once with what became of it, over
// either transport; one whose reused connection died was made again.
func TestRunOver(t *testing.T) {
	for _, transport := range transports() {
		t.Run(transport, func(t *testing.T) {
			addr := serve(t, func(c net.Conn, br *bufio.Reader) {
				if !take(br) {
					return
				}
				io.WriteString(c, streamHead+chunked(textEvent)+chunked(textEvent)+chunked(lastEvents)+"0\r\n\r\n")
				take(br) // and no reply
			})
			const requests = 40
			g := runOver(t, transport, addr, requests, func(g *gathered) (bool, bool) {
				ended := 0
				for i := range g.attempts {
					if !g.attempts[i].Retried {
						ended++
					}
				}
				return ended == requests, false
			})
			count := map[record.Outcome]int{}
			for i := range g.attempts {
				a := &g.attempts[i]
				count[a.Outcome]++
				stale := a.Outcome == record.StaleConnection
				if a.Retried != stale || a.Try == 1 && (a.RetryOf == "" || a.ConnReused) || stale != (a.Events == 0) || !a.Ended.Known() {
					t.Errorf("%+v", a)
				}
				if !stale && (a.Ended < a.Done || a.Done < a.FirstText || a.FirstText < a.Sent || a.Sent < a.Dispatched) {
					t.Errorf("stamps out of order: %+v", a)
				}
			}
			if g.due != requests || count[record.Completed] != requests || len(count) > 2 || count[record.StaleConnection] > requests {
				t.Errorf("%d due, %v", g.due, count)
			}
		})
	}
}

// TestCutOff: what is in flight at the bound is censored, over either transport.
func TestCutOff(t *testing.T) {
	for _, transport := range transports() {
		t.Run(transport, func(t *testing.T) {
			addr := serve(t, func(c net.Conn, br *bufio.Reader) {
				take(br)
				io.WriteString(c, streamHead+chunked(textEvent))
				io.Copy(io.Discard, br)
			})
			g := runOver(t, transport, addr, 4, func(*gathered) (bool, bool) { return true, true })
			if len(g.attempts) != 4 {
				t.Fatal(len(g.attempts))
			}
			for i := range g.attempts {
				if a := &g.attempts[i]; a.Outcome != record.Censored || a.Events != 1 {
					t.Errorf("%+v", a)
				}
			}
		})
	}
}

func TestBacklogHint(t *testing.T) {
	refused := &wire.Error{Outcome: record.ConnectTCP, Err: fmt.Errorf("dial: %w", syscall.ECONNREFUSED)}
	late := &wire.Error{Outcome: record.TimeoutConnect, Err: context.DeadlineExceeded}
	for name, tc := range map[string]struct {
		opened int
		err    error
		want   bool
	}{
		"refused at once": {0, refused, false}, "refused later": {5, refused, true}, "not answered": {5, late, true},
		"something else": {5, errors.New("x"), false},
	} {
		if got := backlogHint(tc.opened, tc.err); (got != "") != tc.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}
