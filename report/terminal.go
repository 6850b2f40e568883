package report

// The rules of the terminal output:
//
//   - Circumstances come first (target, environment, the server's own account),
//     then verdicts, ledger, latency, throughput: a terminal shows the end of what
//     is printed, and the results are what is looked for. The last line repeats
//     the verdicts.
//   - Labels stand in a column at the left; the heading of a section is its first
//     label, in capitals, after an empty line. Tables begin at the left edge.
//   - No line is wider than Options.Width (a URL or a path may be), and none ends
//     in a space.
//   - Colour marks headings and verdicts only, and nothing is told by colour
//     alone.
//   - A number that does not exist is an en dash, never 0, and a line below says
//     why. Numbers have four significant digits, at most three decimals, and are
//     never in scientific notation; latencies are milliseconds.
//   - Weighting, boundary, sample and percentile policy stand with the numbers.
//   - No steady-state figure is printed without the verdicts above it.
//   - Every text that is not ours is escaped.

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/assay-bench/assay/result"
)

// Options of the views for people. The zero value is plain text of 100 columns.
type Options struct {
	// Color marks headings and verdicts by ANSI sequences. Whether the output is a
	// terminal, and NO_COLOR, are the caller's to look at.
	Color bool
	// Width in columns; 0 means 100, and less than 60 is taken as 60.
	Width int
	// ASCII writes signs such as ± and – in ASCII, and escapes all else beyond it.
	ASCII bool
}

const (
	defaultWidth = 100
	leastWidth   = 60
)

// notComplete is the verdict on a partial run.
const notComplete = "NOT COMPLETE"

// Terminal writes the report of a run for people.
func Terminal(w io.Writer, r *result.Run, o Options) error { return runSheet(r).text(w, o) }

// Markdown writes the content of report.md: the same as [Terminal], for pages
// and issues.
func Markdown(w io.Writer, r *result.Run) error { return runSheet(r).markdown(w, "Assay report") }

func runSheet(r *result.Run) *sheet {
	sh := new(sheet)
	sh.header(r)
	sh.environment(r.Environment, r.Check)
	for i := range r.Stages {
		st := &r.Stages[i]
		if len(r.Stages) > 1 {
			sh.section("STAGE", fmt.Sprintf("%d of %d: %s", i+1, len(r.Stages), st.Name))
		}
		sh.workload(r, st)
		sh.server(st)
		sh.truth(st.Truth)
		sh.phases(st)
		sh.verdicts(st)
		sh.ledger(st)
		sh.latency(st, "the window's due requests that completed")
		sh.connection(&st.Metrics)
		sh.beside(&st.Metrics)
		sh.strata(st.Metrics.Strata)
		sh.sessions(st.Sessions)
		sh.throughput(st)
		sh.goodput(st.Goodput)
		sh.diagnosis(st.Diagnosis)
		sh.errors(st.Errors)
	}
	sh.warnings(r)
	sh.files(r)
	sh.banner(r)
	return sh
}

// target begins a report with what was measured.
func (sh *sheet) target(t result.Target) {
	sh.add(verbatim{"TARGET", cmp.Or(t.URL, none)})
	engine := strings.TrimSpace(t.Engine + " " + t.EngineVersion)
	items := []string{"model " + cmp.Or(t.Model, none), t.Dialect, cmp.Or(engine, "engine not told")}
	if t.BuiltIn {
		items = append(items, "built-in simulated engine")
	}
	sh.row("", append(items, prefixed("Server: ", t.ServerHeader))...)
	items = nil
	for _, a := range t.Addresses {
		if !strings.Contains(t.URL, a) {
			items = append(items, a)
		}
	}
	sh.row("reached at", append(items, t.TLS, prefixed("by proxy ", t.Proxy))...)
}

func (sh *sheet) header(r *result.Run) {
	sh.target(r.Target)
	began := ""
	if !r.Epoch.IsZero() {
		began = "began " + r.Epoch.UTC().Format("2006-01-02 15:04:05 UTC")
	}
	sh.row("run", r.ID, began, "assay "+cmp.Or(r.ToolVersion, "version not told"))
	sh.row("transport", r.Transport, prefixed("stamps: ", r.Stamps))
	if !r.Complete {
		sh.add(verdict{"PARTIAL", notComplete, "the run ended early, " + strings.TrimRight(cmp.Or(r.Ended, "it is not known why"), ".") +
			". What follows holds for the requests that had ended by then."})
	}
}

func (sh *sheet) workload(r *result.Run, st *result.Stage) {
	o := st.Workload
	sh.section("WORKLOAD", r.WorkloadText)
	if !strings.Contains(r.WorkloadText, st.Load) {
		sh.row("load", st.Load)
	}
	sh.row("seed", strconv.FormatUint(r.Seed, 10), prefixed("fingerprint ", r.Fingerprint))
	sh.prompts(r.PromptLength, &o)
	sh.outputs(&o)
	sh.arrivals(st)
}

// tokens says a distribution of token counts in words.
func tokens(s *result.Summary) []string {
	if s == nil || s.Mean == nil {
		return []string{none + " tokens: no usage was told"}
	}
	return []string{
		"mean " + count(s.Mean) + " tokens", "p50 " + count(s.P50), "p95 " + count(s.P95), "max " + count(s.Max),
		"n " + strconv.Itoa(s.N),
	}
}

func (sh *sheet) prompts(how string, o *result.Observed) {
	items := tokens(o.PromptTokens)
	if o.CachedTokens > 0 {
		items = append(items, strconv.Itoa(o.CachedTokens)+" of them in all from a cache")
	}
	sh.row("prompts", items...)
	lengths := ""
	if asked := o.PromptTokensAsked; asked != nil {
		lengths = "asked for mean " + count(asked)
		if s := o.PromptTokens; s != nil && s.Mean != nil && *asked > 0 {
			lengths += ", achieved " + count(s.Mean) + " (" + signed(100*(*s.Mean / *asked - 1)) + " %)"
		}
	}
	sh.row("", lengths, prefixed("lengths: ", how))
	sh.sharing(o)
}

// sharing holds what prompts share on purpose beside what the server says it found.
func (sh *sheet) sharing(o *result.Observed) {
	s := o.PlannedSharing
	if s == nil || s.PromptTokens == 0 {
		return
	}
	found := "the server named no cached tokens in any usage (vLLM does with --enable-prompt-tokens-details)"
	if o.CachedShare != nil {
		found = "the server found " + percent(*o.CachedShare) + " of this sample"
	}
	sh.row("sharing", fmt.Sprintf("planned: a cache that forgets nothing finds %s of the prompt tokens, in blocks of %d",
		percent(float64(s.HitTokens)/float64(s.PromptTokens)), s.BlockSize), found)
}

func signed(x float64) string {
	s := short(x, 2)
	if x > 0 && s != "0" {
		return "+" + s
	}
	return s
}

func (sh *sheet) outputs(o *result.Observed) {
	items := tokens(o.CompletionTokens)
	if o.EarlyStopRate != nil {
		items = append(items, percent(*o.EarlyStopRate)+" stopped early")
	}
	sh.row("outputs", items...)
}

func (sh *sheet) arrivals(st *result.Stage) {
	o := st.Workload
	var items []string
	if o.Rate != nil {
		items = append(items, number(*o.Rate)+" due requests/s")
	}
	if o.CV != nil {
		items = append(items, "CV "+number(*o.CV))
	}
	for _, d := range o.Dispersion {
		items = append(items, fmt.Sprintf("dispersion %s at %s s", number(d.Index), short(d.WindowS, 3)))
	}
	sh.row("arrivals", items...)
	if o.InFlight.Mean != nil {
		sh.row("in flight", "mean "+number(*o.InFlight.Mean), "max "+strconv.Itoa(o.InFlight.Max))
	}
	if st.CappedTime > 0 {
		sh.row("", "arrivals were held back by the in-flight cap for "+seconds(st.CappedTime)+": the loop was closed then")
	}
}

func (sh *sheet) phases(st *result.Stage) {
	sh.section("PHASES", "warm-up: "+cmp.Or(st.Warmup.Text, "not told"))
	sh.row("", prefixed("the median rule, beside it: ", st.Warmup.MedianRule))
	sh.row("", prefixed("CUSUM, beside it: ", st.Warmup.CUSUM))
	sh.row("window", seconds(st.Window.Length()), closedBy(st.WindowClosed))
	for _, p := range st.UntilCI {
		sh.row("", "until-ci: "+p.Text)
	}
	sh.row("cooldown", seconds(st.Cooldown)+" until the last request of the window had ended")
}

func closedBy(what string) string {
	switch what {
	case "":
		return ""
	case "duration":
		return "closed when its time was over"
	case "requests":
		return "closed when all of its requests were due"
	case "until-ci":
		return "closed by until-ci: the intervals were narrow enough"
	case "interrupted":
		return "cut off by an interrupt"
	case "error":
		return "cut off by an error"
	}
	return "closed: " + what
}

func (sh *sheet) verdicts(st *result.Stage) {
	sh.finding("CLIENT", st.Client.Verdict, st.Client.Cause, st.Client.Checks)
	if st.Client.GapsWithheld {
		sh.row("", "gap figures are withheld: too many events shared a read")
	}
	if p := st.Client.SendProof; p != nil {
		sh.row("", "verified: "+p.Text)
	}
	sh.finding("STABILITY", st.Stability.Verdict, st.Stability.Cause, st.Stability.Checks)
}

// finding is a verdict with its cause, and the numbers behind it.
func (sh *sheet) finding(heading, word, cause string, checks []result.Check) {
	word = cmp.Or(word, result.NotChecked)
	sh.add(verdict{heading, word, cause})
	// One check a line: what failed must not be read into its neighbours.
	for _, c := range checks {
		text := cmp.Or(c.Text, c.Name)
		if c.Text != "" && c.Text == cause {
			continue
		}
		if !c.OK {
			text = "FAILED: " + text
		}
		sh.row("", text)
	}
}

func (sh *sheet) files(r *result.Run) {
	if r.Dir == "" {
		return
	}
	sh.add(verbatim{"FILES", r.Dir})
	sh.row("", "report.html: with pictures", "run.json", "records.jsonl: attempts", "events.seg: events", "requests.csv: five columns")
	sh.add(verbatim{"again", "assay report " + shellWord(r.Dir)})
}

// shellWord quotes a path that a shell would take apart.
func shellWord(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !strings.ContainsRune("/._-+:@%,=", r) && (r > '~' || r < '0' || (r > '9' && r < 'A') || (r > 'Z' && r < 'a') || r > 'z')
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// banner repeats the verdicts of each stage, to be seen last.
func (sh *sheet) banner(r *result.Run) {
	if len(r.Stages) == 0 {
		sh.add(banner{{"nothing was measured", result.Invalid}})
	}
	for i := range r.Stages {
		st := &r.Stages[i]
		client, stability := cmp.Or(st.Client.Verdict, result.NotChecked), cmp.Or(st.Stability.Verdict, result.NotChecked)
		if figures := headline(&st.Metrics); figures != nil {
			sh.add(banner(figures))
		}
		var b banner
		if !r.Complete {
			b = append(b, part{"PARTIAL", notComplete})
		}
		if len(r.Stages) > 1 {
			b = append(b, part{text: st.Name})
		}
		b = append(b, part{"client " + client, client}, part{stableWord(stability), stability},
			part{text: fmt.Sprintf("%d of %d completed", st.Ledger.Completed, st.Ledger.Requests)})
		if st.Warmup.Capped != "" {
			b = append(b, part{"not stabilised", result.Undecided})
		}
		if g := st.Goodput; g != nil && g.Due > 0 {
			b = append(b, part{text: "goodput " + short(g.Percent, 2) + " %"})
		}
		sh.add(b)
	}
}

// headline is the few figures that are looked for first, with what they are.
func headline(m *result.Metrics) []part {
	var out []part
	add := func(text string, v *float64) {
		if v != nil {
			out = append(out, part{text: text + " " + optional(v) + " ms"})
		}
	}
	switch {
	case m.TTFT != nil:
		add("TTFT p50", m.TTFT.P50)
		if m.TPOT != nil {
			add("TPOT mean", m.TPOT.Mean)
		}
	case m.E2E != nil:
		add("E2E p50", m.E2E.P50)
	}
	return out
}

// stableWord is a verdict that can stand alone.
func stableWord(verdict string) string {
	if verdict == result.Stable || verdict == result.Unstable {
		return verdict
	}
	return "stability " + verdict
}

// doubts repeats verdicts that forbid to take figures for those of a steady
// state, to stand in the heading of the figures.
func doubts(st *result.Stage) []string {
	var items []string
	if st.Client.Verdict == result.Invalid {
		items = append(items, "client INVALID")
	}
	if st.Stability.Verdict == result.Unstable {
		items = append(items, "UNSTABLE: no steady state")
	}
	return items
}
