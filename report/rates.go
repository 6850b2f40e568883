package report

import (
	"cmp"
	"fmt"
	"strings"

	"charm.land/lipgloss/v2"

	"github.com/assay-bench/assay/result"
)

// throughput prints every rate with its three statements.
func (p *page) throughput(st *result.Stage) {
	list := st.Throughput
	if len(list) == 0 {
		return
	}
	heads := make([]string, len(list))
	wide := 0
	for i, t := range list {
		heads[i] = number(t.Value)
		wide = max(wide, len(heads[i]))
	}
	p.section("THROUGHPUT", append([]string{"what is counted, over what, and with which phases"}, doubts(st)...)...)
	for i, t := range list {
		head := fmt.Sprintf("%*s %-10s ", wide, heads[i], p.clean(t.Unit))
		indent := strings.Repeat(" ", lipgloss.Width(head))
		room := p.room() - len(indent)
		lines := append(p.wrap(t.Numerator, room), p.wrap("over the "+strings.TrimPrefix(t.Denominator, "the ")+"; "+t.Phases, room)...)
		for j := range lines {
			if j == 0 {
				lines[j] = head + lines[j]
			} else {
				lines[j] = indent + lines[j]
			}
		}
		p.put(p.label(rateLabel(t.Name), false), lines)
	}
}

func rateLabel(name string) string {
	switch name {
	case "output_tps":
		return "output"
	case "output_tps_span":
		return "over span"
	case "prompt_tps":
		return "prompt"
	case "rps":
		return "requests"
	}
	return name
}

func (p *page) goodput(g *result.Goodput) {
	if g == nil {
		return
	}
	p.section("GOODPUT", fmt.Sprintf("%s %% of due requests met every limit: %d of %d", short(g.Percent, 2), g.Good, g.Due))
	var limits []string
	for _, t := range g.SLO {
		limit := strings.ToUpper(strings.TrimSuffix(t.Metric, "_from_schedule"))
		if strings.HasSuffix(t.Metric, "_from_schedule") {
			limit += " from schedule"
		}
		limit += " < " + short(t.LimitMS, 3) + " ms"
		if t.Note != "" {
			limit += " (" + t.Note + ")"
		}
		limits = append(limits, limit)
	}
	p.row("limits", limits...)
	p.row("misses", counts(named(g.Misses), "no reason told")...)
	if g.OneToken > 0 {
		p.row("one token", times(g.OneToken, "request", "requests")+" judged on TTFT and E2E alone")
	}
	if g.Rate != nil {
		p.row("rate", number(*g.Rate)+" requests/s met them: the goodput rate, another quantity")
	}
}

// named says of a missed limit that it is one.
func named(misses map[string]int) map[string]int {
	out := make(map[string]int, len(misses))
	for why, n := range misses {
		switch why {
		case "ttft", "tpot", "e2e":
			why = strings.ToUpper(why) + " limit"
		}
		out[why] += n
	}
	return out
}

// server shows the server's own account beside the client's.
func (p *page) server(a *result.ServerAccount) {
	if a == nil {
		return
	}
	p.section("SERVER", "boundary: the server's own counters, whole run, all phases")
	p.row("", a.Text)
	for _, c := range a.Counters {
		delta := "not read"
		if c.Delta != nil {
			delta = "server " + short(*c.Delta, 3)
		}
		p.row("", fmt.Sprintf("%s: %s, client %s", c.Name, delta, short(c.Client, 3)), c.Text)
	}
	if a.MetricsURL != "" {
		p.verbatim("metrics", a.MetricsURL)
	}
}

// bodyLines bounds what is shown of an error body.
const bodyLines = 4

func (p *page) errors(list []result.ErrorSample) {
	if len(list) == 0 {
		return
	}
	p.section("ERRORS", "the first of each kind")
	for _, e := range list {
		kind := inWords(e.Outcome)
		if e.Status != 0 {
			kind += fmt.Sprintf(", HTTP %d", e.Status)
		}
		p.row(fmt.Sprintf("%d ×", e.Count), kind+": "+cmp.Or(e.Error, "no message"))
		p.body(e.Body)
	}
}

// body shows the first lines of a reply.
func (p *page) body(text string) {
	text = strings.TrimSpace(strings.ReplaceAll(text, "\r\n", "\n"))
	if text == "" {
		return
	}
	const indent = "  "
	room := p.room() - len(indent)
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		rest := strings.TrimRight(p.clean(strings.ReplaceAll(line, "\t", "  ")), " ")
		for rest != "" && len(lines) <= bodyLines {
			line, rest = cut(rest, room)
			lines = append(lines, strings.TrimRight(line, " "))
		}
	}
	if len(lines) > bodyLines {
		lines = append(lines[:bodyLines], p.clean("…"))
	}
	for i := range lines {
		lines[i] = indent + lines[i]
	}
	p.put(p.label("", false), lines)
}

func (p *page) warnings(r *result.Run) {
	list := append([]result.Warning(nil), r.Warnings...)
	for i := range r.Stages {
		for _, w := range r.Stages[i].Warnings {
			if len(r.Stages) > 1 {
				w.Text = r.Stages[i].Name + ": " + w.Text
			}
			list = append(list, w)
		}
	}
	if len(list) == 0 {
		return
	}
	p.section("WARNINGS", times(len(list), "finding that", "findings that")+" a reader of the numbers must know")
	texts := make([]string, len(list))
	for i, w := range list {
		texts[i] = coded(w)
	}
	p.list(texts)
}

// coded is a warning with its stable name behind it.
func coded(w result.Warning) string {
	if w.Code == "" {
		return w.Text
	}
	return w.Text + " [" + w.Code + "]"
}
