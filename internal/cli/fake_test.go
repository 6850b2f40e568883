package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/assay-bench/assay/result"
)

// outcome is what a command left.
type outcome struct {
	code           int
	stdout, stderr string
}

// assay runs the command as a process of its own, in dir.
func assay(t *testing.T, dir string, env []string, args ...string) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	cmd := command(t, ctx, dir, args...)
	cmd.Env = append(cmd.Env, env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGQUIT) } // its stacks tell why
	cmd.WaitDelay = 5 * time.Second
	_ = cmd.Run() // the exit code tells
	if ctx.Err() != nil {
		t.Fatalf("assay %s does not end; it said:\n%s", strings.Join(args, " "), &stderr)
	}
	return outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

func command(t *testing.T, ctx context.Context, dir string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Args[0] = "assay" // see TestMain
	cmd.Dir = dir
	for _, e := range os.Environ() {
		if name, _, _ := strings.Cut(e, "="); !strings.HasSuffix(strings.ToUpper(name), "_PROXY") {
			cmd.Env = append(cmd.Env, e)
		}
	}
	return cmd
}

// short are the flags of a run of twelve requests.
func short(more ...string) []string {
	return append([]string{"--requests", "12", "--concurrency", "3", "--prompt-tokens", "20", "--output-tokens", "6", "--warmup", "none", "--fail-on", "none"}, more...)
}

func parseRun(t *testing.T, o outcome) *result.Run {
	t.Helper()
	var r result.Run
	if err := json.Unmarshal([]byte(o.stdout), &r); err != nil {
		t.Fatalf("exit code %d, standard output is no JSON (%v); standard error:\n%s", o.code, err, o.stderr)
	}
	return &r
}

// chatRequest is what the fake reads of a request.
type chatRequest struct {
	Stream    bool `json:"stream"`
	MaxTokens int  `json:"max_completion_tokens"`
	Old       int  `json:"max_tokens"`
	Messages  []struct {
		Content string `json:"content"`
	} `json:"messages"`
	// index of the request in its run, -1 for those that come before the load.
	index int
}

func (q *chatRequest) words() int {
	n := 0
	for _, m := range q.Messages {
		n += len(strings.Fields(m.Content))
	}
	return n
}

// fake is an OpenAI-like server of which each part can be replaced.
type fake struct {
	models http.HandlerFunc
	// chat may answer in place of the fake, and says whether it did.
	chat func(w http.ResponseWriter, q *chatRequest) bool
}

func (f *fake) start(t *testing.T) string {
	s := httptest.NewServer(f)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/v1/models" && f.models != nil:
		f.models(w, r)
	case r.URL.Path == "/v1/models":
		models("m")(w, r)
	case r.URL.Path == "/tokenize":
		var q struct{ Prompt string }
		_ = json.NewDecoder(r.Body).Decode(&q)
		fmt.Fprintf(w, `{"tokens": [%s]}`, strings.TrimSuffix(strings.Repeat("7,", len(strings.Fields(q.Prompt))), ","))
	case r.URL.Path == "/v1/chat/completions":
		q := chatRequest{index: -1}
		_ = json.NewDecoder(r.Body).Decode(&q)
		q.MaxTokens = max(q.MaxTokens, q.Old)
		if i := strings.LastIndexByte(r.Header.Get("X-Request-Id"), '-'); i >= 0 && !strings.Contains(r.Header.Get("X-Request-Id"), "--") {
			q.index, _ = strconv.Atoi(r.Header.Get("X-Request-Id")[i+1:])
		}
		if f.chat == nil || !f.chat(w, &q) {
			answer(w, &q)
		}
	default:
		http.NotFound(w, r)
	}
}

func models(names ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		var list []string
		for _, n := range names {
			list = append(list, fmt.Sprintf(`{"id": %q, "object": "model"}`, n))
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"object": "list", "data": [%s]}`, strings.Join(list, ","))
	}
}

// answer is the reply of a good server.
func answer(w http.ResponseWriter, q *chatRequest) {
	if !q.Stream {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"a b"},"finish_reason":"length"}],"usage":{"prompt_tokens":%d,"completion_tokens":%d}}`, q.words(), q.MaxTokens)
		return
	}
	begin(w)
	tokens(w, q.MaxTokens)
	finish(w, q)
	io.WriteString(w, "data: [DONE]\n\n")
}

func begin(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
}

func event(w http.ResponseWriter, format string, args ...any) {
	fmt.Fprintf(w, "data: "+format+"\n\n", args...)
	w.(http.Flusher).Flush()
}

func tokens(w http.ResponseWriter, n int) {
	for range n {
		event(w, `{"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"word "}}]}`)
	}
}

func finish(w http.ResponseWriter, q *chatRequest) {
	event(w, `{"object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"length"}]}`)
	event(w, `{"object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d}}`, q.words(), q.MaxTokens)
}

// raw answers with bytes of its own and closes, or resets, the connection.
func raw(w http.ResponseWriter, reset bool, text string) {
	c, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	io.WriteString(c, text)
	if reset {
		c.(*net.TCPConn).SetLinger(0)
	}
	c.Close()
}
