package scrape

import (
	"fmt"
	"maps"
	"math"
	"slices"

	dto "github.com/prometheus/client_model/go"
)

// sparse is a native histogram with counts by bucket index. In schema s, bucket
// i of the positive side is (2^((i-1)/2^s), 2^(i/2^s)]; the negative side mirrors
// it, and the zero bucket is [-threshold, threshold]. See
// prometheus.io/docs/specs/native_histograms.
type sparse struct {
	schema    int
	threshold float64
	zero      float64
	pos, neg  map[int]float64
}

// Standard exponential schemas of native histograms.
const (
	minSchema = -4
	maxSchema = 8
)

// isNative reports whether a histogram has native buckets. An empty span or a
// zero threshold marks one that has no samples yet.
func isNative(h *dto.Histogram) bool {
	return h != nil && h.Schema != nil &&
		(len(h.GetPositiveSpan()) > 0 || len(h.GetNegativeSpan()) > 0 || h.ZeroThreshold != nil)
}

// readSparse decodes the spans of a histogram.
func readSparse(h *dto.Histogram) (*sparse, error) {
	s := &sparse{schema: int(h.GetSchema()), threshold: h.GetZeroThreshold(), zero: float64(h.GetZeroCount())}
	if h.ZeroCountFloat != nil {
		s.zero = h.GetZeroCountFloat()
	}
	if s.schema < minSchema || s.schema > maxSchema {
		return nil, fmt.Errorf("native schema %d is not one of %d to %d", s.schema, minSchema, maxSchema)
	}
	if !(s.threshold >= 0) || math.IsInf(s.threshold, 1) || !whole(s.zero) {
		return nil, fmt.Errorf("zero bucket of %g samples up to %g", s.zero, s.threshold)
	}
	var err error
	if s.pos, err = readSpans(h.GetPositiveSpan(), h.GetPositiveDelta(), h.GetPositiveCount()); err != nil {
		return nil, err
	}
	s.neg, err = readSpans(h.GetNegativeSpan(), h.GetNegativeDelta(), h.GetNegativeCount())
	return s, err
}

// readSpans gives counts by index: deltas between neighbours for integer
// histograms, plain counts for float ones.
func readSpans(spans []*dto.BucketSpan, deltas []int64, counts []float64) (map[int]float64, error) {
	n := max(len(deltas), len(counts))
	out := make(map[int]float64, n)
	index, read, running := 0, 0, int64(0)
	for _, span := range spans {
		index += int(span.GetOffset())
		if int(span.GetLength()) > n-read {
			return nil, fmt.Errorf("native spans hold more than the %d buckets given", n)
		}
		for range span.GetLength() {
			var c float64
			if len(deltas) > 0 {
				running += deltas[read]
				c = float64(running)
			} else {
				c = counts[read]
			}
			if !whole(c) {
				return nil, fmt.Errorf("native bucket %d holds %g samples", index, c)
			}
			out[index] += c
			index, read = index+1, read+1
		}
	}
	if read != n {
		return nil, fmt.Errorf("native spans hold %d of the %d buckets given", read, n)
	}
	return out, nil
}

// fillNative sets the buckets from native ones at both ends.
func (d *HistogramDelta) fillNative(was, is *dto.Histogram) *Problem {
	a, err := readSparse(was)
	if err != nil {
		return void(Inconsistent, "", "", err.Error())
	}
	b, err := readSparse(is)
	if err != nil {
		return void(Inconsistent, "", "", err.Error())
	}
	diff := b.plus(a, -1)
	if diff.negative() {
		return void(Decreased, "", "", "a native bucket went down")
	}
	d.sparse, d.Buckets = diff, diff.buckets()
	var n uint64
	for _, bucket := range d.Buckets {
		n += bucket.Count
	}
	// Samples that are NaN are in the count but in no bucket.
	if n != d.Count {
		return void(Inconsistent, "", "", fmt.Sprintf("the buckets grew by %d, the count by %d", n, d.Count))
	}
	return nil
}

// plus is s + sign·o, at the coarser schema and the wider zero bucket of the two.
func (s *sparse) plus(o *sparse, sign float64) *sparse {
	schema := min(s.schema, o.schema)
	a, b := s.coarser(schema), o.coarser(schema)
	// Raising a threshold into a bucket raises it to that bucket's end, which
	// may be more than the other's threshold: repeat until they agree.
	for a.threshold != b.threshold {
		t := max(a.threshold, b.threshold)
		a.widenZero(t)
		b.widenZero(t)
	}
	a.zero += sign * b.zero
	for i, n := range b.pos {
		a.pos[i] += sign * n
	}
	for i, n := range b.neg {
		a.neg[i] += sign * n
	}
	return a
}

// coarser is a copy of s at a schema that is not finer.
func (s *sparse) coarser(schema int) *sparse {
	shift := s.schema - schema
	out := &sparse{schema: schema, threshold: s.threshold, zero: s.zero, pos: map[int]float64{}, neg: map[int]float64{}}
	for i, n := range s.pos {
		out.pos[(i-1)>>shift+1] += n
	}
	for i, n := range s.neg {
		out.neg[(i-1)>>shift+1] += n
	}
	return out
}

// widenZero takes all buckets that begin below t into the zero bucket, and
// raises t to the end of one that lies across it.
func (s *sparse) widenZero(t float64) {
	sides := []map[int]float64{s.pos, s.neg}
	for _, side := range sides {
		for _, i := range slices.Sorted(maps.Keys(side)) {
			if s.upper(i-1) < t {
				t = max(t, s.upper(i))
			}
		}
	}
	for _, side := range sides {
		for i, n := range side {
			if s.upper(i) <= t {
				s.zero += n
				delete(side, i)
			}
		}
	}
	s.threshold = max(s.threshold, t)
}

// upper bound of bucket i.
func (s *sparse) upper(i int) float64 { return math.Exp2(math.Ldexp(float64(i), -s.schema)) }

func (s *sparse) negative() bool {
	below := func(n float64) bool { return n < 0 }
	return s.zero < 0 || slices.ContainsFunc(slices.Collect(maps.Values(s.pos)), below) ||
		slices.ContainsFunc(slices.Collect(maps.Values(s.neg)), below)
}

// buckets lists what is not empty, in order.
func (s *sparse) buckets() []Bucket {
	var out []Bucket
	add := func(lo, hi, n float64) {
		if n != 0 {
			out = append(out, Bucket{Lo: lo, Hi: hi, Count: uint64(n)})
		}
	}
	for _, i := range slices.Backward(slices.Sorted(maps.Keys(s.neg))) {
		add(-s.upper(i), -s.upper(i-1), s.neg[i])
	}
	lo := -s.threshold
	if len(out) == 0 {
		lo = 0 // without negative samples, none is taken to be near zero from below
	}
	add(lo, s.threshold, s.zero)
	for _, i := range slices.Sorted(maps.Keys(s.pos)) {
		add(max(s.upper(i-1), s.threshold), s.upper(i), s.pos[i])
	}
	return out
}
