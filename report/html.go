package report

import (
	_ "embed" // the style and the script of the page
	"fmt"
	"html"
	"io"
	"strings"

	"github.com/assay-bench/assay/result"
)

//go:embed page.css
var pageCSS string

//go:embed page.js
var pageJS string

// HTML writes report.html: one file that needs nothing else, light and dark,
// printable. gathered are the records of each stage, as [Gather] gives them; nil
// leaves its pictures out.
func HTML(w io.Writer, r *result.Run, gathered []*Gathered) error {
	p := &htmlPage{}
	sh := runSheet(r)
	p.open("Assay report "+r.ID, sh)
	figures, rest := new(sheet), sh
	if len(r.Stages) == 1 { // several stages have all of each, in turn
		figures, rest = sh.split()
	}
	p.sheet(figures)
	for i := range r.Stages {
		if i >= len(gathered) || gathered[i] == nil {
			continue
		}
		heading := "Pictures"
		if len(r.Stages) > 1 {
			heading += ": " + r.Stages[i].Name
		}
		p.pictures(heading, append(pictures(&r.Stages[i], gathered[i]), gathered[i].lanes()))
	}
	p.sheet(rest)
	p.close()
	if _, err := io.WriteString(w, p.b.String()); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// split parts the figures of a run from all else, which a page has below its
// pictures: it is read from its top, a terminal from its end. The verdicts stand
// above both, in the banner.
func (sh *sheet) split() (figures, rest *sheet) {
	figures, rest = new(sheet), new(sheet)
	to := rest
	for _, b := range sh.blocks {
		heading := ""
		switch b := b.(type) {
		case section:
			heading = b.heading
		case verdict:
			heading = b.heading
		case verbatim:
			if b.heads() {
				heading = b.label
			}
		}
		switch heading {
		case "":
		case "PARTIAL", "LATENCY", "BY LENGTH", "THROUGHPUT", "GOODPUT", "ERRORS":
			to = figures
		default:
			to = rest
		}
		to.add(b)
	}
	return figures, rest
}

// htmlPage writes a page. All foreign text goes through text.
type htmlPage struct {
	b strings.Builder
	// open elements of the sheet.
	inSection, inList bool
}

// text is foreign text made safe: control characters visible, HTML escaped.
func text(s string) string { return html.EscapeString(escape(s)) }

func (p *htmlPage) printf(format string, args ...any) { fmt.Fprintf(&p.b, format, args...) }

// open begins the page with what is seen first: the banner of the sheet.
func (p *htmlPage) open(title string, sh *sheet) {
	p.printf(`<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">`+
		`<meta name="color-scheme" content="light dark"><title>%s</title><style>%s</style></head><body><main><h1>%s</h1>`, text(title), pageCSS, text(title))
	for _, b := range sh.blocks {
		if parts, ok := b.(banner); ok {
			p.b.WriteString(`<p class="banner">`)
			for _, part := range parts {
				p.printf(`<span class="%s">%s</span> `, tone(part.verdict), text(part.text))
			}
			p.b.WriteString("</p>")
		}
	}
}

func (p *htmlPage) close() { p.printf("</main><script>%s</script></body></html>\n", pageJS) }

// tone is the class of a verdict's colour; the word stands beside it always.
func tone(verdict string) string {
	switch verdict {
	case "":
		return "plain"
	case result.Valid, result.Stable, result.Pass, result.Improvement:
		return "good"
	case result.Invalid, result.Unstable, result.Fail, result.Regression, notComplete:
		return "bad"
	}
	return "doubt"
}

func (p *htmlPage) pictures(heading string, list []picture) {
	p.printf(`<h2>%s</h2><div class="pictures">`, text(heading))
	for _, x := range list {
		if x.svg == "" {
			continue
		}
		class := ""
		if strings.Contains(x.svg, `class="chart lanes"`) {
			class = ` class="wide"`
		}
		p.printf(`<figure%s>%s<div class="legend">%s</div><figcaption>%s</figcaption></figure>`, class, x.svg, x.legend, text(x.caption))
	}
	p.b.WriteString("</div>")
}

// sheet writes everything that the terminal shows; the banner stands above.
func (p *htmlPage) sheet(sh *sheet) {
	for _, b := range sh.blocks {
		p.block(b)
	}
	p.end()
}

func (p *htmlPage) end() {
	p.endList()
	if p.inSection {
		p.b.WriteString("</section>")
	}
	p.inSection = false
}

func (p *htmlPage) endList() {
	if p.inList {
		p.b.WriteString("</ul>")
	}
	p.inList = false
}

func (p *htmlPage) heading(s string) {
	p.end()
	p.printf(`<section><h2>%s</h2>`, text(capital(s)))
	p.inSection = true
}

func (p *htmlPage) item(content string) {
	if !p.inList {
		p.b.WriteString("<ul>")
		p.inList = true
	}
	p.printf("<li>%s</li>", content)
}

func (p *htmlPage) block(b any) {
	switch b := b.(type) {
	case section:
		p.heading(b.heading)
		p.row(row{"", b.items})
	case verdict:
		if b.heading != "" {
			p.heading(b.heading)
		}
		p.endList()
		p.printf(`<p><strong class="%s">%s</strong>%s</p>`, tone(b.word), text(b.word), prefixed(": ", text(b.cause)))
	case row:
		p.row(b)
	case verbatim:
		if b.heads() {
			p.heading(b.label)
			p.item("<code>" + text(b.text) + "</code>")
			return
		}
		p.item(labelled(b.label, "<code>"+text(b.text)+"</code>"))
	case grid:
		p.grid(b)
	case rate:
		p.item(labelled(b.label, "<b>"+text(b.value)+"</b> "+text(b.unit)+" <small>"+text(strings.Join(b.statements, "; "))+"</small>"))
	case list:
		for _, s := range b {
			p.item(text(s))
		}
	case body:
		p.endList()
		p.printf("<pre>%s</pre>", html.EscapeString(escapeLines(string(b))))
	}
}

// escapeLines keeps line breaks and makes all else of foreign text visible.
func escapeLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = escape(strings.TrimSuffix(lines[i], "\r"))
	}
	return strings.Join(lines, "\n")
}

func labelled(label, content string) string {
	if label == "" || label == none {
		return content
	}
	return `<span class="label">` + text(label) + "</span> " + content
}

func (p *htmlPage) row(r row) {
	var items []string
	for _, s := range r.items {
		if s != "" {
			items = append(items, text(s))
		}
	}
	if len(items) > 0 {
		p.item(labelled(r.label, strings.Join(items, ` <span class="dot">·</span> `)))
	}
}

func (p *htmlPage) grid(g grid) {
	p.endList()
	p.b.WriteString(`<div class="scroll"><table><thead><tr>`)
	for _, h := range g.header {
		p.printf("<th>%s</th>", text(h))
	}
	p.b.WriteString("</tr></thead><tbody>")
	for _, r := range g.rows {
		p.b.WriteString("<tr>")
		for i, cell := range r {
			tag := "td"
			if i == 0 {
				tag = "th"
			}
			p.printf("<%s>%s</%s>", tag, text(cell), tag)
		}
		p.b.WriteString("</tr>")
	}
	p.b.WriteString("</tbody></table></div>")
}
