// Command truth measures how far a client's stamps are from the truth: ours, a
// bare epoll loop, and the two ways in which clients are usually written.
//
//	go run ./bench/truth
//
// A truth server (package metronome) writes events at planned times and logs when
// it did; every client reads the same loads, each in a process of its own; what
// it stamped is held against the log event by event (package calibrate). On
// Linux with two cores or more the server has the first core and the client the
// second. A measurement waits for a quiet machine, is done again if others were
// active during it (or the hypervisor), and the least disturbed one counts; each cell is the median of its repeats.
//
//	-quick             a first look in a minute
//	-streams 1000      some concurrencies only
//	-clients assay     some clients only
//	-tls               the same under TLS
//	-listen '[::1]:0'  the same by IPv6
//	-connect URL       by a proxy that forwards to the address of -listen
//	-json FILE         everything that was measured
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/assay-bench/assay/internal/calibrate"
	"github.com/assay-bench/assay/internal/cli"
)

func main() {
	tuned := cli.Tune() // the children are measured as the command is
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	cancel()
	runtime.KeepAlive(tuned)
	if err != nil {
		fmt.Fprintln(os.Stderr, "truth:", err)
		os.Exit(1)
	}
}

// plan is what is to be measured, and how carefully.
type plan struct {
	streams  []int
	clients  []string
	repeats  int
	duration time.Duration
	foreign  float64
	retries  int
	knee     bool
	memory   bool
	table    bool
	pin      bool
	busy     int
	json     string
	place    place
	connect  string // host:port that the clients connect to; empty: the server's
	tls      bool   // the clients speak it
}

func run(ctx context.Context, args []string) error {
	if len(args) == 2 && args[0] == roleServer {
		return serve(ctx, args[1])
	}
	if len(args) == 2 && args[0] == roleClient {
		return measure(ctx, args[1])
	}
	p, err := parse(args)
	if err != nil {
		return err
	}
	b, err := newBench(ctx, p)
	if err != nil {
		return err
	}
	defer b.close()
	b.intro()
	if p.table {
		for _, burst := range []bool{false, true} {
			for _, n := range p.streams {
				if err := b.concurrency(ctx, n, burst); err != nil {
					return err
				}
			}
		}
	}
	if p.memory {
		if err := b.memory(ctx); err != nil {
			return err
		}
	}
	if p.knee {
		if err := b.knee(ctx); err != nil {
			return err
		}
	}
	if p.json == "" {
		return nil
	}
	text, err := json.MarshalIndent(b.all, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(p.json, append(text, '\n'), 0o644)
}

func parse(args []string) (*plan, error) {
	p := &plan{}
	f := flag.NewFlagSet("truth", flag.ContinueOnError)
	streams := f.String("streams", "1,10,100,500,1000,5000,10000", "concurrencies")
	clients := f.String("clients", "bare,assay,loop,scan,json", "clients: bare (epoll), assay (a goroutine a stream), loop (our epoll transport), scan (net/http and a line scanner), json (and encoding/json)")
	f.IntVar(&p.repeats, "repeats", 3, "measurements of each cell, of which the median is shown")
	f.DurationVar(&p.duration, "duration", 3*time.Second, "length of one measurement")
	f.Float64Var(&p.foreign, "foreign", 0.08, "CPU of other processes, in cores, above which a measurement is done again")
	f.IntVar(&p.retries, "retries", 3, "how often it is done again at most")
	f.BoolVar(&p.knee, "knee", true, "raise the rate until each client breaks")
	f.BoolVar(&p.table, "table", true, "measure the concurrencies")
	f.BoolVar(&p.pin, "pin", true, "give server and client a core each")
	f.IntVar(&p.busy, "busy", 0, "goroutines that keep the client's own process busy, to see what that does")
	f.StringVar(&p.json, "json", "", "write everything to this file")
	f.BoolVar(&p.memory, "memory", true, "measure the memory of a stream")
	f.StringVar(&p.place.Listen, "listen", "127.0.0.1:0", "where the truth server listens; [::1]:0 for IPv6")
	f.BoolVar(&p.place.TLS, "tls", false, "TLS, with a certificate made for the day")
	connect := f.String("connect", "", "URL of a proxy before the truth server, which the clients then connect to; the bare loop, which counts bytes, cannot")
	quick := f.Bool("quick", false, "short: one repeat, up to 1000 streams, no knee")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	for s := range strings.SplitSeq(*streams, ",") {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("-streams: %q is no count", s)
		}
		p.streams = append(p.streams, n)
	}
	p.tls = p.place.TLS
	if *connect != "" {
		u, err := url.Parse(*connect)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, fmt.Errorf("-connect %q: want http://HOST:PORT or https://HOST:PORT", *connect)
		}
		p.connect, p.tls = u.Host, u.Scheme == "https"
	}
	for s := range strings.SplitSeq(*clients, ",") {
		if _, ok := drives()[s]; !ok {
			return nil, fmt.Errorf("-clients: there is no %q", s)
		}
		if p.tls && (s == "bare" || s == "loop") || p.connect != "" && s == "bare" {
			continue // they cannot
		}
		p.clients = append(p.clients, s)
	}
	if *quick {
		p.repeats, p.duration, p.knee = 1, 2*time.Second, false
		p.streams = slices.DeleteFunc(p.streams, func(n int) bool { return n > 1000 })
	}
	return p, nil
}

// every is the time between two events of a stream: 50 events/s, and less where
// so many streams would be more than 50,000 events/s.
func every(streams int) time.Duration {
	return 20 * time.Millisecond * time.Duration(max(1, streams/1000))
}

// kneeStreams is how many streams share the rate while it is raised.
const kneeStreams = 1000

// kneeRates are the rates that are tried, in events/s of all streams.
func kneeRates() []int {
	return []int{20_000, 40_000, 50_000, 60_000, 70_000, 80_000, 90_000, 100_000, 110_000, 120_000, 140_000, 160_000}
}

// load of a concurrency.
func load(streams int, burst bool, d time.Duration) calibrate.Load {
	return calibrate.NewLoad(streams, every(streams), d, burst)
}
