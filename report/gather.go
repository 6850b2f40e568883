package report

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"github.com/assay-bench/assay/metric"
	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/result"
)

// Gathered is what the pictures of a stage need of its records: 64 bytes a
// request, and counts of events by second. Make one with [Gather].
type Gathered struct {
	window   record.Window
	requests []gathered
	seconds  map[int]*tally
}

// gathered is one attempt. Stamps are 0 where they are unknown.
type gathered struct {
	scheduled, sent, first, last, ended record.Stamp
	tpot                                float32 // ms; 0 is none
	n                                   int32
	completed                           bool
	measured                            bool
}

// tally of a second: what happened in it.
type tally struct {
	tokens, unknownTokens int
	gaps                  [gapBins]int32
}

// Gaps are counted in bins of equal ratio, gapsADecade of them from gapFloor ms.
const (
	gapFloor    = 0.1
	gapsADecade = 8
	gapBins     = 5 * gapsADecade
)

// Gather reads the records of a stage once.
func Gather(st *result.Stage, records func(yield func(*record.Attempt, []record.Event) bool)) *Gathered {
	g := &Gathered{window: st.Window, seconds: make(map[int]*tally)}
	for a, events := range records {
		if a.Stage != st.Name || a.Phase == record.Prewarm {
			continue
		}
		r := gathered{
			scheduled: a.Scheduled, sent: a.Sent, first: a.FirstText, last: a.LastText, ended: max(a.Ended, a.LastText),
			completed: a.Outcome == record.Completed, measured: st.Window.Contains(a.Scheduled),
		}
		if v, why := metric.TPOT(a); why == metric.Defined {
			r.tpot = float32(v)
		}
		if a.Usage != nil {
			r.n = int32(min(a.Usage.CompletionTokens, math.MaxInt32))
		}
		g.requests = append(g.requests, r)
		g.walk(events)
	}
	slices.SortStableFunc(g.requests, func(a, b gathered) int { return cmp.Compare(a.scheduled, b.scheduled) })
	return g
}

func (g *Gathered) walk(events []record.Event) {
	var before record.Stamp
	for i := range events {
		e := &events[i]
		if e.Tokens == 0 && !e.Flags.Has(record.FlagText) {
			continue
		}
		s := g.at(e.At)
		if e.Tokens > 0 {
			s.tokens += int(e.Tokens)
		} else {
			s.unknownTokens++
		}
		if before > 0 && e.At > before {
			ms := float64(e.At-before) / 1e6
			bin := int(math.Floor(math.Log10(ms/gapFloor) * gapsADecade))
			s.gaps[min(gapBins-1, max(0, bin))]++
		}
		before = e.At
	}
}

// at is the second of a stamp, counted from the window's start.
func (g *Gathered) at(s record.Stamp) *tally {
	i := g.secondOf(s)
	if g.seconds[i] == nil {
		g.seconds[i] = new(tally)
	}
	return g.seconds[i]
}

func (g *Gathered) secondOf(s record.Stamp) int { return int(math.Floor(g.time(s))) }

// time of a stamp in seconds from the window's start.
func (g *Gathered) time(s record.Stamp) float64 { return float64(s-g.window.Start) / 1e9 }

// bounds of everything in whole seconds.
func (g *Gathered) bounds() (from, to int) {
	from, to = 0, int(math.Ceil(g.window.Length().Seconds()))
	for i := range g.requests {
		from, to = min(from, g.secondOf(g.requests[i].scheduled)), max(to, g.secondOf(g.requests[i].ended)+1)
	}
	return from, to
}

// sample of a quantity over the measured, completed requests, ascending.
func (g *Gathered) sample(of func(*gathered) (float64, bool)) []float64 {
	var x []float64
	for i := range g.requests {
		r := &g.requests[i]
		if v, ok := of(r); ok && r.completed && r.measured {
			x = append(x, v)
		}
	}
	sort.Float64s(x)
	return x
}

func (r *gathered) ttft() (float64, bool) {
	return float64(r.first-r.sent) / 1e6, r.first > 0 && r.sent > 0
}

func (r *gathered) e2e() (float64, bool) {
	return float64(r.last-r.sent) / 1e6, r.last > 0 && r.sent > 0
}

func (r *gathered) perToken() (float64, bool) { return float64(r.tpot), r.tpot > 0 }
