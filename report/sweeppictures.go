package report

import (
	"fmt"
	"io"
	"slices"

	"github.com/assay-bench/assay/report/chart"
	"github.com/assay-bench/assay/result"
)

// SweepHTML writes the report of a sweep as one page, as [HTML] does for a run.
func SweepHTML(w io.Writer, r *result.Sweep) error {
	p := &htmlPage{}
	sh := sweepSheet(r)
	p.open("Assay sweep "+r.ID, sh)
	var list []picture
	for _, series := range sweepSeries(r) {
		list = append(list, series.pictures(r)...)
	}
	p.pictures("Curves", list)
	p.sheet(sh)
	p.close()
	if _, err := io.WriteString(w, p.b.String()); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// curve is the stages that differ in their load alone.
type curve struct {
	name   string
	stages []*result.SweepStage // with a load, ascending
}

func sweepSeries(r *result.Sweep) []curve {
	var list []curve
	for i := range r.Stages {
		st := &r.Stages[i]
		if st.Load == nil {
			continue
		}
		at := slices.IndexFunc(list, func(c curve) bool { return c.name == st.Series })
		if at < 0 {
			at = len(list)
			list = append(list, curve{name: st.Series})
		}
		list[at].stages = append(list[at].stages, st)
	}
	for _, c := range list {
		slices.SortStableFunc(c.stages, func(a, b *result.SweepStage) int {
			if *a.Load < *b.Load {
				return -1
			}
			return 1
		})
	}
	return list
}

// axisName is the word for what climbs.
func axisName(r *result.Sweep) string {
	for _, a := range r.Axes {
		switch a.Name {
		case "concurrency":
			return "requests in flight (concurrency)"
		case "rate":
			return "arrivals per second (rate)"
		}
	}
	return "load"
}

func (c *curve) pictures(r *result.Sweep) []picture {
	suffix := ""
	if c.name != "" {
		suffix = ", " + c.name
	}
	runs := fmt.Sprintf("client boundary; medians over up to %d runs, small marks are the least and the most of them", r.Repeats)
	low, high := *c.stages[0].Load, *c.stages[len(c.stages)-1].Load
	plot := func(title, y string) *chart.Plot {
		// Loads are doubled, as a rule: each step is as wide as the one before.
		x := chart.Axis{Label: axisName(r), Log: low > 0 && high/low >= 8}
		return &chart.Plot{Title: title + suffix, X: x, Y: chart.Axis{Label: y}}
	}
	throughput := plot("Output throughput", "tokens/s")
	c.add(throughput, "output tokens/s", "s1", func(s *result.SweepStage) *result.Spread { return s.OutputTPS })
	c.addLaw(throughput, r)
	latency := plot("Latency", "ms")
	latency.Y.Log = true
	c.add(latency, "TTFT p50", "s0", func(s *result.SweepStage) *result.Spread { return s.TTFTp50 })
	c.add(latency, "TTFT p99", "s3", func(s *result.SweepStage) *result.Spread { return s.TTFTp99 })
	c.add(latency, "TPOT mean", "s1", func(s *result.SweepStage) *result.Spread { return s.TPOTMean })
	c.add(latency, "E2E p50", "s2", func(s *result.SweepStage) *result.Spread { return s.E2Ep50 })
	goodput := plot("Goodput", "% of due requests")
	goodput.Y.Min, goodput.Y.Max = 0, 100
	c.add(goodput, "goodput", "s2", func(s *result.SweepStage) *result.Spread { return s.Goodput })
	list := []picture{
		drawn(throughput, runs+"; output tokens of the measured windows over their length"),
		drawn(latency, runs+"; TPOT and E2E are request-weighted"),
		drawn(goodput, runs+"; share of all due requests that met every limit, failures and rejections are misses"),
		c.tradeOff("TTFT p50", suffix, func(s *result.SweepStage) *result.Spread { return s.TTFTp50 }),
		c.tradeOff("TPOT mean", suffix, func(s *result.SweepStage) *result.Spread { return s.TPOTMean }),
	}
	return slices.DeleteFunc(list, func(p picture) bool { return p.svg == "" })
}

// add draws medians as a line, and the extremes of the runs as marks.
func (c *curve) add(p *chart.Plot, name, class string, of func(*result.SweepStage) *result.Spread) {
	s := chart.Series{Name: name, Class: class, Marks: true}
	extremes := chart.Series{Class: class + " faint", Marks: true, NoLine: true}
	for _, st := range c.stages {
		v := of(st)
		if v == nil {
			continue
		}
		s.Points = append(s.Points, chart.Point{X: *st.Load, Y: v.Median})
		s.Labels = append(s.Labels, fmt.Sprintf("%s: %s ± %s over %d runs", st.Name, number(v.Median), number(v.MAD), v.N))
		if v.N > 1 {
			extremes.Points = append(extremes.Points, chart.Point{X: *st.Load, Y: v.Min}, chart.Point{X: *st.Load, Y: v.Max})
			extremes.Labels = append(extremes.Labels, st.Name+": least of the runs "+number(v.Min), st.Name+": most of the runs "+number(v.Max))
		}
	}
	p.Add(extremes)
	p.Add(s)
}

// addLaw draws the fitted law and the knee of throughput.
func (c *curve) addLaw(p *chart.Plot, r *result.Sweep) {
	for _, s := range r.Scaling {
		if s.Series != c.name || s.Of != "output_tps" || len(s.Points) == 0 {
			continue
		}
		if s.Knee != nil {
			p.Rule(*s.Knee, "knee "+chart.Number(*s.Knee), "mark")
		}
		if s.USL == nil {
			continue
		}
		law := chart.Series{Name: "Universal Scalability Law", Class: "s5"}
		from, to := s.Points[0].Load, s.Points[len(s.Points)-1].Load
		for i := range 61 {
			n := from + (to-from)*float64(i)/60
			x := s.USL.Lambda * n / (1 + s.USL.Sigma*(n-1) + s.USL.Kappa*n*(n-1))
			law.Points = append(law.Points, chart.Point{X: n, Y: x})
		}
		p.Add(law)
	}
}

// tradeOff draws a latency against throughput, with the levels that no other
// beats in both.
func (c *curve) tradeOff(name, suffix string, of func(*result.SweepStage) *result.Spread) picture {
	p := &chart.Plot{Title: name + " against throughput" + suffix, X: chart.Axis{Label: "output tokens/s"}, Y: chart.Axis{Label: "ms"}}
	line := chart.Series{Name: "levels", Class: "s5", Marks: true}
	best := chart.Series{Name: "not beaten in both (Pareto)", Class: "s2", Marks: true, NoLine: true}
	for _, st := range c.stages {
		v := of(st)
		if v == nil || st.OutputTPS == nil {
			continue
		}
		at := chart.Point{X: st.OutputTPS.Median, Y: v.Median}
		label := fmt.Sprintf("%s: %s tokens/s, %s ms", st.Name, number(at.X), number(at.Y))
		line.Points, line.Labels = append(line.Points, at), append(line.Labels, label)
		if !slices.ContainsFunc(c.stages, func(o *result.SweepStage) bool {
			w := of(o)
			return o != st && w != nil && o.OutputTPS != nil && o.OutputTPS.Median >= at.X && w.Median <= at.Y &&
				(o.OutputTPS.Median > at.X || w.Median < at.Y)
		}) {
			best.Points, best.Labels = append(best.Points, at), append(best.Labels, label)
		}
	}
	p.Add(line)
	p.Add(best)
	return drawn(p, "client boundary; medians over runs of both, one point a level, joined in the order of the load")
}
