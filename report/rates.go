package report

import (
	"cmp"
	"fmt"
	"strings"

	"charm.land/lipgloss/v2"

	"github.com/assay-bench/assay/result"
)

// throughput prints every rate with its three statements.
func (p *page) throughput(list []result.Throughput) {
	if len(list) == 0 {
		return
	}
	heads := make([]string, len(list))
	wide := 0
	for i, t := range list {
		heads[i] = number(t.Value)
		wide = max(wide, len(heads[i]))
	}
	p.section("THROUGHPUT", "what is counted, over what, and what is inside")
	for i, t := range list {
		head := fmt.Sprintf("%*s %-10s ", wide, heads[i], p.clean(t.Unit))
		indent := strings.Repeat(" ", lipgloss.Width(head))
		lines := p.wrap(t.Numerator+" / "+t.Denominator+"; "+t.Phases, p.room()-len(indent))
		for j := range lines {
			if j == 0 {
				lines[j] = head + lines[j]
			} else {
				lines[j] = indent + lines[j]
			}
		}
		p.put(pad(p.clean(rateLabel(t.Name)), gutter), lines)
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
	p.row("misses", counts(g.Misses, "no reason told")...)
	if g.OneToken > 0 {
		p.row("one token", times(g.OneToken, "request", "requests")+" judged on TTFT and E2E alone")
	}
	if g.Rate != nil {
		p.row("rate", number(*g.Rate)+" requests/s met them: the goodput rate, another quantity")
	}
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
		kind := words4(e.Outcome)
		if e.Status != 0 {
			kind += fmt.Sprintf(", HTTP %d", e.Status)
		}
		p.row(fmt.Sprintf("%d ×", e.Count), kind+": "+cmp.Or(e.Error, "no message"))
		p.body(e.Body)
	}
}

// body shows the first lines of a reply, each cut to the width of the page.
func (p *page) body(text string) {
	text = strings.TrimSpace(strings.ReplaceAll(text, "\r\n", "\n"))
	if text == "" {
		return
	}
	const indent = "  "
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		line = p.clean(strings.ReplaceAll(line, "\t", "  "))
		if line = strings.TrimRight(line, " "); line == "" {
			continue
		}
		if len(lines) == bodyLines {
			lines = append(lines, indent+p.clean("…"))
			break
		}
		lines = append(lines, indent+p.truncate(line, p.room()-len(indent)))
	}
	p.put(pad("", gutter), lines)
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
	for _, w := range list {
		p.row("", coded(w))
	}
}

// coded is a warning with its stable name behind it.
func coded(w result.Warning) string {
	if w.Code == "" {
		return w.Text
	}
	return w.Text + " [" + w.Code + "]"
}
