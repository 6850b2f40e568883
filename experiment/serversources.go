package experiment

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/result"
	"github.com/assay-bench/assay/rundir"
	"github.com/assay-bench/assay/scrape"
)

// Bodies gives the body of a stored scrape; [rundir.Scrapes] does.
type Bodies interface {
	Body(rundir.Scrape) ([]byte, error)
}

// source is one target of metrics with its scrapes in order of rounds.
type source struct {
	url     string
	engine  string
	version string
	scrapes map[int]rundir.Scrape // by round
	told    result.ServerTarget
}

// sources are the stored scrapes of a run by their targets.
type sources struct {
	list    []*source
	rounds  []int // in order
	when    map[int]rundir.When
	bodies  Bodies
	epoch   time.Time
	catalog *scrape.Catalogue
	version string            // of the engine, as the target told it
	model   string            // that the requests ask for
	labels  map[string]string // of the series that are read
}

func newSources(index []rundir.Scrape, bodies Bodies, epoch time.Time, t *result.Target, labels map[string]string) (*sources, error) {
	c, err := scrape.LoadCatalogue()
	if err != nil {
		return nil, err
	}
	s := &sources{bodies: bodies, epoch: epoch, catalog: c, version: t.EngineVersion, model: t.Model, labels: labels, when: make(map[int]rundir.When)}
	for _, one := range index {
		src := s.source(one.URL)
		src.scrapes[one.Round] = one
		if !slices.Contains(s.rounds, one.Round) {
			s.rounds = append(s.rounds, one.Round)
			s.when[one.Round] = one.When
		}
		src.told.Scrapes++
		src.told.Longest = max(src.told.Longest, time.Duration(one.After-one.Before))
		if !one.OK() {
			src.fail(one, cmp.Or(one.Error, "the reply was empty"))
		}
	}
	slices.Sort(s.rounds)
	return s, nil
}

func (s *sources) source(url string) *source {
	for _, src := range s.list {
		if src.url == url {
			return src
		}
	}
	src := &source{url: url, version: s.version, scrapes: make(map[int]rundir.Scrape), told: result.ServerTarget{URL: url}}
	s.list = append(s.list, src)
	return src
}

func (src *source) fail(one rundir.Scrape, why string) {
	src.told.Failed++
	if src.told.FirstError == "" {
		src.told.FirstError = fmt.Sprintf("%.2f s into the run: %s", time.Duration(one.Before).Seconds(), why)
	}
}

// round is one scrape of every target.
type round struct {
	number  int
	scrapes []*scrape.Scrape // as sources.list
	// lo and hi bracket the moments at which the targets sampled.
	lo, hi record.Stamp
}

// parse reads a round; ok is false if one of the targets has no scrape in it.
func (s *sources) parse(number int) (r round, ok bool) {
	r.number = number
	for i, src := range s.list {
		one, there := src.scrapes[number]
		if !there || !one.OK() {
			return r, false
		}
		body, err := s.bodies.Body(one)
		var page *scrape.Scrape
		if err == nil {
			page, err = scrape.Parse(body, one.ContentType)
		}
		if err != nil {
			src.fail(one, err.Error())
			one.Error = err.Error()
			src.scrapes[number] = one
			return r, false
		}
		page.At = scrape.At{Before: int64(one.Before), After: int64(one.After)}
		page.ReadHeader(http.Header{"Date": {one.Date}, "Process-Start-Time-Unix": {one.Process}})
		s.skew(src, page)
		src.selectLabels(page, s.labels)
		src.selectModel(page, s.model)
		if src.engine == "" {
			src.engine, src.told.Evidence = s.catalog.DetectEngine(page)
			src.told.Engine = src.engine
		}
		r.scrapes = append(r.scrapes, page)
		if i == 0 || one.Before < r.lo {
			r.lo = one.Before
		}
		r.hi = max(r.hi, one.After)
	}
	return r, len(r.scrapes) > 0
}

// selectLabels keeps the series that the user asked for.
func (src *source) selectLabels(page *scrape.Scrape, labels map[string]string) {
	if len(labels) == 0 {
		return
	}
	var said []string
	for _, label := range slices.Sorted(maps.Keys(labels)) {
		page.KeepLabel(label, labels[label])
		said = append(said, fmt.Sprintf("%s=%q", label, labels[label]))
	}
	src.told.Selected = "series of " + strings.Join(said, ", ") + " alone, as asked"
}

// selectModel keeps the series of the model that is asked for, where a target has
// those of several: another model's traffic is not this run's. Where none has that
// name, an adapter's or an alias for instance, all are summed, and that is said.
func (src *source) selectModel(page *scrape.Scrape, model string) {
	label, models := page.Models()
	if len(models) < 2 {
		return
	}
	if slices.Contains(models, model) {
		page.KeepLabel(label, model)
		src.told.Selected = fmt.Sprintf("series of %s=%q alone, of %d models", label, model, len(models))
		return
	}
	src.told.Selected = fmt.Sprintf("sums over %d models (%s): none is called %q", len(models), strings.Join(models, ", "), model)
}

// skew narrows what is known of the server's clock by one more scrape.
func (s *sources) skew(src *source, page *scrape.Scrape) {
	wall := func(stamp int64) time.Time { return s.epoch.Add(time.Duration(stamp)) }
	lo, hi, ok := page.Skew(wall(page.At.Before), wall(page.At.After))
	if !ok {
		return
	}
	if src.told.Skew == nil {
		src.told.Skew = &result.Interval{lo.Seconds(), hi.Seconds()}
		return
	}
	src.told.Skew[0], src.told.Skew[1] = max(src.told.Skew[0], lo.Seconds()), min(src.told.Skew[1], hi.Seconds())
}

// targets is what is told of them, when all has been read.
func (s *sources) targets() []result.ServerTarget {
	var out []result.ServerTarget
	for _, src := range s.list {
		t := src.told
		if t.Skew != nil && t.Skew[0] > t.Skew[1] {
			t.Skew = nil // the clocks moved against each other
		}
		out = append(out, t)
	}
	return out
}

// reading is a quantity over a window, summed over all targets.
type reading struct {
	number     result.ServerNumber
	entry      scrape.Entry
	total      float64
	resolution float64
	lo, hi     float64 // per second
	rated      bool
	histogram  scrape.HistogramDelta
	absent     bool // no target has it
}

// read reads a quantity between two rounds.
func (s *sources) read(q scrape.Quantity, windows []*scrape.Window) reading {
	out := reading{rated: true}
	n := &out.number
	missing := 0
	for i, src := range s.list {
		r := s.catalog.Read(windows[i], src.engine, src.version, q, nil)
		if r.Entry.Name == "" || r.Problem.Voids() && r.Problem.Kind == scrape.Missing {
			missing++
		}
		if out.entry.Name == "" {
			out.entry = r.Entry
		}
		n.Note = cmp.Or(n.Note, r.Note)
		if n.Hidden == "" {
			n.Hidden = s.hides(src, &out.entry, &r)
		}
		if r.Problem != nil && !r.Problem.Voids() {
			r.Flags = append(r.Flags, r.Problem.String())
		}
		for _, f := range r.Flags {
			if !slices.Contains(n.Flags, f) {
				n.Flags = append(n.Flags, f)
			}
		}
		out.total, out.resolution = out.total+r.Total, out.resolution+r.Resolution
		n.Series += r.Series
		lo, hi, problem := r.PerSecond(windows[i])
		out.rated = out.rated && problem == nil
		out.lo, out.hi = out.lo+lo, out.hi+hi
		sum, ok := out.histogram.Add(r.Histogram)
		if !ok && n.Hidden == "" {
			n.Hidden = "some targets have native histograms and others classic ones: they share no bounds"
		}
		out.histogram = sum
	}
	out.absent = missing == len(s.list)
	n.Quantity, n.Name, n.Unit, n.Defects = string(q), out.entry.Name, out.entry.Unit, out.entry.Defects
	if out.entry.Name != "" {
		n.Semantics = out.entry.Semantics()
	}
	return out
}

// hides says why a target's reading cannot go into the sum; "" if it can.
func (s *sources) hides(src *source, first *scrape.Entry, r *scrape.Reading) string {
	why := ""
	switch {
	case r.Problem.Voids():
		why = r.Problem.String()
	case r.Entry.Name != first.Name:
		why = fmt.Sprintf("it is called %s there and %s elsewhere: the releases differ", r.Entry.Name, first.Name)
	}
	if why != "" && len(s.list) > 1 {
		why = src.url + ": " + why
	}
	return why
}

// between puts two rounds side by side, target by target.
func between(a, b round) []*scrape.Window {
	var out []*scrape.Window
	for i := range a.scrapes {
		out = append(out, scrape.Between(a.scrapes[i], b.scrapes[i]))
	}
	return out
}

// quantities of the sources' engines in the order of the catalogue, each once.
func (s *sources) quantities() []scrape.Quantity {
	var out []scrape.Quantity
	for _, src := range s.list {
		e, _ := s.catalog.Engine(src.engine)
		for _, entry := range e.Entries {
			if !slices.Contains(out, entry.Quantity) {
				out = append(out, entry.Quantity)
			}
		}
	}
	return out
}
