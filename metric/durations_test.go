package metric

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/assay-bench/assay/stat"
)

// Whatever goes in, and through however many sets, what comes out is what a
// sorted slice of everything gives.
func TestDurationsAgainstSlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		span := rapid.OneOf(
			rapid.Int64Range(0, 20), rapid.Int64Range(1e6, 1e6+300), rapid.Int64Range(0, math.MaxUint32),
			rapid.Int64Range(math.MaxUint32-3, math.MaxUint32+3), rapid.Int64Range(-1e12, 1e15),
		)
		var d durations
		var want []int64
		for range rapid.IntRange(1, 4).Draw(t, "sets") {
			var part durations
			for _, ns := range rapid.SliceOfN(span, 0, 700).Draw(t, "spans") {
				part.add(ns)
				want = append(want, ns)
			}
			if rapid.Bool().Draw(t, "sealed") {
				part.seal()
			}
			d.addAll(&part)
		}
		if len(want) == 0 {
			return
		}
		slices.Sort(want)
		checkDurations(t, &d, want)
	})
}

// fataler is a *testing.T or a *rapid.T.
type fataler interface {
	Errorf(format string, args ...any)
}

func checkDurations(t fataler, d *durations, sorted []int64) {
	d.seal()
	ms := make([]float64, len(sorted))
	for i, ns := range sorted {
		ms[i] = float64(ns) / nsPerMS
	}
	n := len(sorted)
	if int(d.n) != n {
		t.Errorf("%d spans instead of %d", d.n, n)
	}
	for _, rank := range []int{0, n / 3, n / 2, n - 1 - n/50, n - 1} {
		if got := d.at(int64(rank)); got != sorted[rank] {
			t.Errorf("rank %d of %d: %d instead of %d", rank, n, got, sorted[rank])
		}
	}
	for _, p := range []float64{0.5, 0.95, 0.99} {
		if got, want := stat.QuantileAt(n, d.ms, p, stat.Type7), stat.Quantile(ms, p, stat.Type7); got != want {
			t.Errorf("p%v of %d: %v instead of %v", 100*p, n, got, want)
		}
	}
	near := func(got, want float64) bool {
		return math.Abs(got-want) <= 1e-9*(math.Abs(want)+math.Abs(ms[n-1])+math.Abs(ms[0]))
	}
	if got, want := d.meanMS(), stat.Mean(ms); !near(got, want) {
		t.Errorf("mean %v instead of %v", got, want)
	}
	if got, want := d.madMS(), stat.MAD(ms); !near(got, want) {
		t.Errorf("MAD %v instead of %v", got, want)
	}
}

// Several packed runs, and a byte or two a span.
func TestDurationsPacked(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var d durations
	var want []int64
	for range 2*freshSpans + 1000 {
		ns := int64(15e6 + 3e6*rng.NormFloat64())
		d.add(ns)
		want = append(want, ns)
	}
	slices.Sort(want)
	checkDurations(t, &d, want)
	bytes := cap(d.fresh) * 4
	for _, r := range d.runs {
		bytes += len(r.data) + 8*len(r.heads)
	}
	if perSpan := float64(bytes-cap(d.fresh)*4) / float64(d.n); perSpan > 1.2 {
		t.Errorf("%.2f bytes a span", perSpan)
	}
}

func BenchmarkDurations(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	spans := make([]int64, 1<<16)
	for i := range spans {
		spans[i] = int64(15e6 + 3e6*rng.NormFloat64())
	}
	var d durations
	for i := 0; b.Loop(); i++ {
		d.add(spans[i%len(spans)])
	}
}
