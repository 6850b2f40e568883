package experiment

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/result"
)

// Window closers, as stored in a run.
const (
	closedByDuration  = "duration"
	closedByRequests  = "requests"
	closedByInterrupt = "interrupted"
	closedByError     = "error"
	closedByWorkload  = "the workload was over"
	closedByUntilCI   = "until-ci"
)

// Stage runs the phases of one stage: it decides when the warm-up is over, when
// the window closes, and when nothing more needs to be waited for. It is safe
// for concurrent use.
type Stage struct {
	plan Plan
	rec  Recorder

	mu           sync.Mutex
	phase        record.Phase
	window       record.Window
	closed       string
	warm         warmup
	warmupResult result.Warmup
	started      record.Stamp // first tick
	due          int          // requests scheduled in the window and dispatched
	lastDue      record.Stamp // the latest scheduled time of them
	completed    int
	stopAt       record.Stamp // when sending stopped
	inFlight     int
	flushed      record.Stamp
	sampled      record.Stamp
	halted       string
	err          error

	lookout *lookout // of the open window; nil if no precision is asked for. Ended and Tick alone use it
	untilCI UntilCI  // what its last look saw

	live    *hdrhistogram.Histogram // TTFT so far, us; live view only
	liveOut int64                   // output tokens completed so far
	marks   []mark                  // of liveOut, over the last seconds
}

// NewStage prepares a stage whose attempts go to rec.
func NewStage(p Plan, rec Recorder) *Stage {
	s := &Stage{plan: p, rec: rec, phase: record.Warmup, live: hdrhistogram.New(1, int64(time.Hour/time.Microsecond), 3)}
	s.warm.plan = &s.plan
	s.lookout, s.untilCI = newLookout(&s.plan), p.UntilCI
	return s
}

// Due implements [Observer].
func (s *Stage) Due(scheduled record.Stamp) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.plan.Warmup == NoWarmup && s.phase == record.Warmup {
		s.open(scheduled)
	}
	if !s.inWindow(scheduled) {
		return
	}
	s.due++
	s.lastDue = max(s.lastDue, scheduled)
	if s.phase == record.Measured && s.plan.Requests > 0 && s.due == s.plan.Requests {
		s.close(s.lastDue+1, closedByRequests)
	}
}

// inWindow reports whether a request scheduled at t is due in the window, which
// may still be open.
func (s *Stage) inWindow(t record.Stamp) bool {
	return s.window.Start != 0 && t >= s.window.Start && (s.window.End == 0 || t < s.window.End)
}

// phaseOf names the phase of a request that has ended: whatever is not decided
// yet lies in the future of its scheduled time.
func (s *Stage) phaseOf(t record.Stamp) record.Phase {
	switch {
	case s.inWindow(t):
		return record.Measured
	case s.window.Start == 0 || t < s.window.Start:
		return record.Warmup
	}
	return record.Cooldown
}

// Ended implements [Observer].
func (s *Stage) Ended(a *record.Attempt, events []record.Event) {
	s.mu.Lock()
	a.Stage, a.Phase = s.plan.Name, s.phaseOf(a.Scheduled)
	if a.Outcome == record.Completed {
		s.observeCompleted(a)
		if s.lookout != nil && s.phase == record.Measured && a.Phase == record.Measured {
			s.lookout.add(a)
		}
	}
	s.mu.Unlock()
	if err := s.rec.Append(a, events); err != nil {
		s.fail(err)
	}
}

func (s *Stage) observeCompleted(a *record.Attempt) {
	s.completed++
	first, ok := a.FirstText.Since(a.Sent)
	if ok {
		_ = s.live.RecordValue(max(1, first.Microseconds())) // out of range only beyond an hour
	} else if first, ok = a.EOF.Since(a.Sent); !ok {
		return
	}
	var perToken float64
	if a.Usage != nil {
		s.liveOut += int64(a.Usage.CompletionTokens)
		if span, ok := a.LastText.Since(a.FirstText); ok && a.Usage.CompletionTokens > 1 {
			perToken = float64(span) / 1e6 / float64(a.Usage.CompletionTokens-1)
		}
	}
	if s.phase != record.Warmup {
		return
	}
	s.warm.whole = s.warm.whole || !a.FirstText.Known()
	s.warm.residence += a.Ended - a.Sent
	s.warm.add(float64(first)/1e6, perToken, s.inFlight)
}

// Tick implements [Observer].
func (s *Stage) Tick(now record.Stamp, inFlight int, oldest record.Stamp) (stop, abandon bool) {
	stop, abandon = s.advance(now, inFlight, oldest)
	if s.lookout == nil {
		return stop, abandon
	}
	s.mu.Lock()
	open, window := s.phase == record.Measured, s.window
	s.mu.Unlock()
	if !open || !s.lookout.due(now, window) {
		return stop, abandon
	}
	// Without the lock: whoever sends must not wait for it.
	narrow := s.lookout.look(now, oldest)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.untilCI = slices.Clone(s.lookout.targets)
	if narrow && s.phase == record.Measured {
		s.close(max(now, s.lastDue+1), closedByUntilCI)
	}
	return stop, abandon
}

// advance moves on to the next phase if it is time.
func (s *Stage) advance(now record.Stamp, inFlight int, oldest record.Stamp) (stop, abandon bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight = inFlight
	s.mark(now)
	s.flush(now)
	if s.started == 0 {
		s.started = now
	}
	if s.halted != "" {
		s.halt(now)
		return true, true
	}
	switch s.phase {
	case record.Warmup:
		s.tickWarmup(now)
	case record.Measured:
		if s.plan.Duration > 0 && now >= s.window.End {
			s.close(s.window.End, closedByDuration)
		}
	case record.Cooldown:
		return s.tickCooldown(now, oldest)
	}
	return false, false
}

// mark is how much output had been completed at a moment.
type mark struct {
	at  record.Stamp
	out int64
}

// liveSpan is what a live rate is taken over.
const liveSpan = 5 * time.Second

// mark keeps the marks of about the last liveSpan.
func (s *Stage) mark(now record.Stamp) {
	if n := len(s.marks); n > 0 && now < s.marks[n-1].at.Add(tickSpacing) {
		return
	}
	old := 0
	for old+1 < len(s.marks) && now > s.marks[old+1].at.Add(liveSpan) {
		old++
	}
	s.marks = append(s.marks[old:], mark{now, s.liveOut})
}

// flush lets the recorder put what it has on disk once a second.
func (s *Stage) flush(now record.Stamp) {
	if now < s.flushed.Add(time.Second) {
		return
	}
	s.flushed = now
	if err := s.rec.Flush(); err != nil && s.err == nil {
		s.err, s.halted = err, closedByError
	}
}

// tickSpacing is the least distance of two samples of the number in flight; a
// runner may tick more often.
const tickSpacing = 200 * time.Millisecond

func (s *Stage) tickWarmup(now record.Stamp) {
	spent := time.Duration(now - s.started)
	if now >= s.sampled.Add(tickSpacing) {
		s.sampled = now
		s.warm.tick(s.inFlight)
	}
	switch {
	case s.warm.completions() >= s.lookAt() && s.look():
		s.warmupResult.Detected = true
	case s.plan.WarmupMax > 0 && spent >= s.plan.WarmupMax:
		s.warmupResult.Capped = "duration"
	default:
		return
	}
	s.open(now)
}

// lookAt is the number of completions at which the rule is asked next.
func (s *Stage) lookAt() int { return (s.warmupResult.Requests/checkEvery + 1) * checkEvery }

func (s *Stage) look() bool {
	s.warmupResult.Requests = s.warm.completions()
	return s.warm.settled()
}

// open begins the measured window at t. It is opened anew after the detection:
// to report the data that the test was run on would bias it.
func (s *Stage) open(t record.Stamp) {
	w := &s.warmupResult
	w.Rule, w.Requests = string(s.plan.Warmup), s.warm.completions()
	if s.started != 0 {
		w.Duration = time.Duration(t - s.started)
	}
	w.MedianRule, w.CUSUM, w.MeanResidence = s.warm.medianText(), s.warm.cusumText(), s.warm.meanResidence()
	switch {
	case s.plan.Warmup == NoWarmup:
		w.Text = "none, as asked: the first requests are in the sample"
	case w.Detected:
		w.Text = fmt.Sprintf("stationary by %s after %d completions in %.1f s", s.plan.Warmup, w.Requests, w.Duration.Seconds())
	default:
		w.Text = fmt.Sprintf("not stabilised: %s had not fired after %d completions when the cap of %s was reached",
			s.plan.Warmup, w.Requests, s.plan.WarmupMax)
	}
	s.phase = record.Measured
	s.window.Start = t
	if s.plan.Duration > 0 {
		// Declared at once: a request that is due after it is no member, even
		// before the tick that finds the window over.
		s.window.End = t.Add(s.plan.Duration)
	}
}

// close ends the measured window at t; load goes on until its members are over.
func (s *Stage) close(t record.Stamp, why string) {
	s.window.End, s.closed = t, why
	s.phase = record.Cooldown
}

func (s *Stage) tickCooldown(now, oldest record.Stamp) (stop, abandon bool) {
	over := oldest >= s.window.End
	late := now >= s.window.End.Add(s.plan.CooldownMax)
	if !over && !late {
		return false, false
	}
	if s.stopAt == 0 {
		s.stopAt = now
	}
	// The last unsampled requests may end by themselves, so that the server's
	// counters can be compared with ours; but nobody waits long for them.
	return true, late || now >= s.stopAt.Add(s.plan.CooldownMax)
}

// Halt ends the stage early, keeping what it has: on an interrupt or an error.
func (s *Stage) Halt(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.halted == "" {
		s.halted = why
	}
}

func (s *Stage) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
	if s.halted == "" {
		s.halted = closedByError
	}
}

func (s *Stage) halt(now record.Stamp) {
	if s.phase == record.Warmup {
		s.warmupResult.Capped = s.halted
		s.open(now)
		s.warmupResult.Text = "cut off: the run ended during the warm-up"
	}
	if s.phase == record.Measured {
		s.close(now, s.halted)
	}
}

// runOut closes the window of a finite workload that was over before its time.
func (s *Stage) runOut(now record.Stamp) {
	if s.phase == record.Warmup {
		s.warmupResult.Capped = closedByWorkload
		s.open(now)
		s.warmupResult.Text = "cut off: the workload was over during the warm-up"
	}
	s.close(now, closedByWorkload)
}

// Err is the first error of the recorder; the stage was halted for it.
func (s *Stage) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Live is a look at a running stage.
type Live struct {
	Phase     record.Phase
	Elapsed   time.Duration // since the first tick
	InFlight  int
	Completed int
	// OutputTPS is output tokens of the requests that completed in about the last
	// five seconds, per second.
	OutputTPS float64
	// TTFTp50 of everything so far, warm-up included; 0 if there is none.
	TTFTp50 time.Duration
	// Precision of the open window beside the one that is to close it, "ttft.p99 ±7 %
	// of ±5 %", of the figure that has farthest to go; "" if none is asked for, and in
	// other phases.
	Precision string
}

// Live returns the state at now, for a progress line.
func (s *Stage) Live(now record.Stamp) Live {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := Live{Phase: s.phase, InFlight: s.inFlight, Completed: s.completed}
	if s.started != 0 {
		l.Elapsed = time.Duration(now - s.started)
		if len(s.marks) > 0 {
			first := s.marks[0]
			l.OutputTPS = float64(s.liveOut-first.out) / max(time.Duration(now-first.at).Seconds(), 1e-9)
		}
	}
	if s.phase == record.Measured {
		l.Precision = s.untilCI.progress()
	}
	if s.live.TotalCount() > 0 {
		l.TTFTp50 = time.Duration(s.live.ValueAtQuantile(50)) * time.Microsecond
	}
	return l
}

// Info returns what was decided so far; now closes a window whose end is not
// declared yet, and 0 leaves it open.
func (s *Stage) Info(now record.Stamp) result.StageInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.halted != "" && now != 0 {
		s.halt(now) // the runner may have ended before a tick could do it
	}
	if s.halted == "" && now != 0 && s.closed == "" {
		s.runOut(now)
	}
	i := result.StageInfo{
		Name: s.plan.Name, OpenLoop: s.plan.OpenLoop, Concurrency: s.plan.Concurrency,
		Window: s.window, WindowClosed: s.closed, Stopped: s.stopAt, Warmup: s.warmupResult,
		UntilCI: s.untilCI,
	}
	if i.Window.End == 0 {
		i.Window.End = now
	}
	return i
}
