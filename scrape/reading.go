package scrape

import (
	"fmt"
	"math"
	"slices"
)

// Reading is a number of a window with its meaning beside it.
type Reading struct {
	Entry Entry  `json:"entry"`
	Note  string `json:"note,omitempty"` // on how the entry was found
	// Total is the growth of a counter, or of the sum of a histogram that
	// stands for one.
	Total float64 `json:"total,omitempty"`
	// Resolution is by how much the total of a counter may be off, since the
	// engine rounds what it prints; 0 where it does not.
	Resolution float64 `json:"resolution,omitempty"`
	// Histogram is set for histograms.
	Histogram HistogramDelta `json:"histogram,omitzero"`
	// Start and End are set for gauges.
	Start  GaugeStat `json:"start,omitzero"`
	End    GaugeStat `json:"end,omitzero"`
	Series int       `json:"series"`
	// Problem says why the number must not be shown, or what stands beside it.
	Problem *Problem `json:"problem,omitempty"`
	// Flags are conditions and doubts that are printed with the number.
	Flags []string `json:"flags,omitempty"`
}

// Read finds a quantity of an engine and reads it over a window, with the rules
// applied:
//
//   - a histogram that observes sequences of no or one token as 0 is hidden
//     unless the server's own histogram of lengths says that there were none;
//   - a window in which requests were aborted or failed is flagged for the
//     quantities that this spoils;
//   - a counter that moves when requests end is flagged.
//
// match narrows the series further than the catalogue does. An absent metric
// gives a Reading whose Problem says so.
func (c *Catalogue) Read(w *Window, engine, version string, q Quantity, match Match) Reading {
	entry, ok, note := c.Lookup(engine, version, q, w.last())
	r := Reading{Entry: entry, Note: note}
	if !ok {
		r.Problem = graver(w.problem, void(Missing, "", "", note))
		return r
	}
	match = match.With(entry.Match)
	switch entry.Type {
	case "counter":
		r.Total, r.Series, r.Problem = w.Counter(entry.Name, match)
		if eng, _ := c.Engine(engine); eng.Digits > 0 && !r.Problem.Voids() {
			r.Resolution = w.rounding(entry.Name, match, eng.Digits)
		}
	case "gauge":
		r.Start, r.End, r.Problem = w.Gauge(entry.Name, match)
		r.Series = r.End.Series
	default:
		r.Histogram, r.Problem = w.Histogram(entry.Name, match)
		r.Series = r.Histogram.Series
		if entry.Read == "sum" {
			r.Total = r.Histogram.Sum
		}
	}
	if r.Problem.Voids() {
		return r
	}
	if entry.Zeros != nil {
		if problem := w.observedZeros(entry, match); problem != nil {
			return Reading{Entry: entry, Note: note, Problem: problem}
		}
		r.Flags = append(r.Flags, "shown because no sequence of no or one token finished in the window")
	}
	r.Flags = append(r.Flags, c.spoiled(w, engine, q, match)...)
	if (q == TokensOut || q == TokensIn) && !entry.Live {
		r.Flags = append(r.Flags, "counted when a request ends: right over a drained window only")
	}
	return r
}

// rounding is the most by which the growth of a counter can be off whose values
// are printed with so many significant digits: half a unit of the last one for
// each value.
func (w *Window) rounding(name string, match Match, digits int) float64 {
	off := 0.0
	for _, s := range []*Scrape{w.A, w.B} {
		found, _ := s.seriesOf(name, match)
		for _, m := range found {
			if v := scalar(m); v >= math.Pow10(digits) {
				off += math.Pow10(int(math.Floor(math.Log10(v)))+1-digits) / 2
			}
		}
	}
	return off
}

// last is the newest scrape that there is.
func (w *Window) last() *Scrape {
	if w.B != nil {
		return w.B
	}
	return w.A
}

// observedZeros is the problem of a histogram that may hold made-up zeros; nil
// if the histogram of lengths proves that there are none.
func (w *Window) observedZeros(e Entry, match Match) *Problem {
	lengths, problem := w.Histogram(e.Zeros.Lengths, match)
	if problem.Voids() {
		return void(Contaminated, e.Name, "", "observes 0 for sequences of no or one token, and whether there were any is unknown: "+problem.String())
	}
	// Bounds are read from the wire: any that is at least 1 tells, if nothing
	// lies below it.
	var short uint64
	for _, b := range lengths.Buckets {
		if b.Lo < 1 {
			short += b.Count
		}
		if b.Lo < 1 && b.Hi > 1 && b.Count > 0 {
			return void(Contaminated, e.Name, "", fmt.Sprintf("observes 0 for sequences of no or one token, and %s has no bound at 1 to count them", e.Zeros.Lengths))
		}
	}
	if short > 0 {
		return void(Contaminated, e.Name, "", fmt.Sprintf("holds %d made-up zeros of %d samples: sequences of no or one token are observed as 0", short, lengths.Count))
	}
	return nil
}

// spoiled flags a quantity if requests failed in the window.
func (c *Catalogue) spoiled(w *Window, engine string, q Quantity, match Match) []string {
	eng, _ := c.Engine(engine)
	var flags []string
	for _, e := range eng.Entries {
		if !slices.Contains(e.Spoils, q) || !w.B.Has(e.Name) {
			continue
		}
		n, _, problem := w.Counter(e.Name, match.With(e.Match))
		switch {
		case problem.Voids() && problem.Kind != Missing:
			flags = append(flags, "whether requests failed in the window is unknown: "+problem.String())
		case n > 0:
			flags = append(flags, fmt.Sprintf("%g requests were aborted or failed in the window: sums of %s may be garbage", n, q))
		}
	}
	return flags
}

// PerSecond is a total over the length of the window, no less than lo and no
// more than hi per second, since the moments of the two scrapes are known only
// to within their stamps. Only counters and totals have one: a histogram of
// tokens per step is never throughput, and a gauge is no rate.
func (r Reading) PerSecond(w *Window) (lo, hi float64, problem *Problem) {
	if r.Problem.Voids() {
		return 0, 0, r.Problem
	}
	if r.Entry.Type != "counter" && r.Entry.Read != "sum" {
		return 0, 0, void(NotMeant, r.Entry.Name, "", fmt.Sprintf("is a %s of %s and no total: it has no rate", r.Entry.Type, r.Entry.Quantity))
	}
	short, long := w.Length()
	if short <= 0 {
		return 0, 0, void(Overlap, r.Entry.Name, "", "has no rate: the window has no length, or its scrapes were not stamped")
	}
	return r.Total / long.Seconds(), r.Total / short.Seconds(), nil
}
