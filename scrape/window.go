package scrape

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
)

// processStart is exported by the official Prometheus clients.
const processStart = "process_start_time_seconds"

// Window is what happened between two scrapes of one target, A before B.
type Window struct {
	A, B *Scrape

	problem *Problem
	known   map[string]bool // "label=value" of labels of identity in A
}

// Between puts two scrapes of one target side by side. Either may be nil, for a
// scrape that failed: then every answer says so.
func Between(a, b *Scrape) *Window {
	w := &Window{A: a, B: b}
	w.problem = w.check()
	return w
}

// Problem of the window as a whole, which voids every number of it; nil if
// there is none.
func (w *Window) Problem() *Problem { return w.problem }

// Length of the time between the two scrapes: no shorter than lo and no longer
// than hi, since each was sampled somewhere inside its own At.
func (w *Window) Length() (lo, hi time.Duration) {
	if w.A == nil || w.B == nil {
		return 0, 0
	}
	lo = time.Duration(w.B.At.Before - w.A.At.After)
	hi = time.Duration(w.B.At.After - w.A.At.Before)
	return max(lo, 0), max(hi, 0)
}

// check looks for reasons that void the whole window.
func (w *Window) check() *Problem {
	switch {
	case w.A == nil:
		return void(NoScrape, "", "", "the scrape at the window's start failed")
	case w.B == nil:
		return void(NoScrape, "", "", "the scrape at the window's end failed")
	case w.B.At.Before < w.A.At.After:
		return void(Overlap, "", "", "the scrape at the end began before the one at the start had ended")
	case w.A.Process != w.B.Process:
		return void(Restarted, "", "", fmt.Sprintf("the server names another process: %q, then %q", w.A.Process, w.B.Process))
	}
	before, _ := w.A.seriesOf(processStart, nil)
	after, _ := w.B.seriesOf(processStart, nil)
	for _, key := range slices.Sorted(maps.Keys(before)) {
		if after[key] == nil {
			return void(Restarted, processStart, key, "is gone: another process answers")
		}
		if was, is := scalar(before[key]), scalar(after[key]); was != is {
			return void(Restarted, processStart, key, fmt.Sprintf("changed from %.3f to %.3f: the server restarted or another one answers", was, is))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(after)) {
		if before[key] == nil {
			return void(Restarted, processStart, key, "is new: another process answers")
		}
	}
	return nil
}

// Counter is the growth of a counter over the window, summed over the selected
// series, and how many there were. Families without a type are taken for
// counters, and so are gauges, since some engines export totals as gauges; a
// histogram never is.
//
// A problem that voids the delta leaves it 0.
func (w *Window) Counter(name string, match Match) (delta float64, series int, problem *Problem) {
	pairs, problem := w.pairs(name, match, dto.MetricType_COUNTER, dto.MetricType_UNTYPED, dto.MetricType_GAUGE)
	if problem.Voids() {
		return 0, 0, problem
	}
	for _, p := range pairs {
		was, is := 0.0, scalar(p.b)
		if p.a != nil {
			was = scalar(p.a)
		}
		d := is - was
		switch {
		case math.IsNaN(d) || math.IsInf(d, 0):
			return 0, 0, void(NotFinite, name, p.key, fmt.Sprintf("is %g, then %g", was, is))
		case d < 0:
			return 0, 0, void(Decreased, name, p.key, fmt.Sprintf("went down from %g to %g: the server restarted or another one answers", was, is))
		}
		delta += d
	}
	return delta, len(pairs), problem
}

// GaugeStat is a gauge over the selected series of one scrape.
type GaugeStat struct {
	Sum    float64 `json:"sum"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	Series int     `json:"series"`
}

// Gauge reads the selected series of a gauge in one scrape. Sums are right for
// counts of requests; for shares, such as KV cache usage, look at Min and Max.
func (s *Scrape) Gauge(name string, match Match) (GaugeStat, *Problem) {
	if s == nil {
		return GaugeStat{}, void(NoScrape, name, "", "the scrape failed")
	}
	if problem := s.checkType(name, dto.MetricType_GAUGE, dto.MetricType_UNTYPED, dto.MetricType_COUNTER); problem != nil {
		return GaugeStat{}, problem
	}
	found, duplicate := s.seriesOf(name, match)
	switch {
	case duplicate != "":
		return GaugeStat{}, void(Duplicate, name, duplicate, "stands twice in one scrape")
	case len(found) == 0:
		return GaugeStat{}, s.missing(name)
	}
	stat := GaugeStat{Min: math.Inf(1), Max: math.Inf(-1), Series: len(found)}
	for _, key := range slices.Sorted(maps.Keys(found)) {
		v := scalar(found[key])
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return GaugeStat{}, void(NotFinite, name, key, fmt.Sprintf("is %g", v))
		}
		stat.Sum += v
		stat.Min, stat.Max = min(stat.Min, v), max(stat.Max, v)
	}
	return stat, nil
}

// Gauge reads a gauge at both ends of the window. Between them it is unknown.
func (w *Window) Gauge(name string, match Match) (start, end GaugeStat, problem *Problem) {
	if w.problem != nil {
		return GaugeStat{}, GaugeStat{}, w.problem
	}
	start, problem = w.A.Gauge(name, match)
	if problem != nil {
		return GaugeStat{}, GaugeStat{}, problem
	}
	end, problem = w.B.Gauge(name, match)
	return start, end, problem
}

// pair is one series at both ends; a is nil if it was born inside the window.
type pair struct {
	key  string
	a, b *dto.Metric
}

// pairs matches the selected series of both ends.
func (w *Window) pairs(name string, match Match, types ...dto.MetricType) ([]pair, *Problem) {
	if w.problem != nil {
		return nil, w.problem
	}
	for _, s := range []*Scrape{w.A, w.B} {
		if problem := s.checkType(name, types...); problem != nil {
			return nil, problem
		}
	}
	before, dupA := w.A.seriesOf(name, match)
	after, dupB := w.B.seriesOf(name, match)
	if dup := max(dupA, dupB); dup != "" {
		return nil, void(Duplicate, name, dup, "stands twice in one scrape")
	}
	if len(before)+len(after) == 0 {
		return nil, w.B.missing(name)
	}
	for _, key := range slices.Sorted(maps.Keys(before)) {
		if after[key] == nil {
			return nil, void(Vanished, name, key, "is not there at the window's end: the set of series changed")
		}
	}
	createdA, createdB := w.A.createdOf(name), w.B.createdOf(name)
	var all []pair
	var note *Problem
	for _, key := range slices.Sorted(maps.Keys(after)) {
		p := pair{key: key, a: before[key], b: after[key]}
		was, ok1 := createdA[key]
		is, ok2 := createdB[key]
		switch {
		case p.a == nil:
			note = graver(note, w.newcomer(name, p))
		case ok1 && ok2 && was != is:
			note = void(Restarted, name, key, fmt.Sprintf("was created anew: _created moved from %.3f to %.3f", was, is))
		}
		if note.Voids() {
			return nil, note
		}
		all = append(all, p)
	}
	return all, note
}

// graver is the graver of two problems.
func graver(a, b *Problem) *Problem {
	if a == nil || b.Voids() && !a.Voids() {
		return b
	}
	return a
}

// identity are the labels that tell one engine, model or instance from another.
var identity = []string{"engine", "engine_id", "model_name", "model", "instance", "pod", "dp_rank", "tp_rank", "pp_rank", "worker_id"}

// newcomer judges a series that is there at the end only. Clients create the
// series of a label value at its first use, so one of the same process and of
// an engine that was there before began inside the window at 0. Of any other
// the past is unknown.
func (w *Window) newcomer(name string, p pair) *Problem {
	const unknown = "is not there at the window's start: the set of series changed"
	if w.A.Process == "" && !w.A.Has(processStart) {
		return void(Appeared, name, p.key, unknown+", and nothing proves that the process is the same")
	}
	if w.known == nil {
		w.known = w.A.identities()
	}
	for _, label := range identity {
		if v := labelOf(p.b, label); v != "" && !w.known[label+"="+v] {
			return void(Appeared, name, p.key, unknown+fmt.Sprintf(" (%s %q was not there before)", label, v))
		}
	}
	return &Problem{Kind: Born, Metric: name, Series: p.key, Detail: "began inside the window and was counted from 0"}
}

// identities gathers the values of the labels of identity.
func (s *Scrape) identities() map[string]bool {
	seen := map[string]bool{}
	for _, family := range s.Families {
		for _, m := range family.GetMetric() {
			for _, label := range identity {
				if v := labelOf(m, label); v != "" {
					seen[label+"="+v] = true
				}
			}
		}
	}
	return seen
}

// checkType finds a family of another type; an absent family passes.
func (s *Scrape) checkType(name string, types ...dto.MetricType) *Problem {
	family := s.Families[name]
	if family == nil || slices.Contains(types, family.GetType()) {
		return nil
	}
	return void(WrongType, name, "", fmt.Sprintf("is a %s, not a %s",
		strings.ToLower(family.GetType().String()), strings.ToLower(types[0].String())))
}

// missing says that no series was selected, with a hint at the likely slip.
func (s *Scrape) missing(name string) *Problem {
	detail := "is not on the wire"
	switch stem, _ := cutPart(name); {
	case s.Has(name):
		detail = "has no series with the labels asked for"
	case s.Has(name + "_total"):
		detail += ": counters end in _total there, ask for " + name + "_total"
	case stem != "" && s.Has(stem):
		detail += fmt.Sprintf(" as a family of its own: it is a part of the %s %s",
			strings.ToLower(s.Families[stem].GetType().String()), stem)
	}
	return void(Missing, name, "", detail)
}

// cutPart splits the name of a part of a histogram from the histogram's.
func cutPart(name string) (stem, part string) {
	for _, part := range []string{"_bucket", "_sum", "_count"} {
		if stem, ok := strings.CutSuffix(name, part); ok {
			return stem, part
		}
	}
	return "", ""
}
