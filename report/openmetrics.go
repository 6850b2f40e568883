package report

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/result"
)

// OpenMetrics writes the summary of a run as an OpenMetrics 1.0 exposition, for a
// Pushgateway or a textfile collector. Times are in seconds, as that format has
// them; quantiles that do not exist are left out.
func OpenMetrics(w io.Writer, r *result.Run) error {
	m := &exposition{run: r}
	type x = result.Metrics
	for _, d := range []struct {
		name, help string
		of         func(*x) *result.Summary
	}{
		{"ttft", "Time to first token as the client saw it, from the first byte sent, over the measured requests", func(m *x) *result.Summary { return m.TTFT }},
		{"ttft_from_schedule", "Time to first token from when the request was due", func(m *x) *result.Summary { return m.TTFTFromSchedule }},
		{"tpot", "Time per output token after the first, per request (request-weighted)", func(m *x) *result.Summary { return m.TPOT }},
		{"itl", "Time between tokens; only where every event is one token", func(m *x) *result.Summary { return m.ITL }},
		{"e2e", "Time from the first byte sent to the last text", func(m *x) *result.Summary { return m.E2E }},
	} {
		m.family("assay_"+d.name+"_seconds", "summary", "seconds", d.help)
		for i := range r.Stages {
			m.summary("assay_"+d.name+"_seconds", &r.Stages[i], d.of(&r.Stages[i].Metrics))
		}
	}
	for _, t := range []struct{ name, of, help string }{
		{"assay_output_tokens_per_second", "output_tps", "Output tokens of the measured window over its length"},
		{"assay_prompt_tokens_per_second", "prompt_tps", "Prompt tokens of the measured window over its length"},
		{"assay_requests_per_second", "rps", "Requests completed in the measured window over its length"},
	} {
		m.family(t.name, "gauge", "", t.help)
		for i := range r.Stages {
			for _, rate := range r.Stages[i].Throughput {
				if rate.Name == t.of {
					m.sample(t.name, &r.Stages[i], "", rate.Value)
				}
			}
		}
	}
	m.family("assay_goodput_ratio", "gauge", "ratio", "Share of the due requests that met every limit of the SLO")
	for i := range r.Stages {
		if g := r.Stages[i].Goodput; g != nil {
			m.sample("assay_goodput_ratio", &r.Stages[i], "", g.Percent/100)
		}
	}
	m.family("assay_requests", "gauge", "", "Attempts of the measured window by outcome")
	for i := range r.Stages {
		for _, o := range record.Outcomes() {
			if n := r.Stages[i].Ledger.Rows[o]; n > 0 {
				m.sample("assay_requests", &r.Stages[i], `outcome="`+string(o)+`"`, float64(n))
			}
		}
	}
	m.family("assay_client_valid", "gauge", "", "1 if our own client was fit to measure")
	for i := range r.Stages {
		m.sample("assay_client_valid", &r.Stages[i], "", truth(r.Stages[i].Client.Verdict == result.Valid))
	}
	m.family("assay_stable", "gauge", "", "1 if the stage was shown to be in a steady state")
	for i := range r.Stages {
		m.sample("assay_stable", &r.Stages[i], "", truth(r.Stages[i].Stability.Verdict == result.Stable))
	}
	m.b.WriteString("# EOF\n")
	if _, err := io.WriteString(w, m.b.String()); err != nil {
		return fmt.Errorf("writing OpenMetrics: %w", err)
	}
	return nil
}

func truth(ok bool) float64 {
	if ok {
		return 1
	}
	return 0
}

type exposition struct {
	run *result.Run
	b   strings.Builder
}

func (m *exposition) family(name, kind, unit, help string) {
	fmt.Fprintf(&m.b, "# TYPE %s %s\n", name, kind)
	if unit != "" {
		fmt.Fprintf(&m.b, "# UNIT %s %s\n", name, unit)
	}
	fmt.Fprintf(&m.b, "# HELP %s %s.\n", name, labelText(help))
}

func (m *exposition) sample(name string, st *result.Stage, labels string, value float64) {
	fmt.Fprintf(&m.b, `%s{run="%s",model="%s",stage="%s"`, name, labelText(m.run.ID), labelText(m.run.Target.Model), labelText(st.Name))
	if labels != "" {
		m.b.WriteString("," + labels)
	}
	fmt.Fprintf(&m.b, "} %s\n", strconv.FormatFloat(value, 'g', -1, 64))
}

func (m *exposition) summary(name string, st *result.Stage, s *result.Summary) {
	if s == nil || s.N == 0 || s.Mean == nil {
		return
	}
	for _, q := range []struct {
		label string
		ms    *float64
	}{{"0.5", s.P50}, {"0.95", s.P95}, {"0.99", s.P99}} {
		if q.ms != nil && !math.IsNaN(*q.ms) {
			m.sample(name, st, `quantile="`+q.label+`"`, *q.ms/1000)
		}
	}
	m.sample(name+"_count", st, "", float64(s.N))
	m.sample(name+"_sum", st, "", *s.Mean*float64(s.N)/1000)
}

// labelText escapes what may not stand in a label's value or in help.
func labelText(s string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(escape(s))
}
