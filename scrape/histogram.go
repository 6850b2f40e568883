package scrape

import (
	"fmt"
	"math"
	"slices"

	dto "github.com/prometheus/client_model/go"
)

// Bucket holds the samples of a window in (Lo, Hi].
type Bucket struct {
	Lo, Hi float64
	Count  uint64
}

// HistogramDelta are the samples that a histogram took in over a window.
type HistogramDelta struct {
	Count uint64  `json:"count"`
	Sum   float64 `json:"sum"`
	// Buckets in order, each with its own count, not a cumulative one. Those of
	// a classic histogram cover the whole line; of a native one, only those
	// with samples are there. The first classic bucket starts at 0 if its
	// upper bound is above 0 (a duration or a length is never negative), else
	// at -Inf.
	Buckets []Bucket `json:"buckets"`
	// Series that were added up.
	Series int `json:"series"`

	// slack bounds the rounding error in Sum: the servers add floats up.
	slack float64
	// sparse is the native form, which knows how to merge.
	sparse *sparse
}

// Histogram is what a histogram took in over the window, summed over the
// selected series. Native buckets are preferred where all series have them, as
// they are finer. Where the classic bounds of two series differ, the bounds that
// they share are kept. A problem that voids the delta leaves it empty.
func (w *Window) Histogram(name string, match Match) (HistogramDelta, *Problem) {
	pairs, problem := w.pairs(name, match, dto.MetricType_HISTOGRAM)
	if problem.Voids() {
		return HistogramDelta{}, problem
	}
	native := !slices.ContainsFunc(pairs, func(p pair) bool {
		return !isNative(p.b.GetHistogram()) || p.a != nil && !isNative(p.a.GetHistogram())
	})
	var total HistogramDelta
	for i, p := range pairs {
		d, bad := seriesDelta(name, p, native)
		if bad != nil {
			return HistogramDelta{}, bad
		}
		if i == 0 {
			total = d
			continue
		}
		total, _ = total.Add(d) // both are of the same form
	}
	return total, problem
}

// seriesDelta is the delta of one series.
func seriesDelta(name string, p pair, native bool) (HistogramDelta, *Problem) {
	was, is := p.a.GetHistogram(), p.b.GetHistogram()
	if is == nil || was == nil && p.a != nil {
		return HistogramDelta{}, void(Inconsistent, name, p.key, "holds no histogram")
	}
	if was == nil {
		was = emptyLike(is)
	}
	fail := func(kind Kind, format string, args ...any) (HistogramDelta, *Problem) {
		return HistogramDelta{}, void(kind, name, p.key, fmt.Sprintf(format, args...))
	}
	n0, n1 := sampleCount(was), sampleCount(is)
	s0, s1 := was.GetSampleSum(), is.GetSampleSum()
	switch {
	case !whole(n0) || !whole(n1):
		return fail(NotFinite, "has a count that is not a whole number (%g, then %g)", n0, n1)
	case math.IsNaN(s1-s0) || math.IsInf(s1-s0, 0):
		return fail(NotFinite, "has a sum of %g, then %g", s0, s1)
	case n1 < n0:
		return fail(Decreased, "count went down from %g to %g: the server restarted or another one answers", n0, n1)
	}
	d := HistogramDelta{Count: uint64(n1 - n0), Sum: s1 - s0, Series: 1}
	d.slack = 1e-12 * (math.Abs(s0) + math.Abs(s1))
	var problem *Problem
	if native {
		problem = d.fillNative(was, is)
	} else {
		problem = d.fillClassic(was, is)
	}
	if problem == nil && d.Sum < -d.slack && len(d.Buckets) > 0 && d.Buckets[0].Lo >= 0 {
		problem = void(Decreased, "", "", fmt.Sprintf("sum went down by %g: a sample was negative, as after a request that failed before it was scheduled, or the server restarted", -d.Sum))
	}
	if problem != nil {
		problem.Metric, problem.Series = name, p.key
		return HistogramDelta{}, problem
	}
	return d, nil
}

// fillClassic sets the buckets from cumulative counts at both ends.
func (d *HistogramDelta) fillClassic(was, is *dto.Histogram) *Problem {
	a, b := cumulative(was), cumulative(is)
	if !slices.EqualFunc(a, b, func(x, y cumul) bool { return x.le == y.le }) {
		return void(Bounds, "", "", "the buckets are not the same at both ends")
	}
	lo := math.Inf(-1)
	if b[0].le > 0 {
		lo = 0
	}
	below := 0.0
	for i := range b {
		if !whole(a[i].n) || !whole(b[i].n) {
			return void(NotFinite, "", "", fmt.Sprintf("bucket le=%g is not a whole number", b[i].le))
		}
		upTo := b[i].n - a[i].n
		switch {
		case upTo < 0:
			return void(Decreased, "", "", fmt.Sprintf("bucket le=%g went down from %g to %g", b[i].le, a[i].n, b[i].n))
		case upTo < below:
			return void(Inconsistent, "", "", fmt.Sprintf("bucket le=%g grew less than the one below it", b[i].le))
		}
		d.Buckets = append(d.Buckets, Bucket{Lo: lo, Hi: b[i].le, Count: uint64(upTo - below)})
		lo, below = b[i].le, upTo
	}
	if below != float64(d.Count) {
		return void(Inconsistent, "", "", fmt.Sprintf("the buckets grew by %g, the count by %d", below, d.Count))
	}
	return nil
}

// Add sums two deltas, of series or of targets. ok is false if one is native and
// the other classic: they share no bounds.
func (d HistogramDelta) Add(o HistogramDelta) (sum HistogramDelta, ok bool) {
	switch {
	case o.Series == 0:
		return d, true
	case d.Series == 0:
		return o, true
	case (d.sparse == nil) != (o.sparse == nil):
		return HistogramDelta{}, false
	}
	sum = HistogramDelta{Count: d.Count + o.Count, Sum: d.Sum + o.Sum, Series: d.Series + o.Series, slack: d.slack + o.slack}
	if d.sparse != nil {
		sum.sparse = d.sparse.plus(o.sparse, 1)
		sum.Buckets = sum.sparse.buckets()
		return sum, true
	}
	sum.Buckets = addClassic(d.Buckets, o.Buckets)
	return sum, true
}

// addClassic sums bucket lists that cover the line, over the bounds that both have.
func addClassic(a, b []Bucket) []Bucket {
	out := []Bucket{{Lo: min(a[0].Lo, b[0].Lo)}}
	i, j := 0, 0
	for i < len(a) && j < len(b) {
		last := &out[len(out)-1]
		switch x, y := a[i], b[j]; {
		case x.Hi < y.Hi:
			last.Count += x.Count
			i++
		case x.Hi > y.Hi:
			last.Count += y.Count
			j++
		default:
			last.Count += x.Count + y.Count
			last.Hi = x.Hi
			out = append(out, Bucket{Lo: x.Hi})
			i, j = i+1, j+1
		}
	}
	return out[:len(out)-1] // both lists end with +Inf
}

// Mean of the samples: exact, unlike any percentile. ok is false if there are none.
func (d HistogramDelta) Mean() (mean float64, ok bool) {
	if d.Count == 0 {
		return 0, false
	}
	return d.Sum / float64(d.Count), true
}

// cumul is a classic bucket as on the wire.
type cumul struct{ le, n float64 }

// cumulative lists the classic buckets in order, with +Inf at the end.
func cumulative(h *dto.Histogram) []cumul {
	var out []cumul
	for _, b := range h.GetBucket() {
		n := float64(b.GetCumulativeCount())
		if b.CumulativeCountFloat != nil {
			n = b.GetCumulativeCountFloat()
		}
		out = append(out, cumul{b.GetUpperBound(), n})
	}
	slices.SortStableFunc(out, func(x, y cumul) int {
		switch {
		case x.le < y.le:
			return -1
		case x.le > y.le:
			return 1
		}
		return 0
	})
	if len(out) == 0 || !math.IsInf(out[len(out)-1].le, 1) {
		out = append(out, cumul{math.Inf(1), sampleCount(h)})
	}
	return out
}

func sampleCount(h *dto.Histogram) float64 {
	if h.SampleCountFloat != nil {
		return h.GetSampleCountFloat()
	}
	return float64(h.GetSampleCount())
}

// whole reports whether n is a count: whole, finite, not negative and exact.
func whole(n float64) bool { return n >= 0 && n < 1<<53 && n == math.Trunc(n) }

// emptyLike is h before its first sample.
func emptyLike(h *dto.Histogram) *dto.Histogram {
	empty := &dto.Histogram{Schema: h.Schema, ZeroThreshold: h.ZeroThreshold}
	for _, b := range h.GetBucket() {
		empty.Bucket = append(empty.Bucket, &dto.Bucket{UpperBound: b.UpperBound})
	}
	return empty
}
