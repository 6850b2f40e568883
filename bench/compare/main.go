// Command compare measures the error rates of assay compare on the built-in
// engine in virtual time: how often two identical engines are said to differ in
// any metric of the family, and how often a slower one is found.
//
//	go run ./bench/compare
//
// Every run takes the road of assay run with its defaults and is made anew: no
// run is in two comparisons. Runs that assay compare would refuse (an UNSTABLE
// stage) are made again with another seed and counted.
//
//	-comparisons 1000   of each kind
//	-repeats 6          runs a side
//	-slower 5           by how many percent the second engine is slower
//	-window 30s         measured window of a run
//	-seed 1             of everything
//	-parallel 2         runs at the same time
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"sync"
	"time"

	"github.com/assay-bench/assay/compare"
	"github.com/assay-bench/assay/engine"
	"github.com/assay-bench/assay/experiment"
	"github.com/assay-bench/assay/load/sched"
	"github.com/assay-bench/assay/load/virtual"
	"github.com/assay-bench/assay/metric"
	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/result"
	"github.com/assay-bench/assay/stat"
	"github.com/assay-bench/assay/workload"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

// noise of a step, that of a real engine.
const noise = 0.02

type bench struct {
	comparisons, repeats, parallel int
	slower                         float64
	window                         time.Duration
	seed                           uint64
	metrics                        []compare.Metric
}

// load is a kind of load that both sides get.
type load struct {
	name string
	spec workload.Spec
}

func loads() []load {
	closed := workload.Default()
	closed.Concurrency, closed.Ramp = 16, 2*time.Second
	open := workload.Default()
	open.Arrival = workload.Arrival{Process: workload.Poisson, Rate: 10}
	return []load{{"closed loop, concurrency 16", closed}, {"Poisson, 10 requests/s", open}}
}

func run(ctx context.Context) error {
	var b bench
	flag.IntVar(&b.comparisons, "comparisons", 1000, "comparisons of each kind")
	flag.IntVar(&b.repeats, "repeats", 6, "runs a side")
	flag.IntVar(&b.parallel, "parallel", 2, "comparisons at the same time")
	flag.Float64Var(&b.slower, "slower", 5, "by how many percent the second engine is slower")
	flag.DurationVar(&b.window, "window", 30*time.Second, "measured window of a run")
	flag.Uint64Var(&b.seed, "seed", 1, "of everything")
	flag.Parse()
	if b.comparisons < 1 || b.repeats < 1 || b.parallel < 1 || b.window <= 0 || b.slower < 0 {
		return errors.New("-comparisons, -repeats, -parallel, -window and -slower: want positive values")
	}
	var err error
	if b.metrics, err = compare.ParseMetrics(compare.DefaultMetrics()); err != nil {
		return err
	}
	fmt.Printf("%d comparisons a row, %d v %d runs of %s each, family of %d metrics, alpha 5 %%, seed %d\n\n",
		b.comparisons, b.repeats, b.repeats, b.window, len(b.metrics), b.seed)
	fmt.Printf("%-30s %-22s %-22s %-26s %s\n", "load", "second engine", "any difference shown", "95 % interval of that", "runs made again")
	for i, l := range loads() {
		for j, factor := range []float64{1, 1 + b.slower/100} {
			kind := "identical"
			if factor > 1 {
				kind = fmt.Sprintf("%g %% slower", b.slower)
			}
			shown, again, err := b.row(ctx, l.spec, factor, uint64(i*2+j))
			if err != nil {
				return err
			}
			lo, hi := stat.ClopperPearson(shown, b.comparisons, 0.95)
			fmt.Printf("%-30s %-22s %6.2f %%  (%d of %d)   %.2f to %.2f %%  %14d\n",
				l.name, kind, 100*float64(shown)/float64(b.comparisons), shown, b.comparisons, 100*lo, 100*hi, again)
		}
	}
	return nil
}

// row makes many comparisons, and counts those in which a difference was shown:
// any for identical engines, a regression for a slower one.
func (b *bench) row(ctx context.Context, spec workload.Spec, factor float64, kind uint64) (shown, again int, err error) {
	next := make(chan int)
	var mu sync.Mutex
	var work sync.WaitGroup
	for range b.parallel {
		work.Go(func() {
			for i := range next {
				found, made, cerr := b.one(ctx, spec, factor, b.seed<<40|kind<<32|uint64(i)<<8)
				mu.Lock()
				err = errors.Join(err, cerr)
				again += made
				if found {
					shown++
				}
				mu.Unlock()
			}
		})
	}
	for i := range b.comparisons {
		if ctx.Err() != nil {
			break
		}
		next <- i
	}
	close(next)
	work.Wait()
	return shown, again, errors.Join(err, ctx.Err())
}

// one comparison. Its runs have seeds from seed on.
func (b *bench) one(ctx context.Context, spec workload.Spec, factor float64, seed uint64) (found bool, again int, err error) {
	sides := []compare.Side{{Label: "base"}, {Label: "other"}}
	for i := range sides {
		for len(sides[i].Runs) < b.repeats {
			by := 1.
			if i == 1 {
				by = factor
			}
			seed++
			r, err := b.trial(ctx, spec, by, seed)
			if err != nil {
				return false, again, err
			}
			if r.Stage.Stability.Verdict == result.Unstable {
				again++
				continue
			}
			sides[i].Runs = append(sides[i].Runs, r)
		}
	}
	c, err := compare.Compare(sides, compare.Options{Metrics: b.metrics, Seed: seed})
	if err != nil {
		return false, again, err
	}
	return slices.ContainsFunc(c.Findings, func(d result.Difference) bool {
		return d.Finding == result.Regression || factor == 1 && d.Finding == result.Improvement
	}), again, nil
}

// slow makes an engine slower by a factor in everything.
func slow(c *engine.Config, factor float64) {
	c.GPU.BF16TFLOPS /= factor
	c.GPU.MemoryGBps /= factor
	k := &c.Constants
	k.StepUs, k.LayerUs, k.RequestUs = k.StepUs*factor, k.LayerUs*factor, k.RequestUs*factor
}

// trial is one run in virtual time, concluded by the road that every run takes.
func (b *bench) trial(ctx context.Context, spec workload.Spec, factor float64, seed uint64) (compare.Run, error) {
	plan, err := workload.NewPlan(spec, seed)
	if err != nil {
		return compare.Run{}, err
	}
	eng := engine.DefaultConfig()
	eng.NoiseCV, eng.Seed = noise, seed
	slow(&eng, factor)
	spec = plan.Spec()
	cfg := virtual.Config{Engine: eng, Load: sched.Config{Concurrency: spec.Concurrency, Ramp: int64(spec.Ramp)}, Requests: sched.SourceFunc(plan.Next)}
	if spec.Open() {
		arrivals := plan.Arrivals()
		cfg.Load = sched.Config{Gap: func() int64 { return int64(arrivals.Next()) }}
	}
	r, err := virtual.New(cfg)
	if err != nil {
		return compare.Run{}, err
	}
	var kept memory
	st := experiment.NewStage(experiment.Plan{
		Name: "stage", OpenLoop: spec.Open(), Concurrency: spec.Concurrency,
		Duration: b.window, Warmup: experiment.MSER5, WarmupMax: time.Minute, CooldownMax: time.Minute,
	}, &kept)
	if err := r.Run(ctx, st); err != nil {
		return compare.Run{}, err
	}
	stage := experiment.Conclude(st.Info(r.Now()), &result.Target{Virtual: true}, experiment.Records(kept.records),
		result.DefaultClientLimits(), metric.Options{Planned: spec.Open(), Seed: seed})
	return compare.Run{Result: &result.Run{ID: fmt.Sprint(seed), Seed: seed, Complete: true}, Stage: &stage}, ctx.Err()
}

// memory keeps attempts; no figure here needs events.
type memory struct{ attempts []record.Attempt }

func (m *memory) Append(a *record.Attempt, _ []record.Event) error {
	c := *a
	if a.Usage != nil {
		c.Usage = new(*a.Usage)
	}
	m.attempts = append(m.attempts, c)
	return nil
}

func (*memory) Flush() error { return nil }

func (m *memory) records(yield func(*record.Attempt, []record.Event) bool) {
	for i := range m.attempts {
		if !yield(&m.attempts[i], nil) {
			return
		}
	}
}
