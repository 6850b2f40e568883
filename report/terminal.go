package report

// The rules of the terminal output:
//
//   - It is read from the top in a minute, and its last line repeats the
//     verdicts, since that is what stays in sight.
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

	"charm.land/lipgloss/v2"

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

// Terminal writes the report of a run for people.
func Terminal(w io.Writer, r *result.Run, o Options) error {
	p := newPage(o)
	p.header(r)
	for i := range r.Stages {
		st := &r.Stages[i]
		if len(r.Stages) > 1 {
			p.section("STAGE", fmt.Sprintf("%d of %d: %s", i+1, len(r.Stages), st.Name))
		}
		p.workload(r, st)
		p.phases(st)
		p.verdicts(st)
		p.ledger(st)
		p.latency(st, "the window's due requests that completed")
		p.connection(&st.Metrics)
		p.beside(&st.Metrics)
		p.strata(st.Metrics.Strata)
		p.throughput(st)
		p.goodput(st.Goodput)
		p.server(st.Server)
		p.errors(st.Errors)
	}
	p.warnings(r)
	p.files(r)
	p.banner(r)
	return p.writeTo(w)
}

func (p *page) writeTo(w io.Writer) error {
	if _, err := io.WriteString(w, p.String()); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

func (p *page) header(r *result.Run) {
	t := r.Target
	p.put(p.label("TARGET", true), []string{p.clean(cmp.Or(t.URL, none))})
	engine := strings.TrimSpace(t.Engine + " " + t.EngineVersion)
	items := []string{"model " + cmp.Or(t.Model, none), t.Dialect, cmp.Or(engine, "engine not told")}
	if t.BuiltIn {
		items = append(items, "built-in simulated engine")
	}
	if t.ServerHeader != "" {
		items = append(items, "Server: "+t.ServerHeader)
	}
	p.row("", items...)
	items = nil
	for _, a := range t.Addresses {
		if !strings.Contains(t.URL, a) {
			items = append(items, a)
		}
	}
	if t.TLS != "" {
		items = append(items, t.TLS)
	}
	if t.Proxy != "" {
		items = append(items, "by proxy "+t.Proxy)
	}
	p.row("reached at", items...)
	began := ""
	if !r.Epoch.IsZero() {
		began = "began " + r.Epoch.UTC().Format("2006-01-02 15:04:05 UTC")
	}
	p.row("run", r.ID, began, "assay "+cmp.Or(r.ToolVersion, "version not told"))
	p.row("transport", r.Transport, stamps(r.Stamps))
	if !r.Complete {
		why := cmp.Or(r.Ended, "it is not known why")
		p.verdict("PARTIAL", "NOT COMPLETE", "the run ended early, "+strings.TrimRight(why, ".")+
			". What follows holds for the requests that had ended by then.", bad())
	}
}

func stamps(where string) string {
	if where == "" {
		return ""
	}
	return "stamps: " + where
}

func (p *page) workload(r *result.Run, st *result.Stage) {
	o := st.Workload
	p.section("WORKLOAD", r.WorkloadText)
	p.row("load", st.Load)
	p.row("seed", strconv.FormatUint(r.Seed, 10), prefixed("fingerprint ", r.Fingerprint))
	p.prompts(r.PromptLength, &o)
	p.outputs(&o)
	p.arrivals(st)
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
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

func (p *page) prompts(how string, o *result.Observed) {
	items := tokens(o.PromptTokens)
	if o.CachedTokens > 0 {
		items = append(items, strconv.Itoa(o.CachedTokens)+" of them in all from a cache")
	}
	p.row("prompts", items...)
	lengths := ""
	if asked := o.PromptTokensAsked; asked != nil {
		lengths = "asked for mean " + count(asked)
		if s := o.PromptTokens; s != nil && s.Mean != nil && *asked > 0 {
			lengths += ", achieved " + count(s.Mean) + " (" + signed(100*(*s.Mean / *asked - 1)) + " %)"
		}
	}
	p.row("", lengths, prefixed("lengths made by ", how))
}

func signed(x float64) string {
	s := short(x, 2)
	if x > 0 && s != "0" {
		return "+" + s
	}
	return s
}

func (p *page) outputs(o *result.Observed) {
	items := tokens(o.CompletionTokens)
	if o.EarlyStopRate != nil {
		items = append(items, percent(*o.EarlyStopRate)+" stopped early")
	}
	p.row("outputs", items...)
}

func (p *page) arrivals(st *result.Stage) {
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
	p.row("arrivals", items...)
	if o.InFlight.Mean != nil {
		p.row("in flight", "mean "+number(*o.InFlight.Mean), "max "+strconv.Itoa(o.InFlight.Max))
	}
	if st.CappedTime > 0 {
		p.row("", "arrivals were held back by the in-flight cap for "+seconds(st.CappedTime)+": the loop was closed then")
	}
}

func (p *page) phases(st *result.Stage) {
	p.section("PHASES", "warm-up: "+cmp.Or(st.Warmup.Text, "not told"))
	p.row("", prefixed("the seed's median rule, beside it: ", st.Warmup.MedianRule))
	p.row("window", seconds(st.Window.Length()), closedBy(st.WindowClosed))
	p.row("cooldown", seconds(st.Cooldown)+" until the last request of the window had ended")
}

func closedBy(what string) string {
	switch what {
	case "":
		return ""
	case "duration":
		return "closed when its time was over"
	case "requests":
		return "closed when all of its requests were due"
	case "interrupted":
		return "cut off by an interrupt"
	case "error":
		return "cut off by an error"
	}
	return "closed: " + what
}

func (p *page) verdicts(st *result.Stage) {
	p.finding("CLIENT", st.Client.Verdict, st.Client.Cause, st.Client.Checks)
	if st.Client.GapsWithheld {
		p.row("", "gap figures are withheld: too many events shared a read")
	}
	p.finding("STABILITY", st.Stability.Verdict, st.Stability.Cause, st.Stability.Checks)
}

// finding is a verdict with its cause, and the numbers behind it.
func (p *page) finding(heading, word, cause string, checks []result.Check) {
	word = cmp.Or(word, result.NotChecked)
	p.verdict(heading, word, cause, toneOf(word))
	var items []string
	for _, c := range checks {
		text := cmp.Or(c.Text, c.Name)
		if !c.OK {
			text = "FAILED: " + text
		}
		if c.Text == "" || c.Text != cause {
			items = append(items, text)
		}
	}
	p.row("", items...)
}

func good() lipgloss.Style { return lipgloss.NewStyle().Bold(true).Foreground(lipgloss.Green) }
func bad() lipgloss.Style  { return lipgloss.NewStyle().Bold(true).Foreground(lipgloss.Red) }
func open() lipgloss.Style { return lipgloss.NewStyle().Bold(true).Foreground(lipgloss.Yellow) }

func toneOf(verdict string) lipgloss.Style {
	switch verdict {
	case result.Valid, result.Stable:
		return good()
	case result.Invalid, result.Unstable:
		return bad()
	}
	return open()
}

func (p *page) files(r *result.Run) {
	if r.Dir == "" {
		return
	}
	p.blank()
	p.put(p.label("FILES", true), []string{p.clean(r.Dir)})
	p.row("", "run.json", "records.jsonl: attempts", "events.seg: events", "requests.csv: five columns")
	p.verbatim("again", "assay report "+shellWord(r.Dir))
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
func (p *page) banner(r *result.Run) {
	p.blank()
	for i := range r.Stages {
		st := &r.Stages[i]
		client, stability := cmp.Or(st.Client.Verdict, result.NotChecked), cmp.Or(st.Stability.Verdict, result.NotChecked)
		parts := []string{
			p.tone("client "+client, toneOf(client)), p.tone(stableWord(stability), toneOf(stability)),
			p.clean(fmt.Sprintf("%d of %d completed", st.Ledger.Completed, st.Ledger.Requests)),
		}
		if st.Warmup.Capped != "" {
			parts = append(parts, p.tone("not stabilised", open()))
		}
		if g := st.Goodput; g != nil && g.Due > 0 {
			parts = append(parts, p.clean("goodput "+short(g.Percent, 2)+" %"))
		}
		if len(r.Stages) > 1 {
			parts = append([]string{p.clean(st.Name)}, parts...)
		}
		if !r.Complete {
			parts = append([]string{p.tone("PARTIAL", bad())}, parts...)
		}
		p.lines = append(p.lines, p.pack(parts, p.o.Width)...)
	}
	if len(r.Stages) == 0 {
		p.lines = append(p.lines, p.tone("nothing was measured", bad()))
	}
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

func (p *page) tone(s string, tone lipgloss.Style) string {
	s = p.clean(s)
	if !p.o.Color {
		return s
	}
	return tone.Render(s)
}
