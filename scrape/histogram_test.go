package scrape

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// classic writes a histogram as text, as a server with these samples would.
func classic(name, labels string, bounds, samples []float64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# TYPE %s histogram\n", name)
	sum := 0.0
	for _, v := range samples {
		sum += v
	}
	for _, le := range append(slices.Clone(bounds), math.Inf(1)) {
		n := 0
		for _, v := range samples {
			if v <= le {
				n++
			}
		}
		fmt.Fprintf(&b, "%s_bucket{%sle=\"%g\"} %d\n", name, labels, le, n)
	}
	outer := ""
	if labels != "" {
		outer = "{" + strings.TrimSuffix(labels, ",") + "}"
	}
	fmt.Fprintf(&b, "%s_sum%s %v\n%s_count%s %d\n", name, outer, sum, name, outer, len(samples))
	return b.String()
}

func repeat(v float64, n int) []float64 { return slices.Repeat([]float64{v}, n) }

var itlBounds = []float64{.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}

// windowOf is a histogram that took in samples after it had held old ones.
func windowOf(t rapid.TB, bounds, old, samples []float64) HistogramDelta {
	a := parseFor(t, classic("h", "", bounds, old))
	b := parseFor(t, classic("h", "", bounds, append(slices.Clone(old), samples...)))
	d, problem := Between(a, b).Histogram("h", nil)
	if problem != nil {
		t.Fatalf("%v", problem)
	}
	return d
}

func parseFor(t rapid.TB, body string) *Scrape {
	s, err := Parse([]byte(body), textType)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return s
}

// A server at 8 ms a token, all below vLLM's first bound of 10 ms: the
// interpolated median is 5 ms whatever the truth.
func TestQuantileSumTightened(t *testing.T) {
	d := windowOf(t, itlBounds, repeat(3, 7), repeat(0.008, 1000))
	if mean, ok := d.Mean(); !ok || math.Abs(mean-0.008) > 1e-9 {
		t.Errorf("mean %g", mean)
	}
	b, ok := d.Quantile(0.5)
	if !ok || b.Lo != 0 || b.Hi != 0.01 || b.ShareInBucket != 1 || !b.SumFits || b.Resolved() {
		t.Errorf("%+v", b)
	}
	if math.Abs(b.TightLo-0.006) > 1e-6 || b.TightHi != 0.01 {
		t.Errorf("tight bounds [%g, %g], want [0.006, 0.01]", b.TightLo, b.TightHi)
	}
}

func TestQuantileEdges(t *testing.T) {
	t.Run("beyond the last bound the sum still bounds it", func(t *testing.T) {
		d := windowOf(t, []float64{1}, nil, []float64{0.5, 3})
		b, _ := d.Quantile(1)
		if b.Lo != 1 || !math.IsInf(b.Hi, 1) || b.TightLo < 2.499 || b.TightHi > 3.5001 {
			t.Errorf("%+v", b)
		}
	})
	t.Run("no samples", func(t *testing.T) {
		d := windowOf(t, itlBounds, repeat(1, 3), nil)
		if _, ok := d.Quantile(0.5); ok {
			t.Error("a median of nothing")
		}
		if _, ok := d.Mean(); ok {
			t.Error("a mean of nothing")
		}
	})
	t.Run("p outside (0, 1]", func(t *testing.T) {
		d := windowOf(t, itlBounds, nil, repeat(1, 3))
		for _, p := range []float64{0, -1, 1.1, math.NaN()} {
			if _, ok := d.Quantile(p); ok {
				t.Errorf("p = %g", p)
			}
		}
	})
	t.Run("a sum that cannot be", func(t *testing.T) {
		a := mustParse(t, classic("h", "", []float64{1, 2}, nil))
		b := mustParse(t, strings.Replace(classic("h", "", []float64{1, 2}, []float64{1.5, 1.5}), "h_sum 3", "h_sum 1", 1))
		d, problem := Between(a, b).Histogram("h", nil)
		q, _ := d.Quantile(0.5)
		if problem != nil || q.SumFits || q.TightLo != 1 || q.TightHi != 2 {
			t.Errorf("%v %+v", problem, q)
		}
	})
	t.Run("a share that rounding would lift to the next rank", func(t *testing.T) {
		if got := rank(0.07, 100); got != 7 {
			t.Errorf("rank(0.07, 100) = %d, want 7", got)
		}
	})
}

// The true quantile lies in the bucket and in the tightened bounds, whatever
// the samples and the bounds, and tightening never widens.
func TestQuantileHoldsTheTruth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bounds := rapid.SliceOfNDistinct(rapid.Float64Range(1e-3, 100), 0, 8, rapid.ID).Draw(t, "bounds")
		slices.Sort(bounds)
		sample := rapid.OneOf(rapid.Float64Range(0, 120), rapid.SampledFrom(append(bounds, 0)))
		old := rapid.SliceOfN(sample, 0, 20).Draw(t, "old")
		samples := rapid.SliceOfN(sample, 1, 60).Draw(t, "samples")
		perMille := rapid.IntRange(1, 1000).Draw(t, "p")
		d := windowOf(t, bounds, old, samples)
		b, ok := d.Quantile(float64(perMille) / 1000)
		slices.Sort(samples)
		truth := samples[(perMille*len(samples)+999)/1000-1]
		if !ok || truth < b.Lo || truth > b.Hi {
			t.Fatalf("%g is not in %+v", truth, b)
		}
		if truth < b.TightLo || truth > b.TightHi {
			t.Fatalf("%g is not in the tightened %+v", truth, b)
		}
		if b.TightLo < b.Lo || b.TightHi > b.Hi || !b.SumFits {
			t.Fatalf("%+v", b)
		}
	})
}

// Adding the deltas of two series is the delta of their samples together, over
// the bounds that both have.
func TestHistogramSumsSeries(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		common := []float64{0.5, 2}
		boundsA, boundsB := []float64{0.1, 0.5, 2, 9}, []float64{0.5, 1, 2}
		sample := rapid.Float64Range(0, 12)
		x := rapid.SliceOfN(sample, 0, 20).Draw(t, "x")
		y := rapid.SliceOfN(sample, 0, 20).Draw(t, "y")
		trim := func(s string) string { return strings.TrimPrefix(s, "# TYPE h histogram\n") }
		page := func(x, y []float64) string {
			return classic("h", `engine="0",`, boundsA, x) + trim(classic("h", `engine="1",`, boundsB, y))
		}
		d, problem := Between(parseFor(t, page(nil, nil)), parseFor(t, page(x, y))).Histogram("h", nil)
		if problem != nil {
			t.Fatalf("%v", problem)
		}
		want := windowOf(t, common, nil, append(slices.Clone(x), y...))
		if !slices.Equal(d.Buckets, want.Buckets) || d.Series != 2 || math.Abs(d.Sum-want.Sum) > 1e-9 {
			t.Fatalf("%+v, want %+v", d, want)
		}
	})
}
