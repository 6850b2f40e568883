package cli

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/assay-bench/assay/engine"
	"github.com/assay-bench/assay/experiment"
	"github.com/assay-bench/assay/internal/clock"
	"github.com/assay-bench/assay/load/real"
	"github.com/assay-bench/assay/load/sched"
	"github.com/assay-bench/assay/load/virtual"
	"github.com/assay-bench/assay/result"
	"github.com/assay-bench/assay/rundir"
	"github.com/assay-bench/assay/workload"
)

// virtualMeanOutput is the mean length of replies that the model ends by itself,
// as of the engine behind HTTP.
const virtualMeanOutput = 200

// runVirtual is assay sim --virtual: the road of assay run, on the engine alone.
func (c *serveCmd) runVirtual(e *env) error {
	if c.TruthLog != "" || c.TruthSteps || c.Fault != "" || c.OTLPTraces != "" {
		return usagef("--truth-log, --truth-steps, --otlp-traces-endpoint and --fault are of a server: there is none with --virtual")
	}
	cfg, err := c.resolve(e.stdin, &c.outputFlags, nil, nil)
	if err != nil {
		return err
	}
	if c.PrintConfig {
		b, err := cfg.redacted().yaml()
		if err == nil {
			_, err = e.stdout.Write(b)
		}
		return err
	}
	gates, err := parseGates(c.FailOn)
	if err != nil {
		return err
	}
	if c.Engines < 1 {
		return usagef("--engines is %d: want a count from 1", c.Engines)
	}
	eng, err := c.engine()
	if err != nil {
		return err
	}
	made, err := checkOut(cfg.Out)
	if err != nil {
		return err
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	v := &virtualRun{cfg: cfg, engine: eng, engines: c.Engines, say: func(format string, args ...any) {
		if !c.Quiet {
			fmt.Fprintf(e.stderr, format+"\n", args...)
		}
	}}
	out, err := v.measure(ctx)
	if made && v.writer == nil {
		_ = os.Remove(cfg.Out) // stays if somebody put something there
	}
	if err != nil {
		return err
	}
	d, err := rundir.Open(v.writer.Dir())
	if err == nil {
		err = savePages(d, out)
	}
	if err != nil {
		return err
	}
	if err := printRun(e, out, c.JSON); err != nil {
		return fmt.Errorf("printing the report: %w", err)
	}
	switch {
	case !out.Complete:
		return errInterrupted
	case len(out.Stages) > 0 && out.Stages[0].LedgerRun.Completed == 0:
		return &real.TargetError{Text: "no attempt completed" + firstError(&out.Stages[0])}
	}
	return gates.check(out, cfg.Report.Attainment)
}

// virtualRun is one run in virtual time.
type virtualRun struct {
	cfg     config
	engine  engine.Config
	engines int
	say     func(format string, args ...any)
	writer  *rundir.Writer
}

func (v *virtualRun) measure(ctx context.Context) (*result.Run, error) {
	plan, err := v.cfg.draw(v.cfg.Workload, v.say)
	if err != nil {
		return nil, usageError{err}
	}
	if plan.PromptFile() != nil {
		v.say("%s", estimated)
	}
	k := clock.Start()
	if err := v.create(k); err != nil {
		return nil, err
	}
	v.say("virtual time, %s: %s", v.describe(), v.cfg.Workload.Describe())
	v.say("writing %s", v.writer.Dir())
	if text := v.cfg.fewRequests(&v.cfg.Workload); text != "" {
		v.say("note: %s", text)
	}
	simulated, err := v.stage(ctx, plan)
	ended := ""
	switch {
	case err != nil:
		ended = err.Error()
	case ctx.Err() != nil:
		ended = "interrupted"
	}
	if cerr := v.writer.Close(ended == "", ended); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, fmt.Errorf("%w; what was written is in %s", err, v.writer.Dir())
	}
	took := time.Duration(k.Now())
	v.say("%.1f s of virtual time in %.2f s: %.0f times real time", simulated.Seconds(), took.Seconds(), simulated.Seconds()/took.Seconds())
	d, err := rundir.Open(v.writer.Dir())
	if err != nil {
		return nil, err
	}
	out, err := conclude(d, &statFlags{})
	if err != nil {
		return nil, err
	}
	return out, rundir.SaveReport(d.Dir, out)
}

// virtualTransport is how run.json and the report name the lack of a network.
const virtualTransport = "virtual time"

func (v *virtualRun) create(k *clock.Clock) error {
	m, err := v.cfg.meta(k)
	if err != nil {
		return err
	}
	m.EpochMonotonic = 0 // stamps are of no clock
	m.Target = result.Target{
		URL:   fmt.Sprintf("virtual:%s/%s", v.engine.GPU.Name, v.engine.Model.Name),
		Model: v.engine.Model.Name, Dialect: "virtual", Engine: "assay engine: " + v.describe(),
		BuiltIn: true, Virtual: true,
	}
	m.Transport, m.PromptLength = virtualTransport, "the plan itself: the engine counts, no prompt is made"
	m.Warnings = []result.Warning{{Code: "virtual-time", Text: "virtual time: no network, no frontend. The engine alone was simulated; " +
		"HTTP, tokenisation and the way to the client take no time in these figures."}}
	short := make([]byte, 3)
	_, _ = rand.Read(short) // never fails
	v.writer, err = rundir.Create(v.cfg.Out, hex.EncodeToString(short), m)
	if err != nil {
		return usagef("out (--out): %w", err)
	}
	return nil
}

// stage applies the load, and says how long it took in virtual time.
func (v *virtualRun) stage(ctx context.Context, plan *workload.Plan) (simulated time.Duration, err error) {
	spec := plan.Spec()
	cfg := virtual.Config{
		Engine: v.engine, Engines: v.engines, Load: loop(plan),
		Requests: sched.SourceFunc(plan.Next),
		Shape:    sharePrefixes(v.engine.BlockSize, virtual.DrawLengths(v.cfg.Seed, virtualMeanOutput)),
		IDPrefix: v.idPrefix(),
	}
	if spec.Sessions != nil {
		cfg.Talks = workload.NewConversations(plan, nil)
		cfg.Shape = virtual.ShareHistory(cfg.Talks, v.engine.BlockSize, cfg.Shape)
	}
	runner, err := virtual.New(cfg)
	if err != nil {
		return 0, usageError{err}
	}
	st := experiment.NewStage(v.cfg.plan(spec), v.writer)
	defer context.AfterFunc(ctx, func() { st.Halt("interrupted") })()
	noted := false
	watched := &journal{Stage: st, save: func(i result.StageInfo) error {
		if i.Window.Start != 0 && i.WindowClosed == "" && !noted {
			noted = true
			for _, text := range v.cfg.opened(&i) {
				v.say("note: %s", text)
			}
		}
		i.Load = loadText(spec)
		v.writer.Meta().Stages = []result.StageInfo{i}
		return v.writer.SaveMeta()
	}}
	err = errors.Join(runner.Run(ctx, watched), st.Err(), plan.Err())
	info := st.Info(runner.Now())
	info.Load, info.CappedTime = loadText(spec), runner.CappedTime()
	info.PlannedSharing = planned(plan)
	info.Server = &result.ServerAccount{Text: "no account: there is no server in virtual time"}
	v.writer.Meta().Stages = []result.StageInfo{info}
	return time.Duration(runner.Now()), err
}

// describe says in words what is simulated.
func (v *virtualRun) describe() string {
	if v.engines > 1 {
		return fmt.Sprintf("%d engines: %s", v.engines, describeEngine(v.engine))
	}
	return describeEngine(v.engine)
}

// idPrefix begins the ids of all attempts. It depends on what is simulated alone,
// so that the same run gives the same records.
func (v *virtualRun) idPrefix() string {
	e, spec := v.engine, engine.SpecDecode{}
	if e.Spec != nil {
		spec, e.Spec = *e.Spec, nil // its values, not where they are
	}
	what := fmt.Appendf(nil, "%s %+v %+v", v.cfg.Workload.Fingerprint(v.cfg.Seed), e, spec)
	if v.engines > 1 {
		what = fmt.Appendf(what, " engines %d", v.engines)
	}
	sum := sha256.Sum256(what)
	return "virtual-" + hex.EncodeToString(sum[:6]) + "-"
}
