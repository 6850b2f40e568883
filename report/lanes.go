package report

import (
	"fmt"
	"html"
	"strings"
)

// mostLanes are drawn: more cannot be told apart.
const mostLanes = 240

const (
	laneHeight = 5
	laneLeft   = 40
	laneWidth  = 940
)

// lanes draws requests one below the other, from due to their end: the first of
// the measured window. The page's script zooms in.
func (g *Gathered) lanes() picture {
	var shown []*gathered
	measured := 0
	for i := range g.requests {
		if r := &g.requests[i]; r.measured {
			if measured++; len(shown) < mostLanes {
				shown = append(shown, r)
			}
		}
	}
	if len(shown) == 0 {
		return picture{}
	}
	from, to := g.time(shown[0].scheduled), 0.
	for _, r := range shown {
		to = max(to, g.time(r.ended))
	}
	if to <= from {
		return picture{}
	}
	var b strings.Builder
	height := len(shown)*laneHeight + 40
	fmt.Fprintf(&b, `<svg class="chart lanes" viewBox="0 0 1000 %d" role="img" aria-label="Requests, one a line"><title>Requests, one a line</title>`, height)
	x := func(t float64) float64 { return laneLeft + (t-from)/(to-from)*laneWidth }
	for i := range 11 {
		t := from + (to-from)*float64(i)/10
		fmt.Fprintf(&b, `<line class="grid" x1="%.1f" x2="%.1f" y1="20" y2="%d"/><text class="tick" x="%.1f" y="14" text-anchor="middle">%.2f s</text>`, x(t), x(t), height-20, x(t), t)
	}
	for i, r := range shown {
		y := 22 + i*laneHeight
		bar := func(class string, a, z float64, what string) {
			if z > a {
				fmt.Fprintf(&b, `<rect class="cell %s" x="%.2f" y="%d" width="%.2f" height="%d"><title>%s</title></rect>`,
					class, x(a), y, max(0.3, x(z)-x(a)), laneHeight-1, html.EscapeString(what))
			}
		}
		at := g.time
		if r.sent == 0 {
			bar("s3", at(r.scheduled), at(r.ended), "never sent")
			continue
		}
		bar("s5", at(r.scheduled), at(r.sent), fmt.Sprintf("request %d: waited %s ms to be sent", i+1, number(float64(r.sent-r.scheduled)/1e6)))
		if r.first == 0 || !r.completed {
			bar("s3", at(r.sent), at(r.ended), fmt.Sprintf("request %d: did not complete", i+1))
			continue
		}
		bar("s0", at(r.sent), at(r.first), fmt.Sprintf("request %d: TTFT %s ms", i+1, number(float64(r.first-r.sent)/1e6)))
		bar("s2", at(r.first), at(r.last), fmt.Sprintf("request %d: decode %s ms, %d tokens", i+1, number(float64(r.last-r.first)/1e6), r.n))
	}
	b.WriteString("</svg>")
	return picture{
		svg:    b.String(),
		legend: `<span class="key s5">wait before sending</span><span class="key s0">TTFT: network, queue and prefill, which a client cannot tell apart</span><span class="key s2">decode</span><span class="key s3">not completed</span>`,
		caption: fmt.Sprintf("client boundary, the first %d of %d requests due in the measured window, in the order in which they were due; "+
			"zoom with the wheel or by dragging, double click to reset", len(shown), measured),
	}
}
