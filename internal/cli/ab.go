package cli

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/assay-bench/assay/compare"
	"github.com/assay-bench/assay/internal/clock"
	"github.com/assay-bench/assay/report"
	"github.com/assay-bench/assay/result"
	"github.com/assay-bench/assay/rundir"
	"github.com/assay-bench/assay/sweep"
)

type abCmd struct {
	File       []string      `short:"f" name:"file" required:"" placeholder:"LABEL=a.yaml" help:"Configuration of one side, the base first; LABEL= names it. At least two."`
	Set        []string      `name:"set" placeholder:"KEY=VALUE" sep:"none" help:"Set any key of the configuration, on all sides."`
	Repeats    int           `default:"6" help:"Runs of each side, each a process of its own."`
	BeforeEach string        `name:"before-each" placeholder:"CMD" help:"Shell command before every run, to restart or reconfigure the server; it finds ASSAY_SIDE, ASSAY_FILE and ASSAY_REPEAT in its environment."`
	ReadyMax   time.Duration `name:"ready-max" default:"10m" help:"Longest wait, after that command, for the server to answer with its model."`
	Seed       *uint64       `placeholder:"1" help:"Seed of the first repeat; those of the others are drawn from it."`
	Out        *string       `placeholder:"runs" help:"Folder for the directory of the comparison."`
	Quiet      bool          `short:"q" help:"No progress on standard error."`
	Resume     string        `placeholder:"DIR" help:"Go on with a comparison that was cut off, with the same files."`
	comparisonFlags

	Sim simFlags `embed:"" group:"Built-in engine"`
}

// Help implements kong's detailed help.
func (abCmd) Help() string {
	return `Runs two configurations in turn, A B B A A B …, so that drift of the machine and
its neighbours falls on both, each run a process of its own, and compares them as
assay compare does. Both sides of a repeat have the same seed: with --paired their
schedules and lengths are the same, and the scatter of the workload falls out.

  assay ab -f bf16=a.yaml -f fp8=b.yaml --repeats 6 --before-each './restart.sh $ASSAY_SIDE'
  assay ab -f a.yaml -f b.yaml --metric tpot.mean --gate "tpot.mean<+3%" --junit ab.xml`
}

// abSide is one configuration.
type abSide struct {
	label, file string
	cfg         config
}

// abRun is the comparison while it happens.
type abRun struct {
	multi
	cmd   *abCmd
	sides []abSide
}

// Run implements the command.
func (c *abCmd) Run(e *env) error {
	o, err := c.options()
	if err != nil {
		return err
	}
	a := &abRun{multi: multi{env: e, quiet: c.Quiet, sim: c.Sim}, cmd: c}
	if err := a.configure(); err != nil {
		return err
	}
	if err := a.open(); err != nil {
		return err
	}
	a.runner = &processCells{multi: &a.multi}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)() // a second Ctrl-C does not wait
	err = a.cells(ctx)
	m := &a.dir.Meta
	if m.Complete = err == nil; err != nil {
		m.Ended = err.Error()
	}
	if serr := a.dir.Save(); serr != nil {
		return errors.Join(err, serr)
	}
	if err != nil {
		return fmt.Errorf("%w; assay ab --resume %s, with the same files, goes on", err, a.dir.Dir)
	}
	return a.conclude(o)
}

// configure reads both sides, and refuses what could not be compared afterwards.
func (a *abRun) configure() error {
	c := a.cmd
	if len(c.File) < 2 {
		return usagef("-f: a comparison needs at least two files")
	}
	if c.Repeats < 1 {
		return usagef("--repeats %d: want at least 1", c.Repeats)
	}
	workload := ""
	for _, arg := range c.File {
		label, file := sideName(arg)
		if !strings.Contains(arg, "=") {
			label = strings.TrimSuffix(label, filepath.Ext(label))
		}
		for _, s := range a.sides {
			if s.label == label {
				return usagef("-f: two sides are called %s: name them, as in before=%s", label, file)
			}
		}
		cfg, err := c.config(label, file)
		if err != nil {
			return err
		}
		text, _, err := storedConfig(&cfg)
		if err != nil {
			return err
		}
		identity, err := workloadIdentity(text)
		if err != nil {
			return err
		}
		switch {
		case workload == "":
			workload = identity
		case workload != identity && !c.Force:
			return usagef("not comparable: the workload of %s is not that of %s (--force compares all the same)", file, c.File[0])
		}
		if first := &a.sides; len(*first) > 0 && !(*first)[0].cfg.Stage.same(cfg.Stage) && !c.Force {
			return usagef("not comparable: the section stage of %s is not that of %s (--force compares all the same)", file, c.File[0])
		}
		a.sides = append(a.sides, abSide{label, file, cfg})
	}
	a.base = a.sides[0].cfg
	return nil
}

// config of a side.
func (c *abCmd) config(label, file string) (config, error) {
	cfg := defaultConfig()
	if err := cfg.readFile(file); err != nil {
		return cfg, err
	}
	for _, s := range c.Set {
		if err := cfg.set(s); err != nil {
			return cfg, err
		}
	}
	put(&cfg.Seed, c.Seed)
	put(&cfg.Out, c.Out)
	labels := map[string]string{"side": label}
	for k, v := range cfg.Labels {
		labels[k] = v
	}
	cfg.Labels = labels
	cfg.settle()
	if err := cfg.validate(); err != nil {
		return cfg, err
	}
	return cfg, nil
}

// open makes the directory with the plan, or takes it up.
func (a *abRun) open() error {
	if a.cmd.Resume != "" {
		return a.reopen()
	}
	meta := rundir.SweepMeta{Kind: rundir.ABKind, Seed: a.base.Seed, Repeats: a.cmd.Repeats, Began: clock.Start().Epoch(), ToolVersion: version()}
	var err error
	if meta.Config, meta.Redacted, err = storedConfig(&a.base); err != nil {
		return err
	}
	for repeat := 1; repeat <= a.cmd.Repeats; repeat++ {
		for i := range a.sides {
			side := i
			if repeat%2 == 0 { // A B B A
				side = len(a.sides) - 1 - i
			}
			meta.Cells = append(meta.Cells, rundir.SweepCell{
				Index: side, Stage: a.sides[side].label, Repeat: repeat,
				Seed: sweep.RunSeed(a.base.Seed, repeat), State: result.CellPlanned,
			})
		}
	}
	if _, err := checkOut(a.base.Out); err != nil {
		return err
	}
	short := make([]byte, 3)
	_, _ = rand.Read(short) // never fails
	a.dir, err = rundir.CreateSweep(a.base.Out, hex.EncodeToString(short), meta)
	if err != nil {
		return usagef("out (--out): %w", err)
	}
	a.announce()
	return nil
}

func (a *abRun) reopen() error {
	d, err := rundir.ResumeSweep(filepath.Clean(a.cmd.Resume))
	if err != nil {
		return usageError{err}
	}
	if d.Meta.Kind != rundir.ABKind {
		return usagef("%s was made by assay %s: go on with assay %s --resume", a.cmd.Resume, d.Meta.Kind, d.Meta.Kind)
	}
	config, _, err := storedConfig(&a.base)
	if err != nil {
		return err
	}
	if sameRuns(d.Meta.Config) != sameRuns(config) {
		return usagef("%s was begun with another configuration than %s has now", a.cmd.Resume, a.cmd.File[0])
	}
	for i := range d.Meta.Cells {
		if c := &d.Meta.Cells[i]; c.Index >= len(a.sides) || a.sides[c.Index].label != c.Stage {
			return usagef("%s has a side %s: give its file too", a.cmd.Resume, c.Stage)
		}
	}
	a.dir = d
	a.announce()
	return nil
}

// sameRuns is a configuration without where its runs go.
func sameRuns(config json.RawMessage) string {
	var keys map[string]any
	if json.Unmarshal(config, &keys) != nil {
		return string(config)
	}
	delete(keys, "out")
	b, err := json.Marshal(keys)
	if err != nil {
		return string(config)
	}
	return string(b)
}

// announce says what is going to be done, and how long it may take.
func (a *abRun) announce() {
	left := 0
	for _, c := range a.dir.Meta.Cells {
		if open(c.State) {
			left++
		}
	}
	st := a.base.Stage
	window, least := fmt.Sprintf("window %s", st.Duration), fmt.Sprintf("at least %s", round(time.Duration(left)*st.Duration))
	if st.Duration == 0 {
		window, least = fmt.Sprintf("window of %d requests", st.Requests), "what they take"
	}
	a.say("%d sides × %d repeats: %d runs (warm-up up to %s, %s, drain up to %s): %s, and what comes before each",
		len(a.sides), a.dir.Meta.Repeats, left, st.WarmupMax, window, st.CooldownMax, least)
	a.say("writing %s", a.dir.Dir)
}

// cells makes the runs that are left, in order. A run that fails ends it: the
// others would not be interleaved any more.
func (a *abRun) cells(ctx context.Context) error {
	cells := a.dir.Meta.Cells
	for i := range cells {
		c := &cells[i]
		if !open(c.State) {
			continue
		}
		a.say("run %d of %d: %s, repeat %d", i+1, len(cells), c.Stage, c.Repeat)
		err := a.cell(ctx, c)
		if serr := a.dir.Save(); err == nil {
			err = serr
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (a *abRun) cell(ctx context.Context, c *rundir.SweepCell) error {
	c.State, c.Run, c.Error = result.CellRunning, "", ""
	if err := a.dir.Save(); err != nil {
		return err
	}
	side := &a.sides[c.Index]
	cfg := side.cfg
	cfg.Seed = c.Seed
	err := a.before(ctx, side, c)
	var out *result.Run
	if err == nil {
		c.Run, out, err = a.one(ctx, cfg, c.Repeat)
	}
	switch {
	case errors.Is(err, errInterrupted) || ctx.Err() != nil:
		c.State = result.CellInterrupted
		return errInterrupted
	case err != nil:
		c.State, c.Error = result.CellFailed, oneLine(err.Error())
		return fmt.Errorf("%s, repeat %d: %w", c.Stage, c.Repeat, err)
	}
	c.State = result.CellDone
	a.say("  %s", sweepLine(&out.Stages[0]))
	return nil
}

// before runs the user's command and waits for the server to be there again.
func (a *abRun) before(ctx context.Context, side *abSide, c *rundir.SweepCell) error {
	if a.cmd.BeforeEach == "" {
		return nil
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", a.cmd.BeforeEach)
	cmd.Env = append(os.Environ(), "ASSAY_SIDE="+side.label, "ASSAY_FILE="+side.file, "ASSAY_REPEAT="+strconv.Itoa(c.Repeat))
	cmd.Stdout, cmd.Stderr = a.env.stderr, a.env.stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	// What the command leaves behind, a server for one, may keep its output open.
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return interruptedOr(ctx, fmt.Errorf("--before-each: %w", err))
	}
	return a.await(ctx, side)
}

// readyPoll is the time between two looks at a server that is not there yet.
const readyPoll = time.Second

// await waits until the target answers with its model.
func (a *abRun) await(ctx context.Context, side *abSide) error {
	if side.cfg.Target.URL == "" {
		return nil
	}
	k := clock.Start()
	for {
		r := &run{cfg: side.cfg, env: &env{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard}, cmd: &runCmd{outputFlags: outputFlags{Quiet: true}}}
		_, err := r.connect(ctx)
		r.close()
		var usage usageError
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return errInterrupted
		case errors.As(err, &usage):
			return err
		case time.Duration(k.Now()) > a.cmd.ReadyMax:
			return fmt.Errorf("the server was not ready within %s: %w", a.cmd.ReadyMax, err)
		}
		rest(ctx, readyPoll)
	}
}

// conclude compares what was run, and keeps the comparison beside it.
func (a *abRun) conclude(o compare.Options) error {
	sides := make([]compare.Side, len(a.sides))
	for i := range a.sides {
		sides[i].Label = a.sides[i].label
	}
	for _, c := range a.dir.Meta.Cells {
		runs, _, err := readSide(filepath.Join(a.dir.Dir, c.Run), o.Metrics)
		if err != nil {
			return err
		}
		sides[c.Index].Runs = append(sides[c.Index].Runs, runs...)
	}
	keep := func(out *result.Comparison) error {
		var text bytes.Buffer
		if err := report.ComparisonMarkdown(&text, out); err != nil {
			return err
		}
		return errors.Join(
			rundir.WriteJSON(filepath.Join(a.dir.Dir, "comparison.json"), out),
			os.WriteFile(filepath.Join(a.dir.Dir, "comparison.md"), text.Bytes(), 0o644))
	}
	err := a.cmd.compare(a.env, sides, o, keep)
	var gate gateError
	if err != nil && !errors.As(err, &gate) {
		return fmt.Errorf("%w; the runs are kept: assay compare %s --by side", err, a.dir.Dir)
	}
	return err
}
