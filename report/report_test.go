package report

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"charm.land/lipgloss/v2"
	"github.com/google/go-cmp/cmp"

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
		{"five-columns", func(w io.Writer, o Options) error { return Table(w, fiveColumns(), o) }},
		{"trace", func(w io.Writer, o Options) error { return Trace(w, openingTrace(), o) }},
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
		for _, width := range []int{0, 80, 100, 120} {
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
