package cli

import (
	"io"
	"os"
	"runtime/debug"

	"golang.org/x/term"

	"github.com/assay-bench/assay/experiment"
	"github.com/assay-bench/assay/metric"
	"github.com/assay-bench/assay/report"
	"github.com/assay-bench/assay/result"
	"github.com/assay-bench/assay/rundir"
)

type reportCmd struct {
	Dir string `arg:"" help:"A run directory."`
	statFlags
	JSON bool `name:"json" help:"Print as JSON."`
}

// Help implements kong's detailed help.
func (reportCmd) Help() string {
	return `The report is computed again from the records of the run, by the same code as
when it ended; other limits, percentiles and forms can be chosen.`
}

// Run implements the command.
func (c *reportCmd) Run(e *env) error {
	r, err := rundir.Open(c.Dir)
	if err != nil {
		return usageError{err}
	}
	run, err := conclude(r, &c.statFlags)
	if err != nil {
		return err
	}
	return printRun(e, run, c.JSON)
}

// concludeGC is how lazy the collector may be over records; see Tune for why it is
// lazier while they are made.
const concludeGC = 50

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
