// Package chart draws plots as SVG that takes its colours from the page it stands in.
//
// It exists instead of a plotting library because of what those bring: fonts,
// rasters, PDF and LaTeX in the binary, colours fixed in the picture where a page
// is light or dark, and a build that takes as long again as that of all else. A
// picture here is a few elements with classes; the page has the style.
package chart

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
)

// Axis of a plot. Where Min is not below Max, both come from what is drawn.
type Axis struct {
	Label    string
	Min, Max float64
	// Log has ticks at 1, 2 and 5 of each decade; values up to 0 are not drawn.
	Log bool
	// Bare has no ticks: the position means nothing.
	Bare bool
}

// Point of a series in data units.
type Point struct{ X, Y float64 }

// Series is a line, or marks, with the name that its legend has.
type Series struct {
	Name   string
	Points []Point
	// Class of its colour: "s0" to "s7".
	Class string
	// Step holds each value until the next. Marks draws a dot at each point,
	// NoLine nothing between them.
	Step, Marks, NoLine bool
	// Labels of the points for the reader who points at one; may be nil.
	Labels []string
}

// Plot is one picture. Add to it in the order from back to front.
type Plot struct {
	Title         string
	X, Y          Axis
	Width, Height int // 0: 460 by 260

	series []Series
	bands  []band
	rules  []rule
	ranges []span
	cells  []cell
}

type (
	band struct {
		from, to    float64
		name, class string
	}
	rule struct {
		at    float64
		label string
		class string
	}
	span struct {
		y, lo, hi float64
		class     string
		name      string
	}
	cell struct {
		x0, x1, y0, y1, share float64
		label                 string
		class                 string
	}
)

// Add a series.
func (p *Plot) Add(s Series) {
	if len(s.Points) > 0 {
		p.series = append(p.series, s)
	}
}

// Band shades [from, to) over the whole height.
func (p *Plot) Band(from, to float64, name, class string) {
	p.bands = append(p.bands, band{from, to, name, class})
}

// Rule is an upright line with a label.
func (p *Plot) Rule(at float64, label, class string) {
	p.rules = append(p.rules, rule{at, label, class})
}

// Range is a level bar at y from lo to hi, of an interval.
func (p *Plot) Range(y, lo, hi float64, name, class string) {
	p.ranges = append(p.ranges, span{y, lo, hi, class, name})
}

// Cell is a filled box, as opaque as share of 1 says, with a label for the
// reader who points at it.
func (p *Plot) Cell(x0, x1, y0, y1, share float64, label, class string) {
	p.cells = append(p.cells, cell{x0, x1, y0, y1, share, label, class})
}

// Empty reports whether nothing would be drawn.
func (p *Plot) Empty() bool { return len(p.series)+len(p.ranges)+len(p.cells) == 0 }

const (
	defaultWidth, defaultHeight                   = 460, 260
	marginLeft, marginRight, marginTop, marginLow = 56, 14, 26, 42
)

// SVG is the picture; text in it is escaped. Empty plots are an empty string.
func (p *Plot) SVG() string {
	if p.Empty() {
		return ""
	}
	c := p.canvas()
	c.printf(`<svg class="chart" viewBox="0 0 %d %d" role="img" aria-label="%s"><title>%s</title>`, c.width, c.height, html.EscapeString(p.Title), html.EscapeString(p.Title))
	c.printf(`<text class="title" x="%d" y="15">%s</text>`, marginLeft, html.EscapeString(p.Title))
	for _, b := range p.bands {
		x0, x1 := c.clampX(b.from), c.clampX(b.to)
		c.printf(`<rect class="band %s" x="%s" y="%d" width="%s" height="%s"><title>%s</title></rect>`,
			b.class, px(x0), marginTop, px(x1-x0), px(c.bottom-marginTop), html.EscapeString(b.name))
	}
	c.grid(p)
	for _, e := range p.cells {
		x0, x1, y0, y1 := c.clampX(e.x0), c.clampX(e.x1), c.clampY(e.y1), c.clampY(e.y0)
		c.printf(`<rect class="cell %s" x="%s" y="%s" width="%s" height="%s" fill-opacity="%s"><title>%s</title></rect>`,
			e.class, px(x0), px(y0), px(x1-x0), px(max(0, y1-y0)), px2(e.share), html.EscapeString(e.label))
	}
	for _, s := range p.ranges {
		y := c.y(s.y)
		c.printf(`<line class="range %s" x1="%s" x2="%s" y1="%s" y2="%s"><title>%s</title></line>`,
			s.class, px(c.clampX(s.lo)), px(c.clampX(s.hi)), px(y), px(y), html.EscapeString(s.name))
	}
	for _, s := range p.series {
		c.series(&s)
	}
	for i, r := range p.rules {
		x := c.clampX(r.at)
		c.printf(`<line class="rule %s" x1="%s" x2="%s" y1="%d" y2="%s"/>`, r.class, px(x), px(x), marginTop, px(c.bottom))
		anchor, at := "start", x+3
		if x > c.right-60 {
			anchor, at = "end", x-3
		}
		c.printf(`<text class="rulelabel" x="%s" y="%d" text-anchor="%s">%s</text>`, px(at), marginTop+10+11*(i%4), anchor, html.EscapeString(r.label))
	}
	c.b.WriteString("</svg>")
	return c.b.String()
}

// canvas maps data to pixels.
type canvas struct {
	b                   strings.Builder
	width, height       int
	left, right, bottom float64
	xMin, xMax          float64
	yMin, yMax          float64
	xLog, yLog          bool
	xTicks, yTicks      []float64
}

func (p *Plot) canvas() *canvas {
	c := &canvas{width: p.Width, height: p.Height, xLog: p.X.Log, yLog: p.Y.Log}
	if c.width == 0 {
		c.width = defaultWidth
	}
	if c.height == 0 {
		c.height = defaultHeight
	}
	c.left, c.right, c.bottom = marginLeft, float64(c.width-marginRight), float64(c.height-marginLow)
	xs, ys := p.extent()
	c.xMin, c.xMax, c.xTicks = p.X.span(xs, false)
	c.yMin, c.yMax, c.yTicks = p.Y.span(ys, true)
	return c
}

// extent collects all coordinates.
func (p *Plot) extent() (xs, ys []float64) {
	for _, s := range p.series {
		for _, q := range s.Points {
			xs, ys = append(xs, q.X), append(ys, q.Y)
		}
	}
	for _, r := range p.ranges {
		xs, ys = append(xs, r.lo, r.hi), append(ys, r.y)
	}
	for _, e := range p.cells {
		xs, ys = append(xs, e.x0, e.x1), append(ys, e.y0, e.y1)
	}
	for _, b := range p.bands {
		xs = append(xs, b.from, b.to)
	}
	return xs, ys
}

// span is the drawn part of an axis with its ticks. A linear axis that was not
// given begins at 0 if it is upright.
func (a Axis) span(values []float64, fromZero bool) (lo, hi float64, ticks []float64) {
	lo, hi = a.Min, a.Max
	if !(lo < hi) {
		lo, hi = math.Inf(1), math.Inf(-1)
		for _, v := range values {
			if math.IsNaN(v) || math.IsInf(v, 0) || a.Log && v <= 0 {
				continue
			}
			lo, hi = min(lo, v), max(hi, v)
		}
		switch {
		case lo > hi:
			lo, hi = 0, 1
			if a.Log {
				lo = 0.1
			}
		case !a.Log && fromZero && lo > 0:
			lo = 0
		}
		if lo == hi {
			hi = lo + max(1, math.Abs(lo)*0.1)
			if a.Log {
				lo, hi = lo/2, lo*2
			}
		}
	}
	if a.Log {
		return lo, hi, logTicks(lo, hi)
	}
	ticks, step := linearTicks(lo, hi)
	if !(a.Min < a.Max) {
		hi = math.Ceil(hi/step-1e-9) * step
		ticks, _ = linearTicks(lo, hi)
	}
	return lo, hi, ticks
}

// linearTicks are multiples of 1, 2 or 5 times a power of ten, about five.
func linearTicks(lo, hi float64) (ticks []float64, step float64) {
	raw := (hi - lo) / 5
	power := math.Pow(10, math.Floor(math.Log10(raw)))
	step = 10 * power
	for _, m := range []float64{1, 2, 5} {
		if m*power >= raw {
			step = m * power
			break
		}
	}
	for t := math.Ceil(lo/step - 1e-9); t*step <= hi+step*1e-9; t++ {
		ticks = append(ticks, t*step)
	}
	return ticks, step
}

// logTicks are 1, 2 and 5 of each decade, or 1 alone over many.
func logTicks(lo, hi float64) (ticks []float64) {
	digits := []float64{1, 2, 5}
	if math.Log10(hi/lo) > 3 {
		digits = digits[:1]
	}
	for e := math.Floor(math.Log10(lo)); e <= math.Ceil(math.Log10(hi)); e++ {
		for _, d := range digits {
			if t := d * math.Pow(10, e); t >= lo*(1-1e-9) && t <= hi*(1+1e-9) {
				ticks = append(ticks, t)
			}
		}
	}
	return ticks
}

func (c *canvas) x(v float64) float64 {
	return c.left + share(v, c.xMin, c.xMax, c.xLog)*(c.right-c.left)
}

func (c *canvas) y(v float64) float64 {
	return c.bottom - share(v, c.yMin, c.yMax, c.yLog)*(c.bottom-marginTop)
}

func (c *canvas) clampX(v float64) float64 { return min(c.right, max(c.left, c.x(v))) }
func (c *canvas) clampY(v float64) float64 { return min(c.bottom, max(marginTop, c.y(v))) }

func share(v, lo, hi float64, log bool) float64 {
	if log {
		return (math.Log(max(v, lo/1e6)) - math.Log(lo)) / (math.Log(hi) - math.Log(lo))
	}
	return (v - lo) / (hi - lo)
}

func (c *canvas) grid(p *Plot) {
	for _, t := range c.yTicks {
		if p.Y.Bare {
			break
		}
		y := c.y(t)
		c.printf(`<line class="grid" x1="%s" x2="%s" y1="%s" y2="%s"/><text class="tick" x="%s" y="%s" text-anchor="end">%s</text>`,
			px(c.left), px(c.right), px(y), px(y), px(c.left-5), px(y+3.5), Number(t))
	}
	last := math.Inf(-1)
	for _, t := range c.xTicks {
		x := c.x(t)
		label := ""
		if x-last > 26 { // labels do not run into each other
			label, last = Number(t), x
		}
		c.printf(`<line class="grid" x1="%s" x2="%s" y1="%d" y2="%s"/><text class="tick" x="%s" y="%s" text-anchor="middle">%s</text>`,
			px(x), px(x), marginTop, px(c.bottom), px(x), px(c.bottom+14), label)
	}
	c.printf(`<text class="axis" x="%s" y="%d" text-anchor="middle">%s</text>`, px((c.left+c.right)/2), c.height-8, html.EscapeString(p.X.Label))
	c.printf(`<text class="axis" transform="translate(12 %s) rotate(-90)" text-anchor="middle">%s</text>`, px((marginTop+c.bottom)/2), html.EscapeString(p.Y.Label))
}

// series draws a line in pieces: where there is no value, it is broken.
func (c *canvas) series(s *Series) {
	c.printf(`<g class="series %s" data-name="%s">`, s.Class, html.EscapeString(s.Name))
	if !s.NoLine {
		var path strings.Builder
		pen, lastY := "M", 0.
		for _, q := range s.Points {
			if !c.drawable(q) {
				pen = "M"
				continue
			}
			x, y := c.clampX(q.X), c.clampY(q.Y)
			if s.Step && pen == "L" {
				fmt.Fprintf(&path, "L%s %s", px(x), px(lastY))
			}
			fmt.Fprintf(&path, "%s%s %s", pen, px(x), px(y))
			pen, lastY = "L", y
		}
		c.printf(`<path d="%s"/>`, path.String())
	}
	for i, q := range s.Points {
		if !c.drawable(q) {
			continue
		}
		label := Number(q.X) + ", " + Number(q.Y)
		if i < len(s.Labels) {
			label = s.Labels[i]
		}
		r := "0"
		if s.Marks {
			r = "3"
		}
		if s.Marks || len(s.Points) <= maxHover {
			c.printf(`<circle cx="%s" cy="%s" r="%s" data-l="%s"/>`, px(c.clampX(q.X)), px(c.clampY(q.Y)), r, html.EscapeString(label))
		}
	}
	c.b.WriteString("</g>")
}

// maxHover points of a line that can be pointed at.
const maxHover = 400

func (c *canvas) drawable(q Point) bool {
	return !math.IsNaN(q.X) && !math.IsNaN(q.Y) && !math.IsInf(q.X, 0) && !math.IsInf(q.Y, 0) && (!c.yLog || q.Y > 0) && (!c.xLog || q.X > 0)
}

func (c *canvas) printf(format string, args ...any) { fmt.Fprintf(&c.b, format, args...) }

func px(v float64) string  { return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) }
func px2(v float64) string { return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64) }

// Number is a value as ticks and labels have it: four digits, thousands as k.
func Number(v float64) string {
	a := math.Abs(v)
	switch {
	case a >= 1e9:
		return trim(v/1e9) + "G"
	case a >= 1e6:
		return trim(v/1e6) + "M"
	case a >= 1e4:
		return trim(v/1e3) + "k"
	}
	return trim(v)
}

func trim(v float64) string {
	if v == 0 {
		return "0"
	}
	digits := max(0, 3-int(math.Floor(math.Log10(math.Abs(v)))))
	s := strconv.FormatFloat(v, 'f', min(digits, 9), 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// Legend lists the series that have a name, for beside the picture.
func (p *Plot) Legend() string {
	var b strings.Builder
	for _, s := range p.series {
		if s.Name != "" {
			fmt.Fprintf(&b, `<button type="button" class="key %s" data-toggle="%s">%s</button>`, s.Class, html.EscapeString(s.Name), html.EscapeString(s.Name))
		}
	}
	return b.String()
}
