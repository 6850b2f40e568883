package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/assay-bench/assay/load/real"
	"github.com/assay-bench/assay/report"
	"github.com/assay-bench/assay/result"
	"github.com/assay-bench/assay/rundir"
	"github.com/assay-bench/assay/sweep"
)

// sweepRun is one sweep while it happens.
type sweepRun struct {
	multi
	axes   []result.SweepAxis
	grid   sweep.Plan
	stages []sweep.Stage
	cfgs   []config // of the stages
	runs   []sweep.Run
}

// plan works out the stages and their configurations: what cannot be meant is
// refused before anything is run.
func (s *sweepRun) plan() error {
	if err := s.check(); err != nil {
		return err
	}
	s.grid = sweep.Plan{Axes: s.axes, Repeats: s.options.Repeats, Seed: s.base.Seed, NoStop: s.options.NoStop}
	if err := s.grid.Check(); err != nil {
		return usageError{err}
	}
	s.stages = s.grid.Stages()
	for _, st := range s.stages {
		cfg, err := s.base.with(st.Settings)
		if err != nil {
			return usagef("stage %q: %w", st.Name, err)
		}
		s.cfgs = append(s.cfgs, cfg)
	}
	return nil
}

// all runs what is left to run, and reports.
func (s *sweepRun) all(ctx context.Context, asJSON bool) error {
	if err := s.open(); err != nil {
		return err
	}
	err := s.start(ctx, s.cfgs[0])
	if err != nil {
		s.discard()
		return err
	}
	err = s.cells(ctx)
	m := &s.dir.Meta
	m.Complete, m.Ended = err == nil, ""
	if err != nil {
		m.Ended = err.Error()
	}
	if serr := s.dir.Save(); err == nil && serr != nil {
		return serr
	}
	out, cerr := concludeSweep(s.dir, &statFlags{})
	if cerr != nil {
		return errors.Join(err, cerr)
	}
	if err := s.report(out, asJSON); err != nil {
		return err
	}
	if err != nil {
		return err
	}
	return s.verdict(out)
}

// open makes the directory, or takes up one, and says what is going to be done.
func (s *sweepRun) open() error {
	if s.dir == nil {
		meta := rundir.SweepMeta{
			Kind: rundir.SweepKind, Seed: s.base.Seed, Repeats: s.options.Repeats,
			Quick: s.options.Quick, NoStop: s.options.NoStop, Axes: s.axes,
		}
		for _, c := range s.grid.Order() {
			meta.Cells = append(meta.Cells, rundir.SweepCell{
				Index: c.Stage, Stage: s.stages[c.Stage].Name, Repeat: c.Repeat,
				Seed: sweep.RunSeed(s.base.Seed, c.Repeat), State: result.CellPlanned,
			})
		}
		if err := s.create(meta); err != nil {
			return err
		}
	}
	left := 0
	for _, c := range s.dir.Meta.Cells {
		if open(c.State) {
			left++
		}
	}
	if n := len(s.dir.Meta.Cells); left < n {
		s.say("%d of %d runs are left", left, n)
	}
	s.say("%s", s.planned(left))
	s.say("writing %s", s.dir.Dir)
	return nil
}

// open reports whether a cell in this state is still to be run.
func open(state string) bool { return state != result.CellDone && state != result.CellSkipped }

// planned says how long n runs may take.
func (s *sweepRun) planned(n int) string {
	st := s.base.Stage
	text := fmt.Sprintf("%s × %s", plural(len(s.stages), "stage"), plural(s.options.Repeats, "repeat"))
	window := st.Duration
	if window == 0 {
		return fmt.Sprintf("%s: up to %d runs of %d requests each, warm-up (at most %s) and drain (at most %s) on top", text, n, st.Requests, st.WarmupMax, st.CooldownMax)
	}
	one := st.WarmupMax + window + st.CooldownMax
	least := time.Duration(n) * window
	if len(st.UntilCI) > 0 {
		least = 0 // a window may close at once
	}
	text = fmt.Sprintf("%s: %d runs of at most %s (warm-up up to %s, window %s, drain up to %s): at most %s, at least %s",
		text, n, one, st.WarmupMax, window, st.CooldownMax, round(time.Duration(n)*one), round(least))
	if s.flags.Virtual {
		text += " of virtual time"
	}
	if s.stages[0].Climbs && !s.options.NoStop {
		text += "; less, where the climb stops early"
	}
	return text
}

func round(d time.Duration) time.Duration {
	if d > 10*time.Minute {
		return d.Round(time.Minute)
	}
	return d.Round(time.Second)
}

// mostFailures in a row, after which nobody is there to answer.
const mostFailures = 3

// cells runs what is left, in order. The error is an interrupt, or that the target
// is gone.
func (s *sweepRun) cells(ctx context.Context) error {
	m := &s.dir.Meta
	failures := 0
	for i := range m.Cells {
		c := &m.Cells[i]
		if !open(c.State) {
			if err := s.load(c); err != nil {
				return err
			}
			continue
		}
		s.say("run %d of %d: %s, repeat %d", i+1, len(m.Cells), c.Stage, c.Repeat)
		err := s.cell(ctx, c)
		switch {
		case errors.Is(err, errInterrupted):
			return err
		case err != nil && c.State != result.CellFailed:
			return err
		case err != nil:
			failures++
			s.say("  failed: %s", c.Error)
		default:
			failures = 0
		}
		if failures == mostFailures {
			return &real.TargetError{Text: fmt.Sprintf("%d runs in a row failed, the last: %s", failures, c.Error)}
		}
	}
	return nil
}

// cell runs one stage once, stores what became of it, and stops the climb if it
// shows saturation.
func (s *sweepRun) cell(ctx context.Context, c *rundir.SweepCell) error {
	c.State, c.Run, c.Error = result.CellRunning, "", ""
	if err := s.dir.Save(); err != nil {
		return err
	}
	cfg := s.cfgs[c.Index]
	cfg.Seed = c.Seed
	name, out, err := s.one(ctx, cfg, c.Repeat)
	c.Run = name
	switch {
	case errors.Is(err, errInterrupted):
		c.State = result.CellInterrupted
	case err != nil:
		c.State, c.Error = result.CellFailed, oneLine(err.Error())
	default:
		c.State = result.CellDone
		if s.dir.Meta.Target.URL == "" {
			s.dir.Meta.Target = out.Target
		}
		s.add(c, &out.Stages[0])
		s.say("  %s", sweepLine(&out.Stages[0]))
	}
	s.climb(c)
	return errors.Join(err, s.dir.Save())
}

func (s *sweepRun) add(c *rundir.SweepCell, st *result.Stage) {
	s.runs = append(s.runs, sweep.Run{Cell: sweep.Cell{Stage: c.Index, Repeat: c.Repeat}, Stage: st})
}

// load takes up a run that was made before.
func (s *sweepRun) load(c *rundir.SweepCell) error {
	if c.State != result.CellDone {
		return nil
	}
	out, err := s.concluded(c.Run, &statFlags{})
	if err != nil {
		return usagef("%s, repeat %d: %w", c.Stage, c.Repeat, err)
	}
	s.add(c, &out.Stages[0])
	return nil
}

// climb skips what lies above a level of the first round that shows saturation.
func (s *sweepRun) climb(c *rundir.SweepCell) {
	if s.options.NoStop || c.Repeat != 1 || !s.stages[c.Index].Climbs {
		return
	}
	var stop *result.SweepStop
	switch c.State {
	case result.CellFailed:
		stop = &result.SweepStop{Series: s.stages[c.Index].Series, Stage: c.Stage, Rule: "failed", Text: "the run failed: " + c.Error}
	case result.CellDone:
		stop = sweep.Saturation(s.levels(c), s.cfgs[c.Index].Workload.Open())
	}
	if stop == nil {
		return
	}
	// A level that breaks the server is not tried again; one that saturates it is.
	above := sweep.Above(s.stages, c.Index)
	skip := make(map[int]string)
	for _, i := range above {
		skip[i] = "the climb stopped at " + c.Stage
		stop.Skipped = append(stop.Skipped, s.stages[i].Name)
	}
	if stop.Rule == "failed" || stop.Rule == "errors" {
		skip[c.Index] = "not repeated: " + stop.Text
	}
	m := &s.dir.Meta
	for k := range m.Cells {
		if why, ok := skip[m.Cells[k].Index]; ok && m.Cells[k].State == result.CellPlanned {
			m.Cells[k].State, m.Cells[k].Error = result.CellSkipped, why
		}
	}
	m.Stops = append(m.Stops, *stop)
	s.say("  saturated: %s", stop.Text)
}

// levels are the runs of the first round of a cell's series up to it, ascending.
func (s *sweepRun) levels(c *rundir.SweepCell) []sweep.Level {
	var out []sweep.Level
	for i, st := range s.stages {
		if st.Series != s.stages[c.Index].Series || i > c.Index {
			continue
		}
		for _, r := range s.runs {
			if r.Cell.Stage == i && r.Cell.Repeat == 1 {
				out = append(out, sweep.Level{Stage: st, Run: r.Stage})
			}
		}
	}
	return out
}

// sweepLine says a run in one line.
func sweepLine(st *result.Stage) string {
	items := []string{"client " + st.Client.Verdict, st.Stability.Verdict, fmt.Sprintf("%d of %d completed", st.Ledger.Completed, st.Ledger.Requests)}
	if v, ok := sweep.TTFTp50(st); ok {
		items = append(items, fmt.Sprintf("TTFT p50 %.1f ms", v))
	}
	for _, t := range st.Throughput {
		if t.Name == "output_tps" {
			items = append(items, fmt.Sprintf("%.1f output tokens/s", t.Value))
		}
	}
	if g := st.Goodput; g != nil {
		items = append(items, fmt.Sprintf("goodput %.1f %%", g.Percent))
	}
	return strings.Join(items, ", ")
}

func oneLine(s string) string { return strings.ReplaceAll(strings.TrimSpace(s), "\n", "; ") }

// warn stores a warning once.
func (m *multi) warn(code, text string) {
	for _, w := range m.dir.Meta.Warnings {
		if w.Text == text {
			return
		}
	}
	m.dir.Meta.Warnings = append(m.dir.Meta.Warnings, result.Warning{Code: code, Text: text})
}

// report stores the report of a sweep and prints it.
func (s *sweepRun) report(out *result.Sweep, asJSON bool) error {
	var page bytes.Buffer
	if err := errors.Join(report.SweepHTML(&page, out), rundir.WriteFile(filepath.Join(s.dir.Dir, "report.html"), page.Bytes())); err != nil {
		return err
	}
	if err := s.store(out, func(f *os.File) error { return report.SweepMarkdown(f, out) }); err != nil {
		return err
	}
	return printSweep(s.env, out, asJSON)
}

func printSweep(e *env, out *result.Sweep, asJSON bool) error {
	if asJSON {
		return report.WriteJSON(e.stdout, out)
	}
	return report.Sweep(e.stdout, out, reportOptions(e.stdout))
}

// checkCells refuses a sweep.json whose cells are not of its axes.
func checkCells(d *rundir.Sweep, stages []sweep.Stage) error {
	for _, c := range d.Meta.Cells {
		if c.Index < 0 || c.Index >= len(stages) || stages[c.Index].Name != c.Stage {
			return usagef("%s: cell %q, repeat %d is not of the axes", filepath.Join(d.Dir, "sweep.json"), c.Stage, c.Repeat)
		}
	}
	return nil
}

// concludeSweep makes the report of a sweep from its directory alone.
func concludeSweep(d *rundir.Sweep, f *statFlags) (*result.Sweep, error) {
	m := &d.Meta
	plan := sweep.Plan{Axes: m.Axes, Repeats: m.Repeats, Seed: m.Seed, NoStop: m.NoStop}
	stages := plan.Stages()
	out := &result.Sweep{
		SchemaVersion: result.SchemaVersion, ID: m.ID, Dir: d.Dir, ToolVersion: m.ToolVersion, Complete: m.Complete, Ended: m.Ended,
		Began: m.Began, Target: m.Target, Seed: m.Seed, Repeats: m.Repeats, Quick: m.Quick, Axes: m.Axes, Stops: m.Stops,
		Check: m.Check, Warnings: m.Warnings,
	}
	if !out.Complete && out.Ended == "" {
		out.Ended = "it died, or is not over yet"
	}
	if err := checkCells(d, stages); err != nil {
		return nil, err
	}
	var runs []sweep.Run
	for _, c := range m.Cells {
		r := sweep.Run{
			Cell:   sweep.Cell{Stage: c.Index, Repeat: c.Repeat},
			Result: result.SweepRun{Seed: c.Seed, State: c.State, Run: c.Run, Error: c.Error},
		}
		if c.State == result.CellDone {
			one, err := concludeIn(d.Dir, c.Run, f)
			if err != nil {
				return nil, usagef("%s, repeat %d: %w", c.Stage, c.Repeat, err)
			}
			r.Stage = &one.Stages[0]
			if out.WorkloadText == "" {
				out.WorkloadText, out.Duration = one.WorkloadText, r.Stage.Window.Length()
			}
		}
		runs = append(runs, r)
	}
	out.Stages, out.Scaling = sweep.Conclude(stages, runs, m.Quick, m.Seed)
	out.Diagnosis = sweep.Diagnose(out.Stages)
	return out, nil
}

// verdict is the gates of the sweep, and whether its runs were made.
func (s *sweepRun) verdict(out *result.Sweep) error {
	stopped := make(map[string]bool) // stages whose failure is a finding
	for _, stop := range out.Stops {
		stopped[stop.Stage] = true
	}
	done, failed, first := 0, 0, ""
	for _, st := range out.Stages {
		for _, r := range st.Runs {
			switch {
			case r.State == result.CellDone:
				done++
			case r.State == result.CellFailed && !stopped[st.Name]:
				failed++
				first = st.Name + ": " + r.Error
			case r.State == result.CellFailed && first == "":
				first = st.Name + ": " + r.Error
			}
		}
	}
	switch {
	case done == 0:
		return &real.TargetError{Text: "no run came to its end; " + first}
	case failed > 0:
		return &real.TargetError{Text: fmt.Sprintf("%d runs failed, one of them %s; assay sweep --resume %s tries them again", failed, first, s.dir.Dir)}
	}
	return s.gates.checkSweep(out, s.base.Report.Attainment)
}

// checkSweep says which gates a sweep fails. A sweep that climbs to saturation is
// meant to miss its SLO in the end: it fails only if no stage meets it.
func (g gates) checkSweep(out *result.Sweep, attainment float64) error {
	var failed []string
	fail := func(gate string, format string, args ...any) {
		if g[gate] {
			failed = append(failed, gate+": "+fmt.Sprintf(format, args...))
		}
	}
	best, measured := 0.0, false
	count := make(map[string]int)
	firstOf := make(map[string]string)
	for _, st := range out.Stages {
		if st.Goodput != nil {
			best, measured = max(best, st.Goodput.Median), true
		}
		for _, r := range st.Runs {
			if r.State != result.CellDone {
				continue
			}
			for gate, cause := range gateCauses(&r) {
				if count[gate]++; count[gate] == 1 {
					firstOf[gate] = fmt.Sprintf("%s, repeat %d: %s", st.Name, r.Repeat, cause)
				}
			}
		}
	}
	for _, gate := range []string{"invalid-client", "unstable", "not-stabilised", "until-ci", "ledger"} {
		if count[gate] > 0 {
			fail(gate, "%d runs, the first: %s", count[gate], firstOf[gate])
		}
	}
	if measured && best < 100*attainment {
		fail("slo", "no stage met the SLO with %.4g %% of its due requests (--attainment); the best had %.2f %%", 100*attainment, best)
	}
	if failed == nil {
		return nil
	}
	return gateError{"gate failed: " + strings.Join(failed, "; ")}
}

// gateCauses are the gates that one run fails.
func gateCauses(r *result.SweepRun) map[string]string {
	out := make(map[string]string)
	if r.Client == result.Invalid {
		out["invalid-client"] = r.ClientCause
	}
	if r.Stability == result.Unstable {
		out["unstable"] = r.StabilityCause
	}
	if r.Warmup != "" {
		out["not-stabilised"] = "the warm-up ended by its cap (" + r.Warmup + ")"
	}
	if r.UntilCI != "" {
		out["until-ci"] = r.UntilCI
	}
	if !r.Balances {
		out["ledger"] = "attempts and rows differ"
	}
	return out
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
