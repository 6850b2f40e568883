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
	"strings"
	"syscall"
	"time"

	"github.com/assay-bench/assay/environ"
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
	fmt.Fprintf(e.stderr, "about %v; other work on this machine makes the result worse\n", ladder.Planned().Round(time.Second))
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
	c := environ.ReadClient(os.DirFS("/"))
	return calibrate.Host{OS: c.OS, Arch: c.Arch, CPU: c.CPU, CPUs: c.Cores, Kernel: c.Kernel, Go: c.Go}
}

// calibrationTable prints a row a step, while they happen. Rows fit 100 columns.
type calibrationTable struct {
	w      io.Writer
	lagged time.Duration // the limit of read lag that a good step broke; 0: none did
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

// step prints a step. A load may be one for which the client is fit, and yet no run
// of it VALID, since that wants it to read in time, too.
func (t *calibrationTable) step(s calibrate.Step) {
	verdict := s.Verdict
	switch limit := result.DefaultClientLimits().ReadLag; {
	case s.Disturbed():
		verdict = "disturbed"
	case verdict == calibrate.OK && s.Lag.P99 > us(limit):
		verdict, t.lagged = "ok, but lag", limit
	}
	t.row(&s.Figures, verdict)
}

func us(d time.Duration) float64 { return float64(d) / 1e3 }

func (t *calibrationTable) foot(r *calibrate.Result) {
	if b := r.Bare; b != nil {
		t.row(b, "bare epoll loop")
	}
	fmt.Fprintf(t.w, "\nThis client handles %.0f events/s and %d streams with an own error of at most %v at p99.\n", r.MaxEvents, r.MaxStreams, calibrate.MaxError)
	for i := range r.Steps {
		if text := endedBy(&r.Steps[i]); text != "" {
			fmt.Fprintln(t.w, text)
		}
	}
	if t.lagged > 0 {
		fmt.Fprintf(t.w, "ok, but lag: the stamps hold, and a run would be INVALID by its read lag (p99 at most %v; client_limits.read_lag).\n", t.lagged)
	}
	fmt.Fprintf(t.w, "A system call that does nothing costs %d ns here.\n", r.NullSyscall)
	if b := r.Bare; b != nil && b.PerEvent > 0 {
		for _, s := range r.Steps {
			if s.Load == b.Load {
				fmt.Fprintf(t.w, "CPU an event at that rate: %.1f us; of the bare epoll loop: %.1f us.\n", float64(s.PerEvent)/1e3, float64(b.PerEvent)/1e3)
			}
		}
	}
}

// endedBy says what ended the ladder at a step; "" if that did not.
func endedBy(s *calibrate.Step) string {
	where := fmt.Sprintf("At %d streams, %.0f events/s: ", s.Load.Streams, s.Planned)
	switch {
	case s.Verdict == calibrate.OK:
		return ""
	case s.Disturbed():
		return fmt.Sprintf("%s%s, while other processes took %.1f cores: no limit of this client. Repeat it on a quiet machine.", where, s.Verdict, s.Foreign)
	case s.Verdict == calibrate.Server:
		return where + "the truth server could write no more, and shares these cores: the client takes at least what is above."
	}
	return where + s.Verdict + " beyond the limit, in each of its tries."
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
	r, err := calibrate.Read(path)
	warn := func(text string) []result.Warning { return []result.Warning{{Code: "calibration", Text: text}} }
	switch {
	case err != nil:
		return warn("the stored calibration is of no use: " + errors.Unwrap(err).Error() + "; make one by assay calibrate")
	case r == nil:
		return nil
	}
	if why := r.Stale(thisHost(), version()); why != "" {
		return warn(fmt.Sprintf("the calibration of %s does not hold any more: %s; make one by assay calibrate", r.Time.Format(time.DateOnly), why))
	}
	if text := r.Exceeds(m.Peak()); text != "" {
		return warn(text)
	}
	return nil
}
