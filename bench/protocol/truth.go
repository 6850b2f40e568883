package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/assay-bench/assay/experiment"
	"github.com/assay-bench/assay/metric"
	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/stat"
)

// saturating is more slots than the engine runs at once: it never lacks work.
const saturating = 1024

// capacity is the long-run completion rate of an engine that never lacks work.
func (b *bench) capacity(ctx context.Context, t *traffic) error {
	p := experiment.Plan{Duration: 20 * time.Minute, Warmup: experiment.MSER5, WarmupMax: 5 * time.Minute, CooldownMax: time.Millisecond}
	out, _, err := trial{spec: t.closed(saturating), seed: b.truthSeed, plan: p}.do(ctx)
	if err != nil {
		return err
	}
	for _, x := range out.Throughput {
		if x.Name == "rps" {
			t.capacity = x.Value
			return nil
		}
	}
	return fmt.Errorf("%s: no throughput at saturation", t.name)
}

// quantities that intervals are held against.
var quantities = []struct {
	name    string
	measure func(*record.Attempt) (float64, metric.Reason)
}{
	{"TTFT", metric.TTFT}, {"TPOT", metric.TPOT}, {"E2E", metric.E2E},
}

// statistics of each quantity.
var statistics = []struct {
	name string
	of   func(sorted []float64) float64
}{
	{"mean", stat.Mean},
	{"p50", func(x []float64) float64 { return stat.Quantile(x, 0.50, stat.Type7) }},
	{"p95", func(x []float64) float64 { return stat.Quantile(x, 0.95, stat.Type7) }},
	{"p99", func(x []float64) float64 { return stat.Quantile(x, 0.99, stat.Type7) }},
}

// steady are the true values at one load, by quantity and statistic.
type steady map[string]float64

// truth pools long runs, each after a minute of warm-up that is left out.
func (b *bench) truth(ctx context.Context, t *traffic, load float64) (steady, error) {
	pooled := make([][]float64, len(quantities))
	p := experiment.Plan{Duration: b.truthLength, Warmup: experiment.MSER5, WarmupMax: time.Minute, CooldownMax: 10 * time.Minute}
	err := b.each(b.truthRuns, func(i int) error {
		_, kept, err := trial{spec: t.at(load), seed: b.truthSeed + uint64(i), plan: p}.do(ctx)
		if err != nil {
			return err
		}
		var own [][]float64
		for _, q := range quantities {
			var x []float64
			for j := range kept.attempts {
				a := &kept.attempts[j]
				if v, why := q.measure(a); a.Phase == record.Measured && why == metric.Defined {
					x = append(x, v)
				}
			}
			own = append(own, x)
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		for k, x := range own {
			pooled[k] = append(pooled[k], x...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	s := make(steady)
	for k, q := range quantities {
		slices.Sort(pooled[k])
		for _, f := range statistics {
			s[q.name+" "+f.name] = f.of(pooled[k])
		}
	}
	return s, nil
}
