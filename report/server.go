package report

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/assay-bench/assay/result"
)

// serverTimes are the durations that the report shows, in its order; all others
// are in report.json.
var serverTimes = []struct{ quantity, word string }{
	{"ttft", "TTFT"}, {"itl_step", "gap a step"}, {"tpot_request", "TPOT"}, {"normalized_latency", "E2E / n"}, {"queue", "queue"},
	{"prefill", "prefill"}, {"decode", "decode"}, {"inference", "inference"}, {"e2e", "E2E"},
}

// server shows the server's own account beside the client's.
func (sh *sheet) server(st *result.Stage) {
	a := st.Server
	if a == nil {
		return
	}
	sh.section("SERVER", append([]string{"boundary: the server's own metrics, never to be subtracted from the client's"}, doubts(st)...)...)
	sh.row("", a.Text)
	for _, t := range a.Targets {
		sh.serverTarget(&t)
	}
	if len(a.Targets) == 0 && a.MetricsURL != "" {
		sh.add(verbatim{"metrics", a.MetricsURL})
	}
	var meaning []string
	if a.Window != nil {
		meaning = sh.serverWindow(st, a.Window)
	}
	label := "whole run"
	for _, c := range a.Counters {
		delta := "not read"
		if c.Delta != nil {
			delta = "server " + short(*c.Delta, 3)
		}
		sh.row(label, fmt.Sprintf("%s: %s, client %s", c.Name, delta, short(c.Client, 3)), c.Text)
		label = ""
	}
	if len(meaning) > 0 {
		sh.row("meaning", "what one sample, or one unit, of each of them is")
		sh.add(list(meaning))
	}
}

func (sh *sheet) serverTarget(t *result.ServerTarget) {
	sh.row("metrics", t.URL)
	engine := "engine not known: " + t.Evidence
	if t.Engine != "" {
		engine = t.Engine
	}
	items := []string{engine, times(t.Scrapes, "scrape", "scrapes"), "the slowest took " + number(float64(t.Longest)/1e6) + " ms"}
	if t.Failed > 0 {
		items = append(items, fmt.Sprintf("%d FAILED, the first %s", t.Failed, t.FirstError))
	}
	if s := t.Skew; s != nil && (s[0] > 1 || s[1] < -1) {
		items = append(items, fmt.Sprintf("its clock is ahead of ours by %s to %s s", short(s[0], 2), short(s[1], 2)))
	}
	sh.row("", append(items, t.Selected)...)
}

// serverWindow shows the window, and returns what its numbers mean.
func (sh *sheet) serverWindow(st *result.Stage, w *result.ServerWindow) []string {
	if w.Text != "" {
		sh.row("window", w.Text)
		return nil
	}
	sh.row("window", number(w.LengthLo.Seconds())+" s between its first and its last scrape inside the measured window of "+number(st.Window.Length().Seconds())+" s",
		strconv.Itoa(w.Scrapes)+" scrapes")
	var said meanings
	sh.serverTimes(st, w, &said)
	sh.serverRates(w, &said)
	sh.serverGauges(w, &said)
	sh.serverEvents(w, &said)
	label := "cross-check"
	for _, k := range w.Checks {
		sh.row(label, fmt.Sprintf("%s: server %s, client %s", k.Name, short(k.Server, 1), short(k.Client, 1)), k.Text)
		label = ""
	}
	return said.lines
}

// meanings gathers what stands beside the numbers that were shown.
type meanings struct{ lines []string }

func (m *meanings) add(n *result.ServerNumber) {
	line := n.Semantics
	if n.Series > 1 {
		line += fmt.Sprintf("; sum of %d series", n.Series)
	}
	if n.Note != "" {
		line += "; " + n.Note
	}
	for _, f := range n.Flags {
		line += "; " + f
	}
	if !slices.Contains(m.lines, line) {
		m.lines = append(m.lines, line)
	}
}

// serverTimes is the table of durations: exact means, and percentiles as the
// buckets in which they lie.
func (sh *sheet) serverTimes(st *result.Stage, w *result.ServerWindow, said *meanings) {
	g := grid{stack: true, header: []string{"server, ms", "n", "mean", "p50 in", "p95 in", "p99 in", "client mean (n)"}}
	var hidden [][2]string
	for _, word := range serverTimes {
		i := slices.IndexFunc(w.Distributions, func(d result.ServerDistribution) bool { return d.Quantity == word.quantity })
		if i < 0 {
			continue
		}
		d := &w.Distributions[i]
		if d.Hidden != "" {
			hidden = append(hidden, [2]string{word.word, d.Hidden})
			continue
		}
		said.add(&d.ServerNumber)
		bounds := []*result.ServerBound{d.P50, d.P95, d.P99}
		buckets, tight, narrower := make([]string, 3), make([]string, 3), false
		for k, b := range bounds {
			buckets[k], tight[k] = bucket(b), ""
			if b != nil && b.SumFits && (differ(b.Lo, b.TightLo) || differ(b.Hi, b.TightHi)) {
				tight[k], narrower = "["+edge(b.TightLo, "-Inf")+", "+edge(b.TightHi, "Inf")+"]", true
			}
		}
		g.rows = append(g.rows, append(append([]string{word.word, strconv.FormatUint(d.N, 10), optional(d.Mean)}, buckets...), clientMean(st, word.quantity)))
		if narrower {
			g.rows = append(g.rows, append(append([]string{"  by the sum", "", ""}, tight...), ""))
		}
	}
	if len(g.rows) > 0 {
		sh.add(g)
		sh.row("", "means are exact: growth of the sum over growth of the count",
			"a percentile lies in the bucket named, with that share of all samples, and by the sum of all samples in the interval below it",
			"n counts samples of the window between the scrapes, the client's mean is over a sample of its own, of the n behind it")
	}
	for _, h := range hidden {
		sh.row("not shown", h[0]+": "+h[1])
	}
}

func differ(a, b *float64) bool { return b != nil && (a == nil || *a != *b) }

func edge(x *float64, beyond string) string {
	if x == nil {
		return beyond
	}
	return short(*x, decimals(*x))
}

func bucket(b *result.ServerBound) string {
	if b == nil {
		return none
	}
	closing := "]"
	if b.Hi == nil {
		closing = ")"
	}
	return fmt.Sprintf("(%s, %s%s %s", edge(b.Lo, "-Inf"), edge(b.Hi, "Inf"), closing, strings.ReplaceAll(percent(b.Share), " ", ""))
}

// clientMean is the client's figure of the same name, to be seen beside.
func clientMean(st *result.Stage, quantity string) string {
	m := &st.Metrics
	s := map[string]*result.Summary{"ttft": m.TTFT, "tpot_request": m.TPOT, "e2e": m.E2E, "itl_step": m.ITL}[quantity]
	if quantity == "itl_step" && s == nil {
		s = m.ChunkGap
	}
	if s == nil {
		return ""
	}
	return optional(s.Mean) + " (" + strconv.Itoa(s.N) + ")"
}

// rated are the totals of which the report shows the rate.
var rated = []struct{ quantity, label string }{{"tokens_out", "output"}, {"tokens_in", "prompt"}, {"tokens_in_computed", "computed"}, {"requests_finished", "requests"}}

func (sh *sheet) serverRates(w *result.ServerWindow, said *meanings) {
	for _, r := range rated {
		t := total(w, r.quantity)
		switch {
		case t == nil:
		case t.Hidden != "":
			sh.row("not shown", r.label+": "+t.Hidden)
		case t.PerSecond != nil:
			said.add(&t.ServerNumber)
			statements := []string{fmt.Sprintf("growth of %s by %s", t.Name, short(t.Total, 1))}
			if lo, hi := number(t.PerSecond[0]), number(t.PerSecond[1]); lo != hi {
				statements[0] += fmt.Sprintf(", %s to %s by the stamps of the scrapes", lo, hi)
			}
			if len(t.By) > 0 {
				statements = append(statements, parts(t.By))
			}
			unit := strings.ReplaceAll(t.Unit, "tokens", "tok") + "/s"
			sh.add(rate{r.label, number((t.PerSecond[0] + t.PerSecond[1]) / 2), unit, statements})
		}
	}
}

func parts(by map[string]float64) string {
	var items []string
	for _, k := range slices.Sorted(maps.Keys(by)) {
		items = append(items, k+" "+short(by[k], 1))
	}
	return strings.Join(items, ", ")
}

func total(w *result.ServerWindow, quantity string) *result.ServerTotal {
	i := slices.IndexFunc(w.Totals, func(t result.ServerTotal) bool { return t.Quantity == quantity })
	if i < 0 {
		return nil
	}
	return &w.Totals[i]
}

func (sh *sheet) serverGauges(w *result.ServerWindow, said *meanings) {
	for _, word := range []struct{ quantity, label string }{{"running", "running"}, {"waiting", "waiting"}, {"kv_usage", "KV usage"}} {
		i := slices.IndexFunc(w.Gauges, func(g result.ServerGauge) bool { return g.Quantity == word.quantity })
		if i < 0 {
			continue
		}
		g := &w.Gauges[i]
		if g.Hidden != "" {
			sh.row("not shown", word.label+": "+g.Hidden)
			continue
		}
		said.add(&g.ServerNumber)
		show := func(x float64) string { return short(x, 2) }
		if g.Unit == "share" {
			show = percent
		}
		sh.row(word.label, fmt.Sprintf("min %s, mean %s, max %s", show(g.Min), show(g.Mean), show(g.Max)),
			fmt.Sprintf("of %d scrapes, unknown between them", g.Samples))
	}
}

// serverEvents are totals that are told as counts, and shares of totals.
func (sh *sheet) serverEvents(w *result.ServerWindow, said *meanings) {
	var items []string
	for _, word := range []struct{ quantity, one, many string }{{"preemptions", "preemption", "preemptions"}, {"requests_failed", "request aborted or failed", "requests aborted or failed"}} {
		if t := total(w, word.quantity); t != nil && t.Hidden == "" {
			said.add(&t.ServerNumber)
			items = append(items, times(int(t.Total), word.one, word.many))
		}
	}
	if s := w.PrefixHitRate; s != nil {
		items = append(items, fmt.Sprintf("prefix cache hits %s of %s tokens: %s", short(s.Part, 1), short(s.Whole, 1), percent(s.Share)))
	}
	if s := w.SpecAcceptance; s != nil {
		items = append(items, fmt.Sprintf("drafts accepted %s of %s tokens: %s", short(s.Part, 1), short(s.Whole, 1), percent(s.Share)))
	}
	sh.row("events", items...)
}
