// Command protocol measures the error rates of the protocol itself, over hundreds
// of seeded runs on the built-in engine in virtual time: how often the stability
// verdict is wrong on either side of capacity, how soon the end of the warm-up is
// found, and how often a nominal 95 % interval contains the truth, that of a window
// which --until-ci closed too.
//
//	go run ./bench/protocol
//
// Truth is long runs of the same engine: capacity is the completion rate of a
// closed loop that never lets it rest, percentiles are those of millions of
// requests. Everything else takes the road of assay run, with its defaults; only
// the length of the window is set, and stated.
//
//	-runs 400          runs of each cell
//	-seed 1000         the first of their seeds
//	-parts verdicts    some parts only: verdicts, coverage, stopping
//	-parallel 2        runs at the same time
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "protocol:", err)
		os.Exit(1)
	}
}

// bench is what to measure.
type bench struct {
	runs        int
	seed        uint64
	parallel    int
	loads       []float64
	windows     []time.Duration
	truthRuns   int
	truthLength time.Duration
	truthSeed   uint64

	mu sync.Mutex // of whatever the runs of [bench.each] collect
}

func run(ctx context.Context) error {
	var b bench
	flag.IntVar(&b.runs, "runs", 400, "runs of each cell")
	flag.Uint64Var(&b.seed, "seed", 1000, "the first of their seeds")
	flag.IntVar(&b.parallel, "parallel", 2, "runs at the same time")
	flag.IntVar(&b.truthRuns, "truth-runs", 60, "long runs behind a true value")
	flag.DurationVar(&b.truthLength, "truth-length", 20*time.Minute, "window of each of them")
	flag.Uint64Var(&b.truthSeed, "truth-seed", 1_000_000, "the first of their seeds")
	loads := flag.String("loads", "0.5,0.8,0.9,1.1", "loads of the verdicts, as shares of capacity")
	windows := flag.String("windows", "30s,60s,120s", "measured windows")
	parts := flag.String("parts", "verdicts,coverage,stopping", "what to measure")
	flag.Parse()
	if b.runs < 1 || b.parallel < 1 || b.truthRuns < 1 {
		return errors.New("-runs, -parallel and -truth-runs: want counts from 1")
	}
	if err := b.read(*loads, *windows); err != nil {
		return err
	}
	list, err := kinds()
	if err != nil {
		return err
	}
	fmt.Printf("%d runs a cell, seeds %d to %d\n\n", b.runs, b.seed, b.seed+uint64(b.runs)-1)
	for _, t := range list {
		if err := b.capacity(ctx, t); err != nil {
			return err
		}
		fmt.Printf("capacity: %-40s %.2f requests/s\n", t.name, t.capacity)
	}
	for _, p := range []struct {
		name string
		do   func(context.Context, []*traffic) error
	}{{"verdicts", b.verdicts}, {"coverage", b.coverage}, {"stopping", b.stopping}} {
		if !slices.Contains(strings.Split(*parts, ","), p.name) {
			continue
		}
		fmt.Println()
		if err := p.do(ctx, list); err != nil {
			return err
		}
	}
	return nil
}

// read takes the two lists.
func (b *bench) read(loads, windows string) error {
	for text := range strings.SplitSeq(loads, ",") {
		x, err := strconv.ParseFloat(text, 64)
		if err != nil || !(x > 0) {
			return fmt.Errorf("-loads: %q is no share of capacity", text)
		}
		b.loads = append(b.loads, x)
	}
	for text := range strings.SplitSeq(windows, ",") {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			return fmt.Errorf("-windows: %q is no duration above 0", text)
		}
		b.windows = append(b.windows, d)
	}
	return nil
}

// each calls do for 0 to n-1, some at a time, and returns the first error.
func (b *bench) each(n int, do func(i int) error) error {
	next := make(chan int)
	errs := make(chan error, b.parallel)
	for range b.parallel {
		go func() {
			var first error
			for i := range next {
				if first == nil {
					first = do(i)
				}
			}
			errs <- first
		}()
	}
	for i := range n {
		next <- i
	}
	close(next)
	var err error
	for range b.parallel {
		err = errors.Join(err, <-errs)
	}
	return err
}
