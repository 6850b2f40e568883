//go:build linux

// Command simserver measures how late the built-in engine's server writes: many
// streams on one core, from several engines whose steps are staggered.
//
//	go run ./bench/simserver -streams 2000 -engines 8 -tokens-per-s 50 -seconds 20
//
// The server runs as another process on a core of its own; the readers have all
// the others. Slip is from the planned end of a step to just before the write
// call, by the server's own truth log. Beside it stand a control, the lateness of
// a bare timer thread on the same core, and what others took of the core: slip
// says something about the server only where both are small.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-bench/assay/engine"
	"github.com/assay-bench/assay/internal/clock"
	"github.com/assay-bench/assay/simserver"
)

type options struct {
	streams, engines, rate, seconds, core int
	serve, log, profile                   string
}

func main() {
	var o options
	flag.IntVar(&o.streams, "streams", 2000, "concurrent streams")
	flag.IntVar(&o.engines, "engines", 8, "engines, whose steps are staggered")
	flag.IntVar(&o.rate, "tokens-per-s", 50, "tokens per second of each stream")
	flag.IntVar(&o.seconds, "seconds", 20, "length of the measured part")
	flag.IntVar(&o.core, "core", 0, "core of the server")
	flag.StringVar(&o.serve, "serve", "", "internal: serve on this address")
	flag.StringVar(&o.log, "log", "", "truth log (default: a temporary file)")
	flag.StringVar(&o.profile, "cpuprofile", "", "write a CPU profile of the server")
	flag.Parse()
	do := measure
	if o.serve != "" {
		do = serve
	}
	if err := do(o); err != nil {
		fmt.Fprintln(os.Stderr, "simserver:", err)
		os.Exit(1)
	}
}

// config is engines whose steps take 1/rate, whatever is in them: a GPU so fast
// that the fixed cost of a step is all there is.
func config(o options) simserver.Config {
	gpu := engine.GPU{Name: "bench", BF16TFLOPS: 1e8, MemoryGB: 1e4, MemoryGBps: 1e8}
	tables := engine.DefaultTables()
	c := simserver.DefaultConfig()
	c.Engine = engine.ConfigFor(gpu, tables.Models["llama-3.1-8b"], 1)
	c.Engine.MaxNumSeqs, c.Engine.MaxNumBatchedTokens = o.streams, 16384
	c.Engine.Constants.LayerUs, c.Engine.Constants.RequestUs = 0, 0
	c.Engine.Constants.StepUs = 1e6 / float64(o.rate)
	c.Engines = o.engines
	return c
}

func serve(o options) error {
	// As cmd/assay does it.
	runtime.GOMAXPROCS(max(8, runtime.NumCPU()+4))
	debug.SetGCPercent(400)
	f, err := os.Create(o.log)
	if err != nil {
		return err
	}
	defer f.Close()
	if o.profile != "" {
		p, err := os.Create(o.profile)
		if err != nil {
			return err
		}
		defer p.Close()
		if err := pprof.StartCPUProfile(p); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	c := config(o)
	c.TruthLog, c.TruthSteps = f, true
	s, err := simserver.New(c)
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", o.serve)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	fmt.Println(ln.Addr())
	return s.Serve(ctx, ln)
}

func measure(o options) error {
	if o.log == "" {
		f, err := os.CreateTemp("", "simserver-truth-*.jsonl")
		if err != nil {
			return err
		}
		f.Close()
		o.log = f.Name()
		defer os.Remove(o.log)
	}
	raiseFiles()
	cmd, addr, err := start(o)
	if err != nil {
		return err
	}
	defer cmd.Process.Kill()
	var bare control
	if err := bare.sample(o.core); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(o.seconds+rampSeconds+2)*time.Second)
	defer cancel()
	var before, after usage
	var errUsage error
	clk := clock.Start()
	zero := clk.Now() + int64(500*time.Millisecond)
	var wg sync.WaitGroup
	wg.Go(func() {
		time.Sleep(rampSeconds * time.Second)
		before, errUsage = readUsage(o.core, cmd.Process.Pid)
	})
	errs := make(chan error, o.streams)
	for i := range o.streams {
		wg.Go(func() {
			if err := stream(ctx, o, addr, i, clk, zero); err != nil && ctx.Err() == nil {
				errs <- err
			}
		})
	}
	wg.Wait()
	select {
	case err := <-errs:
		return fmt.Errorf("%d streams failed, such as: %w", len(errs)+1, err)
	default:
	}
	if after, err = readUsage(o.core, cmd.Process.Pid); err != nil || errUsage != nil {
		return errors.Join(err, errUsage)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	if err := cmd.Wait(); err != nil {
		return err
	}
	if err := bare.sample(o.core); err != nil {
		return err
	}
	fmt.Println(bare.String())
	fmt.Println(after.since(before))
	return report(o)
}

// rampSeconds pass before anything counts.
const rampSeconds = 3

// start runs the server on its core; we move to the others.
func start(o options) (*exec.Cmd, string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, "", err
	}
	var all, its, ours unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return nil, "", err
	}
	its.Set(o.core)
	for i := range 1024 {
		if all.IsSet(i) && i != o.core {
			ours.Set(i)
		}
	}
	if ours.Count() == 0 {
		ours = all
	}
	cmd := exec.Command(self, append(os.Args[1:], "-serve=127.0.0.1:0", "-log="+o.log)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	// A child inherits the cores of the thread that starts it.
	runtime.LockOSThread()
	if err := unix.SchedSetaffinity(0, &its); err != nil {
		return nil, "", err
	}
	if err := cmd.Start(); err != nil {
		return nil, "", err
	}
	if err := unix.SchedSetaffinity(0, &ours); err != nil {
		return nil, "", err
	}
	runtime.UnlockOSThread()
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return nil, "", err
	}
	for _, t := range tasks {
		if tid, err := strconv.Atoi(t.Name()); err == nil {
			_ = unix.SchedSetaffinity(tid, &ours) // it may have ended
		}
	}
	b := make([]byte, 128)
	n, err := out.Read(b)
	if err != nil {
		return nil, "", fmt.Errorf("the server did not start: %w", err)
	}
	return cmd, strings.TrimSpace(string(b[:n])), nil
}

func raiseFiles() {
	var r syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r) == nil {
		r.Cur = r.Max
		_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &r)
	}
}

// stream keeps one stream going. The first one of each engine sets its beat, a
// part of a step after that of the engine before; the others join later.
func stream(ctx context.Context, o options, addr string, i int, clk *clock.Clock, zero int64) error {
	rank := i % o.engines
	step := time.Second / time.Duration(o.rate)
	if i < o.engines {
		// Not time.Sleep, which is a millisecond coarse: two engines at once would
		// have twice the slip.
		clk.SleepUntil(zero + int64(step)*int64(rank)/int64(o.engines))
	} else {
		time.Sleep(time.Second + time.Duration(i)*time.Second/time.Duration(o.streams))
	}
	for n := 0; ctx.Err() == nil; n++ {
		// Lengths differ, so that ends and beginnings are spread over the run.
		tokens := o.rate*5 + (i*7919+n*104729)%(o.rate*10)
		if err := request(ctx, addr, rank, fmt.Sprintf("%d-%d", i, n), tokens); err != nil {
			return err
		}
	}
	return nil
}

func request(ctx context.Context, addr string, rank int, id string, tokens int) error {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	body := fmt.Sprintf(`{"prompt":[1,2,3],"max_tokens":%d,"ignore_eos":true,"stream":true}`, tokens)
	_, err = fmt.Fprintf(conn, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Request-Id: %s\r\n"+
		"X-data-parallel-rank: %d\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", id, rank, len(body), body)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, struct{ io.Reader }{conn})
	return err
}

// step names a step of an engine by its end.
type step struct {
	engine int
	end    int64
}

// write is one event with tokens.
type write struct {
	step
	slip int64
}

func report(o options) error {
	f, err := os.Open(o.log)
	if err != nil {
		return err
	}
	defer f.Close()
	outputs := make(map[step]int)
	var writes []write
	began := int64(0)
	err = simserver.ReadTruth(f, func(l simserver.TruthLine) error {
		switch {
		case l.Step != nil:
			if began == 0 || l.Step.Start < began {
				began = l.Step.Start
			}
			outputs[step{l.Step.Engine, l.Step.End}] = l.Step.Outputs
		case l.Request != nil:
			for _, e := range l.Request.Events {
				if e.Kind == simserver.EventToken {
					writes = append(writes, write{step{l.Request.Engine, e.Planned}, e.Before - e.Planned})
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	from := began + rampSeconds*int64(time.Second)
	to := from + int64(o.seconds)*int64(time.Second)
	var slips []int64
	within, streams, steps := 0, 0, 0
	for s, n := range outputs {
		if s.end >= from && s.end < to {
			streams += n
			steps++
		}
	}
	for _, w := range writes {
		if w.end < from || w.end >= to {
			continue
		}
		slips = append(slips, w.slip)
		if w.slip <= int64(time.Millisecond)+7000*int64(outputs[w.step]) {
			within++
		}
	}
	if len(slips) == 0 {
		return fmt.Errorf("no event was written in the measured part")
	}
	slices.Sort(slips)
	at := func(p float64) float64 { return float64(slips[int(p*float64(len(slips)-1))]) / 1e3 }
	fmt.Printf("%d engines, %.0f streams a step, %.0f events/s over %d s\n", o.engines,
		float64(streams)/float64(steps), float64(len(slips))/float64(o.seconds), o.seconds)
	fmt.Printf("write slip p50 %.0f us, p99 %.0f us, p99.9 %.0f us, max %.0f us\n", at(.5), at(.99), at(.999), at(1))
	fmt.Printf("%.3f %% of events within 1 ms + 7 us x streams of their step\n", 100*float64(within)/float64(len(slips)))
	return nil
}
