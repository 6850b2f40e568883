package stat

import (
	"slices"
	"testing"
)

// Everything a report prints of one metric of one stage, sorting included.
func BenchmarkSummary100k(b *testing.B) {
	x := queueWaits(seeded(1), 100_000, .8)
	b.ReportAllocs()
	for b.Loop() {
		sorted := slices.Sorted(slices.Values(x))
		Mean(sorted)
		Median(sorted)
		MAD(sorted)
		MeanInterval(x, .95)
		for _, p := range []float64{.5, .9, .95, .99} {
			Quantile(sorted, p, Type7)
			QuantileInterval(x, sorted, p, .95)
			OrderStatCI(len(x), p, .95)
		}
	}
}

func BenchmarkQuantileSet100kSorted(b *testing.B) {
	sorted := ramp(100_000)
	b.ReportAllocs()
	for b.Loop() {
		for _, p := range []float64{.5, .9, .95, .99} {
			Quantile(sorted, p, Type7)
		}
	}
}

func BenchmarkBootstrapP99Of100k(b *testing.B) {
	x := queueWaits(seeded(1), 100_000, .8)
	sorted := slices.Sorted(slices.Values(x))
	for b.Loop() {
		BootstrapQuantile(x, sorted, .99, .95, 1)
	}
}

func BenchmarkMSER5Of10k(b *testing.B) {
	x := queueWaits(seeded(1), 10_000, .8)
	b.ReportAllocs()
	for b.Loop() {
		MSER5(x)
	}
}

func BenchmarkOrderStatCI1M(b *testing.B) {
	for b.Loop() {
		OrderStatCI(1_000_000, .99, .95)
	}
}

func BenchmarkMannKendall10k(b *testing.B) {
	x := queueWaits(seeded(1), 10_000, .8)
	for b.Loop() {
		MannKendall(x)
	}
}
