package main

import (
	"context"
	"fmt"
	"time"

	"github.com/assay-bench/assay/result"
)

// hits counts, for one statistic, intervals that were given and that hold the
// truth.
type hits struct {
	given, held int
	// stable counts the same over the runs that were judged STABLE.
	stableRuns, stableGiven, stableHeld int
	width                               float64 // sum of the half widths over the truth
}

func intervals(m *result.Metrics) map[string]*result.Interval {
	out := make(map[string]*result.Interval)
	for name, s := range map[string]*result.Summary{"TTFT": m.TTFT, "TPOT": m.TPOT, "E2E": m.E2E} {
		if s == nil {
			continue
		}
		out[name+" mean"], out[name+" p50"], out[name+" p95"], out[name+" p99"] = s.MeanCI, s.P50CI, s.P95CI, s.P99CI
	}
	return out
}

func (h *hits) add(v *result.Interval, truth float64, stable bool) {
	if stable {
		h.stableRuns++
	}
	if v == nil {
		return
	}
	held := v[0] <= truth && truth <= v[1]
	h.given++
	h.width += (v[1] - v[0]) / 2 / truth
	if held {
		h.held++
	}
	if stable {
		h.stableGiven++
		if held {
			h.stableHeld++
		}
	}
}

// coverage holds the intervals of many runs against the truth.
func (b *bench) coverage(ctx context.Context, list []*traffic) error {
	fmt.Println("| traffic | load | window | statistic | truth ms | given % | coverage % where given | of STABLE runs: given %, coverage % | half width % |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|")
	for _, t := range list {
		for _, load := range []float64{0.5, 0.8, 0.9} {
			truth, err := b.truth(ctx, t, load)
			if err != nil {
				return err
			}
			for _, w := range b.windows {
				if err := b.coverageRows(ctx, t, load, w, truth); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (b *bench) coverageRows(ctx context.Context, t *traffic, load float64, window time.Duration, truth steady) error {
	all := make(map[string]*hits)
	for name := range truth {
		all[name] = new(hits)
	}
	err := b.each(b.runs, func(i int) error {
		out, _, err := trial{spec: t.at(load), seed: b.seed + uint64(i), plan: shipped(window)}.do(ctx)
		if err != nil {
			return err
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		for name, v := range intervals(&out.Metrics) {
			all[name].add(v, truth[name], out.Stability.Verdict == result.Stable)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, q := range quantities {
		for _, f := range statistics {
			name := q.name + " " + f.name
			h := all[name]
			fmt.Printf("| %s | %.1f | %s | %s | %.4g | %.1f | %s | %.1f, %s | %.1f |\n", t.name, load, window, name, truth[name],
				percent(h.given, b.runs), percentText(h.held, h.given), percent(h.stableGiven, h.stableRuns), percentText(h.stableHeld, h.stableGiven),
				100*h.width/float64(max(h.given, 1)))
		}
	}
	return nil
}

func percent(part, whole int) float64 { return 100 * float64(part) / float64(max(whole, 1)) }

func percentText(part, whole int) string {
	if whole == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", percent(part, whole))
}
