package cli

import (
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
)

func status(code int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(code)
		io.WriteString(w, body)
	}
}

// reply answers every chat request with a handler.
func reply(h http.HandlerFunc) func(http.ResponseWriter, *chatRequest) bool {
	return func(w http.ResponseWriter, _ *chatRequest) bool {
		h(w, nil)
		return true
	}
}

const html = "<!DOCTYPE html>\n<html><head><title>Welcome</title></head>\n<body>It works!</body></html>\n"

// TestRefusals holds what a user sees of a target that cannot be measured: exit
// code 3, one line that says what to do, nothing on standard output, no folder.
func TestRefusals(t *testing.T) {
	serve := func(f fake) func(*testing.T) string { return f.start }
	for _, c := range []struct {
		name   string
		target func(*testing.T) string // its URL
		args   []string
		want   string // of the line
	}{
		{"closed port", closedPort, nil, `http://127\.0\.0\.1:\d+ does not answer: .*connection refused`},
		{"no such host", fixed("http://no-such-host.invalid"), nil, `no-such-host\.invalid does not answer: .*no-such-host\.invalid`},
		{"silent", silent(""), []string{"--timeout-first", "150ms"}, `does not answer: .*(timeout|time|deadline|no event|within)`},
		{"closes at once", hangUp, nil, `does not answer: `},
		{"not HTTP", silent("SSH-2.0-OpenSSH_9.6\r\n"), []string{"--timeout-first", "150ms"}, `does not answer: .*HTTP`},
		{"TLS wanted by us alone", func(t *testing.T) string { return "https" + strings.TrimPrefix((&fake{}).start(t), "http") }, nil, `TLS handshake: the server does not speak TLS \(try http://\)`},
		{"certificate of nobody", tlsServer, nil, `TLS handshake: .*certificate.*--ca-file, or --insecure$`},
		{"TLS wanted by the target alone", func(t *testing.T) string { return "http" + strings.TrimPrefix(tlsServer(t), "https") }, nil, `/v1 speaks TLS: give it as https://127\.0\.0\.1:\d+$`},

		{"401 of the list", serve(fake{models: status(401, "application/json", `{"error":{"message":"no key"}}`)}), nil, `/v1/models wants credentials \(HTTP 401\): .*--api-key-env NAME`},
		{"403 of the list", serve(fake{models: status(403, "application/json", `{"error":{"message":"not yours"}}`)}), nil, `/v1/models answers HTTP 403 \(not yours\): name the model with --model`},
		{"401 of the request", serve(fake{chat: reply(status(401, "application/json", `{"error":{"message":"bad key"}}`))}), nil, `refuses us \(HTTP 401: bad key\): .*--api-key-env NAME`},
		{"403 of the request", serve(fake{chat: reply(status(403, "application/json", `{"error":{"message":"bad key"}}`))}), nil, `refuses us \(HTTP 403: bad key\)`},
		{"wrong model", serve(fake{}), []string{"--model", "x"}, `no model "x"; it offers: m$`},
		{"wrong model, no list", serve(fake{models: status(403, "text/plain", ""), chat: reply(status(404, "application/json", `{"error":{"message":"The model x does not exist.","type":"NotFoundError"}}`))}), []string{"--model", "x"}, `does not know the model "x"`},
		{"several models", serve(fake{models: models("a", "b")}), nil, `2 models, name one with --model: a, b$`},
		{"no models", serve(fake{models: models()}), nil, `lists no model: is this an OpenAI-compatible endpoint\?`},

		{"does not stream", serve(fake{chat: func(w http.ResponseWriter, q *chatRequest) bool {
			q.Stream = false
			return false
		}}), nil, `does not stream as asked: .*"application/json", not text/event-stream\. Measure E2E alone with --no-stream`},
		{"HTML", func(t *testing.T) string {
			s := httptest.NewServer(status(200, "text/html", html))
			t.Cleanup(s.Close)
			return s.URL
		}, nil, `lists no model: is this an OpenAI-compatible endpoint\?`},
		{"HTML of the request", serve(fake{chat: reply(status(200, "text/html", html))}), nil, `does not stream as asked: .*"text/html"`},
		{"404", func(t *testing.T) string {
			s := httptest.NewServer(http.NotFoundHandler())
			t.Cleanup(s.Close)
			return s.URL
		}, nil, `/v1/models answers HTTP 404 \(404 page not found\)`},
		{"404 of the request", serve(fake{chat: reply(http.NotFound)}), nil, `/v1/chat/completions refuses requests of openai-chat: HTTP 404`},
		{"500 of the request", serve(fake{chat: reply(status(500, "application/json", `{"error":{"message":"out of memory"}}`))}), nil, `HTTP 500: out of memory`},
		{"redirect of the list", serve(fake{models: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "https://elsewhere.example/v1/models")
			w.WriteHeader(http.StatusMovedPermanently)
		}}), nil, `redirects to https://elsewhere\.example/v1/models; redirects are refused: give that URL`},
		{"redirect of the request", serve(fake{chat: func(w http.ResponseWriter, _ *chatRequest) bool {
			w.Header().Set("Location", "https://elsewhere.example/v1/chat/completions")
			w.WriteHeader(http.StatusTemporaryRedirect)
			return true
		}}), nil, `redirects to https://elsewhere\.example/v1/chat/completions; redirects are refused: give that URL`},
		{"empty stream", serve(fake{chat: func(w http.ResponseWriter, _ *chatRequest) bool {
			begin(w)
			return true
		}}), nil, `answered with an empty stream`},
		{"nothing completed", serve(fake{chat: func(w http.ResponseWriter, q *chatRequest) bool {
			if q.index < 0 {
				return false
			}
			status(500, "application/json", `{"error":{"message":"overloaded"}}`)(w, nil)
			return true
		}}), []string{"-q"}, `no attempt completed: HTTP 500: overloaded`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			o := assay(t, dir, nil, append([]string{"run", c.target(t)}, short(c.args...)...)...)
			if o.code != exitTarget {
				t.Errorf("exit code %d, want %d", o.code, exitTarget)
			}
			line, isOne := strings.CutSuffix(o.stderr, "\n")
			if !isOne || strings.Contains(line, "\n") || !regexp.MustCompile(`^assay: .*`+c.want).MatchString(line) {
				t.Errorf("standard error is not one line that matches %q:\n%s", c.want, o.stderr)
			}
			if c.name == "nothing completed" {
				return // that is a run, and has a report
			}
			if o.stdout != "" {
				t.Errorf("standard output:\n%s", o.stdout)
			}
			if left, _ := os.ReadDir(dir); len(left) > 0 {
				t.Errorf("%s was left behind", left[0].Name())
			}
		})
	}
}

func fixed(url string) func(*testing.T) string { return func(*testing.T) string { return url } }

func closedPort(t *testing.T) string {
	ln := listen(t)
	ln.Close()
	return "http://" + ln.Addr().String()
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln
}

// silent accepts, says its line if it has one, and never replies.
func silent(line string) func(*testing.T) string {
	return func(t *testing.T) string {
		ln := listen(t)
		go func() {
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				io.WriteString(c, line)
				defer c.Close()
			}
		}()
		return "http://" + ln.Addr().String()
	}
}

func hangUp(t *testing.T) string {
	ln := listen(t)
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	return "http://" + ln.Addr().String()
}

func tlsServer(t *testing.T) string {
	s := httptest.NewUnstartedServer(&fake{})
	s.TLS = &tls.Config{}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL
}

// TestClosedList: a list of models that is closed to us does not matter when the
// model is named.
func TestClosedList(t *testing.T) {
	t.Parallel()
	f := fake{models: status(403, "application/json", `{"error":"no"}`)}
	o := assay(t, t.TempDir(), nil, append([]string{"run", f.start(t), "--model", "m", "-q", "--json"}, short()...)...)
	if o.code != exitOK {
		t.Fatalf("exit code %d: %s", o.code, o.stderr)
	}
	if r := parseRun(t, o); r.Target.Model != "m" || r.Stages[0].Ledger.Completed != 12 {
		t.Errorf("model %q, %d completed", r.Target.Model, r.Stages[0].Ledger.Completed)
	}
}
