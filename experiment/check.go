package experiment

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/assay-bench/assay/metric"
	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/result"
	"github.com/assay-bench/assay/scrape"
)

// The instrument check of MEASUREMENT.md section 6.
const (
	CheckRequests  = 20
	CheckMaxTokens = 32
	// CheckQuiet is how long a server is watched for traffic of others, before
	// the requests and after.
	CheckQuiet = time.Second
)

// CheckInput is what was seen of a target.
type CheckInput struct {
	// Attempts of the check's requests, in the order in which they were sent.
	Attempts []record.Attempt
	// ExactOutput: the server was asked for exactly so many tokens.
	ExactOutput bool
	MaxTokens   int
	// Pages of metrics of each target: at the start, after a quiet while, just
	// after the last reply, and after another quiet while. nil if there are none,
	// for the reason NoPages.
	Pages   [4][]*scrape.Scrape
	NoPages string
	// EngineVersion as the target tells it.
	EngineVersion string
	// Model that the requests ask for.
	Model string
	// Control are the durations of requests to ControlPath, an endpoint that
	// costs nothing; none if there is no such endpoint.
	Control     []time.Duration
	ControlPath string
	// KeepAlive is what the server says of its connections.
	KeepAlive string
}

// CheckInstrument answers the questions of the check. It is pure.
func CheckInstrument(in *CheckInput) []result.CheckItem {
	c := &check{in: in}
	for i := range in.Attempts {
		c.sums.add(&in.Attempts[i])
	}
	c.requests()
	if in.ExactOutput {
		c.exactLength()
	}
	c.server()
	c.oneToken()
	c.buffering()
	c.keepAlive()
	c.control()
	return c.items
}

// check gathers the answers.
type check struct {
	in    *CheckInput
	sums  clientSums
	items []result.CheckItem
	// foreign traffic was seen while we sent nothing.
	foreign bool
	// agreed: over the whole time, every counter grew by what we count.
	agreed bool
}

func (c *check) answer(name, verdict, cause, finding string, args ...any) *result.CheckItem {
	c.items = append(c.items, result.CheckItem{Name: name, Verdict: verdict, Finding: fmt.Sprintf(finding, args...), Cause: cause})
	return &c.items[len(c.items)-1]
}

func (c *check) requests() {
	n := len(c.in.Attempts)
	verdict, cause := result.Pass, ""
	if c.sums.completed < n {
		verdict = result.Fail
		i := slices.IndexFunc(c.in.Attempts, func(a record.Attempt) bool { return a.Outcome != record.Completed })
		cause = fmt.Sprintf("the first that did not ended as %s: %s", c.in.Attempts[i].Outcome, c.in.Attempts[i].Error)
	} else if c.sums.silent > 0 {
		verdict, cause = result.Fail, "token counts come from the server's usage alone: without it there is neither TPOT nor throughput in tokens"
	}
	c.answer("requests", verdict, cause, "%d of %d completed, %d told their usage", c.sums.completed, n, n-c.sums.silent)
}

func (c *check) exactLength() {
	short := 0
	for _, a := range c.in.Attempts {
		if a.Outcome == record.Completed && a.Usage != nil && a.Usage.CompletionTokens != c.in.MaxTokens {
			short++
		}
	}
	if short == 0 {
		c.answer("exact output", result.Pass, "", "every reply has %d tokens, as asked", c.in.MaxTokens)
		return
	}
	c.answer("exact output", result.Fail, "ignore_eos was accepted and not obeyed: output lengths are the model's choice, below the maximum", "%d replies do not have %d tokens", short, c.in.MaxTokens)
}

// server compares the server's counters with our sums.
func (c *check) server() {
	names := map[scrape.Quantity]string{
		scrape.TokensOut: "output tokens", scrape.TokensIn: "prompt tokens", scrape.TokensInComputed: "computed prompt", scrape.RequestsFinished: "finished requests",
	}
	if c.in.NoPages != "" {
		for _, name := range []string{"quiet before", "output tokens", "prompt tokens", "finished requests", "quiet after"} {
			c.answer(name, result.NotPossible, "", "no metrics: %s", c.in.NoPages)
		}
		return
	}
	s, err := newSources(nil, nil, time.Time{}, &result.Target{EngineVersion: c.in.EngineVersion, Model: c.in.Model}, nil)
	if err != nil {
		c.answer("catalogue", result.NotPossible, "", "%v", err)
		return
	}
	rounds := make([]round, len(c.in.Pages))
	for i, pages := range c.in.Pages {
		rounds[i] = round{number: i, scrapes: pages}
	}
	for i, page := range c.in.Pages[0] {
		src := s.source(fmt.Sprintf("target %d", i+1))
		for _, pages := range c.in.Pages {
			src.selectModel(pages[i], s.model)
		}
		src.engine, src.told.Evidence = s.catalog.DetectEngine(page)
	}
	c.quiet("quiet before", s, rounds[0], rounds[1])
	windows := between(rounds[1], rounds[3])
	known := false
	c.agreed = true
	for _, q := range comparable {
		r := s.read(q, windows)
		if r.absent {
			continue
		}
		known = true
		c.compare(names[q], q, &r)
	}
	if !known {
		c.answer("output tokens", result.NotPossible, "", "there is no counter that the catalogue knows: %s", s.list[0].told.Evidence)
	}
	c.quiet("quiet after", s, rounds[2], rounds[3])
}

// quiet looks for traffic of others while we send nothing.
func (c *check) quiet(name string, s *sources, from, to round) {
	var busy, moved []string
	for _, q := range []scrape.Quantity{scrape.Running, scrape.Waiting} {
		if _, _, n, ok := s.gauge(q, to); ok && n > 0 {
			busy = append(busy, fmt.Sprintf("%.0f %s", n, q))
		}
	}
	windows := between(from, to)
	read := 0
	for _, q := range comparable {
		r := s.read(q, windows)
		switch {
		case r.absent:
			continue
		case r.number.Hidden != "":
			c.answer(name, result.Fail, "two processes answer behind this address, or the server restarted: its counters cannot be used", "%s", r.number.Hidden)
			return
		}
		read++
		if r.total > 0 {
			moved = append(moved, fmt.Sprintf("%s grew by %.0f", r.entry.Name, r.total))
		}
	}
	seen := strings.Join(append(busy, moved...), ", ")
	switch {
	case read == 0 && len(busy) == 0:
		c.answer(name, result.NotPossible, "", "there is no counter that the catalogue knows")
	case seen == "":
		c.answer(name, result.Pass, "", "nothing running or waiting, no counter moved")
	case c.agreed && len(busy) == 0:
		c.answer(name, result.Pass, "the counters ran behind the replies, by that much; all of it is ours", "%s", seen)
	default:
		c.foreign = true
		c.answer(name, result.Fail, "others use this server now: its counters and histograms hold their requests too, and latencies their load", "%s", seen)
	}
}

// compare holds one counter against the client's sum.
func (c *check) compare(name string, q scrape.Quantity, r *reading) {
	if r.number.Hidden != "" {
		c.answer(name, result.Fail, "the server restarted, or another one answered", "%s", r.number.Hidden)
		return
	}
	client := map[scrape.Quantity]int{
		scrape.TokensOut: c.sums.out, scrape.TokensIn: c.sums.in, scrape.TokensInComputed: c.sums.in - c.sums.cached, scrape.RequestsFinished: c.sums.completed,
	}[q]
	difference := r.total - float64(client)
	verdict, cause := result.Pass, ""
	if math.Abs(difference) > r.resolution {
		c.agreed = false
		verdict, cause = result.Fail, c.likely(difference, r.total, float64(client))
	}
	of := ""
	if r.number.Series > 1 {
		of = fmt.Sprintf(", over %d series", r.number.Series)
	}
	i := c.answer(name, verdict, cause, "%s grew by %.0f%s, the client counts %d", r.entry.Name, r.total, of, client)
	i.Server, i.Client = new(r.total), new(float64(client))
}

// likely says what explains a mismatch best.
func (c *check) likely(difference, server, client float64) string {
	silent := len(c.in.Attempts) - c.sums.completed + c.sums.silent
	switch {
	case silent > 0:
		return fmt.Sprintf("%d requests failed or told no usage: the server counts what they cost, the client cannot", silent)
	case c.foreign && difference > 0:
		return "foreign traffic, as seen while we sent nothing"
	case server == 0:
		return "the metrics are those of another engine or replica than the one that answers; give each one's page with --metrics-url"
	case difference < 0:
		return fmt.Sprintf("a second engine or replica behind this address took some of the requests: %.0f %% were counted here; give each one's page with --metrics-url", 100*server/client)
	case client > 0 && server/client == math.Trunc(server/client):
		return fmt.Sprintf("the server counts each %.0f times: the same engine is scraped more than once, or a proxy repeats requests", server/client)
	}
	return "foreign traffic in the window, or a proxy that repeats requests"
}

func (c *check) oneToken() {
	var n [4]int
	for i := range c.in.Attempts {
		n[metric.CheckOneToken(&c.in.Attempts[i])]++
	}
	checked := n[metric.Proven] + n[metric.Inferred] + n[metric.Failed]
	switch {
	case checked == 0:
		c.answer("one token an event", result.NotPossible, "gaps between tokens cannot be told", "no streamed reply of at least two tokens with usage")
	case n[metric.Failed] > 0:
		c.answer("one token an event", result.Fail, "speculative decoding, stream_interval above 1, or a server or proxy that joins events: gaps are gaps of chunks, ITL is not reported",
			"%d of %d replies have events of several tokens, or fewer events than tokens", n[metric.Failed], checked)
	case n[metric.Inferred] > 0:
		c.answer("one token an event", result.Pass, "inferred by counting: the server does not say how many tokens an event carries", "%d of %d replies have as many text events as tokens", n[metric.Inferred]+n[metric.Proven], checked)
	default:
		c.answer("one token an event", result.Pass, "", "proven by continuous usage in %d of %d replies", n[metric.Proven], checked)
	}
}

// buffering finds replies that came at once.
func (c *check) buffering() {
	long, bursts := 0, 0
	for _, a := range c.in.Attempts {
		if a.Outcome != record.Completed || a.TextEvents < enoughEvents {
			continue
		}
		long++
		if 10*a.CoalescedText >= 9*(a.TextEvents-1) {
			bursts++
		}
	}
	switch {
	case long == 0:
		c.answer("streaming", result.NotPossible, "", "no reply has %d text events", enoughEvents)
	case 2*bursts >= long:
		c.answer("streaming", result.Fail, "something between the engine and us holds replies back, such as nginx with proxy_buffering on: TTFT and gaps would describe the buffer",
			"%d of %d replies came in one burst", bursts, long)
	default:
		c.answer("streaming", result.Pass, "", "%d of %d replies came event by event", long-bursts, long)
	}
}

// keepAlive tells whether connections live from one request to the next.
func (c *check) keepAlive() {
	reused, stale, sent := 0, 0, 0
	for i, a := range c.in.Attempts {
		if i == 0 || !a.Sent.Known() {
			continue
		}
		sent++
		if a.ConnReused {
			reused++
		}
		if a.Try > 0 {
			stale++
		}
	}
	told := c.in.KeepAlive
	if told == "" {
		told = "the server says nothing of it"
	}
	switch {
	case sent == 0:
		c.answer("keep-alive", result.NotPossible, "", "there were no two requests")
	case stale > 0:
		c.answer("keep-alive", result.Fail, "the server closes connections without saying so: such requests are tried again, and counted as stale", "%d of %d reused connections were dead; %s", stale, sent, told)
	case reused == 0:
		c.answer("keep-alive", result.Pass, "each request needs a new connection: connect and TLS time come before TTFT, and count in TTFT from schedule", "no connection was reused; %s", told)
	default:
		c.answer("keep-alive", result.Pass, "", "%d of %d requests reused a connection; %s", reused, sent, told)
	}
}

// control bounds what network, server front and client cost together.
func (c *check) control() {
	if len(c.in.Control) == 0 {
		c.answer("control request", result.NotPossible, "what network and client cost cannot be bounded", "neither /health nor /version answers")
		return
	}
	sorted := slices.Sorted(slices.Values(c.in.Control))
	ms := func(d time.Duration) float64 { return float64(d) / 1e6 }
	p50 := sorted[(len(sorted)-1)/2]
	c.answer("control request", result.Pass, fmt.Sprintf("network, front end and client cost about %.2f ms a request: differences in TTFT below that are not the engine's", ms(p50)),
		"GET %s takes p50 %.2f ms, min %.2f, max %.2f (n %d, same client, same connections)", c.in.ControlPath, ms(p50), ms(sorted[0]), ms(sorted[len(sorted)-1]), len(sorted))
}
