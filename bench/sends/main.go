// Command sends measures how late an open loop sends, through a whole run: the
// schedule, the look-ahead of prompts, the pacer, the transport, the records on
// disk and the verdict are those of assay run. The far side is the truth server
// in a process of its own, which answers each request with two short events.
//
//	go run ./bench/sends
//	go run ./bench/sends -rates 1000,5000 -duration 20s
//	go run ./bench/sends -rates 1000 -scrape 1s -pairs 3   # without and with scraping, in turn
//
// On Linux with two cores or more the server has the first core and the client the
// second (-pin=false: both have all).
//
// Lateness is sent - scheduled, connection set-up left out, as in the client
// verdict.
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/assay-bench/assay/bench/internal/pin"
	"github.com/assay-bench/assay/dialect"
	"github.com/assay-bench/assay/experiment"
	"github.com/assay-bench/assay/internal/cli"
	"github.com/assay-bench/assay/internal/clock"
	"github.com/assay-bench/assay/internal/metronome"
	"github.com/assay-bench/assay/load/real"
	"github.com/assay-bench/assay/load/sched"
	"github.com/assay-bench/assay/metric"
	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/result"
	"github.com/assay-bench/assay/rundir"
	"github.com/assay-bench/assay/stat"
	"github.com/assay-bench/assay/wire"
	"github.com/assay-bench/assay/workload"
)

// roleServer is the first argument of the child that serves.
const roleServer = "-role=server"

func main() {
	tuned := cli.Tune() // as the command is
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx)
	cancel()
	runtime.KeepAlive(tuned)
	if err != nil {
		fmt.Fprintln(os.Stderr, "sends:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	if len(os.Args) == 2 && os.Args[1] == roleServer {
		return serve(ctx)
	}
	rates := flag.String("rates", "500,1000,2000,5000", "arrivals per second (Poisson)")
	duration := flag.Duration("duration", 10*time.Second, "measured window of each")
	loop := flag.Bool("epoll", false, "the epoll transport instead of a goroutine a stream")
	interval := flag.Duration("scrape", 0, "measure each rate without scraping, and with a scrape of a page of metrics every so often")
	pinned := flag.Bool("pin", true, "give server and client a core each")
	pairs := flag.Int("pairs", 1, "how often each pair is measured, with -scrape")
	flag.Parse()
	*pinned = *pinned && pin.Possible()
	addr, page, stop, err := startServer(ctx, *pinned)
	if err != nil {
		return err
	}
	defer stop()
	if *pinned {
		if err := pin.Self(pin.ClientCore); err != nil {
			return err
		}
	}
	fmt.Printf("%9s %8s %9s  %9s %9s %9s  %9s  %6s  %s\n", "rate", "scraping", "sends", "p50 us", "p99 us", "max us", "lag p99", "cores", "client verdict")
	for text := range strings.SplitSeq(*rates, ",") {
		rate, err := strconv.ParseFloat(text, 64)
		if err != nil || rate <= 0 {
			return fmt.Errorf("-rates: %q is no rate", text)
		}
		m := measurement{addr: addr, rate: rate, window: *duration, loop: *loop}
		if *interval == 0 {
			*pairs = 1
		}
		for range *pairs {
			if err := m.make(ctx); err != nil {
				return err
			}
			if *interval == 0 {
				continue
			}
			scraped := m
			scraped.page, scraped.interval = page, *interval
			if err := scraped.make(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// measurement is one run.
type measurement struct {
	addr     string
	rate     float64
	window   time.Duration
	loop     bool
	page     string // URL of the metrics to scrape; empty: none
	interval time.Duration
}

// exposition is a page of metrics of the size that a loaded vLLM with several
// engines has: 200 KB.
func exposition() []byte {
	var b bytes.Buffer
	for h := range 24 {
		fmt.Fprintf(&b, "# HELP bench:histogram_%d_seconds A histogram.\n# TYPE bench:histogram_%d_seconds histogram\n", h, h)
		for engine := range 4 {
			for bound := range 20 {
				fmt.Fprintf(&b, "bench:histogram_%d_seconds_bucket{engine=\"%d\",model_name=\"truth\",le=\"%d\"} %d\n", h, engine, 1<<bound, 1000*bound)
			}
			fmt.Fprintf(&b, "bench:histogram_%d_seconds_bucket{engine=\"%d\",model_name=\"truth\",le=\"+Inf\"} 20000\n", h, engine)
			fmt.Fprintf(&b, "bench:histogram_%d_seconds_sum{engine=\"%d\",model_name=\"truth\"} 12345.678\nbench:histogram_%d_seconds_count{engine=\"%d\",model_name=\"truth\"} 20000\n", h, engine, h, engine)
		}
	}
	return b.Bytes()
}

// serve is the child: it tells its address, and ends with its parent.
func serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	s, err := metronome.New()
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	metrics, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	body := exposition()
	go func() {
		_ = http.Serve(metrics, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain; version=0.0.4")
			_, _ = w.Write(body)
		}))
	}()
	fmt.Println(ln.Addr(), metrics.Addr())
	return s.Serve(ctx, ln)
}

func startServer(ctx context.Context, pinned bool) (addr, page string, stop func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return "", "", nil, err
	}
	cmd := exec.CommandContext(ctx, self, roleServer)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return "", "", nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", "", nil, err
	}
	start := cmd.Start
	if pinned {
		start = func() error { return pin.StartOn(pin.ServerCore, cmd.Start) }
	}
	if err := start(); err != nil {
		return "", "", nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return "", "", nil, fmt.Errorf("starting the server: %w", err)
	}
	addr, page, _ = strings.Cut(strings.TrimSpace(line), " ")
	return addr, page, func() { _ = in.Close(); _ = cmd.Wait() }, nil
}

// sampler scrapes the page into the run's directory, by connections of its own.
func (m *measurement) sampler(k *clock.Clock, w *rundir.Writer) (s *real.Sampler, done func() error, err error) {
	endpoint, err := real.ParseEndpoint("http://" + m.page)
	if err != nil {
		return nil, nil, err
	}
	client, err := wire.NewClient(wire.Config{Scheme: endpoint.Scheme, Host: endpoint.Host, ConnMode: wire.ConnReuse, Clock: k})
	if err != nil {
		return nil, nil, err
	}
	log, err := w.Scrapes()
	if err != nil {
		client.Close()
		return nil, nil, err
	}
	source := real.NewSource(real.NewTarget(endpoint, client, k, http.Header{}), "/metrics")
	s = real.NewSampler([]*real.Source{source}, k, m.interval, func(p real.Scraped) {
		_ = log.Append(rundir.Scrape{URL: p.URL, Round: p.Round, When: rundir.DuringLoad, Before: p.Page.Before, After: p.Page.After, Status: p.Page.Status}, p.Page.Body)
	})
	return s, func() error { client.Close(); return log.Close() }, nil
}

// make makes a whole run, and prints its line.
func (m measurement) make(ctx context.Context) (err error) {
	addr, rate, window, loop := m.addr, m.rate, m.window, m.loop
	k := clock.Start()
	// Two events, the first half a millisecond after the request.
	endpoint, err := real.ParseEndpoint("http://" + addr + "/v1/chat/completions?events=2&every=500000&size=200")
	if err != nil {
		return err
	}
	client, err := wire.NewClient(wire.Config{Scheme: endpoint.Scheme, Host: endpoint.Host, ConnMode: wire.ConnReuse, Clock: k})
	if err != nil {
		return err
	}
	defer client.Close()
	target := real.NewTarget(endpoint, client, k, http.Header{})
	target.Dialect, target.Options = dialect.Chat{}, dialect.Options{Model: "truth", Stream: true}
	if loop {
		closeLoop, err := target.UseLoop()
		if err != nil {
			return err
		}
		defer closeLoop()
	}
	spec := workload.Default()
	spec.PromptTokens, spec.OutputTokens = workload.FixedLength(64), workload.FixedLength(2)
	spec.Arrival = workload.Arrival{Process: workload.Poisson, Rate: rate}
	plan, err := workload.NewPlan(spec, 1)
	if err != nil {
		return err
	}
	content := workload.Uncalibrated(workload.CalibrateOptions{Chat: true, Lengths: []int{64}, Nonce: "sends"})
	dir, err := os.MkdirTemp("", "assay-sends-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	writer, err := rundir.Create(dir, "sends", rundir.Meta{Epoch: k.Epoch(), Limits: result.DefaultClientLimits()})
	if err != nil {
		return err
	}
	arrivals := plan.Arrivals()
	runner, err := real.NewRunner(target, sched.Config{Gap: func() int64 { return int64(arrivals.Next()) }}, 64, func() (record.Request, bool) {
		q, ok := plan.Next()
		content.Fill(&q)
		return q, ok
	})
	if err != nil {
		return err
	}
	if err := target.Prewarm(ctx, 64); err != nil {
		return err
	}
	health := real.Watch(target)
	if m.page != "" {
		sampler, done, err := m.sampler(k, writer)
		if err != nil {
			return err
		}
		sampler.Start(ctx)
		defer func() { sampler.Stop(); _ = done() }()
	}
	st := experiment.NewStage(experiment.Plan{Name: "s", OpenLoop: true, Duration: window, Warmup: experiment.MSER5, WarmupMax: 5 * time.Second, CooldownMax: 10 * time.Second}, writer)
	if err := errors.Join(runner.Run(ctx, st), st.Err()); err != nil {
		return err
	}
	info := st.Info(record.Stamp(k.Now()))
	info.Health = health.Read()
	if err := writer.Close(true, ""); err != nil {
		return err
	}
	return m.show(writer.Dir(), info)
}

// show reads the run back.
func (m *measurement) show(dir string, info result.StageInfo) error {
	d, err := rundir.Open(dir)
	if err != nil {
		return err
	}
	out := experiment.Conclude(info, &result.Target{}, d.Records, result.DefaultClientLimits(), metric.Options{Planned: true})
	if err := d.Err(); err != nil {
		return err
	}
	var late []float64
	for a := range d.Records {
		if info.Window.Contains(a.Scheduled) && a.Sent.Known() {
			late = append(late, (float64(a.Sent-a.Scheduled)-float64(a.DNS+a.Connect+a.TLS))/1e3)
		}
	}
	if len(late) == 0 {
		return fmt.Errorf("nothing was sent: %v", out.Errors)
	}
	slices.Sort(late)
	lag := "-"
	if s := out.Metrics.ReadLag; s != nil && s.P99 != nil {
		lag = fmt.Sprintf("%.1f", *s.P99*1000)
	}
	h := &info.Health
	scraping := "-"
	if m.page != "" {
		scraping = m.interval.String()
	}
	fmt.Printf("%7.0f/s %8s %9d  %9.1f %9.1f %9.0f  %9s  %6.2f  %s %s\n", m.rate, scraping, len(late), stat.Quantile(late, 0.5, stat.Type7), stat.Quantile(late, 0.99, stat.Type7),
		late[len(late)-1], lag, float64(h.CPU)/float64(h.Elapsed), out.Client.Verdict, out.Client.Cause)
	return nil
}
