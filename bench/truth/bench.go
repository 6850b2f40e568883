package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/assay-bench/assay/bench/internal/pin"
	"github.com/assay-bench/assay/internal/calibrate"
	"github.com/assay-bench/assay/internal/clock"
)

// bench runs the measurements, one child after the other.
type bench struct {
	*plan
	self   string
	server *exec.Cmd
	stdin  io.Closer
	addr   string
	pinned bool
	all    []measured
}

// measured is one measurement.
type measured struct {
	Client string             `json:"client"`
	Figure *calibrate.Figures `json:"figures"`
}

func newBench(ctx context.Context, p *plan) (*bench, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	b := &bench{plan: p, self: self, pinned: p.pin && pin.Possible()}
	where, err := json.Marshal(p.place)
	if err != nil {
		return nil, err
	}
	b.server = exec.CommandContext(ctx, self, roleServer, string(where))
	b.server.Stderr = os.Stderr
	if b.stdin, err = b.server.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := b.server.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := b.start(b.server, pin.ServerCore); err != nil {
		return nil, fmt.Errorf("starting the truth server: %w", err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("the truth server did not start: %w", err)
	}
	b.addr = cmp.Or(p.connect, strings.TrimSpace(line))
	return b, nil
}

func (b *bench) close() {
	_ = b.stdin.Close()
	_ = b.server.Wait()
}

// start starts a child, on that core if children are pinned.
func (b *bench) start(cmd *exec.Cmd, core int) error {
	if !b.pinned {
		return cmd.Start()
	}
	return pin.StartOn(core, cmd.Start)
}

func (b *bench) intro() {
	how := "server and client share all cores"
	if b.pinned {
		how = "server pinned to the first core, client to the second"
	}
	fmt.Printf("%s, %s/%s, %d CPUs; %s\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), how)
	c := clock.Start()
	fmt.Printf("null system call %d ns; median of %d runs of %v; a run begins when the machine is quiet, and is done again up to %[5]d times if others had more than %[4]g cores of it\n",
		calibrate.NullSyscall(c.Now), b.repeats, b.duration, b.foreign, b.retries)
	fmt.Printf("errors in us; coal.: events that shared a read; CPU: us an event, all of the client's process; KB: memory a stream; foreign: cores of others\n")
}

// The wait for a quiet machine: no longer than patience for one measurement.
const (
	look     = 300 * time.Millisecond
	patience = 20 * time.Second
)

// awaitQuiet waits until others leave the machine alone, for a while.
func (b *bench) awaitQuiet(ctx context.Context) {
	c := clock.Start()
	for ctx.Err() == nil && c.Now() < int64(patience) {
		if calibrate.BusyCores(c, look) <= b.foreign {
			return
		}
	}
}

// once measures a load on a client, again while others disturb it.
func (b *bench) once(ctx context.Context, client string, l calibrate.Load) (*calibrate.Figures, error) {
	var best *calibrate.Figures
	for range 1 + b.retries {
		b.awaitQuiet(ctx)
		f, err := b.child(ctx, client, l)
		if err != nil {
			return nil, err
		}
		if best == nil || f.Foreign < best.Foreign {
			best = f
		}
		if best.Foreign <= b.foreign {
			break
		}
	}
	b.all = append(b.all, measured{client, best})
	return best, nil
}

func (b *bench) child(ctx context.Context, client string, l calibrate.Load) (*calibrate.Figures, error) {
	return b.childOf(ctx, job{Client: client, Load: l, Busy: b.busy})
}

func (b *bench) childOf(ctx context.Context, j job) (*calibrate.Figures, error) {
	j.Addr, j.TLS, j.PID = b.addr, b.tls, b.server.Process.Pid
	arg, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, b.self, roleClient, string(arg))
	cmd.Stderr = os.Stderr
	var out strings.Builder
	cmd.Stdout = &out
	if err := b.start(cmd, pin.ClientCore); err != nil {
		return nil, err
	}
	if err := cmd.Wait(); err != nil {
		return nil, fmt.Errorf("client %s, %v: %w", j.Client, j.Load, err)
	}
	f := &calibrate.Figures{}
	return f, json.Unmarshal([]byte(out.String()), f)
}

// median measures several times.
func (b *bench) median(ctx context.Context, client string, l calibrate.Load) (*calibrate.Figures, error) {
	var all []*calibrate.Figures
	for range b.repeats {
		f, err := b.once(ctx, client, l)
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	m := *all[0]
	mid := func(get func(*calibrate.Figures) *float64) {
		var x []float64
		for _, f := range all {
			x = append(x, *get(f))
		}
		slices.Sort(x)
		*get(&m) = x[len(x)/2]
	}
	for _, get := range []func(*calibrate.Figures) *calibrate.Quantiles{
		func(f *calibrate.Figures) *calibrate.Quantiles { return &f.Stamp },
		func(f *calibrate.Figures) *calibrate.Quantiles { return &f.TTFT },
		func(f *calibrate.Figures) *calibrate.Quantiles { return &f.ITL },
		func(f *calibrate.Figures) *calibrate.Quantiles { return &f.Lag },
		func(f *calibrate.Figures) *calibrate.Quantiles { return &f.Slip },
	} {
		mid(func(f *calibrate.Figures) *float64 { return &get(f).P50 })
		mid(func(f *calibrate.Figures) *float64 { return &get(f).P99 })
	}
	mid(func(f *calibrate.Figures) *float64 { return &f.Rate })
	mid(func(f *calibrate.Figures) *float64 { return &f.Coalesced })
	mid(func(f *calibrate.Figures) *float64 { return &f.CPU })
	mid(func(f *calibrate.Figures) *float64 { return &f.Foreign })
	slices.SortFunc(all, func(x, y *calibrate.Figures) int { return cmp.Compare(x.PerEvent, y.PerEvent) })
	m.PerEvent = all[len(all)/2].PerEvent
	slices.SortFunc(all, func(x, y *calibrate.Figures) int { return cmp.Compare(x.Memory, y.Memory) })
	m.Memory = all[len(all)/2].Memory
	return &m, nil
}

const header = "%-6s %8s  %9s %9s  %9s %9s  %9s %9s  %6s  %8s  %6s  %6s  %9s  %7s\n"

// concurrency prints one block of the table.
func (b *bench) concurrency(ctx context.Context, streams int, burst bool) error {
	l := load(streams, burst, b.duration)
	fmt.Printf("\n%v\n", l)
	fmt.Printf(header, "", "events/s", "stamp p50", "p99", "TTFT p50", "p99", "ITL p50", "p99", "coal.", "lag p99", "CPU", "KB", "slip p99", "foreign")
	for _, client := range b.clients {
		f, err := b.median(ctx, client, l)
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			fmt.Printf("%-6s %v\n", client, err)
			continue
		}
		fmt.Print(row(client, f))
	}
	return nil
}

func row(client string, f *calibrate.Figures) string {
	num := func(x float64) string {
		if x >= 1000 || x <= -1000 {
			return fmt.Sprintf("%.0f", x)
		}
		return fmt.Sprintf("%.1f", x)
	}
	lag, coalesced := num(f.Lag.P99), fmt.Sprintf("%.1f%%", 100*f.Coalesced)
	if client == "scan" || client == "json" {
		lag, coalesced = "-", "-" // they do not know
	}
	text := fmt.Sprintf(header, client, fmt.Sprintf("%.0f", f.Rate), num(f.Stamp.P50), num(f.Stamp.P99), num(f.TTFT.P50), num(f.TTFT.P99),
		num(f.ITL.P50), num(f.ITL.P99), coalesced, lag, num(float64(f.PerEvent)/1e3), num(float64(f.Memory)/1024), num(f.Slip.P99), fmt.Sprintf("%.2f", f.Foreign))
	if f.Missing > 0 {
		text = strings.TrimSuffix(text, "\n") + fmt.Sprintf("  %d EVENTS MISSED\n", f.Missing)
	}
	if f.Back > 0 {
		text = strings.TrimSuffix(text, "\n") + fmt.Sprintf("  %d stamps went back\n", f.Back)
	}
	return text
}

// Bounds of the knee, in microseconds of p99 stamp error.
const (
	tight = 10
	loose = 1000
	// whole is the share of coalesced events from which gaps are no longer known.
	whole = 0.01
	// server is the share of the planned rate below which it was the server that
	// could not.
	serverShort = 0.97
)

// broken says that a client is beyond its knee.
func broken(f *calibrate.Figures) bool {
	return f.Stamp.P99 > loose || f.Coalesced > whole || f.Missing > 0
}

// confirmed measures again what broke: it may have been somebody else.
func (b *bench) confirmed(ctx context.Context, client string, l calibrate.Load) (*calibrate.Figures, error) {
	var f *calibrate.Figures
	for range 3 {
		var err error
		if f, err = b.median(ctx, client, l); err != nil {
			return nil, err
		}
		fmt.Print(row(client, f))
		if !broken(f) {
			break
		}
	}
	return f, nil
}

// kneeLoad is one long reply a stream: events alone, no requests between.
func kneeLoad(rate int, d time.Duration) calibrate.Load {
	l := calibrate.NewLoad(kneeStreams, time.Duration(int64(time.Second)*kneeStreams/int64(rate)), d, false)
	l.Events, l.Replies = int(d/l.Every), 1
	return l
}

// knee raises the rate until each client breaks.
func (b *bench) knee(ctx context.Context) error {
	fmt.Printf("\nThe knee: %d streams, evenly spread, the rate raised until p99 of the stamp error is above %d us or %.0f %% of the events are coalesced, three times in a row\n", kneeStreams, loose, 100*whole)
	fmt.Printf(header, "", "events/s", "stamp p50", "p99", "TTFT p50", "p99", "ITL p50", "p99", "coal.", "lag p99", "CPU", "KB", "slip p99", "foreign")
	type result struct {
		tight, loose *calibrate.Figures
		server       bool
	}
	results := map[string]*result{}
	for _, client := range b.clients {
		r := &result{}
		results[client] = r
		for _, rate := range kneeRates() {
			l := kneeLoad(rate, b.duration)
			f, err := b.confirmed(ctx, client, l)
			if err != nil {
				return errors.Join(ctx.Err(), err)
			}
			if f.Rate < serverShort*f.Planned {
				r.server = true
				break
			}
			if broken(f) {
				break
			}
			r.loose = f
			if f.Stamp.P99 <= tight {
				r.tight = f
			}
		}
	}
	fmt.Printf("\n%-6s  %22s  %22s  %14s\n", "", "valid events/s (10 us)", "valid events/s (1 ms)", "CPU/event, us")
	rate := func(f *calibrate.Figures) string {
		if f == nil {
			return "-"
		}
		return fmt.Sprintf("%.0f", f.Rate)
	}
	for _, client := range b.clients {
		r := results[client]
		cpu, note := "-", ""
		if r.loose != nil {
			cpu = fmt.Sprintf("%.2f", float64(r.loose.PerEvent)/1e3)
		}
		if r.server {
			note = "  (the server could write no more)"
		}
		fmt.Printf("%-6s  %22s  %22s  %14s%s\n", client, rate(r.tight), rate(r.loose), cpu, note)
	}
	return nil
}
