package report

import (
	"fmt"
	"io"
	"strings"
	"unicode"
)

// markdown writes a sheet as GitHub Flavored Markdown. Every string is escaped
// for the terminal first and for Markdown then, so that a server can neither
// steer nor format it.
func (sh *sheet) markdown(w io.Writer, title string) error {
	m := &markup{}
	m.line("# " + title)
	for _, b := range sh.blocks {
		m.block(b)
	}
	if _, err := io.WriteString(w, m.b.String()); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

type markup struct {
	b strings.Builder
	// open is set inside a list, from which a table must be kept apart.
	open bool
}

func (m *markup) line(s string) {
	m.b.WriteString(strings.TrimRight(s, " "))
	m.b.WriteByte('\n')
}

// close puts an empty line behind what came before.
func (m *markup) close() {
	m.line("")
	m.open = false
}

func (m *markup) heading(s string) {
	if !strings.HasSuffix(m.b.String(), "\n\n") {
		m.close()
	}
	m.line("## " + markdownText(capital(s)))
	m.line("")
}

// capital is a heading in sentence case: capitals are for terminals.
func capital(s string) string { return s[:min(1, len(s))] + strings.ToLower(s[min(1, len(s)):]) }

func (m *markup) block(b any) {
	switch b := b.(type) {
	case section:
		m.heading(b.heading)
		m.row(row{"", b.items})
	case verdict:
		m.heading(b.heading)
		m.item("", "**"+markdownText(b.word)+"**"+prefixed(": ", markdownText(b.cause)))
	case row:
		m.row(b)
	case verbatim:
		if b.heads() {
			m.heading(b.label)
			b.label = ""
		}
		m.item(b.label, code(b.text))
	case grid:
		m.grid(b)
	case rate:
		m.item(b.label, markdownText(b.value+" "+b.unit+": "+strings.Join(b.statements, ", ")))
	case list:
		for _, text := range b {
			m.item("", markdownText(text))
		}
	case body:
		m.body(b)
	case banner:
		m.banner(b)
	}
}

func (m *markup) row(r row) {
	var texts []string
	for _, item := range r.items {
		if strings.TrimSpace(item) != "" {
			texts = append(texts, markdownText(item))
		}
	}
	if len(texts) > 0 {
		m.item(r.label, strings.Join(texts, " · "))
	}
}

// item is one entry of a list.
func (m *markup) item(label, text string) {
	if label != "" && label != none {
		text = "**" + markdownText(label) + "**: " + text
	}
	m.line("- " + text)
	m.open = true
}

func (m *markup) grid(g grid) {
	if m.open {
		m.close()
	}
	m.cells(g.header)
	m.line("|---|" + strings.Repeat("---:|", len(g.header)-1))
	for _, r := range g.rows {
		m.cells(r)
	}
	m.close()
}

func (m *markup) cells(cells []string) {
	for _, cell := range cells {
		m.b.WriteString("| " + markdownText(cell) + " ")
	}
	m.line("|")
}

// body is a block inside the list; each line is escaped, and none can close it.
func (m *markup) body(b body) {
	m.line("")
	for line := range strings.SplitSeq(strings.ReplaceAll(string(b), "\r\n", "\n"), "\n") {
		m.line("      " + escape(strings.ReplaceAll(line, "\t", "  ")))
	}
	m.line("")
}

func (m *markup) banner(parts banner) {
	m.close()
	texts := make([]string, len(parts))
	for i, p := range parts {
		texts[i] = markdownText(p.text)
		if p.verdict != "" {
			texts[i] = "**" + texts[i] + "**"
		}
	}
	m.line(strings.Join(texts, " · "))
}

// markdownText escapes whatever Markdown could take for markup.
func markdownText(s string) string {
	runes := []rune(escape(s))
	var b strings.Builder
	for i, r := range runes {
		switch {
		case r == '_' && i > 0 && i+1 < len(runes) && word(runes[i-1]) && word(runes[i+1]):
			b.WriteRune(r) // inside a word it is no emphasis
		case r == '<' && i+1 < len(runes) && runes[i+1] == ' ':
			b.WriteRune(r) // a comparison: no tag begins so
		case strings.ContainsRune("\\`*_[]<>|~#&!", r), i == 0 && strings.ContainsRune("-+=", r) && len(runes) > 1:
			b.WriteRune('\\')
			b.WriteRune(r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func word(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// code is a code span, fenced by more backquotes than it has.
func code(s string) string {
	s = escape(s)
	fence := "`"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	if len(fence) > 1 {
		return fence + " " + s + " " + fence
	}
	return fence + s + fence
}
