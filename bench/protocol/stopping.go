package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/assay-bench/assay/experiment"
	"github.com/assay-bench/assay/result"
	"github.com/assay-bench/assay/stat"
)

// stoppingMax is the longest window of a run that stops by itself: the default of
// --until-ci.
const stoppingMax = 10 * time.Minute

// stopping holds the interval of the figure that closed the window against the
// truth: a window that closes when its interval is narrow is one whose spread looks
// small, and such intervals miss more often than those of a fixed window.
func (b *bench) stopping(ctx context.Context, list []*traffic) error {
	fmt.Println("| traffic | load | until-ci | truth ms | reached % | window p50, p95 s | requests p50 | interval reported % | coverage % where reached | of all with an interval |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|---|")
	for _, t := range list {
		for _, load := range []float64{0.5, 0.8} {
			truth, err := b.truth(ctx, t, load)
			if err != nil {
				return err
			}
			for _, until := range []string{"ttft.mean=5%", "ttft.p95=10%", "ttft.p99=10%", "e2e.mean=5%"} {
				if err := b.stoppingRow(ctx, t, load, until, truth); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (b *bench) stoppingRow(ctx context.Context, t *traffic, load float64, until string, truth steady) error {
	u, err := experiment.ParseUntilCI(until)
	if err != nil {
		return err
	}
	quantity, figure, _ := strings.Cut(u[0].Metric, ".")
	name := strings.ToUpper(quantity) + " " + figure
	plan := shipped(stoppingMax)
	plan.UntilCI = u
	var reached, given hits
	var lengths, requests []float64
	err = b.each(b.runs, func(i int) error {
		out, _, err := trial{spec: t.at(load), seed: b.seed + uint64(i), plan: plan}.do(ctx)
		if err != nil {
			return err
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		v := intervals(&out.Metrics)[name]
		stable := out.Stability.Verdict == result.Stable
		given.add(v, truth[name], stable)
		if out.WindowClosed != "until-ci" {
			return nil
		}
		reached.add(v, truth[name], stable)
		lengths = append(lengths, out.Window.Length().Seconds())
		requests = append(requests, float64(out.Ledger.Requests))
		return nil
	})
	if err != nil {
		return err
	}
	slices.Sort(lengths)
	slices.Sort(requests)
	length, n := "-", "-"
	if len(lengths) > 0 {
		length = fmt.Sprintf("%.0f, %.0f", stat.Quantile(lengths, 0.5, stat.Type7), stat.Quantile(lengths, 0.95, stat.Type7))
		n = fmt.Sprintf("%.0f", stat.Quantile(requests, 0.5, stat.Type7))
	}
	fmt.Printf("| %s | %.1f | %s | %.4g | %.1f | %s | %s | %s | %s | %s |\n", t.name, load, until, truth[name],
		percent(len(lengths), b.runs), length, n, percentText(reached.given, len(lengths)), percentText(reached.held, reached.given), percentText(given.held, given.given))
	return nil
}
