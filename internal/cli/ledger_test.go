package cli

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/assay-bench/assay/record"
)

// TestLedger lets a server misbehave in every third request: each lands in its
// row, the others are measured, and the run goes on to its end.
func TestLedger(t *testing.T) {
	const good, bad = 8, 4
	for _, c := range []struct {
		name string
		args []string
		chat func(w http.ResponseWriter, q *chatRequest)
		want record.Outcome
		text string // in the report
	}{
		{"dies in mid-stream", nil, func(w http.ResponseWriter, q *chatRequest) {
			raw(w, false, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n40\r\ndata: {\"choices\":[{\"delta\":{\"con")
		}, record.Truncated, "middle of the body"},
		{"ends without a finish", nil, func(w http.ResponseWriter, q *chatRequest) {
			begin(w)
			tokens(w, 3)
		}, record.Truncated, "without a finish reason"},
		{"reset in mid-stream", nil, func(w http.ResponseWriter, q *chatRequest) {
			begin(w)
			tokens(w, 3)
			raw(w, true, "")
		}, record.StreamReset, "reset"},
		{"error in the stream", nil, func(w http.ResponseWriter, q *chatRequest) {
			begin(w)
			tokens(w, 3)
			event(w, `{"error": {"message": "the engine died", "type": "InternalServerError", "code": 500}}`)
			event(w, "[DONE]")
		}, record.StreamError, "the engine died"},
		{"error after the finish", nil, func(w http.ResponseWriter, q *chatRequest) {
			begin(w)
			tokens(w, 6)
			finish(w, q)
			event(w, `{"error": {"message": "too late"}}`)
		}, record.StreamError, "too late"},
		{"stalls", []string{"--timeout-idle", "700ms"}, func(w http.ResponseWriter, q *chatRequest) {
			begin(w)
			tokens(w, 3)
			wait(w)
		}, record.TimeoutIdle, ""},
		{"never begins", []string{"--timeout-first", "700ms"}, func(w http.ResponseWriter, q *chatRequest) {
			wait(w)
		}, record.TimeoutFirst, ""},
		{"headers alone", []string{"--timeout-first", "700ms"}, func(w http.ResponseWriter, q *chatRequest) {
			begin(w)
			w.(http.Flusher).Flush()
			wait(w)
		}, record.TimeoutFirst, ""},
		{"takes too long", []string{"--timeout-total", "1s"}, func(w http.ResponseWriter, q *chatRequest) {
			begin(w)
			tokens(w, 3)
			wait(w)
		}, record.TimeoutTotal, ""},
		{"503", nil, func(w http.ResponseWriter, q *chatRequest) {
			w.Header().Set("Retry-After", "7")
			http.Error(w, `{"error": {"message": "queue is full"}}`, http.StatusServiceUnavailable)
		}, record.Rejected, "queue is full"},
		{"429", nil, func(w http.ResponseWriter, q *chatRequest) {
			http.Error(w, "slow down", http.StatusTooManyRequests)
		}, record.Rejected, "slow down"},
		{"502 in HTML", nil, func(w http.ResponseWriter, q *chatRequest) {
			status(502, "text/html", html)(w, nil)
		}, record.HTTPError, "It works!"},
		{"garbage for a stream", nil, func(w http.ResponseWriter, q *chatRequest) {
			begin(w)
			event(w, "\x00\xff\xfe{{{ this is no JSON")
		}, record.NotDialect, "no event of the stream"},
		{"garbage for chunks", nil, func(w http.ResponseWriter, q *chatRequest) {
			raw(w, false, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\nzzzz\r\n\x00\x01")
		}, record.NotDialect, ""},
		{"garbage for HTTP", nil, func(w http.ResponseWriter, q *chatRequest) {
			raw(w, false, "\x16\x03\x01\x02\x00 nothing of the kind\r\n\r\n")
		}, record.NotDialect, ""},
		{"HTML for a stream", nil, func(w http.ResponseWriter, q *chatRequest) {
			status(200, "text/html", html)(w, nil)
		}, record.NotDialect, "not text/event-stream"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := fake{chat: func(w http.ResponseWriter, q *chatRequest) bool {
				if q.index%3 != 1 {
					return false
				}
				c.chat(w, q)
				return true
			}}
			dir := t.TempDir()
			o := assay(t, dir, nil, append([]string{"run", f.start(t), "-q", "--json"}, short(c.args...)...)...)
			if o.code != exitOK {
				t.Fatalf("exit code %d: %s", o.code, o.stderr)
			}
			l := parseRun(t, o).Stages[0].Ledger
			if l.Requests != good+bad || l.Rows[c.want] != bad || l.Completed != good || !l.Balances() {
				t.Errorf("rows %v of %d requests, want %d %s and %d completed", l.Rows, l.Requests, bad, c.want, good)
			}
			if !strings.Contains(o.stdout, c.text) {
				t.Errorf("the report does not say %q", c.text)
			}
		})
	}
}

// wait keeps a reply open until the client leaves it.
func wait(w http.ResponseWriter) {
	c, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	defer c.Close()
	_, _ = c.Read(make([]byte, 1))
}

// TestOddButComplete: what is unusual and yet a whole reply is measured.
func TestOddButComplete(t *testing.T) {
	for _, c := range []struct {
		name         string
		args         []string
		chat         func(w http.ResponseWriter, q *chatRequest)
		unterminated int
	}{
		{"never ends after its finish", []string{"--timeout-idle", "700ms"}, func(w http.ResponseWriter, q *chatRequest) {
			begin(w)
			tokens(w, 6)
			finish(w, q)
			wait(w)
		}, 4},
		{"no [DONE]", nil, func(w http.ResponseWriter, q *chatRequest) {
			begin(w)
			tokens(w, 6)
			finish(w, q)
		}, 4},
		{"an event of 5 MiB", nil, func(w http.ResponseWriter, q *chatRequest) {
			begin(w)
			tokens(w, 5)
			event(w, `{"choices":[{"index":0,"delta":{"content":"%s"}}]}`, strings.Repeat("x", 5<<20))
			finish(w, q)
			event(w, "[DONE]")
		}, 0},
		{"no keep-alive", nil, func(w http.ResponseWriter, q *chatRequest) {
			w.Header().Set("Connection", "close")
			answer(w, q)
		}, 0},
		{"not chunked, ended by the connection", nil, func(w http.ResponseWriter, q *chatRequest) {
			raw(w, false, "HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"+
				strings.Repeat("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"}}]}\r\n\r\n", 6)+
				fmt.Sprintf("data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"length\"}],\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":6}}\r\n\r\n", q.words())+
				": a comment\r\n\r\ndata:[DONE]\r\n\r\n")
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := fake{chat: func(w http.ResponseWriter, q *chatRequest) bool {
				if q.index%3 != 1 {
					return false
				}
				c.chat(w, q)
				return true
			}}
			o := assay(t, t.TempDir(), nil, append([]string{"run", f.start(t), "-q", "--json"}, short(c.args...)...)...)
			if o.code != exitOK {
				t.Fatalf("exit code %d: %s", o.code, o.stderr)
			}
			s := parseRun(t, o).Stages[0]
			if l := s.Ledger; l.Completed != 12 || l.Unterminated != c.unterminated || l.NoUsage != 0 || !l.Balances() {
				t.Errorf("%d of 12 completed, %d unterminated, %d without usage; rows %v", l.Completed, l.Unterminated, l.NoUsage, l.Rows)
			}
			if n := s.Metrics.TTFT.N; n != 12 {
				t.Errorf("%d TTFTs, want 12", n)
			}
		})
	}
}
