package cli

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/assay-bench/assay/internal/clock"
	"github.com/assay-bench/assay/result"
	"github.com/assay-bench/assay/rundir"
)

// multi is what commands that make several runs share: where the runs go, who
// makes them, and what happens between them.
type multi struct {
	env     *env
	quiet   bool
	sim     simFlags
	flags   multiFlags
	gates   gates
	base    config // without the settings of any stage, unsettled
	options sweepConfig
	dir     *rundir.Sweep
	runner  cellRunner
	between *between
}

// say tells the user what happens, on standard error.
func (m *multi) say(format string, args ...any) {
	if !m.quiet {
		fmt.Fprintf(m.env.stderr, format+"\n", args...)
	}
}

func (m *multi) close() {
	if m.between != nil {
		m.between.close()
	}
}

// check refuses what one kind of target cannot do.
func (m *multi) check() error {
	if m.flags.Virtual && m.base.Target.URL != "" {
		return usagef("--virtual is without a server: leave the URL out")
	}
	if m.flags.Virtual && (m.sim.TruthLog != "" || m.sim.TruthSteps || m.sim.Fault != "" || m.sim.OTLPTraces != "" || m.sim.Engines > 1) {
		return usagef("--truth-log, --truth-steps, --otlp-traces-endpoint, --fault and --engines are of a server: there is none with --virtual")
	}
	if m.sim.TruthLog != "" {
		return usagef("--truth-log: each run keeps its own in its directory")
	}
	if m.base.Target.URL == "" {
		return m.sim.check()
	}
	return nil
}

// create makes the directory. kind and plan are in meta.
func (m *multi) create(meta rundir.SweepMeta) error {
	var err error
	if meta.Config, meta.Redacted, err = storedConfig(&m.base); err != nil {
		return err
	}
	if _, err := checkOut(m.base.Out); err != nil {
		return err
	}
	meta.ToolVersion, meta.Began, meta.Virtual = version(), clock.Start().Epoch(), m.flags.Virtual
	meta.NoCheck, meta.NoReset, meta.SettleMax = m.options.NoCheck, m.options.NoReset, m.options.SettleMax
	if m.base.Target.URL == "" {
		meta.Engine = m.sim.args()
	}
	short := make([]byte, 3)
	_, _ = rand.Read(short) // never fails
	m.dir, err = rundir.CreateSweep(m.base.Out, hex.EncodeToString(short), meta)
	if err != nil {
		return usagef("out (--out): %w", err)
	}
	return nil
}

// start chooses who makes the runs, connects to the target with the configuration
// of the first of them, and makes the instrument check.
func (m *multi) start(ctx context.Context, first config) error {
	meta := &m.dir.Meta
	if m.flags.Virtual {
		m.runner = &virtualCells{sim: m.sim}
		return nil
	}
	m.runner = &processCells{multi: m}
	b, err := m.connect(ctx, first)
	if err != nil {
		return err
	}
	m.between = b
	meta.Target, meta.Check = b.run.info, b.run.checked
	return m.dir.Save()
}

// one makes a run and concludes it. A run that was cut off is errInterrupted.
func (m *multi) one(ctx context.Context, cfg config, repeat int) (name string, out *result.Run, err error) {
	if m.between != nil {
		m.between.prepare(ctx)
	}
	cfg.Out = m.dir.Dir
	name, err = m.runner.run(ctx, cfg, repeat)
	if ctx.Err() != nil {
		return name, nil, errInterrupted
	}
	if err != nil {
		return name, nil, err
	}
	out, err = m.concluded(name, &statFlags{})
	if err == nil && !out.Complete {
		err = errors.New("it is not complete: " + out.Ended)
	}
	return name, out, err
}

// concluded is a stored run of the sweep.
func (m *multi) concluded(name string, f *statFlags) (*result.Run, error) {
	return concludeIn(m.dir.Dir, name, f)
}

func concludeIn(dir, name string, f *statFlags) (*result.Run, error) {
	d, err := rundir.Open(filepath.Join(dir, name))
	if err != nil {
		return nil, err
	}
	out, err := conclude(d, f)
	if err != nil {
		return nil, err
	}
	if len(out.Stages) == 0 {
		return nil, fmt.Errorf("%s measured nothing: %s", name, out.Ended)
	}
	return out, nil
}

// cellRunner makes one run with a configuration as resolved, below cfg.Out, and
// returns the name of its directory, also with an error if there is one.
type cellRunner interface {
	run(ctx context.Context, cfg config, repeat int) (name string, err error)
}

// virtualCells are runs in virtual time, in this process.
type virtualCells struct{ sim simFlags }

func (v *virtualCells) run(ctx context.Context, cfg config, repeat int) (string, error) {
	sim := v.sim
	sim.SimSeed += uint64(repeat - 1)
	eng, err := sim.engine()
	if err != nil {
		return "", err
	}
	r := &virtualRun{cfg: cfg, engine: eng, engines: v.sim.Engines, say: func(string, ...any) {}}
	_, err = r.measure(ctx)
	if r.writer == nil {
		return "", err
	}
	return filepath.Base(r.writer.Dir()), err
}

// processCells are runs by processes of their own. Their configuration goes by a
// pipe: no secret is in an argument or a file.
type processCells struct{ multi *multi }

func (p *processCells) run(ctx context.Context, cfg config, repeat int) (string, error) {
	before, err := p.multi.dir.Runs()
	if err != nil {
		return "", err
	}
	text, err := cfg.yaml()
	if err != nil {
		return "", err
	}
	args := []string{"run", "-f", "-", "--fail-on", "none", "--json"}
	if cfg.Target.URL == "" {
		sim := p.multi.sim
		sim.SimSeed += uint64(repeat - 1)
		args = append(args, sim.args()...)
	}
	err = runChild(ctx, args, bytes.NewReader(text), p.multi.say)
	after, lerr := p.multi.dir.Runs()
	name := ""
	for _, n := range after {
		if !slices.Contains(before, n) {
			name = n
		}
	}
	if err != nil {
		return name, err
	}
	return name, lerr
}

// discard removes a new sweep of which nothing was run.
func (m *multi) discard() {
	runs, err := m.dir.Runs()
	if err != nil || len(runs) > 0 {
		return
	}
	_ = os.Remove(filepath.Join(m.dir.Dir, "sweep.json"))
	_ = os.Remove(m.dir.Dir)
	_ = os.Remove(m.base.Out) // stays if anything else is in it
}

// store puts report.json and report.md into the directory, in the place of older
// ones.
func (m *multi) store(out any, markdown func(*os.File) error) error {
	if err := rundir.SaveReport(m.dir.Dir, out); err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(m.dir.Dir, "report.md"))
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return errors.Join(markdown(f), f.Close())
}
