package experiment

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/result"
	"github.com/assay-bench/assay/scrape"
)

// deliverySlack bounds the time on the way from where a server counts to where
// a client stamps: half a step's wait in an API process, its encoder, the
// network. What arrives later than that is not taken for in flight.
const deliverySlack = 250 * time.Millisecond

// clientEdges is what the client saw between the two scrapes that bound a
// server's window, and what was on its way to it at either of them.
type clientEdges struct {
	edges [2]bracket

	out, in, computed, finished tally
	silent                      int // attempts whose prompt length nobody told
	short                       int // completed between the edges with no token or one
}

// tally is a count between the edges, and how much may be in flight there.
type tally struct{ n, flying float64 }

// at counts x units that the client saw at one moment. The server's scrape was
// somewhere inside its bracket, and what came shortly after may have been
// counted before.
func (t *tally) at(s record.Stamp, x float64, edges [2]bracket) {
	if s > edges[0].middle() && s <= edges[1].middle() {
		t.n += x
	}
	for _, e := range edges {
		if s >= e.lo && s <= e.hi.Add(deliverySlack) {
			t.flying += x
		}
	}
}

// over counts x units that came to be at unknown moments from a to b, and were
// seen at b.
func (t *tally) over(a, b record.Stamp, x float64, edges [2]bracket) {
	if b > edges[0].middle() && b <= edges[1].middle() {
		t.n += x
	}
	for _, e := range edges {
		if a <= e.hi && b >= e.lo {
			t.flying += x
		}
	}
}

// add counts an attempt.
func (c *clientEdges) add(a *record.Attempt, events []record.Event) {
	if !a.Sent.Known() {
		return
	}
	streamed := a.Streamed && len(events) > 0
	if streamed {
		c.tokens(a, events)
	}
	if a.Outcome == record.Completed {
		over := first(a.Finish, a.Ended)
		c.finished.at(over, float64(max(a.Choices, 1)), c.edges)
		if a.Usage != nil && a.Usage.CompletionTokens < 2 && over > c.edges[0].lo && over < c.edges[1].hi {
			c.short++
		}
	}
	if a.Usage == nil {
		if a.FirstEvent.Known() || a.Status == 200 {
			c.silent++
		}
		return
	}
	prompt, computed := float64(a.Usage.PromptTokens), float64(a.Usage.PromptTokens-a.Usage.CachedTokens)
	if !streamed {
		c.out.over(a.Sent, a.Ended, float64(a.Usage.CompletionTokens), c.edges)
		c.in.over(a.Sent, a.Ended, prompt, c.edges)
		c.computed.over(a.Sent, a.Ended, computed, c.edges)
		return
	}
	began := first(a.FirstToken, a.FirstText, a.FirstEvent)
	c.in.at(began, prompt, c.edges)
	c.computed.at(began, computed, c.edges)
}

// tokens counts a streamed reply event by event: by the deltas that the server
// told, else by an even share of its tokens for each event with text.
func (c *clientEdges) tokens(a *record.Attempt, events []record.Event) {
	even, rest := 1.0, 0.0
	if a.Usage != nil && a.DeltasUnknown > 0 {
		even = float64(max(a.Usage.CompletionTokens-a.DeltaTokens, 0)) / float64(a.DeltasUnknown)
	} else if a.Usage != nil {
		rest = float64(a.Usage.CompletionTokens - a.DeltaTokens)
	}
	var flown [2]bool // the first event after an edge was counted there
	last := a.Sent
	for _, e := range events {
		x := float64(e.Tokens)
		if e.Tokens < 0 {
			if !e.Flags.Has(record.FlagText) {
				continue
			}
			x = even
		}
		if x == 0 {
			continue
		}
		c.token(e.At, x, &flown)
		last = e.At
	}
	if rest > 0 { // tokens without an event of their own, such as a stop token
		c.token(first(a.Finish, last), rest, &flown)
	}
}

// token counts one event. In flight at an edge are those that came while it was
// scraped, and the next one of each stream.
func (c *clientEdges) token(s record.Stamp, x float64, flown *[2]bool) {
	if s > c.edges[0].middle() && s <= c.edges[1].middle() {
		c.out.n += x
	}
	for i, e := range c.edges {
		switch {
		case s >= e.lo && s <= e.hi:
			c.out.flying += x
		case s > e.hi && s <= e.hi.Add(deliverySlack) && !flown[i]:
			c.out.flying += x
			flown[i] = true
		}
	}
}

// first is the first stamp that is known.
func first(stamps ...record.Stamp) record.Stamp {
	for _, s := range stamps {
		if s.Known() {
			return s
		}
	}
	return 0
}

// check holds the window's totals against the client's sums.
func (w *serverWindow) check(c *clientEdges) {
	if w.out.Text != "" {
		return
	}
	w.hideZeros(c)
	for _, q := range comparable {
		r, ok := w.reads[q]
		if !ok || r.number.Hidden != "" {
			continue
		}
		var t tally
		switch q {
		case scrape.TokensOut:
			t = c.out
		case scrape.TokensIn:
			t = c.in
		case scrape.TokensInComputed:
			t = c.computed
		case scrape.RequestsFinished:
			t = c.finished
		}
		k := result.WindowCheck{Quantity: string(q), Name: r.entry.Name, Server: r.total, Client: t.n, InFlight: t.flying}
		k.Tolerance = max(0.01*max(t.n, r.total), t.flying) + r.resolution
		k.Possible = r.entry.Live || q == scrape.RequestsFinished
		k.Agrees = k.Possible && math.Abs(r.total-t.n) <= k.Tolerance
		k.Text = c.explain(&k, &r.entry)
		w.out.Checks = append(w.out.Checks, k)
	}
}

// hideZeros hides a histogram that observes short sequences as 0 if the client
// had any: the server's own histogram of lengths, which told of none, is behind
// or is another engine's.
func (w *serverWindow) hideZeros(c *clientEdges) {
	for i := range w.out.Distributions {
		d := &w.out.Distributions[i]
		if e := w.reads[scrape.Quantity(d.Quantity)].entry; e.Zeros == nil || d.Hidden != "" || c.short == 0 {
			continue
		}
		n := d.ServerNumber
		n.Flags = nil
		n.Hidden = fmt.Sprintf("contaminated: %d requests of no or one token completed in the window by the client's count, and such are observed as 0", c.short)
		*d = result.ServerDistribution{ServerNumber: n}
	}
}

// explain says what a difference is likely to be.
func (c *clientEdges) explain(k *result.WindowCheck, e *scrape.Entry) string {
	difference := k.Server - k.Client
	within := fmt.Sprintf("%+.0f, and up to %.0f is allowed", difference, k.Tolerance)
	var why []string
	switch {
	case !k.Possible:
		return "not compared: it is counted when a request ends, so that only the drained run can be"
	case k.Agrees:
		return "agrees: " + within
	case c.silent > 0:
		why = append(why, fmt.Sprintf("%d attempts told no usage (errors in stream, cut off)", c.silent))
	case difference > 0:
		why = append(why, "other traffic, or a second client")
	default:
		why = append(why, "a second engine or replica behind this address whose metrics were not scraped (--metrics-url)")
	}
	if i := slices.IndexFunc(e.Defects, func(d string) bool { return strings.Contains(d, "at its end") }); i >= 0 {
		why = append(why, e.Defects[i])
	}
	return "DIFFERS: " + within + ": " + strings.Join(why, "; ")
}

// ServerWarnings are what a reader of a stage must know of the server's account.
func ServerWarnings(a *result.ServerAccount) []result.Warning {
	if a == nil {
		return nil
	}
	var out []result.Warning
	warn := func(code, format string, args ...any) {
		out = append(out, result.Warning{Code: code, Text: fmt.Sprintf(format, args...)})
	}
	for _, t := range a.Targets {
		if t.Failed > 0 {
			warn("server-scrapes", "%d of %d scrapes of %s failed, the first %s", t.Failed, t.Scrapes, t.URL, t.FirstError)
		}
	}
	if a.Window == nil {
		return out
	}
	for _, k := range a.Window.Checks {
		if k.Possible && !k.Agrees {
			warn("server-check", "%s: the server counts %.0f in its window, the client %.0f: %s", k.Name, k.Server, k.Client, k.Text)
		}
	}
	for _, t := range a.Window.Totals {
		if t.Quantity == string(scrape.RequestsFailed) && t.Hidden == "" && t.Total > 0 {
			warn("server-failed", "the server aborted or failed %.0f requests in its window: its sums of queue and prefill time may be garbage", t.Total)
		}
	}
	if a.Window.Void {
		warn("server-window", "%s", a.Window.Text)
	}
	return out
}
