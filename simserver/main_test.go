package simserver

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/assay-bench/assay/engine"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fastEngine is an engine whose decode steps take about 100 us.
func fastEngine() engine.Config {
	c := engine.DefaultConfig()
	c.GPU.BF16TFLOPS, c.GPU.MemoryGBps = 1e6, 1e6
	c.Constants.StepUs, c.Constants.LayerUs, c.Constants.RequestUs = 60, 0, 0
	c.MaxModelLen = 8192
	return c
}

func fastConfig() Config {
	c := DefaultConfig()
	c.Engine = fastEngine()
	c.MeanOutput = 20
	return c
}

// slowConfig takes 3 ms a step, so that long answers do not end by themselves
// while a test looks at them.
func slowConfig() Config {
	c := fastConfig()
	c.Engine.Constants.StepUs = 3000
	return c
}

// rig is a server under test with a client of its own.
type rig struct {
	t      *testing.T
	srv    *Server
	base   string
	addr   string
	client *http.Client
}

func start(t *testing.T, cfg Config) *rig {
	t.Helper()
	srv, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, srv, ln)
}

func serve(t *testing.T, srv *Server, ln net.Listener) *rig {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- srv.Serve(context.Background(), ln) }()
	transport := &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}
	r := &rig{t: t, srv: srv, addr: ln.Addr().String(), client: &http.Client{
		Transport: transport, Timeout: 20 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	r.base = "http://" + r.addr
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		// Serve may not have begun yet, in which case Close has nothing to end.
		for {
			srv.Close()
			select {
			case err := <-done:
				if err != nil {
					t.Errorf("Serve: %v", err)
				}
				return
			case <-time.After(time.Millisecond):
			}
		}
	})
	return r
}

func (r *rig) request(method, path, body string, headers ...string) *http.Request {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.base+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return req
}

// do returns status, headers, and as much of the body as came before err.
func (r *rig) do(req *http.Request) (*http.Response, string, error) {
	r.t.Helper()
	resp, err := r.client.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp, string(b), err
}

// post expects an answer of the given status and returns its body.
func (r *rig) post(status int, path, body string, headers ...string) string {
	r.t.Helper()
	resp, text, err := r.do(r.request("POST", path, body, headers...))
	if err != nil {
		r.t.Fatal(err)
	}
	if resp.StatusCode != status {
		r.t.Fatalf("POST %s: status %d instead of %d: %s", path, resp.StatusCode, status, text)
	}
	return text
}

func (r *rig) get(path string) string {
	r.t.Helper()
	resp, text, err := r.do(r.request("GET", path, ""))
	if err != nil {
		r.t.Fatal(err)
	}
	if resp.StatusCode != 200 {
		r.t.Fatalf("GET %s: status %d", path, resp.StatusCode)
	}
	return text
}

// chunk is the part of an event that the tests look at, for both shapes.
type chunk struct {
	ID      string `json:"id"`
	Choices []struct {
		Index int `json:"index"`
		Delta struct {
			Role    string  `json:"role"`
			Content *string `json:"content"`
		} `json:"delta"`
		Text         *string `json:"text"`
		FinishReason *string `json:"finish_reason"`
		TokenIDs     []int   `json:"token_ids"`
	} `json:"choices"`
	Usage *struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
		Total      int `json:"total_tokens"`
	} `json:"usage"`
	Error *struct {
		Message string `json:"message"`
		Code    int    `json:"code"`
	} `json:"error"`
}

// tally is what a stream came to.
type tally struct {
	roles, tokens, events int
	text                  string
	finish                []string
	prompt, completion    int // of the usage event
	failed, done          bool
}

// read adds up a streamed body with nothing but a line scanner.
func read(t *testing.T, body string) tally {
	t.Helper()
	var sum tally
	sc := bufio.NewScanner(strings.NewReader(body))
	sc.Buffer(nil, 64<<20)
	for sc.Scan() {
		data, ok := strings.CutPrefix(sc.Text(), "data: ")
		if !ok {
			continue
		}
		sum.events++
		if data == "[DONE]" {
			sum.done = true
			continue
		}
		var c chunk
		if err := json.Unmarshal([]byte(data), &c); err != nil {
			t.Fatalf("event %q: %v", data, err)
		}
		sum.failed = sum.failed || c.Error != nil
		if len(c.Choices) == 0 && c.Usage != nil {
			sum.prompt, sum.completion = c.Usage.Prompt, c.Usage.Completion
		}
		for _, choice := range c.Choices {
			if choice.Delta.Role != "" {
				sum.roles++
				continue
			}
			sum.tokens += len(choice.TokenIDs)
			for _, text := range []*string{choice.Text, choice.Delta.Content} {
				if text != nil {
					sum.text += *text
				}
			}
			if choice.FinishReason != nil {
				sum.finish = append(sum.finish, *choice.FinishReason)
			}
		}
	}
	if err := sc.Err(); err != nil {
		t.Fatal(err)
	}
	return sum
}

// truthSink collects a truth log and lets tests wait for what they expect in it.
type truthSink struct {
	mu    sync.Mutex
	buf   bytes.Buffer
	wrote chan struct{}
}

func newTruthSink() *truthSink { return &truthSink{wrote: make(chan struct{}, 1)} }

func (s *truthSink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.buf.Write(p)
	select {
	case s.wrote <- struct{}{}:
	default:
	}
	return n, err
}

func (s *truthSink) lines(t *testing.T) (start TruthStart, requests []TruthRequest, steps []TruthStep) {
	t.Helper()
	s.mu.Lock()
	b := bytes.Clone(s.buf.Bytes())
	s.mu.Unlock()
	b = b[:bytes.LastIndexByte(b, '\n')+1]
	err := ReadTruth(bytes.NewReader(b), func(l TruthLine) error {
		switch {
		case l.Start != nil:
			start = *l.Start
		case l.Request != nil:
			requests = append(requests, *l.Request)
		case l.Step != nil:
			steps = append(steps, *l.Step)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return start, requests, steps
}

// await waits until n requests have ended.
func (s *truthSink) await(t *testing.T, n int) []TruthRequest {
	t.Helper()
	for {
		if _, requests, _ := s.lines(t); len(requests) >= n {
			return requests
		}
		select {
		case <-s.wrote:
		case <-time.After(10 * time.Second):
			t.Fatalf("the truth log never had %d requests", n)
		}
	}
}
