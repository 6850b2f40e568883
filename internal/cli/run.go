package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/goccy/go-yaml"

	"github.com/assay-bench/assay/experiment"
	"github.com/assay-bench/assay/internal/clock"
	"github.com/assay-bench/assay/load/real"
	"github.com/assay-bench/assay/load/sched"
	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/result"
	"github.com/assay-bench/assay/rundir"
	"github.com/assay-bench/assay/workload"
)

type runCmd struct {
	URL *string `arg:"" optional:"" help:"Endpoint, with or without /v1, a path prefix or the full path; none: the built-in engine."`

	targetFlags
	loadFlags
	metricsFlags
	environmentFlags
	gateFlags
	RequireCheck bool `name:"require-check" help:"Make the instrument check of assay check first, and do not run if it fails." group:"Measurement"`
	outputFlags

	Sim simFlags `embed:"" group:"Built-in engine"`
}

// Help implements kong's detailed help.
func (runCmd) Help() string {
	return `Finds the model from /v1/models, warms up until the figures are stationary,
measures a declared window, and prints the report. Everything is stored in a new
folder below --out. Closed loop with --concurrency, open loop with --rate.

  assay run http://localhost:8000 --concurrency 32 --prompt-tokens 1024
  assay run https://host/v1 --api-key-env KEY --model m --rate 4 --slo ttft=1s,tpot=50ms`
}

// Run implements the command.
func (c *runCmd) Run(e *env) error {
	cfg, err := c.resolve(e.stdin, &c.outputFlags, &c.targetFlags, c.URL)
	if err == nil {
		err = c.environmentFlags.put(&cfg)
	}
	if err == nil {
		err = c.metricsFlags.put(&cfg)
	}
	if err == nil {
		err = cfg.validate()
	}
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
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)() // a second Ctrl-C does not wait
	r := &run{cfg: cfg, env: e, cmd: c}
	defer r.close()
	out, err := r.measure(ctx)
	if err != nil {
		return err
	}
	if err := printRun(e, out, c.JSON); err != nil {
		return fmt.Errorf("printing the report: %w", err)
	}
	if !out.Complete {
		return errInterrupted
	}
	return gates.check(out, cfg.Report.Attainment)
}

// run is one run while it happens.
type run struct {
	cfg config
	cmd *runCmd
	env *env

	builtIn  *builtIn
	truthLog string // of the built-in engine
	target   *real.Target
	sources  []*real.Source // of the server's metrics
	history  *history       // of them at a Prometheus server; nil without one
	info     result.Target
	clock    *clock.Clock
	room     int // for requests at a time, of an open loop; 0: no bound
	writer   *rundir.Writer
	checked  *result.InstrumentCheck // before the run, if that was asked for
	closers  []func()
}

func (r *run) close() {
	for i := len(r.closers) - 1; i >= 0; i-- {
		r.closers[i]()
	}
}

// say tells the user what happens, on standard error.
func (r *run) say(format string, args ...any) {
	if !r.cmd.Quiet {
		fmt.Fprintf(r.env.stderr, format+"\n", args...)
	}
}

// measure runs everything up to the conclusions, which it also stores.
func (r *run) measure(ctx context.Context) (*result.Run, error) {
	made, err := checkOut(r.cfg.Out)
	if err != nil {
		return nil, err
	}
	defer func() {
		if made && r.writer == nil {
			_ = os.Remove(r.cfg.Out) // stays if somebody put something there
		}
	}()
	features, err := r.connect(ctx)
	if err != nil {
		return nil, interruptedOr(ctx, err)
	}
	if r.cmd.RequireCheck {
		if err := r.requireCheck(ctx, features); err != nil {
			return nil, interruptedOr(ctx, err)
		}
	}
	plan, content, err := r.prepare(ctx, features)
	if err != nil {
		return nil, interruptedOr(ctx, err)
	}
	if err := r.create(content.Method(), features); err != nil {
		return nil, err
	}
	r.say("%s, model %s, %s: %s", r.info.URL, r.info.Model, r.target.Dialect.Name(), r.cfg.Workload.Describe())
	r.say("writing %s", r.writer.Dir())
	if text := r.cfg.fewRequests(&r.cfg.Workload); text != "" {
		r.say("note: %s", text)
	}
	complete, err := r.stage(ctx, plan, content)
	r.checkTruth()
	ended := ""
	switch {
	case err != nil:
		ended = err.Error()
	case !complete:
		ended = "interrupted"
	}
	if cerr := r.writer.Close(complete && err == nil, ended); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, fmt.Errorf("%w; what was written is in %s", err, r.writer.Dir())
	}
	return r.conclude()
}

func interruptedOr(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errInterrupted
	}
	return err
}

// checkOut makes sure, before anything is sent, that results can be stored. made
// says that it had to make the folder.
func checkOut(dir string) (made bool, err error) {
	_, err = os.Stat(dir)
	made = errors.Is(err, os.ErrNotExist)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return false, usagef("out (--out): %w", err)
	}
	f, err := os.CreateTemp(dir, ".assay-write-test-*")
	if err != nil {
		return made, usagef("out (--out): cannot write to %s: %w", dir, err)
	}
	_ = f.Close()
	if err := os.Remove(f.Name()); err != nil {
		return made, usagef("out (--out): %w", err)
	}
	return made, nil
}

// connect finds the target, or starts the built-in engine, and probes it.
func (r *run) connect(ctx context.Context) (real.Features, error) {
	limits := real.ReadLimits()
	if err := r.cfg.fits(limits); err != nil {
		return real.Features{}, err
	}
	r.room = r.cfg.room(limits)
	if text := r.cfg.tightRoom(r.room); text != "" {
		r.say("note: %s", text)
	}
	url := r.cfg.Target.URL
	if url == "" {
		if err := r.cmd.Sim.check(); err != nil {
			return real.Features{}, err
		}
		sim, err := r.keepTruth(r.cmd.Sim)
		if err != nil {
			return real.Features{}, err
		}
		b, err := startBuiltIn(ctx, sim.args(), r.env.stderr)
		if err != nil {
			return real.Features{}, err
		}
		r.closers = append(r.closers, b.stop)
		r.builtIn, url = b, b.url
	}
	r.clock = clock.Start()
	target, closeTarget, err := openTarget(&r.cfg.Target, url, r.clock)
	if err != nil {
		return real.Features{}, err
	}
	r.closers = append(r.closers, closeTarget)
	r.target = target
	if err := r.chooseTransport(); err != nil {
		return real.Features{}, err
	}
	if err := r.openSources(url); err != nil {
		return real.Features{}, err
	}
	if r.info, err = target.Discover(ctx, r.cfg.Target.Model); err != nil {
		return real.Features{}, err
	}
	r.info.BuiltIn = r.builtIn != nil
	d, err := r.cfg.dialect()
	if err != nil {
		return real.Features{}, err
	}
	f, err := target.Probe(ctx, real.ProbeOptions{Dialect: d, Stream: r.cfg.Target.Stream, ExactOutput: r.cfg.Workload.ExactOutput})
	if err != nil {
		return f, err
	}
	r.info.Dialect = target.Dialect.Name()
	for _, w := range f.Warnings {
		r.say("note: %s", w.Text)
	}
	return f, nil
}

// prepare draws the plan, and learns how to make prompts of its lengths.
func (r *run) prepare(ctx context.Context, f real.Features) (*workload.Plan, *workload.Content, error) {
	spec := r.cfg.Workload
	spec.ExactOutput = f.ExactOutput
	plan, err := r.cfg.draw(spec, r.say)
	if err != nil {
		return nil, nil, usageError{err}
	}
	if f := plan.PromptFile(); f != nil {
		content, err := r.ownContent(f)
		return plan, content, err
	}
	shortest, longest := plan.PromptBounds()
	talks := plan.Spec().Sessions
	content, err := workload.Calibrate(ctx, r.target, workload.CalibrateOptions{
		Chat: r.target.IsChat(), TokenIDs: !r.target.IsChat() && (talks == nil || plan.ReplaysBlocks()), Lengths: []int{shortest, longest},
		Nonce: r.target.RunID(), Reuse: spec.ReusePrompts,
	})
	if err == nil && talks != nil {
		err = content.FitSystem(ctx, r.target, talks.SystemPromptTokens)
	}
	if err != nil {
		return nil, nil, &real.TargetError{Text: "calibrating the prompt length: " + err.Error(), Err: err}
	}
	r.sayInexact(plan, content)
	return plan, content, nil
}

// ownContent sends the prompts of a file.
func (r *run) ownContent(f *workload.PromptFile) (*workload.Content, error) {
	if err := f.Fits(r.target.IsChat()); err != nil {
		return nil, usagef("prompts: %w (--dialect says which it is)", err)
	}
	reuse := r.cfg.Workload.ReusePrompts
	switch {
	case f.Bodies > 0:
		r.say("note: recorded bodies are sent as they are, but for model, stream and stream_options; output_tokens is not theirs. " +
			"A prefix cache may know them from earlier: --set workload.cache_salt=run keeps runs apart (vLLM)")
	case reuse:
		r.say("note: prompts are sent as they are: a prefix cache may know them from earlier")
	default:
		r.say("note: each prompt begins with a code of this run, some 14 tokens, so that no prefix cache knows it from earlier; --reuse-prompts leaves it out")
	}
	return workload.Own(workload.CalibrateOptions{Chat: r.target.IsChat(), Nonce: r.target.RunID(), Reuse: reuse}), nil
}

// sayInexact warns that shared parts of prompts are not exactly as long as asked.
func (r *run) sayInexact(plan *workload.Plan, content *workload.Content) {
	if !plan.Shares() || content.Exact() {
		return
	}
	most := 0
	for _, c := range content.Checks() {
		most = max(most, c.Asked-c.Achieved, c.Achieved-c.Asked)
	}
	r.say("note: no words were found that are one token each on this server: what prompts share has about as many tokens as asked. "+
		"Whole prompts were up to %d tokens off", most)
}

func (r *run) create(promptLength string, f real.Features) error {
	m, err := r.cfg.meta(r.clock)
	if err != nil {
		return err
	}
	m.Check = r.checked
	m.Target, m.Transport, m.PromptLength, m.Warnings = r.info, r.target.Transport(), promptLength, f.Warnings
	if !r.cfg.Workload.ReusePrompts {
		m.Nonce = r.target.RunID()
	}
	r.writer, err = rundir.Create(r.cfg.Out, r.target.RunID()[:6], m)
	if err != nil {
		return usagef("out (--out): %w", err)
	}
	return nil
}

// meta is what run.json has of the configuration.
func (c *config) meta(k *clock.Clock) (rundir.Meta, error) {
	text, err := c.redacted().yaml()
	if err != nil {
		return rundir.Meta{}, err
	}
	asJSON, err := yaml.YAMLToJSON(text) // the same keys and units as in a file
	if err != nil {
		return rundir.Meta{}, fmt.Errorf("encoding the configuration: %w", err)
	}
	m := rundir.Meta{
		ToolVersion: version(), Epoch: k.Epoch(), Config: asJSON, Seed: c.Seed,
		WorkloadText: c.Workload.Describe(), Fingerprint: c.Workload.Fingerprint(c.Seed),
		SLO: c.Report.SLO, TPOT: c.Report.TPOT, QuantileType: c.Report.QuantileType, Percentiles: c.Report.Percentiles,
		Limits: c.Limits, Labels: c.Labels,
	}
	m.EpochMonotonic, _ = k.Monotonic()
	return m, nil
}

// plan of the one stage of a run.
func (c *config) plan(spec workload.Spec) experiment.Plan {
	return experiment.Plan{
		UntilCI: c.Stage.UntilCI,
		Name:    stageName(spec), OpenLoop: spec.Open(), Concurrency: spec.Concurrency,
		Duration: c.Stage.Duration, Requests: c.Stage.Requests,
		Warmup: experiment.Rule(c.Stage.Warmup), WarmupMax: c.Stage.WarmupMax, CooldownMax: c.Stage.CooldownMax,
	}
}

// stage applies the load and stores what was decided. complete is false if it
// was interrupted.
func (r *run) stage(ctx context.Context, plan *workload.Plan, content *workload.Content) (complete bool, err error) {
	spec := plan.Spec()
	st := experiment.NewStage(r.cfg.plan(spec), r.writer)
	runner, err := r.runner(plan, content)
	if err != nil {
		return false, usageError{err}
	}
	account, err := r.startAccount(ctx)
	if err != nil {
		return false, err
	}
	if err := r.logEnvironment(ctx, account.pages()); err != nil {
		return false, err
	}
	if err := r.target.Prewarm(ctx, max(spec.Concurrency, 1)); err != nil {
		r.say("note: %v", err)
	}
	defer context.AfterFunc(ctx, func() { st.Halt("interrupted") })()
	note := func(string) {}
	if !r.cmd.Quiet {
		show := startProgress(r.env.stderr, func() experiment.Live { return st.Live(record.Stamp(r.clock.Now())) })
		defer show.stop()
		note = show.note
	}
	health := real.Watch(r.target)
	account.start(ctx)
	noted := false
	watched := &metered{journal: &journal{Stage: st, save: func(i result.StageInfo) error {
		account.aim(i.Window)
		if i.Window.Start != 0 && i.WindowClosed == "" && !noted {
			noted = true
			for _, text := range r.cfg.opened(&i) {
				note("note: " + text)
			}
		}
		i.Load, i.MetricsLabels = loadText(spec), r.cfg.Metrics.Labels
		r.writer.Meta().Stages = []result.StageInfo{i}
		return r.writer.SaveMeta()
	}, storeClock: r.storeClock}}
	err = errors.Join(runner.Run(ctx, watched), r.storeClock(), st.Err(), plan.Err())
	switch {
	case ctx.Err() != nil:
		st.Halt("interrupted")
	case err != nil:
		st.Halt("error")
	}
	info := st.Info(record.Stamp(r.clock.Now()))
	info.Load, info.Health, info.CappedTime = loadText(spec), health.Read(), runner.CappedTime()
	info.MetricsLabels = r.cfg.Metrics.Labels
	info.PlannedSharing = planned(plan)
	info.Server = account.finish(ctx)
	r.writer.Meta().Stages = []result.StageInfo{info}
	r.writer.Meta().Target = r.info
	r.writer.Meta().Warnings = append(r.writer.Meta().Warnings, beyondCalibration(&watched.meter)...)
	return ctx.Err() == nil, err
}

// runner of the load, with prompts made by content.
func (r *run) runner(plan *workload.Plan, content *workload.Content) (*real.Runner, error) {
	_, longest := plan.PromptBounds()
	load := loop(plan)
	load.MaxInFlight = max(load.MaxInFlight, r.room)
	if plan.Spec().Sessions != nil {
		return real.NewSessionRunner(r.target, load, longest, workload.NewConversations(plan, content))
	}
	return real.NewRunner(r.target, load, longest, func() (record.Request, bool) {
		q, ok := plan.Next()
		if ok {
			content.Fill(&q)
		}
		return q, ok
	})
}

// storeClock stores the latest estimates of the wall clock's offset.
func (r *run) storeClock() error { return r.writer.AppendClock(r.target.TakeClock()) }

// loop is the plan's load for the scheduler.
func loop(p *workload.Plan) sched.Config {
	s := p.Spec()
	if !s.Open() {
		c := sched.Config{Concurrency: s.Concurrency, Ramp: int64(s.Ramp), Due: p.Due}
		if !s.ThinkTime.IsZero() && s.Sessions == nil {
			c.Think = func() int64 { return int64(p.ThinkTime()) }
		}
		return c
	}
	arrivals := p.Arrivals()
	return sched.Config{Gap: func() int64 { return int64(arrivals.Next()) }, MaxInFlight: s.Arrival.MaxInFlight, Due: p.Due}
}

// stageName is short and says the load: "concurrency 16", "rate 4/s".
func stageName(s workload.Spec) string {
	if s.Open() && s.Sessions != nil {
		return "session " + s.Arrival.Name()
	}
	if s.Open() {
		return s.Arrival.Name()
	}
	return fmt.Sprintf("concurrency %d", s.Concurrency)
}

// loadText says the load without the lengths, which belong to the workload.
func loadText(s workload.Spec) string { return s.DescribeLoop() }

// conclude makes the report from the run directory, by the same road as assay
// report does.
func (r *run) conclude() (*result.Run, error) {
	d, err := rundir.Open(r.writer.Dir())
	if err != nil {
		return nil, err
	}
	out, err := conclude(d, &statFlags{})
	if err != nil {
		return nil, err
	}
	if err := errors.Join(rundir.SaveReport(d.Dir, out), savePages(d, out)); err != nil {
		return nil, err
	}
	if s := out.Stages; len(s) > 0 && s[0].LedgerRun.Completed == 0 && out.Complete {
		_ = printRun(r.env, out, r.cmd.JSON)
		return nil, &real.TargetError{Text: "no attempt completed" + firstError(&s[0])}
	}
	return out, nil
}

func firstError(s *result.Stage) string {
	if len(s.Errors) == 0 {
		return ""
	}
	return ": " + s.Errors[0].Error
}

// gates are the findings that make the exit code 1.
type gates map[string]bool

func parseGates(names []string) (gates, error) {
	g := gates{}
	for _, n := range names {
		switch n {
		case "invalid-client", "slo", "unstable", "not-stabilised", "until-ci", "ledger", "check":
			g[n] = true
		case "none", "gate": // the latter belongs to other commands
		default:
			return nil, usagef("--fail-on %q: want invalid-client, slo, unstable, not-stabilised, until-ci, ledger or none", n)
		}
	}
	return g, nil
}

func (g gates) check(r *result.Run, attainment float64) error {
	var failed []string
	fail := func(gate string, bad bool, format string, args ...any) {
		if g[gate] && bad {
			failed = append(failed, gate+": "+fmt.Sprintf(format, args...))
		}
	}
	for i := range r.Stages {
		s := &r.Stages[i]
		fail("invalid-client", s.Client.Verdict == result.Invalid, "%s", s.Client.Cause)
		fail("unstable", s.Stability.Verdict == result.Unstable, "%s", s.Stability.Cause)
		fail("not-stabilised", s.Warmup.Capped != "", "%s", s.Warmup.Text)
		missed := s.UntilCIMissed()
		fail("until-ci", missed != "", "%s", missed)
		fail("ledger", !s.Ledger.Balances(), "attempts and rows differ")
		if gp := s.Goodput; gp != nil {
			fail("slo", gp.Percent < 100*attainment, "%d of %d due requests met the SLO, %.2f %% where at least %.4g %% are wanted (--attainment)",
				gp.Good, gp.Due, gp.Percent, 100*attainment)
		}
	}
	if failed == nil {
		return nil
	}
	return gateError{"gate failed: " + strings.Join(failed, "; ")}
}
