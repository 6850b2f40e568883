package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"charm.land/lipgloss/v2"
	"charm.land/lipgloss/v2/table"

	"github.com/assay-bench/assay/result"
)

// gutter is the width of the column of labels at the left.
const gutter = 12

// page is a sheet as lines of text beside labels. Every string is escaped as it
// enters, before anything is measured, wrapped or coloured.
type page struct {
	o     Options
	lines []string
}

// text writes a sheet for a terminal.
func (sh *sheet) text(w io.Writer, o Options) error {
	if o.Width <= 0 {
		o.Width = defaultWidth
	}
	o.Width = max(o.Width, leastWidth)
	p := &page{o: o}
	for i, b := range sh.blocks {
		if i > 0 && sh.apart(i) {
			p.lines = append(p.lines, "")
		}
		p.block(b)
	}
	if _, err := io.WriteString(w, strings.Join(p.lines, "\n")+"\n"); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// apart reports whether an empty line stands before a block: before each part,
// and between a table and what is said of it.
func (sh *sheet) apart(i int) bool {
	switch b := sh.blocks[i].(type) {
	case section, verdict:
		return true
	case verbatim:
		return b.heads()
	case banner:
		_, again := sh.blocks[i-1].(banner)
		return !again
	}
	_, ok := sh.blocks[i-1].(grid)
	return ok
}

func (p *page) block(b any) {
	switch b := b.(type) {
	case section:
		lines := p.flow(p.room(), b.items)
		p.put(p.label(b.heading, true), lines)
		if len(lines) == 0 {
			p.lines = append(p.lines, p.bold(p.clean(b.heading)))
		}
	case verdict:
		p.verdict(b)
	case row:
		p.put(p.label(b.label, false), p.flow(p.room(), b.items))
	case verbatim:
		p.put(p.label(b.label, b.heads()), []string{strings.TrimRight(p.clean(b.text), " ")})
	case grid:
		p.grid(b)
	case rate:
		p.rate(b)
	case list:
		p.list(b)
	case body:
		p.body(b)
	case banner:
		p.banner(b)
	}
}

func (p *page) room() int { return p.o.Width - gutter }

// clean makes any text safe, and ASCII if that is asked for.
func (p *page) clean(s string) string {
	s = escape(s)
	if p.o.ASCII {
		s = ascii(s)
	}
	return s
}

// put adds laid-out lines beside a label.
func (p *page) put(label string, lines []string) {
	for _, line := range lines {
		p.lines = append(p.lines, strings.TrimRight(label+line, " "))
		label = strings.Repeat(" ", gutter)
	}
}

// hang puts lines behind a head that only the first of them has.
func (p *page) hang(label, head string, lines []string) {
	for i := range lines {
		lines[i] = head + lines[i]
		head = strings.Repeat(" ", lipgloss.Width(head))
	}
	p.put(label, lines)
}

// label fills the gutter, in bold for a heading. Ours are short enough; others
// are cut.
func (p *page) label(text string, heading bool) string {
	text = p.clean(text)
	if head, tail := cut(text, gutter-1); tail != "" {
		text = head
	}
	if heading {
		text = p.bold(text)
	}
	return pad(text, gutter)
}

func (p *page) verdict(v verdict) {
	lines := p.wrap(v.word+prefixed(": ", v.cause), p.room())
	if after, ok := strings.CutPrefix(lines[0], v.word); ok {
		lines[0] = p.tone(v.word, v.word) + after
	}
	p.put(p.label(v.heading, true), lines)
}

func (p *page) rate(r rate) {
	unit, _ := cut(p.clean(r.unit), p.room()/3)
	head := fmt.Sprintf("%6s %-10s ", p.clean(r.value), unit)
	var lines []string
	for _, statement := range r.statements {
		lines = append(lines, p.wrap(statement, p.room()-lipgloss.Width(head))...)
	}
	p.hang(p.label(r.label, false), head, lines)
}

func (p *page) list(texts list) {
	for _, text := range texts {
		p.hang(p.label("", false), "- ", p.wrap(text, p.room()-2))
	}
}

// bodyLines bounds what is shown of an error body.
const bodyLines = 4

// body shows the first lines of a reply.
func (p *page) body(b body) {
	const indent = "  "
	var lines []string
	for line := range strings.SplitSeq(strings.ReplaceAll(string(b), "\r\n", "\n"), "\n") {
		rest := strings.TrimRight(p.clean(strings.ReplaceAll(line, "\t", indent)), " ")
		for rest != "" && len(lines) <= bodyLines {
			line, rest = cut(rest, p.room()-len(indent))
			lines = append(lines, strings.TrimRight(line, " "))
		}
	}
	if len(lines) > bodyLines {
		lines = append(lines[:bodyLines], p.clean("…"))
	}
	p.hang(p.label("", false), indent, lines)
}

func (p *page) banner(parts banner) {
	var lines []string
	for _, part := range parts {
		for _, text := range p.wrap(part.text, p.o.Width) {
			if lines = append(lines, p.tone(text, part.verdict)); len(lines) > 1 {
				lines = p.join(lines, p.o.Width)
			}
		}
	}
	p.lines = append(p.lines, lines...)
}

// grid lays out a table from the left edge: the first column to the left, all
// others to the right.
func (p *page) grid(g grid) {
	lines := p.columns(g.header, g.rows)
	wide := widest(lines) > p.o.Width
	if wide && g.stack {
		p.stack(g)
		return
	}
	if !wide || len(g.narrow.items) == 0 {
		p.lines = append(p.lines, lines...)
		return
	}
	last := len(g.header) - 1
	rows := make([][]string, len(g.rows))
	for i, r := range g.rows {
		rows[i] = r[:last]
	}
	p.lines = append(p.lines, p.columns(g.header[:last], rows)...)
	p.block(g.narrow)
}

// stack lays out each row of a table as text, every cell behind its heading.
func (p *page) stack(g grid) {
	p.block(row{"", g.header[:1]})
	for _, cells := range g.rows {
		var items []string
		for i, cell := range cells[1:] {
			if cell != "" {
				items = append(items, g.header[i+1]+" "+cell)
			}
		}
		p.block(row{strings.TrimSpace(cells[0]), items})
	}
}

func (p *page) columns(header []string, rows [][]string) []string {
	cleaned := func(cells []string) []string {
		out := make([]string, len(cells))
		for i, cell := range cells {
			out[i] = p.clean(cell)
		}
		return out
	}
	t := table.New().Border(lipgloss.Border{}).Wrap(false).
		BorderTop(false).BorderBottom(false).BorderLeft(false).BorderRight(false).
		BorderColumn(false).BorderHeader(false).BorderRow(false).
		Headers(cleaned(header)...).
		StyleFunc(func(_, col int) lipgloss.Style {
			if col == 0 {
				return lipgloss.NewStyle()
			}
			return lipgloss.NewStyle().Align(lipgloss.Right).PaddingLeft(2)
		})
	for _, row := range rows {
		t.Row(cleaned(row)...)
	}
	var lines []string
	for line := range strings.SplitSeq(t.String(), "\n") {
		if line = strings.TrimRight(line, " "); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

func widest(lines []string) int {
	w := 0
	for _, line := range lines {
		w = max(w, lipgloss.Width(line))
	}
	return w
}

// flow fills lines with whole items; an item wider than a line is wrapped.
func (p *page) flow(width int, items []string) []string {
	var lines []string
	for _, item := range items {
		if item = p.clean(strings.TrimSpace(item)); item != "" {
			lines = append(lines, wrapClean(item, width)...)
			if len(lines) > 1 && lipgloss.Width(item) <= width {
				lines = p.join(lines, width)
			}
		}
	}
	return lines
}

// join puts the last line behind the one before it, if there is room.
func (p *page) join(lines []string, width int) []string {
	last := len(lines) - 1
	joined := lines[last-1] + p.clean(" · ") + lines[last]
	if lipgloss.Width(joined) > width {
		return lines
	}
	return append(lines[:last-1], joined)
}

func (p *page) wrap(text string, width int) []string { return wrapClean(p.clean(text), width) }

// wrapClean breaks escaped text between words, and inside a word that is wider
// than a line. It always returns a line.
func wrapClean(text string, width int) []string {
	lines := []string{""}
	for _, word := range words(text) {
		last := len(lines) - 1
		switch w := lipgloss.Width(word); {
		case lines[last] == "":
			lines[last] = word
		case lipgloss.Width(lines[last])+1+w <= width:
			lines[last] += " " + word
		default:
			lines = append(lines, word)
		}
		for last = len(lines) - 1; lipgloss.Width(lines[last]) > width; last++ {
			head, tail := cut(lines[last], width)
			lines[last] = head
			lines = append(lines, tail)
		}
	}
	return lines
}

// words splits at spaces, but keeps a unit with its number, and a sign with
// what stands at both sides of it.
func words(text string) []string {
	var list []string
	glue := false
	for word := range strings.FieldsSeq(text) {
		sign := slices.Contains([]string{"=", "<", "±", "+/-", "×", "x", "/"}, word)
		unit := slices.Contains([]string{"%", "ms", "s"}, strings.TrimRight(word, ".,;:)"))
		if len(list) > 0 && (glue || sign || unit) {
			list[len(list)-1] += " " + word
		} else {
			list = append(list, word)
		}
		glue = sign
	}
	return list
}

// cut splits text at a width of cells; the head has at least one rune.
func cut(text string, width int) (head, tail string) {
	last := 0
	for i := range text {
		// No character takes more cells than it has bytes.
		if last > 0 && i > width && lipgloss.Width(text[:i]) > width {
			return text[:last], text[last:]
		}
		last = i
	}
	if last > 0 && lipgloss.Width(text) > width {
		return text[:last], text[last:]
	}
	return text, ""
}

func (p *page) bold(s string) string {
	if !p.o.Color || s == "" {
		return s
	}
	return lipgloss.NewStyle().Bold(true).Render(s)
}

// tone colours clean text as a verdict word asks for.
func (p *page) tone(s, verdict string) string {
	if !p.o.Color || verdict == "" {
		return s
	}
	style := lipgloss.NewStyle().Bold(true)
	switch verdict {
	case result.Valid, result.Stable, result.Pass, result.Improvement:
		style = style.Foreground(lipgloss.Green)
	case result.Invalid, result.Unstable, result.Fail, result.Regression, notComplete:
		style = style.Foreground(lipgloss.Red)
	default:
		style = style.Foreground(lipgloss.Yellow)
	}
	return style.Render(s)
}

// pad fills s with spaces to a width of cells, at least one.
func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(1, width-lipgloss.Width(s)))
}
