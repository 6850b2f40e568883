package report

import (
	"fmt"
	"io"

	"github.com/assay-bench/assay/scrape"
)

// Catalog writes what the metrics of engines mean: in full, or an overview.
func Catalog(w io.Writer, c *scrape.Catalogue, full bool, o Options) error {
	sh := new(sheet)
	if !full {
		g := grid{stack: true, header: []string{"engine", "metrics", "checked up to"}}
		for _, e := range c.Engines {
			checked := e.Checked
			if checked == "" {
				checked = none
			}
			g.rows = append(g.rows, []string{e.Name, fmt.Sprint(len(e.Entries)), checked})
		}
		sh.add(g)
		sh.row("", "assay catalog ENGINE lists the metrics of one")
		return sh.text(w, o)
	}
	for _, e := range c.Engines {
		sh.section("ENGINE", e.Title, prefixed("checked up to release ", e.Checked))
		sh.row("endpoint", e.Endpoint)
		sh.row("source", e.Source)
		sh.add(list(e.Notes))
		for _, m := range e.Entries {
			sh.catalogEntry(&m)
		}
	}
	return sh.text(w, o)
}

func (sh *sheet) catalogEntry(m *scrape.Entry) {
	releases := ""
	switch {
	case m.Since != "" && m.Until != "":
		releases = "releases from " + m.Since + " to before " + m.Until
	case m.Since != "":
		releases = "since " + m.Since
	case m.Until != "":
		releases = "before " + m.Until
	}
	counts := ""
	if m.Type == "counter" && !m.Live {
		counts = "moves when requests end"
	}
	sh.section(m.Name)
	sh.row("is", string(m.Quantity), m.Type+prefixed(", on the wire a ", m.WireType), m.Unit, releases, counts)
	sh.row("one sample", m.Sample)
	sh.row("taken", m.When)
	sh.row("defects", m.Defects...)
	if m.Zeros != nil {
		sh.row("shown", "only if "+m.Zeros.Lengths+" says that no sequence of no or one token finished")
	}
}
