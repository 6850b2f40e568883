package simserver

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

var volatile = regexp.MustCompile(`"created":\d+|"(queue_time_ms|time_to_first_token_ms|generation_time_ms|mean_itl_ms|tokens_per_second)":[0-9.e+-]+`)

// golden compares a body with testdata/name, times taken out.
func golden(t *testing.T, name, body string) {
	t.Helper()
	body = volatile.ReplaceAllStringFunc(body, func(s string) string {
		key, _, _ := strings.Cut(s, ":")
		return key + ":0"
	})
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(body), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), body); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", name, diff)
	}
}

func TestShapes(t *testing.T) {
	cfg := fastConfig()
	cfg.PerRequestMetrics, cfg.PromptTokensDetails = true, true
	cfg.Engine.PrefixCaching = false // the cases come in any order
	r := start(t, cfg)
	const chat = `"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":[{"type":"text","text":"Hello, world"}]}]`
	const exact = `"max_tokens":3,"ignore_eos":true,"temperature":0`
	for name, c := range map[string]struct{ path, body string }{
		"chat-stream.txt":         {"/v1/chat/completions", `{` + chat + `,` + exact + `,"stream":true}`},
		"chat-stream-usage.txt":   {"/v1/chat/completions", `{` + chat + `,` + exact + `,"stream":true,"stream_options":{"include_usage":true}}`},
		"chat-stream-full.txt":    {"/v1/chat/completions", `{` + chat + `,` + exact + `,"stream":true,"return_token_ids":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`},
		"chat-stream-n.txt":       {"/v1/chat/completions", `{` + chat + `,"max_tokens":2,"ignore_eos":true,"n":2,"stream":true,"stream_options":{"include_usage":true}}`},
		"chat-stream-one.txt":     {"/v1/chat/completions", `{` + chat + `,"max_tokens":1,"ignore_eos":true,"stream":true}`},
		"chat-stream-stop.txt":    {"/v1/chat/completions", `{` + chat + `,"max_tokens":4096,"seed":3,"stream":true,"return_token_ids":true,"stream_options":{"include_usage":true}}`},
		"chat.json":               {"/v1/chat/completions", `{` + chat + `,` + exact + `}`},
		"chat-ids.json":           {"/v1/chat/completions", `{` + chat + `,` + exact + `,"n":2,"return_token_ids":true}`},
		"completions-stream.txt":  {"/v1/completions", `{"prompt":[1,2,3],` + exact + `,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`},
		"completions-prompts.txt": {"/v1/completions", `{"prompt":["one","two more"],` + exact + `,"stream":true,"return_token_ids":true}`},
		"completions.json":        {"/v1/completions", `{"prompt":[[1,2,3],[4]],` + exact + `}`},
		"interval-stream.txt":     {"/v1/completions", `{"prompt":[7],"max_tokens":8,"ignore_eos":true,"stream":true,"stream_interval":3,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`},
	} {
		t.Run(name, func(t *testing.T) {
			golden(t, name, r.post(200, c.path, c.body, "X-Request-Id", "req-1"))
		})
	}
}

// Each event is one chunk of the transfer coding, and the body ends properly.
func TestFraming(t *testing.T) {
	r := start(t, fastConfig())
	conn, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	body := `{"prompt":[7],"max_tokens":4,"ignore_eos":true,"stream":true}`
	fmt.Fprintf(conn, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	br := bufio.NewReader(conn)
	for line := ""; line != "\r\n"; {
		if line, err = br.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	chunks := 0
	for {
		line, err := br.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		var size int
		if _, err := fmt.Sscanf(line, "%x\r\n", &size); err != nil {
			t.Fatalf("size line %q: %v", line, err)
		}
		data := make([]byte, size+2)
		for n := 0; n < len(data); {
			m, err := br.Read(data[n:])
			if err != nil {
				t.Fatal(err)
			}
			n += m
		}
		if !strings.HasSuffix(string(data), "\r\n") {
			t.Fatalf("chunk %q does not end in CR LF", data)
		}
		if size == 0 {
			break
		}
		if s := string(data[:size]); !strings.HasPrefix(s, "data: ") || !strings.HasSuffix(s, "\n\n") || strings.Count(s, "\n\n") != 1 {
			t.Errorf("chunk %q is not one event", s)
		}
		chunks++
	}
	if chunks != 5 { // four tokens and [DONE]
		t.Errorf("%d chunks instead of 5", chunks)
	}
}

func TestTokenCounts(t *testing.T) {
	r := start(t, fastConfig())
	for _, n := range []int{1, 2, 7, 64} {
		body := fmt.Sprintf(`{"messages":[{"role":"user","content":"count %d"}],"max_tokens":%d,"ignore_eos":true,"stream":true,"return_token_ids":true,"stream_options":{"include_usage":true}}`, n, n)
		sum := read(t, r.post(200, "/v1/chat/completions", body))
		if sum.tokens != n || sum.completion != n || !sum.done || sum.roles != 1 || len(sum.finish) != 1 || sum.finish[0] != "length" {
			t.Errorf("asked for %d tokens: %+v", n, sum)
		}
		// Role, n tokens, usage, [DONE].
		if sum.events != n+3 {
			t.Errorf("%d tokens came in %d events", n, sum.events)
		}
		// The text says the same when it is tokenised again.
		var answer struct{ Count int }
		text, _ := json.Marshal(sum.text)
		unmarshal(t, r.post(200, "/tokenize", `{"prompt":`+string(text)+`,"add_special_tokens":false}`), &answer)
		if answer.Count != n {
			t.Errorf("the text of %d tokens is tokenised into %d", n, answer.Count)
		}
	}
}

func unmarshal(t *testing.T, text string, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// Without ignore_eos lengths are drawn: the same request gets the same answer,
// the stop token counts and has no text, min_tokens holds.
func TestDrawnLengths(t *testing.T) {
	r := start(t, fastConfig())
	stops, lengths := 0, map[int]bool{}
	for i := range 20 {
		body := fmt.Sprintf(`{"prompt":"draw %d","max_tokens":40,"min_tokens":5,"stream":true,"return_token_ids":true,"stream_options":{"include_usage":true}}`, i)
		sum := read(t, r.post(200, "/v1/completions", body))
		again := read(t, r.post(200, "/v1/completions", body))
		if diff := cmp.Diff(sum, again, cmp.AllowUnexported(tally{})); diff != "" {
			t.Fatalf("the same request was answered differently:\n%s", diff)
		}
		words := len(strings.Fields(sum.text))
		switch sum.finish[0] {
		case "stop":
			stops++
			if words != sum.completion-1 || sum.completion < 6 {
				t.Errorf("stopped after %d tokens with %d words", sum.completion, words)
			}
		case "length":
			if words != sum.completion || sum.completion != 40 {
				t.Errorf("ended by length after %d tokens with %d words", sum.completion, words)
			}
		}
		lengths[sum.completion] = true
	}
	if stops == 0 || stops == 20 || len(lengths) < 5 {
		t.Errorf("%d of 20 stopped, %d different lengths", stops, len(lengths))
	}
}

func TestKeepAlive(t *testing.T) {
	r := start(t, fastConfig())
	ask := func() (reused bool) {
		req := r.request("POST", "/v1/completions", `{"prompt":"x","max_tokens":3,"ignore_eos":true,"stream":true}`)
		trace := &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { reused = i.Reused }}
		resp, body, err := r.do(req.WithContext(httptrace.WithClientTrace(req.Context(), trace)))
		if err != nil || resp.StatusCode != 200 || !read(t, body).done {
			t.Fatalf("%v %v %q", resp, err, body)
		}
		return reused
	}
	ask()
	for range 5 {
		if !ask() {
			t.Fatal("the connection was not reused")
		}
	}
}

func TestIdleConnectionIsClosed(t *testing.T) {
	cfg := fastConfig()
	cfg.KeepAlive = 20 * time.Millisecond
	r := start(t, cfg)
	conn, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	body := `{"prompt":"x","max_tokens":3,"stream":true}`
	fmt.Fprintf(conn, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	buf := make([]byte, 64<<10)
	for {
		n, err := conn.Read(buf)
		if err != nil {
			if err.Error() != "EOF" {
				t.Fatalf("the idle connection ended with %v", err)
			}
			return
		}
		_ = n
	}
}

// Two requests in one write are answered in their order.
func TestPipelining(t *testing.T) {
	r := start(t, fastConfig())
	conn, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	body := `{"prompt":[9],"max_tokens":20,"ignore_eos":true,"stream":true}`
	fmt.Fprintf(conn, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%sGET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", len(body), body)
	br := bufio.NewReader(conn)
	for i, want := range []string{"[DONE]", Version} {
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		if _, err := bufio.NewReader(resp.Body).WriteTo(&text); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(text.String(), want) {
			t.Errorf("answer %d is %q", i, text.String())
		}
	}
	if _, err := br.ReadByte(); err == nil {
		t.Error("the connection was not closed though that was asked for")
	}
}

// plainListener hides the sockets of its connections, as TLS does: every write
// then goes through the flusher.
type plainListener struct{ net.Listener }

func (l plainListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return struct{ net.Conn }{c}, nil
}

func TestWithoutSocket(t *testing.T) {
	srv, err := New(fastConfig())
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := serve(t, srv, plainListener{ln})
	for range 3 {
		sum := read(t, r.post(200, "/v1/chat/completions", tenTokens))
		if sum.tokens != 10 || sum.completion != 10 || !sum.done {
			t.Errorf("%+v", sum)
		}
	}
}

func TestServesOnce(t *testing.T) {
	r := start(t, fastConfig())
	r.get("/health")
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if err := r.srv.Serve(t.Context(), ln); err != ErrServed {
		t.Errorf("a second Serve: %v", err)
	}
}

// Closing in the middle of answers ends them and leaves nothing running.
func TestCloseInFlight(t *testing.T) {
	sink := newTruthSink()
	cfg := slowConfig()
	cfg.TruthLog = sink
	r := start(t, cfg)
	resp, err := r.client.Do(r.request("POST", "/v1/completions", `{"prompt":"x","max_tokens":8000,"ignore_eos":true,"stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := bufio.NewReader(resp.Body).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if err := r.srv.Close(); err != nil {
		t.Fatal(err)
	}
	if got := sink.await(t, 1)[0]; got.Outcome != "shutdown" {
		t.Errorf("logged as %q", got.Outcome)
	}
}

func TestNewRefuses(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"engines": func(c *Config) { c.Engines = -1 },
		"share":   func(c *Config) { c.FaultShare = 2 },
		"fault":   func(c *Config) { c.Fault = "nonsense" },
		"engine":  func(c *Config) { c.Engine.TP = 0 },
		"mean":    func(c *Config) { c.MeanOutput = 0.5 },
	} {
		cfg := fastConfig()
		change(&cfg)
		if _, err := New(cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestHTTP10AndExpect(t *testing.T) {
	r := start(t, fastConfig())
	for name, c := range map[string]struct{ head, want string }{
		"1.0":    {"POST /v1/completions HTTP/1.0\r\n", "\r\n\r\ndata: {"},
		"expect": {"POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nExpect: 100-continue\r\n", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK"},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("tcp", r.addr)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			body := `{"prompt":[9],"max_tokens":2,"ignore_eos":true,"stream":true}`
			fmt.Fprintf(conn, "%sContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", c.head, len(body), body)
			var text strings.Builder
			if _, err := bufio.NewReader(conn).WriteTo(&text); err != nil {
				t.Fatal(err)
			}
			if s := text.String(); !strings.Contains(s, c.want) || !strings.Contains(s, "[DONE]") {
				t.Errorf("answer %q", s)
			}
		})
	}
}
