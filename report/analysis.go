package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/assay-bench/assay/metric"
	"github.com/assay-bench/assay/result"
)

// Table writes the analysis of a file of five columns, made by
// [metric.NewTable]; the stage's name is that of the file. What such a file does
// not allow is said at the end.
func Table(w io.Writer, st *result.Stage, o Options) error {
	sh := new(sheet)
	sh.section("FILE", st.Name, times(st.Ledger.Attempts, "request", "requests"), "five columns")
	sh.row("prompts", tokens(st.Workload.PromptTokens)...)
	sh.row("outputs", append(tokens(st.Workload.CompletionTokens),
		fmt.Sprintf("zero-token %d", st.Ledger.ZeroToken), fmt.Sprintf("one-token %d", st.Ledger.OneToken))...)
	sh.excluded(&st.Metrics)
	sh.latency(st, "the rows of the file")
	sh.beside(&st.Metrics)
	sh.strata(st.Metrics.Strata)
	sh.goodput(st.Goodput)
	sh.section("NOT IN IT", "what five columns do not allow:")
	sh.add(list(metric.FiveColumnsLack()))
	for _, w := range st.Warnings {
		if !slices.Contains(metric.FiveColumnsLack(), w.Text) {
			sh.add(list{coded(w)})
		}
	}
	return sh.text(w, o)
}

// Imported writes the analysis of another tool's result file; what its figures
// mean and lack is in the stage's warnings.
func Imported(w io.Writer, st *result.Stage, tool string, o Options) error {
	sh := new(sheet)
	sh.section("FILE", st.Name, times(st.Ledger.Attempts, "completed request", "completed requests"), "result of "+tool,
		"computed again by our definitions from its times of requests")
	sh.row("prompts", tokens(st.Workload.PromptTokens)...)
	sh.row("outputs", append(tokens(st.Workload.CompletionTokens),
		fmt.Sprintf("zero-token %d", st.Ledger.ZeroToken), fmt.Sprintf("one-token %d", st.Ledger.OneToken))...)
	sh.excluded(&st.Metrics)
	sh.latency(st, "the completed requests of the file")
	sh.beside(&st.Metrics)
	sh.strata(st.Metrics.Strata)
	sh.throughput(st)
	sh.goodput(st.Goodput)
	sh.section("NOTES", "what its figures mean, and what of its known faults shows")
	var notes list
	for _, w := range st.Warnings {
		notes = append(notes, w.Text)
	}
	sh.add(append(notes, "no order of the window, no events as they came: no verdict on client or steady state, no warm-up, and only iid intervals, which are too narrow in a queue"))
	return sh.text(w, o)
}

// maxGaps that are listed one by one.
const maxGaps = 200

// Trace writes what the token times of one request say.
func Trace(w io.Writer, t *metric.Trace, o Options) error {
	sh := new(sheet)
	sh.section("REQUEST", times(t.N, "token", "tokens"), "milliseconds", "one request: no sample, no percentiles")
	sh.row("TTFT", exact(t.TTFT))
	sh.row("ITL", gapList(t.ITL))
	if t.TPOT != nil {
		sh.row("TPOT", exact(*t.TPOT)+" = (E2E - TTFT) / (n - 1), seed form")
		sh.row("E2E", fmt.Sprintf("%s = TTFT + (n - 1) × TPOT = %s + %d × %s", exact(t.E2E), exact(t.TTFT), t.N-1, exact(*t.TPOT)))
	} else {
		sh.row("TPOT", none)
		sh.row("E2E", exact(t.E2E))
	}
	if t.UserTPS != nil {
		sh.row("user TPS", perSecond(*t.UserTPS)+" tokens/s = (n - 1) / (E2E - TTFT)")
	}
	if t.SpanTPS != nil {
		sh.row("throughput", number(*t.SpanTPS)+" tokens/s = n / (T_last - T_first): output tokens, from sent to the last token")
	}
	sh.row(none, t.Note)
	if d := t.Databricks; d != nil {
		sh.section("CHECK", "Databricks approximation TTFT + n × TPOT = "+exact(d.MS)+", shown as a check only")
		sh.row("", fmt.Sprintf("%s above the exact E2E, which is one TPOT: %s of n × TPOT (1/n), %s of the decode span (1/(n - 1)), %s of E2E",
			exact(d.OverMS), share(d.OfTokens), share(d.OfDecode), share(d.OfE2E)))
	}
	return sh.text(w, o)
}

// gapList lists the gaps, or the first of very many.
func gapList(gaps []float64) string {
	if len(gaps) == 0 {
		return none
	}
	shown := make([]string, 0, min(len(gaps), maxGaps))
	for _, gap := range gaps[:min(len(gaps), maxGaps)] {
		shown = append(shown, short(gap, 3))
	}
	text := "[" + strings.Join(shown, " ")
	if rest := len(gaps) - len(shown); rest > 0 {
		return text + fmt.Sprintf(" … and %d more, %s to %s in all]", rest, short(slices.Min(gaps), 3), short(slices.Max(gaps), 3))
	}
	return text + "]"
}

// perSecond has one digit more than a latency: it is compared with its inverse.
func perSecond(x float64) string { return fixed(x, min(decimals(x)+1, maxDecimals)) }

// share of 1 in percent, with one decimal.
func share(x float64) string { return short(100*x, 1) + " %" }

// exact keeps up to three decimals, and always one.
func exact(ms float64) string {
	s := short(ms, 3)
	if !strings.Contains(s, ".") && s != none {
		s += ".0"
	}
	return s
}
