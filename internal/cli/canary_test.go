package cli

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// The canaries, by the road on which they come in. All end in the same word.
const (
	canary       = "CanaryXq7"
	canaryKey    = "sk-key-" + canary
	canaryAuth   = "auth-" + canary
	canaryCookie = "cookie+" + canary // changes its form in a URL
	canaryX      = "x key/" + canary
	canaryUser   = "user-" + canary
	canaryPass   = "pass-" + canary
	canaryProxy  = "proxy-" + canary
)

// roads are the ways to give a secret.
func roads() map[string]func(target string) (url string, args, env []string) {
	return map[string]func(string) (string, []string, []string){
		"api-key-env": func(u string) (string, []string, []string) {
			return u, []string{"--api-key-env", "CANARY_KEY"}, []string{"CANARY_KEY=" + canaryKey}
		},
		"headers and query": func(u string) (string, []string, []string) {
			return u + "/v1?key=query-" + canary, []string{
				"--header", "Authorization: Bearer " + canaryAuth, "--header", "Cookie: session=" + canaryCookie + "; theme=dark",
				"--header", "X-Key: " + canaryX,
			}, nil
		},
		"userinfo": func(u string) (string, []string, []string) {
			return strings.Replace(u, "://", "://"+canaryUser+":"+canaryPass+"@", 1), nil, nil
		},
	}
}

// echo is what a careless server says of a request: all that it was sent.
func echo(r *http.Request) string {
	var b strings.Builder
	for name, values := range r.Header {
		for _, v := range values {
			fmt.Fprintf(&b, "%s=%s ", name, v)
		}
	}
	if user, password, ok := r.BasicAuth(); ok {
		fmt.Fprintf(&b, "user %s with %s ", user, password)
	}
	return b.String() + r.URL.RawQuery
}

// failures are the ways in which a server gives away what it was sent.
func failures() map[string]http.HandlerFunc {
	inChat := func(h http.HandlerFunc, measuredOnly bool) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			good := &fake{}
			measured := !strings.Contains(r.Header.Get("X-Request-Id"), "--")
			if r.URL.Path != "/v1/chat/completions" || measuredOnly && !measured {
				good.ServeHTTP(w, r)
				return
			}
			h(w, r)
		}
	}
	jsonError := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Server", "careless "+r.Header.Get("Authorization"))
			w.WriteHeader(code)
			fmt.Fprintf(w, `{"error": {"message": %q, "type": "careless"}}`, "refused: "+echo(r))
		}
	}
	redirect := func(w http.ResponseWriter, r *http.Request) {
		q := url.Values{"all": {echo(r)}, "cookie": {r.Header.Get("Cookie")}, "key": {r.Header.Get("X-Key")}}
		w.Header().Set("Location", "https://me:"+canaryPass+"@elsewhere.example/?"+q.Encode())
		w.WriteHeader(http.StatusFound)
	}
	return map[string]http.HandlerFunc{
		"good":                (&fake{}).ServeHTTP,
		"401 everywhere":      jsonError(401),
		"500 everywhere":      jsonError(500),
		"redirect everywhere": redirect,
		"text everywhere":     func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, echo(r)) },
		"403 of the probe":    inChat(jsonError(403), false),
		"500 of the load":     inChat(jsonError(500), true),
		"redirect in load":    inChat(redirect, true),
		"long body in load": inChat(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusBadGateway)
			// The cut of the stored body goes through a secret, at each of many places.
			io.WriteString(w, strings.Repeat(".", maxBodyKept-9-int(r.ContentLength%17))+echo(r))
		}, true),
		"error in stream": inChat(func(w http.ResponseWriter, r *http.Request) {
			begin(w)
			tokens(w, 2)
			event(w, `{"error": {"message": %q}}`, echo(r))
		}, true),
		"finish and model": inChat(func(w http.ResponseWriter, r *http.Request) {
			begin(w)
			event(w, `{"model":%q,"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":%q,"stop_reason":%q}]}`, echo(r), echo(r), echo(r))
			event(w, "[DONE]")
		}, true),
		"text for a stream": inChat(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, echo(r)) }, true),
		"reset in load":     inChat(func(w http.ResponseWriter, r *http.Request) { raw(w, true, echo(r)) }, true),
	}
}

// maxBodyKept is how much of an error body a run stores.
const maxBodyKept = 2 << 10

// TestCanary: a secret is sent, and is found nowhere else, however the server
// fails and whatever it repeats.
func TestCanary(t *testing.T) {
	for failure, handler := range failures() {
		for road, take := range roads() {
			if road == "api-key-env" && !strings.Contains(failure, "0") && failure != "good" {
				continue // it goes the way of the header Authorization
			}
			t.Run(failure+"/"+road, func(t *testing.T) {
				t.Parallel()
				var mu sync.Mutex
				sent := false
				s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					mu.Lock()
					sent = sent || strings.Contains(echo(r), canary)
					mu.Unlock()
					handler(w, r)
				}))
				defer s.Close()
				target, args, env := take(s.URL)
				dir := t.TempDir()
				o := assay(t, dir, env, append(append([]string{"run", target}, args...), short()...)...)
				mu.Lock()
				if !sent {
					t.Errorf("the secret was never sent: nothing is tested; standard error: %s", o.stderr)
				}
				mu.Unlock()
				if want := failure == "good"; want != (o.code == exitOK) && failure != "finish and model" {
					t.Errorf("exit code %d: %s", o.code, o.stderr)
				}
				nowhere(t, dir, o)
			})
		}
	}
}

// nowhere fails if a canary is in an output or in a file.
func nowhere(t *testing.T, dir string, o outcome) {
	t.Helper()
	has := func(s string) bool {
		if strings.Contains(s, canary) || strings.Contains(s, canary[:len(canary)-1]) {
			return true
		}
		for _, secret := range []string{canaryUser + ":" + canaryPass, canaryUser + ":" + canaryProxy} {
			if strings.Contains(s, base64.StdEncoding.EncodeToString([]byte(secret))[:16]) {
				return true
			}
		}
		// Half a secret is a secret as well.
		for _, secret := range []string{canaryKey, canaryAuth, canaryCookie, canaryX, canaryPass, canaryProxy} {
			if strings.Contains(s, secret[:len(secret)-len(canary)+3]) {
				return true
			}
		}
		return false
	}
	if has(o.stdout) {
		t.Errorf("on standard output:\n%s", o.stdout)
	}
	if has(o.stderr) {
		t.Errorf("on standard error:\n%s", o.stderr)
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if has(string(b)) {
			t.Errorf("in %s", d.Name())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestCanaryProxy: the password of a proxy, for proxies that work, refuse, hang
// up or cannot be.
func TestCanaryProxy(t *testing.T) {
	for _, c := range []struct {
		name  string
		proxy func(t *testing.T) string // host:port
		code  int
	}{
		{"works", func(t *testing.T) string { return connectProxy(t, true) }, exitOK},
		{"refuses", func(t *testing.T) string { return connectProxy(t, false) }, exitTarget},
		{"hangs up", func(t *testing.T) string { return strings.TrimPrefix(hangUp(t), "http://") }, exitTarget},
		{"closed", func(t *testing.T) string { return strings.TrimPrefix(closedPort(t), "http://") }, exitTarget},
		{"bad port", func(*testing.T) string { return "localhost:port" }, exitTarget},
		{"bad host", func(*testing.T) string { return "local host:80" }, exitTarget},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			target := (&fake{}).start(t)
			// Loopback is never proxied, so the target has a name.
			_, port, _ := net.SplitHostPort(strings.TrimPrefix(target, "http://"))
			proxy := "http://" + canaryUser + ":" + canaryProxy + "@" + c.proxy(t)
			dir := t.TempDir()
			o := assay(t, dir, []string{"HTTP_PROXY=" + proxy, "http_proxy=" + proxy}, append([]string{"run", "http://target.test:" + port}, short()...)...)
			if o.code != c.code {
				t.Errorf("exit code %d, want %d: %s", o.code, c.code, o.stderr)
			}
			nowhere(t, dir, o)
		})
	}
}

// connectProxy is a proxy that leads every name to loopback, or that refuses and
// repeats what it was sent.
func connectProxy(t *testing.T, works bool) string {
	ln := listen(t)
	serve := func(c net.Conn) {
		defer c.Close()
		r, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		if !works || !strings.Contains(r.Header.Get("Proxy-Authorization"), "Basic ") {
			fmt.Fprintf(c, "HTTP/1.1 407 Proxy Authentication Required for %s\r\nContent-Length: 0\r\n\r\n", r.Header.Get("Proxy-Authorization"))
			return
		}
		_, port, _ := net.SplitHostPort(r.Host)
		up, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", port))
		if err != nil {
			return
		}
		defer up.Close()
		io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
		go func() {
			_, _ = io.Copy(up, c)
			up.(*net.TCPConn).CloseWrite()
		}()
		_, _ = io.Copy(c, up)
	}
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}()
	return ln.Addr().String()
}
