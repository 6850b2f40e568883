package report

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/assay-bench/assay/result"
)

// throughput prints every rate with its three statements.
func (sh *sheet) throughput(st *result.Stage) {
	list := st.Throughput
	if len(list) == 0 {
		return
	}
	sh.section("THROUGHPUT", append([]string{"what is counted, over what, and with which phases"}, doubts(st)...)...)
	for _, t := range list {
		sh.add(rate{rateLabel(t.Name), number(t.Value), t.Unit, []string{
			t.Numerator, "over the " + strings.TrimPrefix(t.Denominator, "the ") + "; " + t.Phases,
		}})
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

func (sh *sheet) goodput(g *result.Goodput) {
	if g == nil {
		sh.section("GOODPUT", "no limits were given: --slo ttft=1s,tpot=150ms,e2e=5s counts the requests that meet them")
		return
	}
	sh.section("GOODPUT", fmt.Sprintf("%s %% of due requests met every limit: %d of %d", short(g.Percent, 2), g.Good, g.Due))
	sh.row("limits", limits(g.SLO)...)
	if misses := counts(named(g.Misses), "no reason told"); g.Good < g.Due {
		sh.row("misses", append(misses, "each counted once, by the first limit that it missed")...)
	}
	if g.OneToken > 0 {
		sh.row("one token", times(g.OneToken, "request", "requests")+" judged on TTFT and E2E alone")
	}
	if g.Rate != nil {
		sh.row("rate", number(*g.Rate)+" requests/s met them: the goodput rate, another quantity")
	}
}

// limits says an objective in words.
func limits(slo []result.Threshold) []string {
	var out []string
	for _, t := range slo {
		limit := strings.ToUpper(strings.TrimSuffix(t.Metric, "_from_schedule"))
		if strings.HasSuffix(t.Metric, "_from_schedule") {
			limit += " from schedule"
		}
		limit += " < " + short(t.LimitMS, 3) + " ms"
		if t.Note != "" {
			limit += " (" + t.Note + ")"
		}
		out = append(out, limit)
	}
	return out
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

func (sh *sheet) errors(list []result.ErrorSample) {
	if len(list) == 0 {
		return
	}
	sh.section("ERRORS", "the first of each kind")
	for _, e := range list {
		kind := inWords(e.Outcome)
		if e.Status != 0 {
			kind += fmt.Sprintf(", HTTP %d", e.Status)
		}
		sh.row(fmt.Sprintf("%d ×", e.Count), kind+": "+cmp.Or(e.Error, "no message"))
		if text := strings.TrimSpace(e.Body); text != "" {
			sh.add(body(text))
		}
	}
}

func (sh *sheet) warnings(r *result.Run) {
	var texts list
	for _, w := range r.Warnings {
		texts = append(texts, coded(w))
	}
	for i := range r.Stages {
		for _, w := range r.Stages[i].Warnings {
			stage := ""
			if len(r.Stages) > 1 {
				stage = r.Stages[i].Name + ": "
			}
			texts = append(texts, stage+coded(w))
		}
	}
	if len(texts) == 0 {
		return
	}
	sh.section("WARNINGS", times(len(texts), "finding that", "findings that")+" a reader of the numbers must know")
	sh.add(texts)
}

// coded is a warning with its stable name behind it.
func coded(w result.Warning) string {
	if w.Code == "" {
		return w.Text
	}
	return w.Text + " [" + w.Code + "]"
}
