package report

import (
	"slices"
	"strconv"
	"strings"

	"charm.land/lipgloss/v2"
	"charm.land/lipgloss/v2/table"
)

// gutter is the width of the column of labels at the left.
const gutter = 12

// page lays out lines of text beside labels. All text enters through it and is
// escaped here, before anything is measured, wrapped or coloured.
type page struct {
	o     Options
	lines []string
}

func newPage(o Options) *page {
	if o.Width <= 0 {
		o.Width = defaultWidth
	}
	o.Width = max(o.Width, leastWidth)
	return &page{o: o}
}

func (p *page) String() string { return strings.Join(p.lines, "\n") + "\n" }

// clean makes any text safe, and ASCII if that is asked for.
func (p *page) clean(s string) string {
	s = escape(s)
	if p.o.ASCII {
		s = ascii(s)
	}
	return s
}

func (p *page) room() int { return p.o.Width - gutter }

// section begins with a blank line and a heading as its label.
func (p *page) section(heading string, items ...string) {
	if len(p.lines) > 0 {
		p.blank()
	}
	lines := p.flow(p.room(), items)
	if len(lines) == 0 {
		lines = []string{""}
	}
	p.put(p.label(heading, true), lines)
}

// row puts items beside a label, none if there are no items. The items are
// separated by dots; lines break between items where they can.
func (p *page) row(label string, items ...string) {
	p.put(p.label(label, false), p.flow(p.room(), items))
}

// verdict is a row or section that begins with a verdict word in colour.
func (p *page) verdict(heading, word, tail string, tone lipgloss.Style) {
	p.blank()
	text := word
	if tail != "" {
		text += ": " + tail
	}
	lines := p.wrap(text, p.room())
	if p.o.Color {
		lines[0] = tone.Render(word) + strings.TrimPrefix(lines[0], word)
	}
	p.put(p.label(heading, true), lines)
}

// list puts texts below each other, each behind a dash.
func (p *page) list(texts []string) {
	for _, text := range texts {
		lines := p.wrap(text, p.room()-2)
		for i := range lines {
			lines[i] = "  " + lines[i]
		}
		lines[0] = "-" + lines[0][1:]
		p.put(p.label("", false), lines)
	}
}

// verbatim puts one line that is not wrapped: a URL or a path.
func (p *page) verbatim(label, text string) {
	p.put(p.label(label, false), []string{p.clean(text)})
}

func (p *page) blank() { p.lines = append(p.lines, "") }

// put adds laid-out lines beside a label.
func (p *page) put(label string, lines []string) {
	for i, line := range lines {
		if i > 0 {
			label = strings.Repeat(" ", gutter)
		}
		if line == "" {
			p.lines = append(p.lines, strings.TrimRight(label, " "))
			continue
		}
		p.lines = append(p.lines, label+line)
	}
}

// label fills the gutter, in bold for a heading.
func (p *page) label(text string, heading bool) string {
	text = p.clean(text)
	if heading {
		text = p.bold(text)
	}
	return pad(text, gutter)
}

// flow fills lines with whole items; an item wider than a line is wrapped.
func (p *page) flow(width int, items []string) []string {
	var lines []string
	for _, item := range items {
		if item = p.clean(item); item != "" {
			lines = append(lines, wrapClean(item, width)...)
			if len(lines) > 1 && lipgloss.Width(item) <= width {
				lines = p.join(lines, width)
			}
		}
	}
	return lines
}

// pack fills lines with items that are clean, and may be coloured.
func (p *page) pack(items []string, width int) []string {
	var lines []string
	for _, item := range items {
		if lines = append(lines, item); len(lines) > 1 {
			lines = p.join(lines, width)
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
	cells := 0
	for i, r := range text {
		cells += lipgloss.Width(string(r))
		if cells > width && i > 0 {
			return text[:i], text[i:]
		}
	}
	return text, ""
}

// columns puts a table at the left edge: the first column to the left, all
// others to the right.
func (p *page) columns(header []string, rows [][]string) {
	p.lines = append(p.lines, p.grid(header, rows)...)
}

func (p *page) grid(header []string, rows [][]string) []string {
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

func (p *page) bold(s string) string {
	if !p.o.Color {
		return s
	}
	return lipgloss.NewStyle().Bold(true).Render(s)
}

// pad fills s with spaces to a width of cells, at least one.
func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(1, width-lipgloss.Width(s)))
}

// group collects names under keys, in the order in which the keys came.
type group struct {
	keys  []string
	names map[string][]string
}

func (g *group) add(key, name string) {
	if g.names == nil {
		g.names = make(map[string][]string)
	}
	if _, ok := g.names[key]; !ok {
		g.keys = append(g.keys, key)
	}
	g.names[key] = append(g.names[key], name)
}

func times(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}
