package report

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"charm.land/lipgloss/v2"

	"github.com/assay-bench/assay/environ"
	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/result"
)

func TestEscape(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"plain", `model "a" \ b`, `model "a" \ b`},
		{"letters", "模型 ü é", "模型 ü é"},
		{"colour", "\x1b[31mred", `\x1b[31mred`},
		{"title", "\x1b]0;x\x07", `\x1b]0;x\x07`},
		{"lines", "a\nb\r\tc", `a\nb\r\tc`},
		{"delete", "\x7f", `\x7f`},
		{"C1 control", "\u009b2J", `\u009b2J`},
		{"right to left", "a\u202eb", `a\u202eb`},
		{"zero width", "a\u200bb\ufeff", `a\u200bb\ufeff`},
		{"no-break space", "a\u00a0b", `a\u00a0b`},
		{"bad UTF-8", "a\xffb\x9b", `a\xffb\x9b`},
		{"replacement character", "\ufffd", "\ufffd"},
		{"astral format", "\U000e0041", `\U000e0041`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := escape(c.in); got != c.want {
				t.Errorf("escape(%q) = %q, want %q", c.in, got, c.want)
			}
		})
	}
}

func FuzzEscape(f *testing.F) {
	for _, s := range []string{"", "a b", "\x1b[2J", "\u009b", "ü\xff\n", "\u202e\u2066", "±Σ – x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := escape(s)
		if !printable(got) {
			t.Errorf("escape(%q) = %q does not print", s, got)
		}
		if again := escape(got); again != got {
			t.Errorf("escape is not idempotent: %q, %q", got, again)
		}
		if printable(s) && strings.ToValidUTF8(s, "") == s && got != s {
			t.Errorf("escape(%q) = %q changes what prints", s, got)
		}
		if a := ascii(got); strings.ContainsFunc(a, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Errorf("ascii(%q) = %q", got, a)
		}
	})
}

func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

// hostile is a run that has s wherever a server, a file or a user can put text.
func hostile(s string) *result.Run {
	r := errorRun()
	r.Complete, r.Ended = false, s
	r.ID, r.ToolVersion, r.WorkloadText, r.PromptLength, r.Stamps, r.Transport, r.Fingerprint = s, s, s, s, s, s, s
	r.Target.Model, r.Target.Engine, r.Target.EngineVersion, r.Target.ServerHeader = s, s, s, s
	r.Target.Addresses, r.Target.TLS, r.Target.Proxy, r.Target.Dialect = []string{s, s}, s, s, s
	r.Warnings = []result.Warning{{Code: s, Text: s}, {Text: s}}
	st := &r.Stages[0]
	st.Name, st.Load, st.WindowClosed = s, s, s
	st.Warmup.Text, st.Warmup.MedianRule, st.Warmup.Capped = s, s, s
	st.Client.Verdict, st.Client.Cause = s, s
	st.Stability.Checks[0].Text = s
	st.Ledger.FinishReasons = map[string]int{s: 3}
	st.Ledger.Rows = map[record.Outcome]int{record.Outcome(s): 2}
	st.Metrics.TTFT.Note, st.Metrics.TTFT.CIMethod = s, s
	st.Metrics.TTFT.Excluded = map[string]int{s: 1}
	st.Metrics.TTFT.Percentiles = map[string]*float64{s: new(1.5)}
	st.Throughput[0] = result.Throughput{Name: s, Unit: s, Numerator: s, Denominator: s, Phases: s}
	st.Goodput.SLO = []result.Threshold{{Metric: s, Note: s}}
	st.Goodput.Misses = map[string]int{s: 1}
	l := environment()
	l.Client.CPU, l.Client.Kernel, l.Client.ClockSource, l.Client.Path.Address, l.Client.Path.Certificate, l.Client.Path.Error = s, s, s, s, s, s
	l.Facts = append(l.Facts, environ.Fact{Name: s, Value: s, Source: environ.Source(s)}, environ.Fact{Name: "python", Value: s, Source: environ.Source(s)})
	l.Notes, l.Client.Governors = []string{s}, []string{s}
	l.Settle()
	r.Environment, l.Conflicts = l, append(l.Conflicts, s)
	w := serverWindow()
	w.Distributions[0].ServerNumber = result.ServerNumber{Quantity: "ttft", Name: s, Semantics: s, Note: s, Flags: []string{s}, Series: 2}
	w.Distributions[1].Hidden, w.Totals[0].Hidden, w.Totals[1].Name, w.Checks[0].Name, w.Checks[0].Text = s, s, s, s, s
	w.Totals[1].By = map[string]float64{s: 2}
	st.Server = &result.ServerAccount{
		Text: s, Counters: []result.Counter{{Name: s, Text: s}}, Window: w,
		Targets: []result.ServerTarget{{URL: s, Engine: s, Failed: 1, FirstError: s}, {URL: s, Evidence: s}},
	}
	st.Errors = []result.ErrorSample{{Outcome: record.Outcome(s), Status: 500, Count: 1, Error: s, Body: s}}
	return r
}

func FuzzForeignText(f *testing.F) {
	for _, s := range []string{
		"", " ", "\n", "\x1b[2J\x1b]0;x\x07", "\u009b31m", "a\u202eb", strings.Repeat("x", 500), strings.Repeat("模型 ", 40),
		"❤️‍🔥 👩‍👩‍👧‍👦 e\u0301\u0301", "</td><script>alert(1)</script>", "| a | b |\n---", "```\n# x\n", "[a](javascript:b)", "=", "% ms s", "- ",
		strings.Repeat("\u0301", 60), "\t\t", "🇩🇪🇩🇪🇩🇪🇩🇪🇩🇪🇩🇪🇩🇪🇩🇪🇩🇪🇩🇪🇩🇪🇩🇪🇩🇪🇩🇪🇩🇪🇩🇪🇩🇪🇩🇪🇩🇪🇩🇪🇩🇪🇩🇪🇩🇪🇩🇪🇩🇪🇩🇪🇩🇪🇩🇪🇩🇪🇩🇪🇩🇪🇩🇪🇩🇪🇩🇪🇩🇪🇩🇪🇩🇪🇩🇪🇩🇪🇩🇪🇩🇪🇩🇪🇩🇪🇩🇪🇩🇪🇩🇪",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r := hostile(s)
		for _, o := range []Options{{}, {Width: 60, ASCII: true}, {Color: true}} {
			var b bytes.Buffer
			if err := Terminal(&b, r, o); err != nil {
				t.Fatal(err)
			}
			text := b.String()
			if o.Color {
				text = stripSGR(text)
			}
			lintForeign(t, text, max(o.Width, 60), o.Width == 0)
		}
		var b bytes.Buffer
		if err := Markdown(&b, r); err != nil {
			t.Fatal(err)
		}
		lintForeign(t, b.String(), 0, true)
		if strings.Contains(b.String(), "<script") && !strings.Contains(b.String(), `\<script`) {
			t.Errorf("Markdown has a tag")
		}
		checkJSON(t, r)
	})
}

// lintForeign checks every line; with wide it may have up to 100 columns, or
// any number where width is 0.
func lintForeign(t *testing.T, text string, width int, wide bool) {
	t.Helper()
	if wide && width > 0 {
		width = defaultWidth
	}
	for line := range strings.SplitSeq(text, "\n") {
		if !printable(line) {
			t.Fatalf("a character that does not print: %q", line)
		}
		if strings.HasSuffix(line, " ") {
			t.Errorf("ends in a space: %q", line)
		}
		if w := lipgloss.Width(line); width > 0 && w > width && !isTable(line) {
			t.Errorf("%d columns, more than %d: %q", w, width, line)
		}
	}
}

// isTable reports whether a line belongs to a table, which is not folded below
// 80 columns.
func isTable(line string) bool {
	for _, label := range []string{"    ", "TTFT", "TPOT", "ITL", "E2E", "64 to", "128 tokens"} {
		if strings.HasPrefix(line, label) && lipgloss.Width(line) < 80 {
			return true
		}
	}
	return false
}

func checkJSON(t *testing.T, r *result.Run) {
	t.Helper()
	var a, b bytes.Buffer
	if err := JSON(&a, r); err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(a.String(), "\n") {
		if !printable(line) {
			t.Fatalf("JSON has a character that does not print: %q", line)
		}
	}
	var back result.Run
	if err := json.Unmarshal(a.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	if err := JSON(&b, &back); err != nil {
		t.Fatal(err)
	}
	if a.String() != b.String() {
		t.Errorf("JSON changes when it is read and written again")
	}
}
