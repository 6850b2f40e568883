package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/assay-bench/assay/compat"
	"github.com/assay-bench/assay/environ"
	"github.com/assay-bench/assay/experiment"
	"github.com/assay-bench/assay/metric"
	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/report"
	"github.com/assay-bench/assay/result"
	"github.com/assay-bench/assay/rundir"
)

type reportCmd struct {
	Dir string `arg:"" help:"A run directory, the directory of a sweep, or a folder of runs (with --label)."`
	statFlags
	Format string `default:"text" enum:"text,markdown,html,json,csv,openmetrics,perfetto,peers,vllm,vllm-json" help:"text, markdown, html (one file with pictures), json, csv (a line a stage), openmetrics, perfetto (lanes of requests, for ui.perfetto.dev), peers (what other tools would print of these requests), vllm (the block of vllm bench serve), vllm-json (its result file)."`
	JSON   bool   `name:"json" help:"The same as --format json."`
	Stage  string `placeholder:"NAME" help:"Only this stage of the run."`
	Window string `placeholder:"2s..8s" help:"A part of the measured window instead of all of it, from its start; the report says that it was chosen afterwards."`
	Label  string `placeholder:"KEY=VALUE" help:"Of a folder of runs, those with this label, one report after the other."`
	All    bool   `name:"all-phases" help:"For peers, vllm and vllm-json: take warm-up and cooldown too, as tools without phases do."`
}

// Help implements kong's detailed help.
func (reportCmd) Help() string {
	return `The report is computed again from the records of the run, by the same code as
when it ended; other limits, percentiles and forms can be chosen.

  assay report runs/X --slo ttft=500ms,tpot=50ms    other limits
  assay report runs/X --window 5s..20s               a part of the measured window
  assay report runs --label config=fp8              the runs of a folder with that label
  assay report runs/X --format html > report.html   with pictures
  assay report runs/X --format peers                which tool would have said what, and why
  assay report runs/X --format perfetto > x.json    open in ui.perfetto.dev`
}

// Run implements the command.
func (c *reportCmd) Run(e *env) error {
	if rundir.IsSweep(c.Dir) {
		return c.sweep(e)
	}
	if c.Label != "" {
		return c.labelled(e)
	}
	return c.one(e, c.Dir)
}

// labelled prints the runs of a folder that have a label.
func (c *reportCmd) labelled(e *env) error {
	key, value, ok := strings.Cut(c.Label, "=")
	if !ok || key == "" {
		return usagef("--label %q: want KEY=VALUE", c.Label)
	}
	dirs, err := runDirs(c.Dir)
	if err != nil {
		return err
	}
	found := 0
	for _, dir := range dirs {
		r, err := rundir.Open(dir)
		if err != nil {
			return usageError{err}
		}
		if v, ok := r.Meta.Labels[key]; !ok || v != value {
			continue
		}
		if found++; found > 1 && c.Format == "text" && !c.JSON {
			fmt.Fprintln(e.stdout)
		}
		if err := c.one(e, dir); err != nil {
			return err
		}
	}
	if found == 0 {
		return usagef("--label %s: none of the %d runs at or below %s has it", c.Label, len(dirs), c.Dir)
	}
	return nil
}

// window narrows the windows of a run to a part of them.
func (c *reportCmd) window(r *rundir.Run) error {
	if c.Window == "" {
		return nil
	}
	fromText, toText, ok := strings.Cut(c.Window, "..")
	from, err := time.ParseDuration(fromText)
	to, terr := time.ParseDuration(toText)
	if !ok || err != nil || terr != nil || from < 0 || to <= from {
		return usagef("--window %q: want FROM..TO, as in 2s..8s", c.Window)
	}
	for i := range r.Meta.Stages {
		st := &r.Meta.Stages[i]
		if whole := st.Window.Length(); st.WindowClosed == "" || to > whole {
			return usagef("--window %s: the measured window of %s is %s long", c.Window, st.Name, whole.Round(time.Millisecond))
		}
		st.Window.End = st.Window.Start.Add(to)
		st.Window.Start = st.Window.Start.Add(from)
	}
	r.Meta.Warnings = append(r.Meta.Warnings, result.Warning{Code: "window", Text: fmt.Sprintf(
		"the window is a part of the measured one, %s from its start, and was chosen afterwards: whoever looks for a good one finds it", c.Window)})
	return nil
}

// one prints the report of a run.
func (c *reportCmd) one(e *env, dir string) error {
	r, err := rundir.Open(dir)
	if err != nil {
		return usageError{err}
	}
	if err := c.window(r); err != nil {
		return err
	}
	if c.JSON {
		c.Format = "json"
	}
	if c.All && c.Format != "peers" && !strings.HasPrefix(c.Format, "vllm") {
		return usagef("--all-phases goes with --format peers, vllm or vllm-json")
	}
	run, err := conclude(r, &c.statFlags)
	if err == nil {
		err = c.only(run)
	}
	if err != nil {
		return err
	}
	return c.print(e, r, run)
}

// only keeps the stage that was asked for.
func (c *reportCmd) only(run *result.Run) error {
	if c.Stage == "" {
		return nil
	}
	var names []string
	for _, st := range run.Stages {
		names = append(names, st.Name)
		if st.Name == c.Stage {
			run.Stages = []result.Stage{st}
			return nil
		}
	}
	return usagef("--stage %q: %s has %s", c.Stage, c.Dir, strings.Join(names, ", "))
}

func (c *reportCmd) print(e *env, r *rundir.Run, run *result.Run) error {
	switch c.Format {
	case "markdown":
		return report.Markdown(e.stdout, run)
	case "html":
		gathered, err := gather(r, run)
		if err != nil {
			return err
		}
		return report.HTML(e.stdout, run, gathered)
	case "csv":
		return report.CSV(e.stdout, run)
	case "openmetrics":
		return report.OpenMetrics(e.stdout, run)
	case "perfetto":
		return errors.Join(report.Perfetto(e.stdout, run.ID, c.records(r)), r.Err())
	case "peers", "vllm", "vllm-json":
		return c.peers(e, r, run)
	}
	return printRun(e, run, c.Format == "json")
}

// savePages writes the forms of a run's report that people open, beside its records.
func savePages(r *rundir.Run, run *result.Run) error {
	gathered, err := gather(r, run)
	if err != nil {
		return err
	}
	var page, text, seconds bytes.Buffer
	if err := errors.Join(report.HTML(&page, run, gathered), report.Markdown(&text, run), report.TimeSeries(&seconds, run.Stages, r.Records), r.Err()); err != nil {
		return err
	}
	return errors.Join(
		rundir.WriteFile(filepath.Join(r.Dir, "report.html"), page.Bytes()),
		rundir.WriteFile(filepath.Join(r.Dir, "report.md"), text.Bytes()),
		rundir.WriteFile(filepath.Join(r.Dir, "timeseries.csv"), seconds.Bytes()))
}

// gather reads what the pictures of a report need, stage by stage.
func gather(r *rundir.Run, run *result.Run) ([]*report.Gathered, error) {
	out := make([]*report.Gathered, len(run.Stages))
	for i := range run.Stages {
		out[i] = report.Gather(&run.Stages[i], r.Records)
		if err := r.Err(); err != nil {
			return nil, usageError{err}
		}
	}
	return out, nil
}

// records of the stage that was asked for.
func (c *reportCmd) records(r *rundir.Run) func(yield func(*record.Attempt, []record.Event) bool) {
	return func(yield func(*record.Attempt, []record.Event) bool) {
		for a, events := range r.Records {
			if (c.Stage == "" || a.Stage == c.Stage) && !yield(a, events) {
				return
			}
		}
	}
}

// peers prints what other tools would have printed, stage by stage.
func (c *reportCmd) peers(e *env, r *rundir.Run, run *result.Run) error {
	for i := range run.Stages {
		st := &run.Stages[i]
		log := compat.NewLog(st.Window, c.All)
		for a, events := range r.Records {
			if a.Stage == st.Name {
				log.Add(a, events)
			}
		}
		if err := r.Err(); err != nil {
			return usageError{err}
		}
		if err := c.peerView(e, r, run, st, log); err != nil {
			return err
		}
	}
	return nil
}

func (c *reportCmd) peerView(e *env, r *rundir.Run, run *result.Run, st *result.Stage, log *compat.Log) error {
	if c.Format == "peers" {
		return report.Peers(e.stdout, st.Name, compat.Views(log, st), reportOptions(e.stdout))
	}
	facts := compat.Run{Epoch: run.Epoch, Dialect: run.Target.Dialect, Model: run.Target.Model}
	for _, info := range r.Meta.Stages {
		if info.Name == st.Name {
			facts.Concurrency = info.Concurrency
		}
	}
	var config struct {
		Workload struct {
			Arrival struct {
				Rate float64 `json:"rate"`
				CV   float64 `json:"cv"`
			} `json:"arrival"`
		} `json:"workload"`
	}
	if json.Unmarshal(r.Meta.Config, &config) == nil {
		facts.Rate, facts.CV = config.Workload.Arrival.Rate, config.Workload.Arrival.CV
	}
	theirs := compat.VLLM(log, st, facts)
	if c.Format == "vllm" {
		return theirs.Text(e.stdout)
	}
	return report.WriteJSON(e.stdout, theirs)
}

// sweep prints the report of a sweep, made again from its runs.
func (c *reportCmd) sweep(e *env) error {
	d, err := rundir.OpenSweep(c.Dir)
	if err != nil {
		return usageError{err}
	}
	if d.Meta.Kind == rundir.CapacityKind {
		out, err := concludeCapacity(d, &c.statFlags)
		if err != nil {
			return err
		}
		return printCapacity(e, out, c.JSON)
	}
	out, err := concludeSweep(d, &c.statFlags)
	if err != nil {
		return err
	}
	switch c.Format {
	case "html":
		return report.SweepHTML(e.stdout, out)
	case "markdown":
		return report.SweepMarkdown(e.stdout, out)
	case "text", "json":
		return printSweep(e, out, c.JSON || c.Format == "json")
	}
	return usagef("--format %s is of a run: %s is a sweep", c.Format, c.Dir)
}

// concludeGC is how lazy the collector may be over records; see Tune for why it is
// lazier while they are made. What is kept of a record has hardly a pointer, so
// that a collection is cheap: of 1,000,000 records, 15 takes a quarter less memory
// than 50 for a tenth more CPU.
const concludeGC = 15

// conclude computes everything from a run directory alone.
func conclude(r *rundir.Run, f *statFlags) (*result.Run, error) {
	debug.SetGCPercent(concludeGC) // nothing is measured any more: memory counts, not pauses
	m := r.Meta
	o := metric.Options{TPOT: m.TPOT, QuantileType: m.QuantileType, Percentiles: m.Percentiles, Seed: m.Seed}
	if m.SLO != "" {
		slo, err := metric.ParseSLO(m.SLO)
		if err != nil {
			return nil, usagef("%s/run.json: %w", r.Dir, err)
		}
		o.SLO = slo
	}
	o, err := f.options(o)
	if err != nil {
		return nil, err
	}
	out := &result.Run{
		SchemaVersion: result.SchemaVersion, ID: m.ID, Dir: r.Dir, ToolVersion: m.ToolVersion,
		Complete: m.Complete, Ended: m.Ended, Epoch: m.Epoch, Target: m.Target, Seed: m.Seed, Nonce: m.Nonce,
		WorkloadText: m.WorkloadText, Fingerprint: m.Fingerprint, PromptLength: m.PromptLength,
		Labels: m.Labels, Transport: m.Transport, Environment: m.Environment, Check: m.Check, Warnings: m.Warnings,
	}
	scrapes, err := r.Scrapes()
	if err != nil {
		return nil, usageError{err}
	}
	defer scrapes.Close()
	for _, info := range m.Stages {
		if info.WindowClosed == "" {
			info = experiment.CutShort(info, r.Records)
		}
		st := experiment.Conclude(info, &m.Target, r.Records, m.Limits, o)
		if scrapes != nil {
			st.Server = experiment.Server(info, &m.Target, m.Epoch, scrapes.Index, scrapes, r.Records)
			st.Warnings = append(st.Warnings, experiment.ServerWarnings(st.Server)...)
		}
		st.Diagnosis = experiment.Diagnose(&st, pathTo(m.Environment))
		out.Stages = append(out.Stages, st)
		if err := r.Err(); err != nil {
			return nil, usageError{err}
		}
	}
	if damage := r.Damage(); damage != "" {
		out.Complete, out.Ended = false, damage
	}
	if !out.Complete && out.Ended == "" {
		out.Ended = "it died, or is not over yet"
	}
	if len(out.Stages) > 0 {
		out.Stamps = out.Stages[0].Client.Stamps
	}
	out.Warnings = append(out.Warnings, r.Warnings()...)
	return out, nil
}

// pathTo is the way to the target, if it was measured.
func pathTo(l *environ.Log) *environ.Path {
	if l == nil {
		return nil
	}
	return l.Client.Path
}

func printRun(e *env, run *result.Run, asJSON bool) error {
	if asJSON {
		return report.JSON(e.stdout, run)
	}
	return report.Terminal(e.stdout, run, reportOptions(e.stdout))
}

// reportOptions looks at where a report goes: colour is for terminals, unless
// NO_COLOR says otherwise (no-color.org).
func reportOptions(w io.Writer) report.Options {
	f, ok := w.(*os.File)
	return report.Options{Color: ok && term.IsTerminal(int(f.Fd())) && os.Getenv("NO_COLOR") == "", Width: 100}
}
