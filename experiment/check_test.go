package experiment

import (
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/result"
	"github.com/assay-bench/assay/scrape"
)

// checkPages are four pages of a server: idle, idle, after, idle.
func checkPages(t *testing.T, pages ...page) (out [4][]*scrape.Scrape) {
	t.Helper()
	for i, p := range pages {
		s, err := scrape.Parse(p.body(), "text/plain; version=0.0.4")
		if err != nil {
			t.Fatal(err)
		}
		s.At = scrape.At{Before: int64(i+1) * 1e9, After: int64(i+1)*1e9 + 1e6}
		out[i] = []*scrape.Scrape{s}
	}
	return out
}

// goodCheck is one of 20 requests with 32 tokens each, 8 of prompt.
func goodCheck(t *testing.T) *CheckInput {
	in := &CheckInput{MaxTokens: 32, ExactOutput: true, ControlPath: "/health", KeepAlive: "it says Connection: keep-alive"}
	for i := range 20 {
		in.Control = append(in.Control, time.Duration(i+1)*time.Millisecond)
		a := record.Attempt{Streamed: true, Status: 200, Sent: 1, Headers: 2, Outcome: record.Completed, ConnReused: i > 0, FinishReason: "length",
			Usage: &record.Usage{PromptTokens: 8, CompletionTokens: 32}}
		for k := range 32 {
			a.Observe(record.Event{At: record.Stamp(10 + k), Tokens: 1, Flags: record.FlagText})
		}
		in.Attempts = append(in.Attempts, a)
	}
	idle, after := page{start: 1, out: 100, in: 50, finished: 5}, page{start: 1, out: 740, in: 210, finished: 25}
	in.Pages = checkPages(t, idle, idle, after, after)
	return in
}

func TestCheckInstrument(t *testing.T) {
	const all = "requests exact output quiet before output tokens prompt tokens finished requests quiet after one token an event streaming keep-alive control request"
	pages := func(in *CheckInput, p ...page) { in.Pages = checkPages(t, p...) }
	idle, after := page{start: 1, out: 100, in: 50, finished: 5}, page{start: 1, out: 740, in: 210, finished: 25}
	for name, tc := range map[string]struct {
		spoil       func(in *CheckInput)
		failed      string // names of what fails
		item, text  string // an item, and what its finding or cause must say
		notPossible string
	}{
		"good": {func(*CheckInput) {}, "", "control request", "p50 10.00 ms", ""},
		"foreign traffic before": {func(in *CheckInput) {
			was := idle
			was.out -= 30
			was.running = 2
			pages(in, was, page{start: 1, out: 100, in: 50, finished: 5, running: 2}, page{start: 1, out: 900, in: 250, finished: 27}, page{start: 1, out: 900, in: 250, finished: 27})
		}, "quiet before, output tokens, prompt tokens, finished requests", "output tokens", "foreign traffic, as seen", ""},
		"foreign traffic inside": {func(in *CheckInput) {
			more := after
			more.out += 77
			pages(in, idle, idle, more, more)
		}, "output tokens", "output tokens", "foreign traffic in the window", ""},
		"a second engine": {func(in *CheckInput) {
			half := page{start: 1, out: 420, in: 130, finished: 15}
			pages(in, idle, idle, half, half)
		}, "output tokens, prompt tokens, finished requests", "output tokens", "50 % were counted here", ""},
		"another engine's page": {func(in *CheckInput) { pages(in, idle, idle, idle, idle) },
			"output tokens, prompt tokens, finished requests", "output tokens", "another engine or replica", ""},
		"restarted": {func(in *CheckInput) {
			fresh := page{start: 7, out: 640, in: 160, finished: 20}
			pages(in, idle, idle, fresh, fresh)
		}, "output tokens, prompt tokens, finished requests", "output tokens", "process_start_time_seconds", ""},
		"counters one step behind": {func(in *CheckInput) {
			late := after
			late.out--
			pages(in, idle, idle, late, after)
		}, "", "quiet after", "ran behind the replies", ""},
		"failed request": {func(in *CheckInput) {
			in.Attempts[3] = record.Attempt{Outcome: record.HTTPError, Status: 500, Error: "boom", Sent: 1, Headers: 2}
		}, "requests, output tokens, prompt tokens, finished requests", "requests", "http_error: boom", ""},
		"no usage": {func(in *CheckInput) {
			for i := range in.Attempts {
				in.Attempts[i].Usage = nil
			}
		}, "requests, output tokens, prompt tokens", "one token an event", "no streamed reply", "one token an event"},
		"several tokens an event": {func(in *CheckInput) { in.Attempts[7].MultiTokenEvents = 3 }, "one token an event", "one token an event", "1 of 20 replies", ""},
		"buffered": {func(in *CheckInput) {
			for i := range in.Attempts {
				in.Attempts[i].CoalescedText = 31
			}
		}, "streaming", "streaming", "20 of 20 replies came in one burst", ""},
		"stops early":       {func(in *CheckInput) { in.Attempts[0].Usage.CompletionTokens = 31 }, "exact output, output tokens", "exact output", "1 replies do not have 32", ""},
		"stale connections": {func(in *CheckInput) { in.Attempts[4].Try = 1 }, "keep-alive", "keep-alive", "1 of 19 reused connections were dead", ""},
		"no metrics": {func(in *CheckInput) { in.Pages, in.NoPages = [4][]*scrape.Scrape{}, "HTTP 404" }, "", "output tokens", "no metrics: HTTP 404",
			"quiet before, output tokens, prompt tokens, finished requests, quiet after"},
		"unknown metrics": {func(in *CheckInput) {
			s, _ := scrape.Parse([]byte("# TYPE x counter\nx_total 1\n"), "")
			for i := range in.Pages {
				in.Pages[i] = []*scrape.Scrape{s}
			}
		}, "", "output tokens", "no family bears the prefix", "quiet before, output tokens, quiet after"},
		"no control": {func(in *CheckInput) { in.Control = nil }, "", "control request", "neither /health nor /version", "control request"},
	} {
		t.Run(name, func(t *testing.T) {
			in := goodCheck(t)
			tc.spoil(in)
			c := result.InstrumentCheck{Items: CheckInstrument(in)}
			if got := strings.Join(c.Failed(), ", "); got != tc.failed {
				t.Errorf("failed: %q, want %q", got, tc.failed)
			}
			var names, impossible []string
			found := ""
			for _, i := range c.Items {
				names = append(names, i.Name)
				if i.Verdict == result.NotPossible {
					impossible = append(impossible, i.Name)
				}
				if i.Name == tc.item {
					found = i.Finding + " | " + i.Cause
				}
			}
			if !strings.Contains(found, tc.text) {
				t.Errorf("%s: %q, want %q", tc.item, found, tc.text)
			}
			if got := strings.Join(impossible, ", "); got != tc.notPossible {
				t.Errorf("not possible: %q, want %q", got, tc.notPossible)
			}
			if name == "good" && strings.Join(names, " ") != all {
				t.Errorf("items %q", names)
			}
		})
	}
}
