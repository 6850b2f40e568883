package simserver

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

const tenTokens = `{"messages":[{"role":"user","content":"ten"}],"max_tokens":10,"ignore_eos":true,"stream":true,"return_token_ids":true,"stream_options":{"include_usage":true}}`

// Every fault ends by itself here; those that do not have tests of their own.
func TestFaults(t *testing.T) {
	r := start(t, fastConfig())
	for _, c := range []struct {
		fault   string
		check   func(t *testing.T, resp *http.Response, body string, sum tally, err error)
		healthy bool // the answer is complete but for the fault
	}{
		{fault: "status=503", check: func(t *testing.T, resp *http.Response, body string, _ tally, err error) {
			if resp.StatusCode != 503 || !strings.Contains(body, `"code":503`) {
				t.Errorf("status %d, body %s", resp.StatusCode, body)
			}
		}},
		{fault: "status=429;retry-after=7", check: func(t *testing.T, resp *http.Response, body string, _ tally, err error) {
			if resp.StatusCode != 429 || resp.Header.Get("Retry-After") != "7" {
				t.Errorf("status %d, Retry-After %q", resp.StatusCode, resp.Header.Get("Retry-After"))
			}
		}},
		{fault: "empty", check: func(t *testing.T, resp *http.Response, body string, sum tally, err error) {
			if sum.tokens != 0 || sum.completion != 0 || sum.text != "" || !sum.done || len(sum.finish) != 1 || sum.finish[0] != "stop" || sum.roles != 1 {
				t.Errorf("%+v", sum)
			}
		}},
		{fault: "redirect=http://other.example/v1", check: func(t *testing.T, resp *http.Response, body string, _ tally, err error) {
			if resp.StatusCode != 307 || resp.Header.Get("Location") != "http://other.example/v1" {
				t.Errorf("status %d to %q", resp.StatusCode, resp.Header.Get("Location"))
			}
		}},
		{fault: "not-streaming", check: func(t *testing.T, resp *http.Response, body string, _ tally, err error) {
			if kind := resp.Header.Get("Content-Type"); kind != "application/json" || !strings.HasPrefix(body, `{"id":"chatcmpl-`) {
				t.Errorf("%s: %s", kind, body)
			}
		}},
		{fault: "error-after=4", check: func(t *testing.T, resp *http.Response, body string, sum tally, err error) {
			if resp.StatusCode != 200 || !sum.failed || !sum.done || sum.tokens != 4 || sum.completion != 0 || err != nil {
				t.Errorf("%+v, %v", sum, err)
			}
		}},
		{fault: "error-after=0", check: func(t *testing.T, resp *http.Response, body string, sum tally, err error) {
			if !sum.failed || !sum.done || sum.tokens != 0 || sum.roles != 0 || err != nil {
				t.Errorf("%+v, %v", sum, err)
			}
		}},
		{fault: "end-after=4", check: func(t *testing.T, resp *http.Response, body string, sum tally, err error) {
			if sum.failed || sum.done || sum.tokens != 4 || len(sum.finish) != 0 || err != nil {
				t.Errorf("%+v, %v", sum, err)
			}
		}},
		{fault: "truncate-after=4", check: func(t *testing.T, resp *http.Response, body string, sum tally, err error) {
			if sum.done || sum.tokens != 4 || err != io.ErrUnexpectedEOF {
				t.Errorf("%+v, %v", sum, err)
			}
		}},
		{fault: "reset-after=4", check: func(t *testing.T, resp *http.Response, body string, sum tally, err error) {
			// A reset may overtake what was written before it.
			if sum.done || sum.tokens > 4 || err == nil || !strings.Contains(err.Error(), "reset") {
				t.Errorf("%+v, %v", sum, err)
			}
		}},
		{fault: "no-usage", check: func(t *testing.T, resp *http.Response, body string, sum tally, err error) {
			if !sum.done || sum.tokens != 10 || sum.completion != 0 || err != nil {
				t.Errorf("%+v, %v", sum, err)
			}
		}},
		{fault: "no-done", check: func(t *testing.T, resp *http.Response, body string, sum tally, err error) {
			if sum.done || sum.tokens != 10 || sum.completion != 10 || err != nil {
				t.Errorf("%+v, %v", sum, err)
			}
		}},
		{fault: "tokens-per-chunk=4", healthy: true, check: func(t *testing.T, resp *http.Response, body string, sum tally, err error) {
			if sum.events != 1+3+2 { // role, 4+4+2 tokens, usage, [DONE]
				t.Errorf("%+v", sum)
			}
		}},
		{fault: "comments", healthy: true, check: func(t *testing.T, resp *http.Response, body string, sum tally, err error) {
			if n := strings.Count(body, ": keep-alive\n\n"); n < 9 {
				t.Errorf("%d comments", n)
			}
		}},
		{fault: "crlf", healthy: true, check: func(t *testing.T, resp *http.Response, body string, sum tally, err error) {
			if strings.Count(body, "\n") != strings.Count(body, "\r\n") || strings.Count(body, "\r\n\r\n") != 13 {
				t.Errorf("line ends of %q", body)
			}
		}},
		{fault: "giant", healthy: true, check: func(t *testing.T, resp *http.Response, body string, sum tally, err error) {
			if len(body) < 5<<20 {
				t.Errorf("%d bytes", len(body))
			}
		}},
		{fault: "reasoning=4", healthy: true, check: func(t *testing.T, resp *http.Response, body string, sum tally, err error) {
			if n := strings.Count(body, `"delta":{"reasoning":"`); n != 4 || len(strings.Fields(sum.text)) != 6 {
				t.Errorf("%d reasoning events, answer %q", n, sum.text)
			}
		}},
		{fault: "split=7", healthy: true},
		{fault: "merge=5", healthy: true},
		{fault: "merge=500;crlf", healthy: true},
		{fault: "drip=50us", healthy: true},
		{fault: "late-headers", healthy: true},
		{fault: "late-headers=3ms; stall-after=2:3ms", healthy: true},
		{fault: "nonsense=1", check: func(t *testing.T, resp *http.Response, body string, _ tally, err error) {
			if resp.StatusCode != 400 {
				t.Errorf("status %d", resp.StatusCode)
			}
		}},
	} {
		t.Run(c.fault, func(t *testing.T) {
			resp, body, err := r.do(r.request("POST", "/v1/chat/completions", tenTokens, FaultHeader, c.fault))
			if resp == nil {
				t.Fatal(err)
			}
			sum := read(t, strings.ReplaceAll(body, "\r\n", "\n"))
			if c.check != nil {
				c.check(t, resp, body, sum, err)
			}
			if c.healthy && (sum.tokens != 10 || sum.completion != 10 || !sum.done || sum.failed || sum.roles != 1 || err != nil) {
				t.Errorf("the rest of the answer is not whole: %+v, %v", sum, err)
			}
		})
	}
	// After all of it the server is well.
	if sum := read(t, r.post(200, "/v1/chat/completions", tenTokens)); sum.completion != 10 {
		t.Errorf("%+v", sum)
	}
	m := r.scrape()
	if n := m.sum(t, "vllm:num_requests_running") + m.sum(t, "vllm:kv_cache_usage_perc"); n != 0 {
		t.Errorf("faults left requests behind: %v", n)
	}
}

// Faults without an end hold the connection until the client leaves.
func TestEndlessFaults(t *testing.T) {
	for fault, want := range map[string]string{
		"never-end":     `"usage":{"prompt_tokens":`,
		"stall-after=3": `"token_ids":[`,
	} {
		t.Run(fault, func(t *testing.T) {
			sink := newTruthSink()
			cfg := fastConfig()
			cfg.Fault = fault // by configuration
			cfg.KeepAlive = time.Millisecond
			cfg.TruthLog = sink
			r := start(t, cfg)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			resp, err := r.client.Do(r.request("POST", "/v1/chat/completions", tenTokens).WithContext(ctx))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			br := bufio.NewReader(resp.Body)
			for line := ""; !strings.Contains(line, want); {
				if line, err = br.ReadString('\n'); err != nil {
					t.Fatal(err)
				}
			}
			if got := sink.await(t, 1)[0]; got.Outcome != "fault" || got.Fault != fault {
				t.Errorf("logged as %+v", got)
			}
			rest := make(chan error, 1)
			go func() {
				_, err := io.Copy(io.Discard, br)
				rest <- err
			}()
			select {
			case err := <-rest:
				t.Errorf("the body ended: %v", err)
			case <-time.After(20 * time.Millisecond): // the server would have closed after 1 ms
			}
			cancel()
			<-rest
		})
	}
}

func TestFaultShare(t *testing.T) {
	cfg := fastConfig()
	cfg.Fault, cfg.FaultShare = "status=500", 0.3
	r := start(t, cfg)
	failed := 0
	for i := range 200 {
		resp, _, err := r.do(r.request("POST", "/v1/completions", `{"prompt":"x","max_tokens":1}`, "X-Request-Id", fmt.Sprint("id-", i)))
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode == 500 {
			failed++
		}
	}
	if failed < 40 || failed > 80 {
		t.Errorf("%d of 200 failed, asked for 30 %%", failed)
	}
}

// A client that leaves frees its place; its request is not counted as finished.
func TestDisconnectAborts(t *testing.T) {
	sink := newTruthSink()
	cfg := slowConfig()
	cfg.TruthLog = sink
	r := start(t, cfg)
	for _, stream := range []bool{true, false} {
		before := r.scrape().sum(t, "vllm:generation_tokens_total")
		ctx, cancel := context.WithCancel(t.Context())
		body := fmt.Sprintf(`{"prompt":"x","max_tokens":8000,"ignore_eos":true,"stream":%t}`, stream)
		done := make(chan struct{})
		go func() {
			defer close(done)
			resp, err := r.client.Do(r.request("POST", "/v1/completions", body).WithContext(ctx))
			if err == nil {
				bufio.NewReader(resp.Body).ReadString('\n')
				cancel()
				resp.Body.Close()
			}
		}()
		for r.scrape().sum(t, "vllm:generation_tokens_total") == before {
		}
		cancel()
		<-done
	}
	for _, got := range sink.await(t, 2) {
		if got.Outcome != "aborted" || got.OutputTokens >= 8000 {
			t.Errorf("logged as %s after %d tokens", got.Outcome, got.OutputTokens)
		}
	}
	var load struct {
		Load int `json:"server_load"`
	}
	unmarshal(t, r.get("/load"), &load)
	m := r.scrape()
	if load.Load != 0 || m.sum(t, "vllm:request_success_total") != 0 || m.sum(t, "vllm:num_requests_running") != 0 {
		t.Errorf("load %d, finished %v, running %v", load.Load, m.sum(t, "vllm:request_success_total"), m.sum(t, "vllm:num_requests_running"))
	}
	if m.count(t, "vllm:time_to_first_token_seconds") != 2 {
		t.Errorf("%v TTFT samples instead of 2", m.count(t, "vllm:time_to_first_token_seconds"))
	}
}

// A client that does not read must not hold up the others, and gets everything
// when it reads at last.
func TestSlowClient(t *testing.T) {
	r := start(t, fastConfig())
	slow, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	fmt.Fprintf(slow, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n%s: giant=16777216\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", FaultHeader, len(tenTokens), tenTokens)
	br := bufio.NewReader(slow)
	if _, err := br.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if sum := read(t, r.post(200, "/v1/chat/completions", tenTokens)); sum.completion != 10 {
			t.Fatalf("%+v", sum)
		}
	}
	req, err := http.NewRequest("POST", "/", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(io.MultiReader(strings.NewReader("HTTP/1.1 200 OK\r\n"), br)), req)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if sum := read(t, string(body)); len(body) < 16<<20 || sum.completion != 10 || !sum.done {
		t.Errorf("%d bytes, usage %d, done %t", len(body), sum.completion, sum.done)
	}
}

func TestParseFaultRefuses(t *testing.T) {
	for _, text := range []string{"x", "status", "status=200", "status=x", "redirect", "giant=0", "giant=999999999999", "error-after=-1",
		"stall-after=1:0s", "stall-after=1:x", "drip=2h", "late-headers=x", "tokens-per-chunk=0", "no-done;"} {
		if f, err := ParseFault(text); err == nil {
			t.Errorf("%q was read as %+v", text, f)
		}
	}
}

func FuzzParseFault(f *testing.F) {
	f.Add("error-after=3; crlf")
	f.Add("stall-after=1:2s;late-headers=1ms")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		fault, err := ParseFault(text)
		if err == nil && fault.String() != strings.TrimSpace(text) {
			t.Errorf("%q became %q", text, fault.String())
		}
	})
}
