package report

import (
	"fmt"
	"io"

	"github.com/assay-bench/assay/result"
)

// Peers writes what other tools would print of the same requests, beside ours.
func Peers(w io.Writer, stage string, views []result.PeerView, o Options) error {
	return peerSheet(stage, views).text(w, o)
}

// PeersMarkdown writes the same for pages and issues.
func PeersMarkdown(w io.Writer, stage string, views []result.PeerView) error {
	return peerSheet(stage, views).markdown(w, "What other tools would print")
}

func peerSheet(stage string, views []result.PeerView) *sheet {
	sh := new(sheet)
	sh.section("PEERS", "what other tools would print of these requests: their definitions on our stamps", stage)
	sh.row("", "ours stand in brackets; a figure that is one number has its mean alone",
		"the definitions were read in the sources of the tools; none of them was run")
	for _, v := range views {
		sh.section("TOOL", v.Tool, "as of "+v.Read)
		g := grid{header: []string{"figure", "n", "mean", "p50", "p99", "unit"}}
		var why list
		for _, f := range v.Figures {
			g.rows = append(g.rows, []string{
				f.Name, fmt.Sprint(f.N), besides(f.Mean, f.OurMean), besides(f.P50, f.OurP50), besides(f.P99, f.OurP99), f.Unit,
			})
			why = append(why, f.Name+": "+f.Why)
		}
		sh.add(g)
		sh.row("why", "how each differs from ours:")
		sh.add(why)
		if len(v.NotImitated) > 0 {
			sh.row("not in it", "what the tool adds of its own:")
			sh.add(list(v.NotImitated))
		}
	}
	return sh
}

// besides is their value with ours in brackets.
func besides(theirs, ours *float64) string {
	if ours == nil {
		return optional(theirs)
	}
	return optional(theirs) + " (" + optional(ours) + ")"
}
