package wire

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-bench/assay/internal/clock"
	"github.com/assay-bench/assay/record"
)

// certificates returns a server's TLS configuration for 127.0.0.1 and
// example.com, and a client's that trusts it.
func certificates(t testing.TB) (server, client *tls.Config) {
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.StartTLS()
	defer s.Close()
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	return &tls.Config{Certificates: s.TLS.Certificates, NextProtos: []string{"http/1.1"}}, &tls.Config{RootCAs: pool}
}

func TestTLS(t *testing.T) {
	server, client := certificates(t)
	addr := serve(t, server, replies(sseHead+chunk("data: a\n\n", done)))
	c := newClient(t, addr, func(c *Config) { c.Scheme, c.TLS = "https", client })
	for i := range 3 {
		var sink recorder
		a, err := do(t, c, &sink)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"a", "[DONE]"}, sink.data()); diff != "" {
			t.Error(diff)
		}
		if (a.TLS > 0) != (i == 0) || a.Sent < a.ConnReady || a.SentLast <= a.Sent || a.EOF == 0 {
			t.Errorf("%+v", a)
		}
	}
}

func TestTLSErrors(t *testing.T) {
	server, client := certificates(t)
	other := server.Clone()
	other.NextProtos = []string{"h3"} // with h2, Go would fall back to HTTP/1.1
	plain := serve(t, nil, func(p *peer) { p.send("HTTP/1.1 400 Bad\r\n\r\n") })
	for _, tc := range []struct {
		name, addr string
		client     *tls.Config
		text       string
	}{
		{"unknown authority", serve(t, server, (*peer).silent), &tls.Config{}, "certificate"},
		{"another protocol alone", serve(t, other, (*peer).silent), client, "refuses HTTP/1.1"},
		{"not TLS", plain, client, "does not speak TLS"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newClient(t, tc.addr, func(c *Config) { c.Scheme, c.TLS = "https", tc.client })
			a, err := do(t, c, &recorder{})
			if outcome(t, err) != record.ConnectTLS || !strings.Contains(err.Error(), tc.text) || a.Sent != 0 {
				t.Errorf("%v, %+v", err, a)
			}
		})
	}
}

// TestTLSRecordsInOneRead: records that came in one raw read are coalesced, all
// of them, though TLS gives them one by one.
func TestTLSRecordsInOneRead(t *testing.T) {
	server, client := certificates(t)
	buffered := &corked{}
	addr := serve(t, nil, func(p *peer) {
		buffered.Conn = p.Conn
		tc := tls.Server(buffered, server)
		r, err := http.ReadRequest(bufio.NewReader(tc))
		if err != nil {
			t.Error(err)
			return
		}
		io.Copy(io.Discard, r.Body)
		io.WriteString(tc, sseHead)
		io.WriteString(tc, "9\r\ndata: a\n\n\r\n")
		buffered.cork()
		io.WriteString(tc, "9\r\ndata: b\n\n\r\n")
		io.WriteString(tc, "9\r\ndata: c\n\n\r\n")
		buffered.uncork()
		io.WriteString(tc, "e\r\n"+done+"\r\n0\r\n\r\n")
		p.silent()
	})
	c := newClient(t, addr, func(c *Config) { c.Scheme, c.TLS = "https", client })
	var sink recorder
	if _, err := do(t, c, &sink); err != nil || len(sink.frames) != 4 {
		t.Fatal(err, sink.frames)
	}
	for _, f := range sink.frames[1:3] {
		if !f.Flags.Has(record.FlagCoalesced) {
			t.Errorf("%q is not coalesced", f.Data)
		}
	}
}

// corked is a connection whose writes can be merged into one.
type corked struct {
	net.Conn
	held []byte
	on   bool
}

func (c *corked) cork() { c.on = true }
func (c *corked) uncork() {
	c.on = false
	c.Conn.Write(c.held)
}

func (c *corked) Write(p []byte) (int, error) {
	if !c.on {
		return c.Conn.Write(p)
	}
	c.held = append(c.held, p...)
	return len(p), nil
}

func TestRecordTracker(t *testing.T) {
	rec := func(n int) []byte { return append([]byte{23, 3, 3, byte(n >> 8), byte(n)}, make([]byte, n)...) }
	two := append(rec(300), rec(0)...)
	var tr recordTracker
	for i, tc := range []struct {
		b    []byte
		want bool
	}{
		{rec(5), false}, {two, true}, {two[:2], false}, {two[2:305], false}, {two[305:], false},
		{append(rec(1), 23), true}, {rec(9)[1:], false}, {rec(70)[:70], false}, {append(rec(70)[70:], rec(1)...), true},
	} {
		if got := tr.advance(tc.b); got != tc.want {
			t.Errorf("read %d: %v", i, got)
		}
	}
}

func TestConnectErrors(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := l.Addr().String()
	l.Close()
	full := serve(t, nil, (*peer).silent)
	_, client := certificates(t)
	testConnectErrors(t, func(t testing.TB, addr string, edit func(*Config)) *subject {
		return &subject{Client: newClient(t, addr, edit)}
	}, []connectError{
		{"TLS without an answer", func(c *Config) {
			c.Scheme, c.Host, c.TLS = "https", full, client
			c.Timeouts.Connect = 30 * time.Millisecond
		}, record.TimeoutConnect},
		{"total", func(c *Config) {
			c.Scheme, c.Host, c.TLS = "https", full, client
			c.Timeouts.Connect, c.Timeouts.Total = time.Hour, 30*time.Millisecond
		}, record.TimeoutTotal},
	})
	both(t, func(t *testing.T, newClient opener) {
		testConnectErrors(t, newClient, []connectError{
			{"refused", func(c *Config) { c.Host = nobody }, record.ConnectTCP},
			{"no such name", func(c *Config) { c.Host = "name.invalid:80" }, record.ConnectDNS},
			{"no source of the family", func(c *Config) {
				c.Host, c.Sources = full, []netip.Addr{netip.IPv6Loopback()}
			}, record.ConnectTCP},
			{"a source that is not ours", func(c *Config) {
				c.Host, c.Sources = full, []netip.Addr{netip.MustParseAddr("192.0.2.1")}
			}, record.ConnectTCP},
		})
	})
}

type connectError struct {
	name string
	edit func(*Config)
	want record.Outcome
}

func testConnectErrors(t *testing.T, newClient opener, cases []connectError) {
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			c := newClient(t, "x", tc.edit)
			a, err := do(t, c, &recorder{})
			if outcome(t, err) != tc.want || a.Sent != 0 || a.ConnReady != 0 {
				t.Errorf("%v, want %s: %+v", err, tc.want, a)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
			defer cancel()
			if _, err := c.Prewarm(ctx, 3); err == nil {
				t.Error("prewarmed")
			}
			if c.Stats().Opened != 0 || c.inUse != 0 {
				t.Errorf("%+v, in use %d", c.Stats(), c.inUse)
			}
		})
	}
}

// proxy is a tunnelling proxy that wants a password.
func proxy(t *testing.T, tc *tls.Config, seen chan<- string) string {
	return serve(t, tc, func(p *peer) {
		r, err := http.ReadRequest(p.br)
		if err != nil {
			return
		}
		want := "Basic " + base64.StdEncoding.EncodeToString([]byte("user:canary-password"))
		if r.Method != "CONNECT" || r.Header.Get("Proxy-Authorization") != want {
			p.send("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
			return
		}
		up, err := net.Dial("tcp", r.Host)
		if err != nil {
			p.send("HTTP/1.1 502 Bad Gateway\r\n\r\n")
			return
		}
		defer up.Close()
		seen <- r.Host
		p.send("HTTP/1.1 200 Connection established\r\n\r\n")
		var wg sync.WaitGroup
		wg.Go(func() { io.Copy(p.Conn, up); p.Conn.Close() })
		io.Copy(up, p.br)
		up.Close()
		wg.Wait()
	})
}

func fixed(u *url.URL) func(*url.URL) (*url.URL, error) {
	return func(*url.URL) (*url.URL, error) { return u, nil }
}

func TestProxy(t *testing.T) {
	server, client := certificates(t)
	reply := sseHead + chunk("data: a\n\n", done)
	for _, scheme := range []string{"http", "https"} {
		for _, pscheme := range []string{"http", "https"} {
			t.Run(scheme+" by "+pscheme, func(t *testing.T) {
				var ptls, stls *tls.Config
				if pscheme == "https" {
					ptls = server
				}
				if scheme == "https" {
					stls = server
				}
				seen := make(chan string, 1)
				target := serve(t, stls, replies(reply))
				via := proxy(t, ptls, seen)
				u := &url.URL{Scheme: pscheme, Host: via, User: url.UserPassword("user", "canary-password")}
				c := newClient(t, target, func(c *Config) { c.Scheme, c.TLS, c.Proxy = scheme, client, fixed(u) })
				var sink recorder
				a, err := do(t, c, &sink)
				if err != nil || len(sink.frames) != 2 || a.RemoteAddr != via {
					t.Fatalf("%v, %v, %+v", err, sink.frames, a)
				}
				if got := <-seen; got != target {
					t.Errorf("tunnel to %s", got)
				}
				u.User = url.UserPassword("user", "canary-wrong")
				c2 := newClient(t, target, func(c *Config) { c.Scheme, c.TLS, c.Proxy = scheme, client, fixed(u) })
				_, err = do(t, c2, &recorder{})
				if outcome(t, err) != record.ConnectTCP || !strings.Contains(err.Error(), "407") || strings.Contains(err.Error(), "canary") {
					t.Error(err)
				}
			})
		}
	}
}

func TestResolve(t *testing.T) { both(t, testResolve) }

func testResolve(t *testing.T, newClient opener) {
	addr := serve(t, nil, func(p *peer) {
		for {
			r := p.request()
			if r == nil {
				return
			}
			fmt.Fprintf(p, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(r.Host), r.Host)
		}
	})
	_, port, _ := net.SplitHostPort(addr)
	for _, tc := range []struct{ name, host, header, resolve, want string }{
		{"address", "model.invalid:" + port, "", "127.0.0.1", "model.invalid:" + port},
		{"address and port", "model.invalid:80", "", addr, "model.invalid"},
		{"default port and own header", "model.invalid", "other.example", addr, "other.example"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newClient(t, tc.host, func(c *Config) {
				c.HostHeader = tc.header
				host := tc.host
				if !strings.Contains(host, ":") {
					host += ":80"
				}
				c.Resolve = map[string]string{host: tc.resolve}
			})
			sink := recorder{framing: Whole}
			if _, err := do(t, c, &sink); err != nil || sink.frames[0].Data != tc.want {
				t.Errorf("%v %v", err, sink.frames)
			}
		})
	}
}

// TestSpread: with two addresses, requests alternate and keep their connections.
func TestSpread(t *testing.T) { both(t, testSpread) }

func testSpread(t *testing.T, newClient opener) {
	script := replies(sseHead + chunk(done))
	a1, a2 := serve(t, nil, script), serve(t, nil, script)
	c := newClient(t, a1, func(c *Config) { c.ConnMode = ConnSpread })
	c.route.Store(&route{connect: a1, addrs: []string{a1, a2}})
	if n, err := c.Prewarm(t.Context(), 2); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	var remotes []string
	for range 4 {
		a, err := do(t, c, &recorder{})
		if err != nil {
			t.Fatal(err)
		}
		remotes = append(remotes, a.RemoteAddr)
	}
	if diff := cmp.Diff([]string{a1, a2, a1, a2}, remotes); diff != "" {
		t.Error(diff)
	}
	if s := c.Stats(); s != (Stats{Opened: 2, Reused: 4}) {
		t.Errorf("%+v", s)
	}
}

// TestFallback: an address that refuses is passed over, and remembered.
func TestFallback(t *testing.T) { both(t, testFallback) }

func testFallback(t *testing.T, newClient opener) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	bad := l.Addr().String()
	l.Close()
	good := serve(t, nil, replies(sseHead+chunk(done)))
	c := newClient(t, bad, func(c *Config) { c.Timeouts.Connect = 10 * time.Second })
	c.route.Store(&route{connect: bad, addrs: []string{bad, good}})
	if a, err := do(t, c, &recorder{}); err != nil || a.RemoteAddr != good {
		t.Error(err, a.RemoteAddr)
	}
	if c.preferred.Load() != 1 {
		t.Error("not remembered")
	}
}

func TestPerRequest(t *testing.T) { both(t, testPerRequest) }

func testPerRequest(t *testing.T, newClient opener) {
	addr := serve(t, nil, replies(sseHead+chunk(done)))
	c := newClient(t, addr, func(c *Config) { c.ConnMode = ConnPerRequest })
	if n, err := c.Prewarm(t.Context(), 2); n != 0 || err != nil {
		t.Error(n, err)
	}
	for range 3 {
		if a, err := do(t, c, &recorder{}); err != nil || a.ConnReused {
			t.Error(err, a.ConnReused)
		}
	}
	if s := c.Stats(); s != (Stats{Opened: 3, Closed: 3}) {
		t.Errorf("%+v", s)
	}
}

func TestFresh(t *testing.T) { both(t, testFresh) }

func testFresh(t *testing.T, newClient opener) {
	c := newClient(t, serve(t, nil, replies(sseHead+chunk(done))), nil)
	if _, err := c.Prewarm(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	req := post()
	req.Fresh = true
	var a record.Attempt
	if err := c.Do(t.Context(), &a, req, &recorder{}); err != nil || a.ConnReused {
		t.Error(err, a.ConnReused)
	}
}

func TestNotReusable(t *testing.T) { both(t, testNotReusable) }

func testNotReusable(t *testing.T, newClient opener) {
	for name, reply := range map[string]string{
		"Connection: close": "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.0":          "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
		"excess bytes":      "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nX",
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, serve(t, nil, replies(reply)), nil)
			for range 2 {
				if a, err := do(t, c, &recorder{}); err != nil || a.ConnReused {
					t.Error(err, a.ConnReused)
				}
			}
		})
	}
}

func TestKeepAlive(t *testing.T) { both(t, testKeepAlive) }

func testKeepAlive(t *testing.T, newClient opener) {
	for _, tc := range []struct {
		header string
		max    time.Duration
		want   time.Duration
	}{
		{"", 0, DefaultMaxIdle},
		{"timeout=65, max=100", 0, 64 * time.Second},
		{"max=5, Timeout=1", 0, 500 * time.Millisecond},
		{"timeout=65", 10 * time.Second, 10 * time.Second},
		{"timeout=3", 10 * time.Second, 2 * time.Second},
		{"timeout=x", 0, DefaultMaxIdle},
		{"timeout=-1", 0, DefaultMaxIdle},
	} {
		head := "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n"
		if tc.header != "" {
			head += "Keep-Alive: " + tc.header + "\r\n"
		}
		c := newClient(t, serve(t, nil, replies(head+"\r\n")), func(c *Config) { c.MaxIdle = tc.max })
		if _, err := do(t, c, &recorder{}); err != nil {
			t.Fatal(err)
		}
		if got := c.maxIdle(); got != tc.want {
			t.Errorf("%q: %v, want %v", tc.header, got, tc.want)
		}
	}
}

// TestSources: connections come from the given addresses in turn.
func TestSources(t *testing.T) { both(t, testSources) }

func testSources(t *testing.T, newClient opener) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has all of 127/8")
	}
	addr := serve(t, nil, func(p *peer) {
		p.request()
		host, _, _ := net.SplitHostPort(p.RemoteAddr().String())
		fmt.Fprintf(p, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(host), host)
	})
	c := newClient(t, addr, func(c *Config) {
		c.ConnMode = ConnPerRequest
		c.Sources = []netip.Addr{netip.IPv6Loopback(), netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("127.0.0.3")}
	})
	seen := map[string]int{}
	for range 6 {
		sink := recorder{framing: Whole}
		if _, err := do(t, c, &sink); err != nil {
			t.Fatal(err)
		}
		seen[sink.frames[0].Data]++
	}
	if seen["127.0.0.2"] < 2 || seen["127.0.0.3"] < 2 || len(seen) != 2 {
		t.Error(seen)
	}
}

func TestIPv6(t *testing.T) { both(t, testIPv6) }

func testIPv6(t *testing.T, newClient opener) {
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skip("no IPv6 here:", err)
	}
	defer l.Close()
	over := make(chan struct{})
	go func() {
		defer close(over)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		p := &peer{Conn: c, br: bufio.NewReader(c)}
		p.request()
		p.send(sseHead + chunk(done))
		p.silent()
	}()
	c := newClient(t, l.Addr().String(), nil)
	if a, err := do(t, c, &recorder{}); err != nil || a.RemoteAddr != l.Addr().String() {
		t.Errorf("%v, remote %q", err, a.RemoteAddr)
	}
	c.close()
	<-over
}

func TestExpiry(t *testing.T) {
	addr := serve(t, nil, replies(sseHead+chunk(done)))
	c := newClient(t, addr, func(c *Config) { c.MaxIdle = time.Hour })
	if n, err := c.Prewarm(t.Context(), 3); n != 3 || err != nil {
		t.Fatal(n, err)
	}
	c.pool.idle[0][0].idleSince -= record.Stamp(2 * time.Hour)
	c.pool.idle[0][1].idleSince -= record.Stamp(2 * time.Hour)
	if a, err := do(t, c, &recorder{}); err != nil || !a.ConnReused {
		t.Fatal(err)
	}
	if s := c.Stats(); s.Closed != 2 || len(c.pool.idle[0]) != 1 {
		t.Errorf("%+v, %d left", s, len(c.pool.idle[0]))
	}
	c.pool.idle[0][0].idleSince -= record.Stamp(2 * time.Hour)
	if a, err := do(t, c, &recorder{}); err != nil || a.ConnReused {
		t.Fatal(err)
	}
	c.Close()
	var a record.Attempt
	if err := c.Do(t.Context(), &a, post(), &recorder{}); outcome(t, err) != record.NeverSent || !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

// TestNoSecrets: an echo of the request is not a way for a key into an error.
func TestNoSecrets(t *testing.T) { both(t, testNoSecrets) }

func testNoSecrets(t *testing.T, newClient opener) {
	for name, script := range map[string]func(p *peer){
		"echo": func(p *peer) {
			r := p.request()
			fmt.Fprintf(p, "%s x\r\n\r\n", r.Header.Get("Authorization"))
		},
		"header line": func(p *peer) {
			r := p.request()
			fmt.Fprintf(p, "HTTP/1.1 200 OK\r\n%s %s\r\n\r\n", r.Header.Get("Authorization"), r.Header.Get("Cookie"))
		},
		"encoding": func(p *peer) {
			r := p.request()
			fmt.Fprintf(p, "HTTP/1.1 200 OK\r\nContent-Encoding: %s\r\n\r\n", r.Header.Get("X-Key"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, serve(t, nil, script), nil)
			req := post()
			req.Header.Set("Authorization", "Bearer canary-0123456789")
			req.Header.Set("Cookie", "a=canary-abcdef; b=2")
			req.Header.Set("X-Key", "canary-x-key")
			var a record.Attempt
			err := c.Do(t.Context(), &a, req, &recorder{})
			if outcome(t, err) != record.NotDialect || strings.Contains(err.Error(), "canary") {
				t.Error(err)
			}
		})
	}
	e := &Error{Err: errors.New("dial https://user:canary@host/: no\nroute")}
	if got := e.Error(); got != "dial https://host/: no route" {
		t.Errorf("%q", got)
	}
}

func TestBadRequests(t *testing.T) { both(t, testBadRequests) }

func testBadRequests(t *testing.T, newClient opener) {
	c := newClient(t, "127.0.0.1:1", nil)
	for name, edit := range map[string]func(*Request){
		"path":         func(r *Request) { r.Path = "canary no slash" },
		"header name":  func(r *Request) { r.Header = http.Header{"a b": {"x"}} },
		"header value": func(r *Request) { r.Header = http.Header{"A": {"canary\r\nB: c"}} },
	} {
		req := post()
		edit(req)
		var a record.Attempt
		err := c.Do(t.Context(), &a, req, &recorder{})
		if outcome(t, err) != record.NeverSent || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestConfig(t *testing.T) {
	clk := clock.Start()
	for name, cfg := range map[string]Config{
		"no clock":  {Scheme: "http", Host: "x"},
		"no scheme": {Host: "x", Clock: clk},
		"no host":   {Scheme: "http", Clock: clk},
		"userinfo":  {Scheme: "http", Host: "a@b", Clock: clk},
		"no port":   {Scheme: "http", Host: "a:", Clock: clk},
		"mode":      {Scheme: "http", Host: "a", Clock: clk, ConnMode: "x"},
		"header":    {Scheme: "http", Host: "a", Clock: clk, HostHeader: "a\r\nb"},
	} {
		if _, err := NewClient(cfg); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	c, err := NewClient(Config{Scheme: "https", Host: "[::1]", Clock: clk})
	if err != nil || c.cfg.Host != "[::1]:443" || c.cfg.HostHeader != "[::1]" || c.cfg.TLS.ServerName != "::1" {
		t.Errorf("%v %+v", err, c.cfg)
	}
}

func TestPrewarmThenUse(t *testing.T) { both(t, testPrewarmThenUse) }

func testPrewarmThenUse(t *testing.T, newClient opener) {
	addr := serve(t, nil, replies(sseHead+chunk(done)))
	c := newClient(t, addr, nil)
	if n, err := c.Prewarm(t.Context(), 40); n != 40 || err != nil {
		t.Fatal(n, err)
	}
	var wg sync.WaitGroup
	for range 40 {
		wg.Go(func() {
			var a record.Attempt
			if err := c.Do(context.Background(), &a, post(), &recorder{}); err != nil || !a.ConnReused {
				t.Error(err, a.ConnReused)
			}
		})
	}
	wg.Wait()
	if s := c.Stats(); s.Opened != 40 || s.Reused != 40 || s.Reconnects != 0 {
		t.Errorf("%+v", s)
	}
}
