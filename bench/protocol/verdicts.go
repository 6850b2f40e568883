package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/assay-bench/assay/result"
	"github.com/assay-bench/assay/stat"
	"github.com/assay-bench/assay/workload"
)

// tally is what came of the runs of one cell.
type tally struct {
	verdicts map[string]int
	capped   int
	delays   []float64 // s, of detected warm-ups
	seen     []float64 // completions by then
}

func (b *bench) tally(ctx context.Context, spec workload.Spec, window time.Duration) (*tally, error) {
	c := &tally{verdicts: make(map[string]int)}
	err := b.each(b.runs, func(i int) error {
		out, _, err := trial{spec: spec, seed: b.seed + uint64(i), plan: shipped(window)}.do(ctx)
		if err != nil {
			return err
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		c.verdicts[out.Stability.Verdict]++
		if out.Warmup.Detected {
			c.delays = append(c.delays, out.Warmup.Duration.Seconds())
			c.seen = append(c.seen, float64(out.Warmup.Requests))
		} else {
			c.capped++
		}
		return nil
	})
	slices.Sort(c.delays)
	slices.Sort(c.seen)
	return c, err
}

// share of n runs in percent, with its 95 % interval by Clopper and Pearson.
func (b *bench) share(n int) string {
	lo, hi := stat.ClopperPearson(n, b.runs, 0.95)
	return fmt.Sprintf("%.1f (%.1f to %.1f)", 100*float64(n)/float64(b.runs), 100*lo, 100*hi)
}

// verdicts judges loads on both sides of capacity.
func (b *bench) verdicts(ctx context.Context, list []*traffic) error {
	fmt.Println("| traffic | load | window | STABLE % | UNSTABLE % | UNDECIDED % | not stabilised % | warm-up p50, p95, max s | completions p50 |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|")
	for _, t := range list {
		for _, load := range b.loads {
			for _, w := range b.windows {
				if err := b.verdictRow(ctx, t.name, fmt.Sprintf("%.3g", load), t.at(load), w); err != nil {
					return err
				}
			}
		}
		if t.spec.Arrival.Process != workload.Poisson {
			continue // the same closed loop as before
		}
		for _, slots := range []int{16, 128} {
			for _, w := range b.windows {
				if err := b.verdictRow(ctx, t.name, fmt.Sprintf("closed, %d", slots), t.closed(slots), w); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (b *bench) verdictRow(ctx context.Context, name, load string, spec workload.Spec, window time.Duration) error {
	c, err := b.tally(ctx, spec, window)
	if err != nil {
		return err
	}
	delay, seen := "-", "-"
	if len(c.delays) > 0 {
		q := func(p float64) float64 { return stat.Quantile(c.delays, p, stat.Type7) }
		delay = fmt.Sprintf("%.1f, %.1f, %.1f", q(0.5), q(0.95), q(1))
		seen = fmt.Sprintf("%.0f", stat.Quantile(c.seen, 0.5, stat.Type7))
	}
	fmt.Printf("| %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", name, load, window,
		b.share(c.verdicts[result.Stable]), b.share(c.verdicts[result.Unstable]), b.share(c.verdicts[result.Undecided]), b.share(c.capped), delay, seen)
	return nil
}
