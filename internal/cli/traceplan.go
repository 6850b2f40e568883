package cli

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/assay-bench/assay/dataset"
	"github.com/assay-bench/assay/workload"
)

// planGC is how lazy the collector may be while a workload is read and planned, with
// nothing measured yet; see Tune for the rest of the time.
const planGC = 20

// frugal makes the collector so, until the function that it returns is called.
func frugal() (back func()) {
	was := debug.SetGCPercent(planGC)
	return func() { debug.SetGCPercent(was) }
}

// draw makes the plan of a workload. If it follows a trace, that is read through
// first, and what it implies is said: a wrong unit shows there.
func (c *config) draw(spec workload.Spec, say func(format string, args ...any)) (*workload.Plan, error) {
	defer frugal()()
	if spec.Prompts == nil {
		return c.drawPlan(spec, say)
	}
	f, err := workload.OpenPrompts(spec)
	if err != nil {
		return nil, fmt.Errorf("workload: %w", err)
	}
	say("prompts %s: %s", spec.Prompts.File, f.Note())
	sayLeftOut(f.Skipped, f.FirstSkipped, say)
	if n := f.Prompts - f.Outputs; f.Bodies == 0 && n > 0 && spec.OutputTokens.Dist == workload.FromTrace && !spec.NeedsTrace() {
		return nil, fmt.Errorf("workload: output_tokens: %d of %d prompts have neither a number of output tokens nor a reply: give output_tokens", n, f.Prompts)
	}
	x := *spec.Prompts
	x.SHA256 = f.SHA256
	spec.Prompts, c.Workload.Prompts = &x, &x
	if f.Bodies == f.Prompts {
		// They say themselves how long a reply may be.
		spec.OutputTokens, spec.ExactOutput = workload.Length{Dist: workload.FromTrace}, false
		c.Workload.OutputTokens, c.Workload.ExactOutput = spec.OutputTokens, false
	}
	plan, err := c.drawPlan(spec, say)
	if err == nil {
		plan.UsePrompts(f)
	}
	return plan, err
}

// sayLeftOut says that rows were skipped, and why the first one was.
func sayLeftOut(n int64, first error, say func(format string, args ...any)) {
	switch {
	case n == 1:
		say("note: 1 malformed row is left out: %v", first)
	case n > 1:
		say("note: %d malformed rows are left out; the first: %v", n, first)
	}
}

// hinted names what says a unit, columns or the length of a span, where a trace is
// refused for want of it.
func hinted(err error, unit, columns, span string) error {
	switch {
	case errors.Is(err, dataset.ErrUnit):
		return fmt.Errorf("%w (%s)", err, unit)
	case errors.Is(err, dataset.ErrSpan):
		return fmt.Errorf("%w (%s, %s)", err, unit, span)
	case errors.Is(err, dataset.ErrColumns):
		return fmt.Errorf("%w (%s)", err, columns)
	}
	return err
}

// drawPlan is draw without the prompts.
func (c *config) drawPlan(spec workload.Spec, say func(format string, args ...any)) (*workload.Plan, error) {
	if !spec.NeedsTrace() {
		return workload.NewPlan(spec, c.Seed)
	}
	f, err := workload.OpenTrace(spec, c.Seed)
	if err != nil {
		return nil, fmt.Errorf("workload: %w", hinted(err, "trace.unit", "trace.columns", "trace.any_span"))
	}
	say("trace %s: %s", spec.Trace.File, f.Note())
	sayLeftOut(f.Summary.Skipped, f.FirstSkipped, say)
	// The run's files say what was replayed, wherever it lies.
	t := *spec.Trace
	t.SHA256 = f.SHA256
	spec.Trace, c.Workload.Trace = &t, &t
	apart := t.Scale != nil && t.Scale.By != workload.Compression
	switch whole := spec.Sessions == nil && spec.PromptTokens.Dist == workload.FromTrace && t.HashIDs != workload.ReplayBlocks && f.HasSessions(); {
	case whole && apart && t.HashIDs != workload.SessionBlocks:
		say("note: its rows are turns of sessions, which %s takes apart: they are replayed as single requests", t.Scale.By)
	case whole:
		say("note: its rows are turns of sessions, and are replayed as such: a turn waits for the end of the one before. " +
			"Arrivals are those of sessions. For single requests: " + orSingle(f, t.HashIDs))
		spec.Sessions = &workload.Sessions{Turns: workload.Length{Dist: workload.FromTrace}}
	}
	if spec.Sessions.FollowTrace() {
		return c.drawSessions(spec, f, say)
	}
	plan, err := workload.NewTracePlan(spec, c.Seed, f.Rows)
	if err != nil {
		return nil, err
	}
	if got := plan.Trace(); got.Failed > 0 {
		say("note: %d rows of the trace failed when it was recorded: they are not replayed", got.Failed)
	}
	return plan, nil
}

// orSingle names the other ways to replay rows that are turns.
func orSingle(f *workload.TraceFile, hashIDs string) string {
	const single, blocks = "--set workload.sessions.turns=1", "--set workload.trace.hash_ids="
	switch {
	case hashIDs == workload.SessionBlocks:
		return blocks + workload.ReplayBlocks
	case hashIDs != "" || f.Summary.Blocks == 0:
		return single
	}
	return single + "; for single requests that share the recorded blocks: " + blocks + workload.ReplayBlocks +
		"; for turns that do, in place of histories: " + blocks + workload.SessionBlocks
}

// drawSessions makes the plan of a workload whose sessions are those of a trace.
func (c *config) drawSessions(spec workload.Spec, f *workload.TraceFile, say func(format string, args ...any)) (*workload.Plan, error) {
	plan, err := workload.NewSessionPlan(spec, c.Seed, f)
	if err != nil {
		return nil, err
	}
	c.Workload.Sessions = plan.Spec().Sessions
	got := plan.SessionTrace()
	say("trace: %d sessions of %.3g turns on average, at most %d", got.Sessions, float64(got.Rows)/float64(got.Sessions), got.MaxTurns)
	if s := spec.Trace.Scale; s != nil && spec.ThinkTime.IsZero() && plan.Spec().Sessions.Timing != workload.AtOnce {
		say("note: the recorded %s of later turns are divided by %v too, as all times of the trace are", plan.Spec().Sessions.Timing, s.Factor)
	}
	for _, n := range []struct {
		n    int64
		text string
	}{
		{got.Failed, "rows of the trace failed when it was recorded: they are not replayed, and their sessions go on without them"},
		{got.Branches, "turns follow one that had an answer already, or is not in the trace: each begins a session of its own"},
		{got.Cut, "turns have prompts shorter than what was said before: it was cut when recorded, and is not here"},
	} {
		if n.n > 0 {
			say("note: %d %s", n.n, n.text)
		}
	}
	if got.Texts {
		say("note: the trace has texts: they are sent as they are, and their lengths in tokens are estimates")
	}
	return plan, nil
}
