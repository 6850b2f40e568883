package calibrate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Limits within which a client is fit to measure.
const (
	// MaxError bounds p99 of the stamp error and of the TTFT error.
	MaxError = time.Millisecond
	// MaxCoalesced is the share of events without a read of their own from which the
	// p99 of the error is theirs. The client verdict of a run allows more, since a
	// run counts them and withholds its gaps.
	MaxCoalesced = 0.01
	// ServerShort is the share of the planned rate that the server must reach:
	// below it, it was the server that could not.
	ServerShort = 0.97
	// Safe is the share of what was found that a run may use without a warning.
	Safe = 0.7
)

// Verdicts of a step.
const (
	OK     = "ok"
	Server = "server limit"
	// EndOfLadder stands for a limit where none was found.
	EndOfLadder = "end of the ladder"
)

// Step is one rung of the ladder.
type Step struct {
	Figures
	// Verdict is OK, or what was beyond its limit.
	Verdict string `json:"verdict"`
	// Tries it took: a step that fails is done again.
	Tries int `json:"tries"`
}

// judge says whether the client was fit at this load.
func judge(f *Figures) string {
	limit := float64(MaxError) / 1e3
	switch {
	case f.Missing > 0:
		return fmt.Sprintf("%d events missed", f.Missing)
	case f.Stamp.P99 > limit:
		return "stamp error"
	case f.TTFT.P99 > limit:
		return "TTFT error"
	case f.Coalesced > MaxCoalesced:
		return "coalesced"
	case f.Rate < ServerShort*f.Planned:
		return Server
	}
	return OK
}

// Result is a calibration as it is stored.
type Result struct {
	Format int       `json:"format"`
	Time   time.Time `json:"time"`
	Tool   string    `json:"tool"`
	Host   Host      `json:"host"`
	// What the client handles: the most of any step that was OK, each with a
	// true statement of the other: so many events/s over so many streams.
	MaxEvents  float64 `json:"max_events_per_second"`
	MaxStreams int     `json:"max_streams"`
	// EventsLimit and StreamsLimit say why the ladder ended there.
	EventsLimit  string `json:"events_limit"`
	StreamsLimit string `json:"streams_limit"`
	NullSyscall  int64  `json:"null_syscall_ns"`
	Steps        []Step `json:"steps"`
	// Bare is the bare epoll loop at the highest events/s that were OK.
	Bare *Figures `json:"bare,omitempty"`
}

// Host is what a calibration holds for.
type Host struct {
	OS     string `json:"os"`
	Arch   string `json:"arch"`
	CPU    string `json:"cpu,omitempty"` // as the system names it
	CPUs   int    `json:"cpus"`          // that the process may use
	Kernel string `json:"kernel,omitempty"`
	Go     string `json:"go"`
}

// format is the version of Result.
const format = 2

// Stale says why a calibration does not hold for host h and version tool; "" if
// it does. Another version of Go alone is no reason.
func (r *Result) Stale(h Host, tool string) string {
	for _, d := range []struct{ what, was, is string }{
		{"format", fmt.Sprint(r.Format), fmt.Sprint(format)},
		{"system", r.Host.OS + "/" + r.Host.Arch, h.OS + "/" + h.Arch},
		{"CPU", r.Host.CPU, h.CPU},
		{"CPUs", fmt.Sprint(r.Host.CPUs), fmt.Sprint(h.CPUs)},
		{"kernel", r.Host.Kernel, h.Kernel},
		{"assay", r.Tool, tool},
	} {
		if d.was != d.is {
			return fmt.Sprintf("%s was %s and is %s", d.what, cmp.Or(d.was, "not known"), cmp.Or(d.is, "not known"))
		}
	}
	return ""
}

// Ladder is what is tried.
type Ladder struct {
	// Busy are streams with 50 events/s each, Wide with 5; both rise.
	Busy, Wide []int
	// Each step takes so long.
	Duration time.Duration
}

// Intervals of the two parts of the ladder.
const (
	busyEvery = 20 * time.Millisecond
	wideEvery = 200 * time.Millisecond
)

// DefaultLadder goes to 200,000 events/s and to 10,000 streams, if all goes well.
func DefaultLadder() Ladder {
	return Ladder{
		Busy:     []int{10, 100, 250, 500, 750, 1000, 1250, 1500, 2000, 2500, 3000, 4000},
		Wide:     []int{2500, 5000, 10000},
		Duration: 2 * time.Second,
	}
}

// overhead of a step: opening its streams, reading the log.
const overhead = 700 * time.Millisecond

// Planned is how long the ladder takes at most.
func (l *Ladder) Planned() time.Duration {
	return time.Duration(len(l.Busy)+len(l.Wide)+1) * (l.Duration + settle + overhead)
}

// Limit drops the steps with more than n streams; 0 drops none. The last one left
// of the second part is n itself if that is less than it would have been.
func (l *Ladder) Limit(n int) {
	if n == 0 {
		return
	}
	above := func(m int) bool { return m > n }
	l.Busy = slices.DeleteFunc(l.Busy, above)
	if slices.ContainsFunc(l.Wide, above) {
		l.Wide = append(slices.DeleteFunc(l.Wide, above), n)
	}
	if len(l.Busy) == 0 {
		l.Busy = []int{n}
	}
}

// Climb measures rung by rung. Run measures one load with one client; told is
// called after every step.
func (l *Ladder) Climb(ctx context.Context, run func(context.Context, Drive, Load) (*Figures, error), told func(Step)) (*Result, error) {
	r := &Result{Format: format}
	busy, err := l.part(ctx, r, l.Busy, busyEvery, run, told)
	if err != nil {
		return nil, err
	}
	r.EventsLimit = busy
	wide, err := l.part(ctx, r, l.Wide, wideEvery, run, told)
	if err != nil {
		return nil, err
	}
	r.StreamsLimit = wide
	best := r.best()
	if best == nil { // not even the first steps held: nothing to compare
		return r, nil
	}
	r.Bare, err = run(ctx, Bare, best.Load)
	return r, err
}

// part climbs until a step fails. Limit says what ended it.
func (l *Ladder) part(ctx context.Context, r *Result, streams []int, every time.Duration, run func(context.Context, Drive, Load) (*Figures, error), told func(Step)) (limit string, err error) {
	for _, n := range streams {
		load := NewLoad(n, every, l.Duration, false)
		s, err := l.step(ctx, load, run)
		if err != nil {
			return "", err
		}
		r.Steps = append(r.Steps, s)
		told(s)
		if s.Verdict != OK {
			return s.Verdict, nil
		}
		r.MaxStreams = max(r.MaxStreams, n)
		r.MaxEvents = max(r.MaxEvents, s.Rate)
	}
	return EndOfLadder, nil
}

// best is the step that was OK with the most events/s.
func (r *Result) best() *Step {
	var best *Step
	for i := range r.Steps {
		s := &r.Steps[i]
		if s.Verdict == OK && (best == nil || s.Rate > best.Rate) {
			best = s
		}
	}
	return best
}

// maxTries of a step, and more of one that others disturb.
const (
	maxTries          = 3
	maxDisturbedTries = 5
)

// disturbing is the CPU of others, in cores, that explains a failure.
const disturbing = 0.1

// Disturbed reports whether others took so much of the CPU that a step says
// nothing of the client.
func (s *Step) Disturbed() bool { return s.Verdict != OK && s.Foreign > disturbing }

// step measures a load, and again if it fails: something else may have run.
func (l *Ladder) step(ctx context.Context, load Load, run func(context.Context, Drive, Load) (*Figures, error)) (Step, error) {
	var s Step
	for try := range maxDisturbedTries {
		if try >= maxTries && !s.Disturbed() {
			break
		}
		f, err := run(ctx, Assay, load)
		if err != nil {
			return s, err
		}
		s = Step{Figures: *f, Verdict: judge(f), Tries: try + 1}
		if s.Verdict == OK {
			break
		}
	}
	return s, nil
}

// Exceeds says whether a load is beyond the safe share of what was found. The
// text is empty if not.
func (r *Result) Exceeds(events float64, streams int) string {
	switch {
	case events > Safe*r.MaxEvents:
		return fmt.Sprintf("%.0f events/s are more than %.0f %% of the %.0f that this client handles on this machine by the calibration of %s",
			events, 100*Safe, r.MaxEvents, r.Time.Format(time.DateOnly))
	case float64(streams) > Safe*float64(r.MaxStreams):
		return fmt.Sprintf("%d streams at once are more than %.0f %% of the %d that this client handles on this machine by the calibration of %s",
			streams, 100*Safe, r.MaxStreams, r.Time.Format(time.DateOnly))
	}
	return ""
}

// Path is where a calibration is kept: in the user's configuration directory.
func Path() (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("finding where to keep the calibration: %w", err)
	}
	return filepath.Join(dir, "assay", "calibration.json"), nil
}

// Save stores a calibration, in place of an older one.
func (r *Result) Save(path string) error {
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return fmt.Errorf("encoding the calibration: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("storing the calibration: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".calibration-*")
	if err != nil {
		return fmt.Errorf("storing the calibration: %w", err)
	}
	_, err = f.Write(append(b, '\n'))
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("storing the calibration: %w", err)
	}
	return nil
}

// Read reads a stored calibration, nil if there is none. See [Result.Stale].
func Read(path string) (*Result, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the calibration: %w", err)
	}
	var r Result
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, fmt.Errorf("reading the calibration in %s: %w", path, err)
	}
	return &r, nil
}
