package experiment

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/result"
	"github.com/assay-bench/assay/rundir"
	"github.com/assay-bench/assay/scrape"
)

// Server makes a server's account of a stage from the scrapes that the run
// stored: its counters over the whole run, and all that it says of the measured
// window, each beside what the client counted in the same time. Index is what
// [rundir.Scrapes] lists. It is as pure as [Conclude].
//
// Numbers of the two sides stand beside each other and are never combined.
func Server(i result.StageInfo, t *result.Target, epoch time.Time, index []rundir.Scrape, bodies Bodies, records Records) *result.ServerAccount {
	out := &result.ServerAccount{}
	if i.Server != nil {
		*out = *i.Server
	}
	if len(index) == 0 {
		return out
	}
	s, err := newSources(index, bodies, epoch, t, i.MetricsLabels)
	if err != nil {
		out.Text = err.Error()
		return out
	}
	// The first round is read first of all: it tells which engine it is.
	whole, why := s.wholeRun()
	w := s.window(i.Window)
	edges := clientEdges{edges: w.edges}
	var sums clientSums
	for a, ev := range records {
		if a.Stage != i.Name {
			continue
		}
		sums.add(a)
		if w.out.Text == "" {
			edges.add(a, ev)
		}
	}
	out.Counters = s.counters(whole)
	if why != "" && out.Text == "" {
		out.Text = "no account of the whole run: " + why
	}
	out = sums.compare(out)
	w.check(&edges)
	out.Window, out.Targets = w.out, s.targets()
	return out
}

// wholeRun is the window from before the load to after it has drained; nil,
// with the reason, if there is none.
func (s *sources) wholeRun() (windows []*scrape.Window, why string) {
	first, last := s.rounds[0], s.rounds[len(s.rounds)-1]
	switch {
	case s.when[first] != rundir.BeforeLoad:
		return nil, "there is no scrape from before the load"
	case s.when[last] != rundir.AfterLoad:
		return nil, "there is no scrape from after the load, since the run ended early"
	}
	a, ok := s.parse(first)
	if !ok {
		return nil, "the scrape before the load failed: " + s.firstError()
	}
	b, ok := s.parse(last)
	if !ok {
		return nil, "the scrape after the load failed: " + s.firstError()
	}
	return between(a, b), ""
}

func (s *sources) firstError() string {
	for _, src := range s.list {
		if src.told.FirstError != "" {
			return src.told.FirstError
		}
	}
	return "a target was not scraped"
}

// counters are those of the whole run that a client can count too.
func (s *sources) counters(windows []*scrape.Window) []result.Counter {
	if windows == nil {
		return nil
	}
	var out []result.Counter
	for _, q := range comparable {
		r := s.read(q, windows)
		if r.absent {
			continue
		}
		c := result.Counter{Quantity: string(q), Name: r.entry.Name, Semantics: r.number.Semantics}
		if r.number.Hidden != "" {
			c.Text = r.number.Hidden
		} else {
			c.Delta, c.Resolution = &r.total, r.resolution
		}
		out = append(out, c)
	}
	return out
}

// comparable are the quantities that a client can count too.
var comparable = []scrape.Quantity{scrape.TokensOut, scrape.TokensIn, scrape.TokensInComputed, scrape.RequestsFinished}

// serverWindow is the account of the measured window while it is made.
type serverWindow struct {
	s     *sources
	out   *result.ServerWindow
	edges [2]bracket
	reads map[scrape.Quantity]reading
	// rates of gauges by quantity, one value a round.
	gauges map[scrape.Quantity]*gaugeSeries
	void   string
}

// bracket holds the moment of a round.
type bracket struct{ lo, hi record.Stamp }

func (b bracket) middle() record.Stamp { return b.lo + (b.hi-b.lo)/2 }

// window reads the rounds that lie wholly inside the measured window.
func (s *sources) window(measured record.Window) *serverWindow {
	w := &serverWindow{s: s, out: &result.ServerWindow{}, reads: make(map[scrape.Quantity]reading), gauges: make(map[scrape.Quantity]*gaugeSeries)}
	var first, last round
	failed := 0
	for _, number := range s.rounds {
		if !s.inside(number, measured) {
			continue
		}
		r, ok := s.parse(number)
		if !ok {
			failed++
			continue
		}
		w.sample(r)
		if w.out.Scrapes == 0 {
			first = r
		} else if why := s.broken(last, r); why != "" && w.void == "" {
			w.void = why
		}
		last = r
		w.out.Scrapes++
	}
	switch {
	case measured.Length() == 0:
		w.out.Text = "no account: there is no measured window"
	case w.out.Scrapes < 2 && failed > 0:
		w.out.Text = fmt.Sprintf("no account: %d scrapes in the window failed, and %d did not: %s", failed, w.out.Scrapes, s.firstError())
	case w.out.Scrapes < 2:
		w.out.Text = fmt.Sprintf("no account: %d whole scrapes lie inside the window of %.1f s, where two are needed; see --scrape-interval", w.out.Scrapes, measured.Length().Seconds())
	case w.void != "":
		w.out.Text, w.out.Void = "void: "+w.void, true
	}
	if w.out.Text != "" {
		return w
	}
	w.out.Start, w.out.End = first.lo, last.hi
	w.edges = [2]bracket{{first.lo, first.hi}, {last.lo, last.hi}}
	w.out.LengthLo, w.out.LengthHi = time.Duration(last.lo-first.hi), time.Duration(last.hi-first.lo)
	w.fill(between(first, last))
	return w
}

// inside reports whether a round lies wholly in the measured window.
func (s *sources) inside(number int, measured record.Window) bool {
	for _, src := range s.list {
		one, ok := src.scrapes[number]
		if ok && (one.Before < measured.Start || one.After > measured.End) {
			return false
		}
	}
	return true
}

// broken says why the time between two scrapes that follow each other is not of
// one process with one set of series: a restart between them voids the window,
// even if its two ends look as if there had been none.
func (s *sources) broken(a, b round) string {
	windows := between(a, b)
	for i, win := range windows {
		problem := win.Problem()
		for _, q := range comparable {
			if problem != nil {
				break
			}
			r := s.catalog.Read(win, s.list[i].engine, s.list[i].version, q, nil)
			if r.Problem.Voids() && r.Problem.Kind != scrape.Missing {
				problem = r.Problem
			}
		}
		if problem != nil {
			return fmt.Sprintf("between the scrapes at %.2f and %.2f s of the run, %s: %s",
				time.Duration(a.lo).Seconds(), time.Duration(b.hi).Seconds(), s.list[i].url, problem)
		}
	}
	return ""
}

// fill reads every quantity that the catalogue has of these engines.
func (w *serverWindow) fill(windows []*scrape.Window) {
	for _, q := range w.s.quantities() {
		r := w.s.read(q, windows)
		if r.absent {
			continue
		}
		w.reads[q] = r
		switch r.entry.Type {
		case "histogram":
			w.out.Distributions = append(w.out.Distributions, distribution(&r))
			if r.entry.Read == "sum" {
				w.out.Totals = append(w.out.Totals, w.total(q, &r, windows))
			}
		case "counter":
			w.out.Totals = append(w.out.Totals, w.total(q, &r, windows))
		case "gauge":
			if g := w.gauges[q]; g != nil {
				w.out.Gauges = append(w.out.Gauges, g.result(r.number))
			}
		}
	}
	w.out.PrefixHitRate = w.share(scrape.PrefixHits, scrape.PrefixQueries)
	w.out.SpecAcceptance = w.share(scrape.SpecAcceptedTokens, scrape.SpecDraftTokens)
	if w.out.Distributions == nil && w.out.Totals == nil && w.out.Gauges == nil {
		w.out.Text = "no account: there is no metric that the catalogue knows (" + w.s.list[0].told.Evidence + ")"
	}
}

// share is a total over another; nil if either is unknown or there is nothing.
func (w *serverWindow) share(part, whole scrape.Quantity) *result.ServerShare {
	p, ok := w.reads[part]
	q, ok2 := w.reads[whole]
	if !ok || !ok2 || p.number.Hidden != "" || q.number.Hidden != "" || q.total <= 0 {
		return nil
	}
	return &result.ServerShare{Part: p.total, Whole: q.total, Share: p.total / q.total, Name: p.entry.Name + " / " + q.entry.Name}
}

// distribution is a histogram for the result; times are milliseconds there.
func distribution(r *reading) result.ServerDistribution {
	d := result.ServerDistribution{ServerNumber: r.number}
	scale := 1.0
	if d.Unit == "seconds" {
		d.Unit, scale = "ms", 1e3
	}
	if d.Hidden != "" {
		return d
	}
	d.N = r.histogram.Count
	if mean, ok := r.histogram.Mean(); ok {
		d.Mean = new(scale * mean)
	}
	d.P50, d.P95, d.P99 = percentile(&r.histogram, 0.50, scale), percentile(&r.histogram, 0.95, scale), percentile(&r.histogram, 0.99, scale)
	return d
}

// percentile is the interval in which it lies. Like a client's, it is not told where n(1-p) < 1: then
// it is the maximum, or beyond.
func percentile(h *scrape.HistogramDelta, p, scale float64) *result.ServerBound {
	if float64(h.Count)*(1-p) < 1 {
		return nil
	}
	b, ok := h.Quantile(p)
	if !ok {
		return nil
	}
	edge := func(x float64) *float64 {
		if math.IsInf(x, 0) {
			return nil
		}
		return new(scale * x)
	}
	return &result.ServerBound{
		Lo: edge(b.Lo), Hi: edge(b.Hi), TightLo: edge(b.TightLo), TightHi: edge(b.TightHi),
		Share: b.ShareInBucket, SumFits: b.SumFits, Resolved: b.Resolved(),
	}
}

// reasons are labels that split a total into parts that a reader asks for.
var reasons = []string{"finished_reason", "reason", "err"}

func (w *serverWindow) total(q scrape.Quantity, r *reading, windows []*scrape.Window) result.ServerTotal {
	t := result.ServerTotal{ServerNumber: r.number}
	if t.Hidden != "" {
		return t
	}
	t.Total, t.Resolution = r.total, r.resolution
	if r.rated {
		t.PerSecond = &result.Interval{r.lo, r.hi}
	}
	if q == scrape.RequestsFinished || q == scrape.RequestsFailed {
		t.By = parts(r.entry, windows)
	}
	return t
}

// parts splits a total by the first of the reasons that is a label of it; those
// of nothing are left out.
func parts(e scrape.Entry, windows []*scrape.Window) map[string]float64 {
	by := make(map[string]float64)
	for _, win := range windows {
		for _, m := range win.B.Families[e.Name].GetMetric() {
			for _, l := range m.GetLabel() {
				if !slices.Contains(reasons, l.GetName()) || by[l.GetValue()] != 0 {
					continue
				}
				match := e.Match.With(scrape.Match{l.GetName(): {l.GetValue()}})
				for _, each := range windows {
					if n, _, problem := each.Counter(e.Name, match); !problem.Voids() {
						by[l.GetValue()] += n
					}
				}
				if by[l.GetValue()] == 0 {
					delete(by, l.GetValue())
				}
			}
		}
	}
	if len(by) == 0 {
		return nil
	}
	return by
}

// gaugeSeries gathers a gauge over the rounds.
type gaugeSeries struct {
	n             int
	min, max, sum float64
}

// sample takes the gauges of a round.
func (w *serverWindow) sample(r round) {
	for _, q := range w.s.quantities() {
		low, high, value, ok := w.s.gauge(q, r)
		if !ok {
			continue
		}
		g := w.gauges[q]
		if g == nil {
			g = &gaugeSeries{min: math.Inf(1), max: math.Inf(-1)}
			w.gauges[q] = g
		}
		g.n++
		g.min, g.max, g.sum = min(g.min, low), max(g.max, high), g.sum+value
	}
}

// gauge reads a quantity in one round. Counts are summed over series and
// targets; shares are not: their extremes are those of single series.
func (s *sources) gauge(q scrape.Quantity, r round) (low, high, value float64, ok bool) {
	sum, series := 0.0, 0
	low, high = math.Inf(1), math.Inf(-1)
	share := false
	for i, src := range s.list {
		e, known, _ := s.catalog.Lookup(src.engine, src.version, q, r.scrapes[i])
		if !known || e.Type != "gauge" {
			return 0, 0, 0, false
		}
		stat, problem := r.scrapes[i].Gauge(e.Name, e.Match)
		if problem.Voids() {
			return 0, 0, 0, false
		}
		share = e.Unit == "share"
		sum, series = sum+stat.Sum, series+stat.Series
		low, high = min(low, stat.Min), max(high, stat.Max)
	}
	if share {
		return low, high, sum / float64(series), series > 0
	}
	return sum, sum, sum, series > 0
}

func (g *gaugeSeries) result(n result.ServerNumber) result.ServerGauge {
	return result.ServerGauge{ServerNumber: n, Samples: g.n, Min: g.min, Mean: g.sum / float64(g.n), Max: g.max}
}
