package report

import (
	"strconv"
	"strings"
)

// sheet is a view before it has a form: blocks in the order in which they are
// read. What is said is decided once, in the files named for its parts; how it
// looks, by [text] and [markdown], through which every string is escaped.
type sheet struct {
	blocks []any // of the types below
}

type (
	// section begins a part: its heading, with items beside it.
	section struct {
		heading string
		items   []string
	}
	// verdict begins a part with one word that is judged, and its cause.
	verdict struct{ heading, word, cause string }
	// row is items beside a label; without items it is nothing.
	row struct {
		label string
		items []string
	}
	// fixed text is never broken: a URL, a path, a command.
	verbatim struct{ label, text string }
	// grid is a table. Where it is too wide, its last column may become the row
	// narrow, or, if it is stacked, each of its rows becomes text.
	grid struct {
		header []string
		rows   [][]string
		narrow row
		stack  bool
	}
	// rate is a value with its unit and the statements that give it a meaning.
	rate struct {
		label, value, unit string
		statements         []string
	}
	// list is texts below each other.
	list []string
	// body is foreign text of several lines.
	body string
	// banner is one line that is seen last. A part that has a verdict is judged.
	banner []part
)

// part of a banner; verdict is the word that its colour follows, if any.
type part struct{ text, verdict string }

// heads reports whether it begins a part: its label is a heading then.
func (v verbatim) heads() bool { return v.label != "" && v.label == strings.ToUpper(v.label) }

func (sh *sheet) add(b any) { sh.blocks = append(sh.blocks, b) }

func (sh *sheet) section(heading string, items ...string) { sh.add(section{heading, items}) }

func (sh *sheet) row(label string, items ...string) { sh.add(row{label, items}) }

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

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}
