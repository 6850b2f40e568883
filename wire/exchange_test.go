package wire

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-bench/assay/record"
)

func TestDo(t *testing.T) { both(t, testDo) }

func testDo(t *testing.T, newClient opener) {
	reply := sseHead + chunk("data: a\n\n", "data: b\n\n"+done)
	addr := serve(t, nil, func(p *peer) {
		for {
			r := p.request()
			if r == nil {
				return
			}
			if r.Header.Get("Test-Body") != `{"x":1}` || r.Host != p.LocalAddr().String() || r.ContentLength != 7 {
				p.send("HTTP/1.1 500 wrong\r\nContent-Length: 0\r\n\r\n")
				return
			}
			p.send(reply)
		}
	})
	c := newClient(t, addr, nil)
	for i := range 3 {
		var sink recorder
		a, err := do(t, c, &sink)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"a", "b", "[DONE]"}, sink.data()); diff != "" {
			t.Error(diff)
		}
		if sink.terminals != 1 || sink.atEnd != 3 || a.Status != 200 {
			t.Errorf("terminals %d at %d, status %d", sink.terminals, sink.atEnd, a.Status)
		}
		if a.ConnReused != (i > 0) || (a.Connect > 0) != (i == 0) || a.RemoteAddr != addr || a.BodyBytes != 32 {
			t.Errorf("attempt %d: %+v", i, a)
		}
		order := []record.Stamp{1, a.ConnReady, a.Sent, a.SentLast}
		after := []record.Stamp{a.Sent, a.Headers, sink.raw[0].At, sink.raw[1].At, sink.raw[2].At, a.EOF}
		for _, s := range [][]record.Stamp{order, after} {
			for i := 1; i < len(s); i++ {
				if s[i] < s[i-1] || s[i] == 0 {
					t.Errorf("stamps out of order: %v", s)
				}
			}
		}
	}
	if s := c.Stats(); s != (Stats{Opened: 1, Reused: 2}) {
		t.Errorf("%+v", s)
	}
	if diff := cmp.Diff([]string{addr}, c.Resolved()); diff != "" {
		t.Error(diff)
	}
}

// TestEveryCut sends one reply in two writes, cut at every byte; the kernel may
// merge them again or not. The frames must be the same.
func TestEveryCut(t *testing.T) { both(t, testEveryCut) }

func testEveryCut(t *testing.T, newClient opener) {
	reply := "HTTP/1.1 100 Continue\r\n\r\n" + sseHead + chunk("data: é\r\n\r\nda", "ta: b\n\n"+done, "event: t\ndata: x\n\n")
	cut := make(chan int, 1)
	addr := serve(t, nil, func(p *peer) {
		for p.request() != nil {
			n := <-cut
			p.send(reply[:n])
			p.send(reply[n:])
		}
	})
	c := newClient(t, addr, nil)
	for n := range len(reply) + 1 {
		cut <- n
		var sink recorder
		if _, err := do(t, c, &sink); err != nil {
			t.Fatalf("cut at %d: %v", n, err)
		}
		want := []string{"é", "b", "[DONE]", "x"}
		if diff := cmp.Diff(want, sink.data()); diff != "" {
			t.Fatalf("cut at %d: %s", n, diff)
		}
		if sink.terminals != 1 || sink.atEnd != 3 {
			t.Fatalf("cut at %d: terminal after %d frames", n, sink.atEnd)
		}
	}
	if s := c.Stats(); s.Opened != 1 {
		t.Errorf("%+v", s)
	}
}

// TestOutcomes: how each way to fail is classified. Every script runs on a
// fresh connection.
func TestOutcomes(t *testing.T) { both(t, testOutcomes) }

func testOutcomes(t *testing.T, newClient opener) {
	after := func(s string, then func(p *peer)) func(p *peer) {
		return func(p *peer) {
			p.request()
			p.send(s)
			if then != nil {
				then(p)
			}
		}
	}
	ev := "9\r\ndata: a\n\n\r\n"
	closing := "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
	for _, tc := range []struct {
		name   string
		script func(p *peer)
		want   record.Outcome
		text   string
		frames int
	}{
		{"closed before a reply", after("", nil), record.StreamReset, "closed before a reply", 0},
		{"reset before a reply", after("", (*peer).reset), record.StreamReset, "", 0},
		{"closed in the head", after("HTTP/1.1 200 OK\r\nA: b", nil), record.StreamReset, "response head", 0},
		{"until close", after(closing+"data: a\n\ndata: b", nil), "", "", 2},
		{"last chunk", after(sseHead+ev+"0\r\n\r\n", nil), "", "", 1},
		{"closed after a chunk", after(sseHead+ev, nil), record.Truncated, "middle of the body", 1},
		{"closed in a chunk", after(sseHead+ev+"9\r\ndata", nil), record.Truncated, "", 1},
		{"closed before the length", after("HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\ndata: a\n\n", nil), record.Truncated, "", 1},
		{"terminal and no last chunk", after(sseHead+"e\r\n"+done+"\r\n", nil), "", "", 1},
		{"malformed chunk", after(sseHead+ev+"zz\r\n", nil), record.NotDialect, "chunked", 1},
		{"not HTTP", after("hello\r\n\r\n", nil), record.NotDialect, "not an HTTP/1.1 reply", 0},
		{"not HTTP, no line end", after("SSH-2.0", (*peer).silent), record.NotDialect, "not an HTTP/1.1 reply", 0},
		{"HTTP/2 preface", after("\x00\x00\x12\x04\x00\x00\x00\x00\x00\x00\x03", (*peer).silent), record.NotDialect, "", 0},
		{"bad header line", after("HTTP/1.1 200 OK\r\nno colon\r\n\r\n", nil), record.NotDialect, "", 0},
		{"compressed", after("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc", nil), record.NotDialect, "gzip", 0},
		{"endless head", after("HTTP/1.1 200 OK\r\n"+strings.Repeat("A: bcdefghijk\r\n", 100), (*peer).silent), record.NotDialect, "exceeds 1000 bytes", 0},
		{"event too large", after(closing+"data: "+strings.Repeat("x", 2000), nil), record.NotDialect, "size limit", 0},
		{"no content", after("HTTP/1.1 204 No Content\r\n\r\n", (*peer).silent), "", "", 0},
		{"error status", after("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", nil), "", "", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newClient(t, serve(t, nil, tc.script), func(c *Config) {
				c.MaxHead, c.MaxEvent = 1000, 1500
				c.Timeouts = Timeouts{First: 10 * time.Second}
			})
			var sink recorder
			a, err := do(t, c, &sink)
			if got := outcome(t, err); got != tc.want {
				t.Fatalf("outcome %q, want %q: %v", got, tc.want, err)
			}
			if err != nil && !strings.Contains(err.Error(), tc.text) {
				t.Errorf("error %q has no %q", err, tc.text)
			}
			if len(sink.frames) != tc.frames || sink.terminals > 1 {
				t.Errorf("frames %v, terminals %d", sink.data(), sink.terminals)
			}
			if a.Sent == 0 || a.SentLast < a.Sent {
				t.Errorf("sent %d, sent_last %d", a.Sent, a.SentLast)
			}
		})
	}
}

func TestResetInStream(t *testing.T) { both(t, testResetInStream) }

func testResetInStream(t *testing.T, newClient opener) {
	seen := make(chan struct{})
	addr := serve(t, nil, func(p *peer) {
		p.request()
		p.send(sseHead + "9\r\ndata: a\n\n\r\n")
		<-seen
		p.reset()
	})
	sink := recorder{onFrame: func(Frame) { close(seen) }}
	_, err := do(t, newClient(t, addr, nil), &sink)
	if outcome(t, err) != record.StreamReset || len(sink.frames) != 1 || sink.terminals != 1 {
		t.Errorf("%v, frames %v, terminals %d", err, sink.data(), sink.terminals)
	}
}

func TestStale(t *testing.T) { both(t, testStale) }

func testStale(t *testing.T, newClient opener) {
	for name, end := range map[string]func(*peer){"closed": func(*peer) {}, "reset": (*peer).reset} {
		t.Run(name, func(t *testing.T) {
			addr := serve(t, nil, func(p *peer) {
				p.request()
				p.send(sseHead + chunk(done))
				if p.n == 0 {
					p.request() // taken, and never answered
					end(p)
					return
				}
				p.request()
			})
			c := newClient(t, addr, nil)
			if _, err := do(t, c, &recorder{}); err != nil {
				t.Fatal(err)
			}
			var sink recorder
			a, err := do(t, c, &sink)
			if outcome(t, err) != record.StaleConnection || !a.ConnReused || sink.terminals != 0 {
				t.Fatalf("%v, %+v", err, a)
			}
			if a, err = do(t, c, &recorder{}); err != nil || a.ConnReused {
				t.Fatalf("retry: %v, %+v", err, a)
			}
			if s := c.Stats(); s.Stale != 1 || s.Opened != 2 || s.Closed != 1 || s.Reconnects != 1 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// TestDeadBeforeUse: a connection that the server closed is not used again.
func TestDeadBeforeUse(t *testing.T) { both(t, testDeadBeforeUse) }

func testDeadBeforeUse(t *testing.T, newClient opener) {
	closed := make(chan struct{}, 1)
	addr := serve(t, nil, func(p *peer) {
		p.request()
		p.send(sseHead + chunk(done))
		p.Close()
		closed <- struct{}{}
	})
	c := newClient(t, addr, nil)
	for i := range 3 {
		a, err := do(t, c, &recorder{})
		if err != nil || a.ConnReused {
			t.Fatalf("%d: %v, reused %v", i, err, a.ConnReused)
		}
		<-closed
	}
	if s := c.Stats(); s.Opened != 3 || s.Stale != 2 {
		t.Errorf("%+v", s)
	}
}

// TestClosesStreams: a server that closes the connection after every streamed
// reply, and keeps it after others, is found out; its streams then have fresh
// connections, while other replies go on sharing them.
func TestClosesStreams(t *testing.T) { both(t, testClosesStreams) }

func testClosesStreams(t *testing.T, newClient opener) {
	addr := serve(t, nil, func(p *peer) {
		for r := p.request(); r != nil; r = p.request() {
			if r.URL.Path == "/whole" {
				p.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
				continue
			}
			p.send(sseHead + chunk(done))
			p.request() // the next request meets the close: no race to lose here
			return
		}
	})
	c := newClient(t, addr, nil)
	get := func(path string, framing Framing, fresh bool) (a record.Attempt, err error) {
		req := post()
		req.Path, req.Fresh = path, fresh
		err = c.Do(t.Context(), &a, req, &recorder{framing: framing})
		return a, err
	}
	for i := range 10 {
		_, err := get("/stream", SSE, false)
		stale := outcome(t, err) == record.StaleConnection
		if want := i == 1 || i == 3 || i == 5; stale != want || err != nil && !stale {
			t.Fatalf("%d: %v, want stale %v", i, err, want)
		}
	}
	if s := c.Stats(); !s.ClosesStreams || s.Stale != enoughEarly {
		t.Errorf("%+v", s)
	}
	for i := range 5 {
		if a, err := get("/whole", Whole, false); err != nil || a.ConnReused != (i > 0) {
			t.Errorf("whole %d: %v, reused %v", i, err, a.ConnReused)
		}
	}
}

// TestKeepsStreams: closes that come late, or after connections have survived
// as often, are no reason to stop reusing them.
func TestKeepsStreams(t *testing.T) { both(t, testKeepsStreams) }

func testKeepsStreams(t *testing.T, newClient opener) {
	c := newClient(t, serve(t, nil, func(p *peer) {
		for range 2 { // the first one survives, the next request does not
			if p.request() == nil {
				return
			}
			p.send(sseHead + chunk(done))
		}
		p.request()
	}), nil)
	reused := 0
	for range 30 {
		a, err := do(t, c, &recorder{})
		if err == nil && a.ConnReused {
			reused++
		}
	}
	if s := c.Stats(); s.ClosesStreams || reused != 10 || s.Stale != 10 {
		t.Errorf("reused %d, %+v", reused, s)
	}
	cn := &link{client: c.Client, streamed: true, idleSince: c.now() - record.Stamp(closedEarly)}
	before := c.stats.early.Load()
	if cn.afterStream(false); c.stats.early.Load() != before {
		t.Error("a late close counts as an early one")
	}
}

func TestTimeouts(t *testing.T) { both(t, testTimeouts) }

func testTimeouts(t *testing.T, newClient opener) {
	const short = 30 * time.Millisecond
	for _, tc := range []struct {
		name   string
		t      Timeouts
		script func(p *peer)
		want   record.Outcome
	}{
		{"first, no head", Timeouts{First: short}, (*peer).silent, record.TimeoutFirst},
		{"first, no event", Timeouts{First: short, Idle: time.Hour}, func(p *peer) { p.send(sseHead + "6\r\n: ping\r\n"); p.silent() }, record.TimeoutFirst},
		{"idle", Timeouts{First: time.Hour, Idle: short}, func(p *peer) { p.send(sseHead + "9\r\ndata: a\n\n\r\n"); p.silent() }, record.TimeoutIdle},
		{"total, no head", Timeouts{First: time.Hour, Total: short}, (*peer).silent, record.TimeoutTotal},
		{"total, in the stream", Timeouts{Idle: time.Hour, Total: short}, func(p *peer) {
			p.send(sseHead)
			for {
				if _, err := fmt.Fprint(p, "9\r\ndata: a\n\n\r\n"); err != nil {
					return
				}
			}
		}, record.TimeoutTotal},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newClient(t, serve(t, nil, tc.script), func(c *Config) { c.Timeouts = tc.t })
			_, err := do(t, c, &recorder{})
			if outcome(t, err) != tc.want {
				t.Errorf("%v, want %s", err, tc.want)
			}
		})
	}
}

func TestDrain(t *testing.T) { both(t, testDrain) }

func testDrain(t *testing.T, newClient opener) {
	t.Run("an event after the terminal one", func(t *testing.T) {
		sink := recorder{ended: make(chan struct{})}
		addr := serve(t, nil, func(p *peer) {
			p.request()
			p.send(sseHead + "e\r\n" + done + "\r\n")
			<-sink.ended // the slot is free before the body has ended
			p.send(chunk("event: trtllm.perf_metrics\ndata: {}\n\n"))
			p.silent()
		})
		c := newClient(t, addr, func(c *Config) { c.Drain = 10 * time.Second })
		a, err := do(t, c, &sink)
		if err != nil || len(sink.frames) != 2 || sink.atEnd != 1 || a.EOF == 0 {
			t.Errorf("%v, %v, eof %d", err, sink.frames, a.EOF)
		}
		if c.Stats().Closed != 0 {
			t.Error("the connection was not kept")
		}
	})
	t.Run("the body never ends", func(t *testing.T) {
		addr := serve(t, nil, func(p *peer) { p.send(sseHead + "e\r\n" + done + "\r\n"); p.silent() })
		c := newClient(t, addr, func(c *Config) { c.Drain = 10 * time.Millisecond })
		a, err := do(t, c, &recorder{})
		if err != nil || a.EOF != 0 || c.Stats().Closed != 1 {
			t.Errorf("%v, eof %d, %+v", err, a.EOF, c.Stats())
		}
	})
}

func TestCancel(t *testing.T) { both(t, testCancel) }

func testCancel(t *testing.T, newClient opener) {
	for _, tc := range []struct {
		name  string
		cause error
		want  record.Outcome
	}{
		{"plain", nil, record.Interrupted},
		{"with an outcome", &Error{Outcome: record.Censored, Err: errors.New("cooldown bound")}, record.Censored},
		{"deadline", context.DeadlineExceeded, record.TimeoutTotal},
	} {
		t.Run(tc.name, func(t *testing.T) {
			addr := serve(t, nil, func(p *peer) { p.send(sseHead + "9\r\ndata: a\n\n\r\n"); p.silent() })
			ctx, cancel := context.WithCancelCause(t.Context())
			sink := recorder{onFrame: func(Frame) { cancel(tc.cause) }}
			c := newClient(t, addr, func(c *Config) { c.Timeouts.Idle = time.Hour })
			var a record.Attempt
			err := c.Do(ctx, &a, post(), &sink)
			if outcome(t, err) != tc.want || sink.terminals != 1 || c.Stats().Closed != 1 {
				t.Errorf("%v, want %s; %+v", err, tc.want, c.Stats())
			}
			if err := c.Do(ctx, &a, post(), &sink); outcome(t, err) != tc.want {
				t.Errorf("cancelled before: %v", err)
			}
		})
	}
}

func TestHugeEvent(t *testing.T) { both(t, testHugeEvent) }

func testHugeEvent(t *testing.T, newClient opener) {
	big := strings.Repeat("0123456789abcdef", 5<<16)
	addr := serve(t, nil, replies(sseHead+chunk("data: "+big+"\n\n", done)))
	c := newClient(t, addr, nil)
	for range 2 {
		var sink recorder
		if _, err := do(t, c, &sink); err != nil || len(sink.frames) != 2 || sink.frames[0].Data != big {
			t.Fatalf("%v, %d frames", err, len(sink.frames))
		}
	}
}

func TestHeadRefused(t *testing.T) { both(t, testHeadRefused) }

func testHeadRefused(t *testing.T, newClient opener) {
	addr := serve(t, nil, replies("HTTP/1.1 302 Found\r\nLocation: http://u:pw123456@x/\r\nContent-Length: 0\r\n\r\n"))
	c := newClient(t, addr, nil)
	sink := recorder{headErr: errors.New("redirect to http://u:pw123456@x/ refused")}
	a, err := do(t, c, &sink)
	if outcome(t, err) != record.NotDialect || a.Status != 302 || sink.terminals != 0 {
		t.Errorf("%v, %+v", err, a)
	}
	if want := "redirect to http://x/ refused"; err == nil || err.Error() != want {
		t.Errorf("%q, want %q", err, want)
	}
	sink.headErr = &Error{Outcome: record.HTTPError, Err: errors.New("x")}
	if _, err = do(t, c, &sink); outcome(t, err) != record.HTTPError {
		t.Error(err)
	}
}

// TestEarlyReply: a server may refuse a large request before it has read it.
func TestEarlyReply(t *testing.T) { both(t, testEarlyReply) }

func testEarlyReply(t *testing.T, newClient opener) {
	addr := serve(t, nil, func(p *peer) {
		p.br.Peek(1)
		p.send("HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
		p.Conn.(interface{ CloseWrite() error }).CloseWrite()
		p.silent()
	})
	req := post()
	req.Body = make([]byte, 8<<20)
	var a record.Attempt
	if err := newClient(t, addr, nil).Do(t.Context(), &a, req, &recorder{}); err != nil || a.Status != 413 {
		t.Errorf("%v, status %d", err, a.Status)
	}
}
