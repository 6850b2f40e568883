package report

import (
	"fmt"
	"math"
	"slices"

	"github.com/assay-bench/assay/report/chart"
	"github.com/assay-bench/assay/result"
	"github.com/assay-bench/assay/stat"
)

// picture is a plot with the sentence below it: boundary, weighting, sample.
type picture struct {
	svg, legend, caption string
}

func drawn(p *chart.Plot, caption string) picture { return picture{p.SVG(), p.Legend(), caption} }

// pictures of a stage, in the order in which they are looked at.
func pictures(st *result.Stage, g *Gathered) []picture {
	list := []picture{
		distribution("TTFT", "s0", st.Metrics.TTFT, g.sample((*gathered).ttft)),
		distribution("TPOT", "s1", st.Metrics.TPOT, g.sample((*gathered).perToken)),
		distribution("E2E", "s2", st.Metrics.E2E, g.sample((*gathered).e2e)),
	}
	from, to := g.bounds()
	width := max(1, (to-from+mostBins-1)/mostBins) // seconds a bin
	t := &timeline{g: g, st: st, from: from, to: to, width: width}
	list = append(list, t.inFlight(), t.tokens(), t.latency(), t.parts(), t.gaps())
	list = append(list, beside(st)...)
	return slices.DeleteFunc(list, func(p picture) bool { return p.svg == "" })
}

// mostBins of a time axis.
const mostBins = 300

// distribution is the empirical distribution of a sample with its percentiles
// and their intervals.
func distribution(name, class string, s *result.Summary, x []float64) picture {
	p := &chart.Plot{Title: name + ", cumulative share of requests", X: chart.Axis{Label: "ms"}, Y: chart.Axis{Label: "share", Min: 0, Max: 1}}
	if len(x) == 0 || s == nil {
		return picture{}
	}
	if lo, hi := x[0], x[len(x)-1]; lo > 0 && hi/lo > 20 {
		p.X.Log = true
	}
	p.Add(chart.Series{Class: class, Points: ecdf(x), Step: len(x) <= exactPoints})
	for _, m := range []struct {
		name string
		at   *float64
		ci   *result.Interval
		y    float64
	}{{"p50", s.P50, s.P50CI, 0.5}, {"p95", s.P95, nil, 0.95}, {"p99", s.P99, s.P99CI, 0.99}} {
		if m.at == nil {
			continue
		}
		p.Rule(*m.at, m.name+" "+chart.Number(*m.at), "mark")
		if m.ci != nil {
			p.Range(m.y, m.ci[0], m.ci[1], fmt.Sprintf("95 %% interval of %s: %s to %s ms", m.name, number(m.ci[0]), number(m.ci[1])), class)
		}
	}
	return drawn(p, fmt.Sprintf("client boundary, request-weighted, n = %d measured and completed requests; bars are 95 %% intervals from batches, where there is one", len(x)))
}

// exactPoints is up to how many values an empirical distribution is drawn whole.
const exactPoints = 300

// ecdf of an ascending sample: every value, or many quantiles of it, closer in
// the tail.
func ecdf(x []float64) []chart.Point {
	n := len(x)
	if n <= exactPoints {
		points := []chart.Point{{X: x[0], Y: 0}}
		for i, v := range x {
			points = append(points, chart.Point{X: v, Y: float64(i+1) / float64(n)})
		}
		return points
	}
	var points []chart.Point
	add := func(p float64) { points = append(points, chart.Point{X: stat.Quantile(x, p, stat.Type7), Y: p}) }
	for i := range 191 {
		add(float64(i) / 200)
	}
	for i := range 101 {
		add(0.95 + 0.05*float64(i)/100)
	}
	return points
}

// timeline draws what happened over the time of a stage.
type timeline struct {
	g        *Gathered
	st       *result.Stage
	from, to int // seconds from the window's start
	width    int // of a bin
}

func (t *timeline) bins() int              { return (t.to - t.from + t.width - 1) / t.width }
func (t *timeline) start(bin int) float64  { return float64(t.from + bin*t.width) }
func (t *timeline) bin(second int) int     { return min(t.bins()-1, max(0, (second-t.from)/t.width)) }
func (t *timeline) middle(bin int) float64 { return t.start(bin) + float64(t.width)/2 }

// plot has the phases shaded.
func (t *timeline) plot(title, y string) *chart.Plot {
	p := &chart.Plot{
		Title: title, X: chart.Axis{Label: "seconds from the start of the measured window", Min: float64(t.from), Max: float64(t.to)}, Y: chart.Axis{Label: y},
	}
	window := t.st.Window.Length().Seconds()
	p.Band(float64(t.from), 0, "warm-up", "warmup")
	p.Band(0, window, "measured window", "measured")
	p.Band(window, float64(t.to), "cooldown", "cooldown")
	return p
}

const phasesShaded = "shaded: warm-up, measured window, cooldown"

func (t *timeline) per() string {
	if t.width == 1 {
		return "by second"
	}
	return fmt.Sprintf("by %d seconds", t.width)
}

// inFlight counts requests between sent and ended at the start of each bin, and
// what ended without completing.
func (t *timeline) inFlight() picture {
	change, failed := make([]int, t.bins()+1), make([]float64, t.bins())
	failures := 0
	for i := range t.g.requests {
		r := &t.g.requests[i]
		if r.sent > 0 {
			change[t.bin(t.g.secondOf(r.sent))+1]++
			change[t.bin(t.g.secondOf(r.ended))+1]--
		}
		if !r.completed {
			failed[t.bin(t.g.secondOf(r.ended))]++
			failures++
		}
	}
	var running, errors []chart.Point
	now := 0
	for b := range t.bins() {
		now += change[b]
		running = append(running, chart.Point{X: t.start(b), Y: float64(now)})
		errors = append(errors, chart.Point{X: t.start(b), Y: failed[b]})
	}
	p := t.plot("Requests in flight", "requests")
	p.Add(chart.Series{Name: "in flight", Class: "s0", Points: running, Step: true})
	if failures > 0 {
		p.Add(chart.Series{Name: "not completed, " + t.per(), Class: "s3", Points: errors, Step: true})
	}
	return drawn(p, "client boundary: between the first byte sent and the end, at the start of each bin; "+phasesShaded)
}

// tokens is the output rate by the time of the events.
func (t *timeline) tokens() picture {
	rate := make([]float64, t.bins())
	unknown := 0
	for s, in := range t.g.seconds {
		rate[t.bin(s)] += float64(in.tokens) / float64(t.width)
		unknown += in.unknownTokens
	}
	var points []chart.Point
	for b, v := range rate {
		points = append(points, chart.Point{X: t.start(b), Y: v})
	}
	p := t.plot("Output tokens per second", "tokens/s")
	caption := "client boundary, tokens of the events inside each bin, " + t.per() + "; " + phasesShaded
	if unknown > 0 {
		caption = "text events per second, since the server does not tell how many tokens an event carries; " + phasesShaded
		clear(rate)
		for s, in := range t.g.seconds {
			rate[t.bin(s)] += float64(in.tokens+in.unknownTokens) / float64(t.width)
		}
		for b := range points {
			points[b].Y = rate[b]
		}
		p.Title, p.Y.Label = "Text events per second", "events/s"
	}
	p.Add(chart.Series{Class: "s1", Points: points, Step: true})
	return drawn(p, caption)
}

// latency is the median TTFT and E2E of the requests by when they were due.
func (t *timeline) latency() picture {
	ttft, e2e := make([][]float64, t.bins()), make([][]float64, t.bins())
	for i := range t.g.requests {
		r := &t.g.requests[i]
		b := t.bin(t.g.secondOf(r.scheduled))
		if v, ok := r.ttft(); ok && r.completed {
			ttft[b] = append(ttft[b], v)
		}
		if v, ok := r.e2e(); ok && r.completed {
			e2e[b] = append(e2e[b], v)
		}
	}
	medians := func(x [][]float64) (points []chart.Point) {
		for b := range x {
			if len(x[b]) > 0 {
				slices.Sort(x[b])
				points = append(points, chart.Point{X: t.middle(b), Y: stat.Median(x[b])})
			}
		}
		return points
	}
	p := t.plot("Median latency by when requests were due", "ms")
	p.Y.Log = true
	p.Add(chart.Series{Name: "TTFT p50", Class: "s0", Points: medians(ttft)})
	p.Add(chart.Series{Name: "E2E p50", Class: "s2", Points: medians(e2e)})
	return drawn(p, "client boundary, medians of the completed requests due in each bin, "+t.per()+"; "+phasesShaded)
}

// parts decomposes the mean time of a request. All parts are of the same
// requests, so that their means add up.
func (t *timeline) parts() picture {
	type sums struct{ wait, ttft, decode, n float64 }
	bins := make([]sums, t.bins())
	for i := range t.g.requests {
		r := &t.g.requests[i]
		if !r.completed || r.first == 0 || r.sent == 0 {
			continue
		}
		b := &bins[t.bin(t.g.secondOf(r.scheduled))]
		b.wait += float64(r.sent-r.scheduled) / 1e6
		b.ttft += float64(r.first-r.sent) / 1e6
		b.decode += float64(r.last-r.first) / 1e6
		b.n++
	}
	p := t.plot("Where the mean time of a request goes", "ms")
	for b, s := range bins {
		if s.n == 0 {
			continue
		}
		x0, x1 := t.start(b), t.start(b+1)
		y := 0.
		for _, part := range []struct {
			name, class string
			ms          float64
		}{{"wait before sending", "s3", s.wait / s.n}, {"TTFT", "s0", s.ttft / s.n}, {"decode", "s2", s.decode / s.n}} {
			p.Cell(x0, x1, y, y+part.ms, 0.85, fmt.Sprintf("%s: %s ms, n = %.0f", part.name, number(part.ms), s.n), part.class)
			y += part.ms
		}
	}
	c := drawn(p, "client boundary, means of the same requests (from due to last text), by when they were due, "+t.per()+"; "+phasesShaded)
	c.legend = `<span class="key s3">wait before sending</span><span class="key s0">TTFT</span><span class="key s2">decode</span>`
	return c
}

// gaps is a heat map of the gaps between text events over time.
func (t *timeline) gaps() picture {
	counts := make([][gapBins]float64, t.bins())
	most, total := 0., 0.
	lo, hi := gapBins, -1
	for s, in := range t.g.seconds {
		for i, n := range in.gaps {
			if n > 0 {
				counts[t.bin(s)][i] += float64(n)
				most = max(most, counts[t.bin(s)][i])
				total += float64(n)
				lo, hi = min(lo, i), max(hi, i)
			}
		}
	}
	if total == 0 {
		return picture{}
	}
	edge := func(i int) float64 { return gapFloor * math.Pow(10, float64(i)/gapsADecade) }
	name := "Gaps between text events"
	caption := "gap-weighted"
	if st := &t.st.Metrics; st.ITL != nil {
		name, caption = "ITL over time", "gap-weighted, one token an event"
	} else if st.ChunkGap != nil {
		caption = "gap-weighted; events may carry several tokens: gaps of chunks, not of tokens"
	}
	p := t.plot(name, "ms")
	p.Y = chart.Axis{Label: "ms", Log: true, Min: edge(lo), Max: edge(hi + 1)}
	for b := range counts {
		for i, n := range counts[b] {
			if n > 0 {
				p.Cell(t.start(b), t.start(b+1), edge(i), edge(i+1), 0.12+0.88*math.Sqrt(n/most),
					fmt.Sprintf("%s to %s ms: %.0f gaps", chart.Number(edge(i)), chart.Number(edge(i+1)), n), "heat")
			}
		}
	}
	return drawn(p, fmt.Sprintf("client boundary, %s, n = %.0f gaps of all phases; opacity grows with the root of the count; %s", caption, total, phasesShaded))
}

// beside are the server's own latencies and ours, each in its own panel: two
// boundaries, never subtracted.
func beside(st *result.Stage) []picture {
	if st.Server == nil || st.Server.Window == nil {
		return nil
	}
	var list []picture
	for _, q := range []struct {
		quantity, name string
		ours           *result.Summary
	}{{"ttft", "TTFT", st.Metrics.TTFT}, {"e2e", "E2E", st.Metrics.E2E}, {"queue", "Queue time", nil}, {"prefill", "Prefill time", nil}} {
		for i := range st.Server.Window.Distributions {
			d := &st.Server.Window.Distributions[i]
			if d.Quantity == q.quantity && d.Hidden == "" && d.Unit == "ms" && d.N > 0 {
				list = append(list, serverPanel(q.name, d))
			}
		}
	}
	return list
}

// serverPanel shows the mean as a mark and the percentiles as what is known of
// them: intervals.
func serverPanel(name string, d *result.ServerDistribution) picture {
	p := &chart.Plot{Title: name + ", as the server says", X: chart.Axis{Label: "ms"}, Y: chart.Axis{Min: 0, Max: 4, Bare: true}, Height: 170}
	if d.Mean != nil {
		p.Add(chart.Series{Class: "s4", Marks: true, NoLine: true, Points: []chart.Point{{X: *d.Mean, Y: 3.5}}, Labels: []string{"mean " + number(*d.Mean) + " ms, exact"}})
		p.Rule(*d.Mean, "mean "+chart.Number(*d.Mean), "mark")
	}
	p.X.Max = 1.05 * serverReach(d)
	for i, b := range []struct {
		name string
		*result.ServerBound
	}{{"p50", d.P50}, {"p95", d.P95}, {"p99", d.P99}} {
		if b.ServerBound == nil || b.Lo == nil || b.Hi == nil {
			continue
		}
		p.Range(2.5-float64(i), *b.Lo, *b.Hi, fmt.Sprintf("%s is in (%s, %s] ms", b.name, number(*b.Lo), number(*b.Hi)), "s4")
	}
	return drawn(p, fmt.Sprintf("server boundary, n = %d; bars from the top are the buckets of p50, p95, p99: the percentile lies somewhere in them. %s", d.N, d.Semantics))
}

// serverReach is the largest value that the panel shows.
func serverReach(d *result.ServerDistribution) (most float64) {
	for _, b := range []*result.ServerBound{d.P50, d.P95, d.P99} {
		if b != nil && b.Hi != nil {
			most = max(most, *b.Hi)
		}
	}
	if d.Mean != nil {
		most = max(most, *d.Mean)
	}
	return most
}
