package report

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"charm.land/lipgloss/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/assay-bench/assay/metric"
	"github.com/assay-bench/assay/result"
)

var update = flag.Bool("update", false, "write the golden files anew")

type view struct {
	name  string
	write func(io.Writer, Options) error
}

func run(r *result.Run) func(io.Writer, Options) error {
	return func(w io.Writer, o Options) error { return Terminal(w, r, o) }
}

func views() []view {
	table, trace := fiveColumns(), openingTrace()
	return []view{
		{"good", run(goodRun())},
		{"invalid-unstable", run(badRun())},
		{"partial", run(partialRun())},
		{"not-streamed", run(wholeRun())},
		{"chunk-gaps", run(chunkRun())},
		{"errors", run(errorRun())},
		{"tiny", run(tinyRun())},
		{"two-stages", run(sweepRun())},
		{"empty", run(&result.Run{})},
		{"empty-stage", run(&result.Run{Stages: []result.Stage{{}}})},
		{"five-columns", func(w io.Writer, o Options) error { return Table(w, table, o) }},
		{"trace", func(w io.Writer, o Options) error { return Trace(w, trace, o) }},
	}
}

func render(t *testing.T, v view, o Options) string {
	t.Helper()
	var b bytes.Buffer
	if err := v.write(&b, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func TestGolden(t *testing.T) {
	for _, v := range views() {
		t.Run(v.name, func(t *testing.T) {
			golden(t, v.name+".txt", render(t, v, Options{}))
		})
	}
	good := views()[0]
	t.Run("colour", func(t *testing.T) {
		golden(t, "good-color.txt", strings.ReplaceAll(render(t, good, Options{Color: true}), "\x1b", "␛"))
	})
	t.Run("markdown", func(t *testing.T) {
		var b bytes.Buffer
		if err := Markdown(&b, errorRun()); err != nil {
			t.Fatal(err)
		}
		golden(t, "errors.md", b.String())
	})
	t.Run("ascii", func(t *testing.T) { golden(t, "good-ascii.txt", render(t, good, Options{ASCII: true, Width: 80})) })
}

// lint checks what holds for every line of every view.
func lint(t *testing.T, text string, width int) {
	t.Helper()
	if !strings.HasSuffix(text, "\n") || strings.HasSuffix(text, "\n\n") || strings.HasPrefix(text, "\n") {
		t.Errorf("the text does not begin and end with one line")
	}
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if strings.TrimRight(line, " ") != line {
			t.Errorf("line %d ends in a space: %q", i+1, line)
		}
		if w := lipgloss.Width(line); w > width {
			t.Errorf("line %d has %d columns, more than %d: %q", i+1, w, width, line)
		}
		if strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("line %d has a character that does not print: %q", i+1, line)
		}
	}
}

func TestLayout(t *testing.T) {
	for _, v := range views() {
		for _, width := range []int{0, 80, 120} {
			for _, onlyASCII := range []bool{false, true} {
				text := render(t, v, Options{Width: width, ASCII: onlyASCII})
				limit := width
				if limit == 0 {
					limit = defaultWidth
				}
				lint(t, text, limit)
				if onlyASCII && strings.ContainsFunc(text, func(r rune) bool { return r > '~' }) {
					t.Errorf("%s: not ASCII", v.name)
				}
			}
		}
	}
}

// Colour must change nothing but colour.
func TestColourIsOnlyColour(t *testing.T) {
	for _, v := range views() {
		text, coloured := render(t, v, Options{}), render(t, v, Options{Color: true})
		if diff := cmp.Diff(text, stripSGR(coloured)); diff != "" {
			t.Errorf("%s (-plain +coloured):\n%s", v.name, diff)
		}
	}
}

func stripSGR(s string) string {
	var b strings.Builder
	for {
		before, after, ok := strings.Cut(s, "\x1b[")
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		_, s, _ = strings.Cut(after, "m")
	}
}

// Golden vector 1 of MEASUREMENT.md section 8, to the letter.
func TestTraceVector(t *testing.T) {
	var b bytes.Buffer
	if err := Trace(&b, openingTrace(), Options{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"TTFT        120.0\n", "ITL         [35 37 36 37]\n", "TPOT        36.25 =", "E2E         265.0 =", "user TPS    27.586 tokens/s",
		"throughput  18.87 tokens/s", "= 301.25,", "36.25 above", "20 % of n × TPOT", "25 % of the decode", "13.7 % of E2E",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("missing %q in:\n%s", want, b.String())
		}
	}
}

func TestTraceWithoutGaps(t *testing.T) {
	for _, at := range [][]time.Duration{{time.Second}, {time.Second, time.Second}, {0}} {
		tr, err := metric.NewTrace(0, at)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := Trace(&b, &tr, Options{}); err != nil {
			t.Fatal(err)
		}
		lint(t, b.String(), defaultWidth)
		if !strings.Contains(b.String(), "TPOT        "+none) || !strings.Contains(b.String(), tr.Note) {
			t.Errorf("%v: TPOT is not said to be missing:\n%s", at, b.String())
		}
	}
}

func TestLongTraceIsCut(t *testing.T) {
	at := make([]time.Duration, 1001)
	for i := range at {
		at[i] = time.Duration(100+10*i) * time.Millisecond
	}
	tr, err := metric.NewTrace(0, at)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := Trace(&b, &tr, Options{}); err != nil {
		t.Fatal(err)
	}
	lint(t, b.String(), defaultWidth)
	if !strings.Contains(strings.Join(strings.Fields(b.String()), " "), "… and 800 more, 10 to 10 in all]") {
		t.Errorf("not cut:\n%s", b.String())
	}
}

// What must stand beside a number stands there, in each of the views for people.
func TestMandatoryStatements(t *testing.T) {
	for _, c := range []struct {
		name string
		run  *result.Run
		want []string
	}{
		{"labels", goodRun(), []string{
			"TPOT, request-weighted", "ITL, gap-weighted", "gap-weighted: Σ(E2E - TTFT) / Σ(n - 1)", "client boundary",
			"Hyndman-Fan type 7", "n(1-p) at n 1024", "n_eff 819", "balances", "client VALID", "STABLE",
		}},
		{"withheld gaps", badRun(), []string{"withheld: 31.0 %", "client INVALID", "UNSTABLE: no steady state", "not stabilised"}},
		{"partial", partialRun(), []string{"NOT COMPLETE", "interrupted (Ctrl-C)", "iid 88.93 to 109.85", "as if requests were independent"}},
		{"not streamed", wholeRun(), []string{"replies were not streamed", "not streamed: end of body - sent"}},
		{"chunks", chunkRun(), []string{"chunk gap, gap-weighted", "the distribution of gaps between tokens is unknown"}},
		{"tiny", tinyRun(), []string{"no percentile where n(1-p) < 1", "max 115.1", "all excluded (one token 4)", "UNDECIDED"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b bytes.Buffer
			if err := Terminal(&b, c.run, Options{Width: 300}); err != nil {
				t.Fatal(err)
			}
			for _, want := range c.want {
				if !strings.Contains(b.String(), want) {
					t.Errorf("terminal lacks %q", want)
				}
			}
		})
	}
}

// A chunk gap must never be called an inter-token latency.
func TestChunkGapIsNoITL(t *testing.T) {
	var b bytes.Buffer
	if err := Terminal(&b, chunkRun(), Options{}); err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(b.String(), "\n") {
		if strings.Contains(line, "ITL") && !strings.Contains(line, "mean ITL") {
			t.Errorf("ITL in %q", line)
		}
	}
}

func TestJSONIsStable(t *testing.T) { checkJSON(t, hostile("\x7f\u009b\u202e\U000e0041<&>\xff")) }

type full struct{}

func (full) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestWriteErrors(t *testing.T) {
	for _, v := range views() {
		if err := v.write(full{}, Options{}); !errors.Is(err, io.ErrShortWrite) {
			t.Errorf("%s: %v", v.name, err)
		}
	}
	if err := JSON(full{}, goodRun()); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("JSON: %v", err)
	}
	if err := Markdown(full{}, goodRun()); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("Markdown: %v", err)
	}
}
