package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/assay-bench/assay/internal/calibrate"
	"github.com/assay-bench/assay/internal/clock"
	"github.com/assay-bench/assay/internal/metronome"
	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/result"
)

type calibrateCmd struct {
	Out        string        `placeholder:"FILE" help:"Where to store the result; default: calibration.json in assay's folder of your configuration directory, where assay run looks."`
	Step       time.Duration `default:"2s" help:"Length of one step."`
	MaxStreams int           `placeholder:"N" help:"Go no further than so many streams."`
	JSON       bool          `name:"json" help:"Print the result as JSON."`
}

// Help implements kong's detailed help.
func (calibrateCmd) Help() string {
	return `Finds how many streams and events/s this client handles on this machine before its
own error passes 1 ms at p99. A truth server in a process of its own writes events
at known times over loopback and logs them; the client's stamps are held against
that log, event by event, while the load rises. Server and client share this
machine's cores, so that with the server elsewhere there is somewhat more room.

Stamp error: event stamp - the server's write begun. TTFT error: likewise, from the
request on. Lag: how much later than the kernel's stamp we read. assay run warns
when a run goes beyond 70 % of what was found.`
}

// Run implements the command.
func (c *calibrateCmd) Run(e *env) error {
	path, err := c.path()
	if err != nil {
		return err
	}
	if c.Step <= 0 || c.MaxStreams < 0 {
		return usagef("--step and --max-streams: want more than nothing")
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	k := clock.Start()
	if _, ok := k.Monotonic(); !ok {
		return usagef("calibrate: %w, so a client's stamps cannot be held against a server's", metronome.ErrNoSharedClock)
	}
	ladder := calibrate.DefaultLadder()
	ladder.Duration = c.Step
	ladder.Limit(c.MaxStreams)
	ladder.Limit(calibrate.MaxConnections())
	fmt.Fprintf(e.stderr, "at most %v; other work on this machine makes the result worse\n", ladder.Planned().Round(time.Second))
	server, err := startChild(ctx, "the truth server", []string{truthServer}, e.stderr)
	if err != nil {
		return err
	}
	defer server.stop()
	table := calibrationTable{w: e.stdout}
	if c.JSON {
		table.w = io.Discard
	}
	table.head()
	addr := strings.TrimPrefix(server.url, "http://")
	measure := func(ctx context.Context, drive calibrate.Drive, l calibrate.Load) (*calibrate.Figures, error) {
		s, err := calibrate.NewSession(addr, server.cmd.Process.Pid, l, k)
		if err != nil {
			return nil, err
		}
		return s.Run(ctx, drive)
	}
	r, err := ladder.Climb(ctx, measure, table.step)
	if err != nil {
		return fmt.Errorf("calibrating: %w", interruptedOr(ctx, err))
	}
	r.Time, r.Tool, r.Host, r.NullSyscall = k.Epoch().UTC(), version(), thisHost(), calibrate.NullSyscall(k.Now)
	table.foot(r)
	if err := r.Save(path); err != nil {
		return err
	}
	fmt.Fprintf(e.stderr, "stored in %s\n", path)
	if !c.JSON {
		return nil
	}
	enc := json.NewEncoder(e.stdout)
	enc.SetIndent("", " ")
	return enc.Encode(r)
}

func (c *calibrateCmd) path() (string, error) {
	if c.Out != "" {
		return c.Out, nil
	}
	path, err := calibrate.Path()
	if err != nil {
		return "", usagef("%w; give a file by --out", err)
	}
	return path, nil
}

func thisHost() calibrate.Host {
	return calibrate.Host{OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Go: runtime.Version()}
}

// calibrationTable prints a row a step, while they happen. Rows fit 100 columns.
type calibrationTable struct {
	w io.Writer
}

const calibrationRow = "%8s %9s  %9s %9s  %9s %9s  %6s %9s  %5s  %s\n"

func (t *calibrationTable) head() {
	fmt.Fprintf(t.w, calibrationRow, "", "", "stamp", "error", "TTFT", "error", "", "lag", "CPU", "")
	fmt.Fprintf(t.w, calibrationRow, "streams", "events/s", "p50 us", "p99 us", "p50 us", "p99 us", "coal.", "p99 us", "cores", "verdict")
}

func (t *calibrationTable) row(f *calibrate.Figures, verdict string) {
	num := func(x float64) string {
		if x >= 100 || x <= -100 {
			return fmt.Sprintf("%.0f", x)
		}
		return fmt.Sprintf("%.1f", x)
	}
	fmt.Fprintf(t.w, calibrationRow, fmt.Sprint(f.Load.Streams), fmt.Sprintf("%.0f", f.Rate), num(f.Stamp.P50), num(f.Stamp.P99),
		num(f.TTFT.P50), num(f.TTFT.P99), fmt.Sprintf("%.1f%%", 100*f.Coalesced), num(f.Lag.P99), fmt.Sprintf("%.2f", f.CPU), verdict)
}

func (t *calibrationTable) step(s calibrate.Step) { t.row(&s.Figures, s.Verdict) }

func (t *calibrationTable) foot(r *calibrate.Result) {
	if b := r.Bare; b != nil {
		t.row(b, "bare epoll loop")
	}
	fmt.Fprintf(t.w, "\nThis client handles %.0f events/s (%s) and %d streams (%s) with an own error of at most %v at p99.\n",
		r.MaxEvents, limitText(r.EventsLimit), r.MaxStreams, limitText(r.StreamsLimit), calibrate.MaxError)
	fmt.Fprintf(t.w, "A system call that does nothing costs %d ns here.\n", r.NullSyscall)
	if b := r.Bare; b != nil && b.PerEvent > 0 {
		for _, s := range r.Steps {
			if s.Load == b.Load {
				fmt.Fprintf(t.w, "CPU an event at that rate: %.1f us; of the bare epoll loop: %.1f us.\n", float64(s.PerEvent)/1e3, float64(b.PerEvent)/1e3)
			}
		}
	}
}

// limitText says why the ladder ended.
func limitText(why string) string {
	switch why {
	case calibrate.EndOfLadder:
		return "no more was tried"
	case calibrate.Server:
		return "the truth server could write no more"
	}
	return "then: " + why
}

// truthServer is the hidden command behind assay calibrate.
const truthServer = "truth-server"

type truthServerCmd struct{}

// Run implements the command.
func (truthServerCmd) Run(e *env) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, e.stdin)
		cancel()
	}()
	s, err := metronome.New()
	if err != nil {
		return usageError{err}
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("serving the truth: %w", err)
	}
	fmt.Fprintf(e.stdout, "%shttp://%s\n", listening, ln.Addr())
	return s.Serve(ctx, ln)
}

// metered counts the load of a stage while it is stored.
type metered struct {
	*journal
	meter calibrate.Meter
}

// Ended implements the observer of a runner.
func (m *metered) Ended(a *record.Attempt, events []record.Event) {
	m.meter.Events(events)
	m.journal.Ended(a, events)
}

// Tick implements the observer of a runner.
func (m *metered) Tick(now record.Stamp, inFlight int, oldest record.Stamp) (stop, abandon bool) {
	m.meter.InFlight(inFlight)
	return m.journal.Tick(now, inFlight, oldest)
}

// beyondCalibration warns of a load that is too near to what this client was
// found to handle. Without a calibration there is nothing to say.
func beyondCalibration(m *calibrate.Meter) []result.Warning {
	path, err := calibrate.Path()
	if err != nil {
		return nil
	}
	r, err := calibrate.Read(path, thisHost())
	switch {
	case err != nil:
		return []result.Warning{{Code: "calibration", Text: "the stored calibration is of no use: " + errors.Unwrap(err).Error() + "; make one by assay calibrate"}}
	case r == nil:
		return nil
	}
	text := r.Exceeds(m.Peak())
	if text == "" {
		return nil
	}
	return []result.Warning{{Code: "calibration", Text: text}}
}
