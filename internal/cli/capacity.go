package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/assay-bench/assay/load/real"
	"github.com/assay-bench/assay/report"
	"github.com/assay-bench/assay/result"
	"github.com/assay-bench/assay/rundir"
	"github.com/assay-bench/assay/sweep"
)

type capacityCmd struct {
	URL *string `arg:"" optional:"" help:"Endpoint, as for assay run; none: the built-in engine."`

	Search    string         `default:"rate" enum:"rate,concurrency" help:"What to search for: the highest rate of an open loop, or the highest concurrency of a closed one." group:"Capacity"`
	Start     *float64       `placeholder:"1" help:"First load; it is doubled or halved from there." group:"Capacity"`
	Least     *float64       `placeholder:"0.01" help:"Lowest load to try." group:"Capacity"`
	Most      *float64       `placeholder:"10000" help:"Highest load to try." group:"Capacity"`
	Precision share          `default:"5%" help:"Distance between the load that passes and the one that fails that is aimed at." group:"Capacity"`
	WindowMax *time.Duration `name:"window-max" placeholder:"4m" help:"Longest window of a run that decides; the windows of those that look around are --duration, and those of deciding runs twice that at first." group:"Capacity"`
	Seeds     *int           `placeholder:"3" help:"Runs that a verdict needs, each with its own seed." group:"Capacity"`
	SeedsMax  *int           `name:"seeds-max" placeholder:"3" help:"Runs that a verdict may take when the longest windows leave it undecided." group:"Capacity"`
	Resume    string         `placeholder:"DIR" help:"Go on with a search that was cut off." group:"Capacity"`
	multiFlags

	targetFlags
	lengthFlags
	baseFlags
	metricsFlags
	environmentFlags
	capacityGateFlags
	outputFlags

	Sim simFlags `embed:"" group:"Built-in engine"`
}

// capacityGateFlags are the gates of a search.
type capacityGateFlags struct {
	FailOn []string `name:"fail-on" default:"invalid-client,slo,check" help:"Gates that make the exit code 1: invalid-client (in a run that decides), slo (no load was shown to meet it), check, none." group:"Measurement"`
}

// Help implements kong's detailed help.
func (capacityCmd) Help() string {
	return `Brackets the load by doubling, bisects, and then decides levels above and below
until one was shown to pass and one close above it to fail: by the share of due
requests that met the SLO, with an exact interval, and by the stability of the runs.
Each verdict is of several runs with seeds of their own, which are made longer while
it is open. The capacity lies between the two loads that are reported.

  assay capacity http://localhost:8000 --slo ttft=1s,tpot=50ms
  assay capacity http://localhost:8000 --slo mlperf-llama3.1-8b --attainment 0.99
  assay capacity --virtual --slo ttft=500ms,tpot=50ms --max-num-seqs 16`
}

// share is a share of 1, given as 0.05 or as 5%.
type share float64

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *share) UnmarshalText(b []byte) error {
	text, percent := strings.CutSuffix(strings.TrimSpace(string(b)), "%")
	x, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil {
		return fmt.Errorf("%q is no share: want 0.05 or 5%%", b)
	}
	if percent {
		x /= 100
	}
	*s = share(x)
	return nil
}

// The windows of a search. In virtual time they cost next to nothing, so that
// verdicts can be sharp.
const (
	capacityWindow    = time.Minute
	capacityLonger    = 4 // times the window that looks around
	virtualWindow     = 4 * time.Minute
	virtualLonger     = 8
	capacitySeeds     = 3
	virtualSeedsMax   = 6
	leastRate         = 0.01
	mostRate          = 10_000
	mostInFlightTried = 65_536
)

// capacityRun is one search while it happens.
type capacityRun struct {
	multi
	search sweep.Search
	made   []sweep.Outcome
}

// Run implements the command.
func (c *capacityCmd) Run(e *env) error {
	gates, err := parseGates(c.FailOn)
	if err != nil {
		return err
	}
	s := &capacityRun{multi: multi{env: e, quiet: c.Quiet, sim: c.Sim, flags: c.multiFlags, gates: gates}}
	if c.Resume != "" {
		err = c.resume(s)
	} else {
		err = c.begin(s)
	}
	if err != nil {
		return err
	}
	if c.PrintConfig {
		b, err := s.base.redacted().yaml()
		if err == nil {
			_, err = e.stdout.Write(b)
		}
		return err
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)() // a second Ctrl-C does not wait
	defer s.close()
	return s.all(ctx, c.JSON)
}

// begin plans a new search.
func (c *capacityCmd) begin(s *capacityRun) error {
	window, longer, seedsMax := capacityWindow, capacityLonger, capacitySeeds
	if c.Virtual {
		window, longer, seedsMax = virtualWindow, virtualLonger, virtualSeedsMax
	}
	base := defaultConfig()
	base.Stage.Duration = window
	if slices.Contains(c.File, "-") {
		return usagef("-f -: a search is read from a file")
	}
	l := loadFlags{lengthFlags: c.lengthFlags, baseFlags: c.baseFlags}
	cfg, err := l.over(base, s.env.stdin, &c.outputFlags, &c.targetFlags, c.URL)
	if err == nil {
		err = c.environmentFlags.put(&cfg)
	}
	if err == nil {
		err = c.metricsFlags.put(&cfg)
	}
	if err != nil {
		return err
	}
	if cfg.Stage.Requests != 0 || cfg.Stage.Duration == 0 {
		return usagef("stage.requests (--requests): a search makes its windows longer as it needs: give --duration and --window-max")
	}
	if len(cfg.Stage.UntilCI) > 0 {
		return usagef("stage.until_ci (--until-ci): a search makes its windows as long as it needs: give --duration and --window-max")
	}
	var o sweepConfig
	put(&o, cfg.Sweep)
	c.multiFlags.put(&o)
	cfg.Sweep = nil
	s.base, s.options = cfg, o
	s.search = sweep.Search{
		Over: c.Search, Start: 1, Least: leastRate, Most: mostRate, Precision: float64(c.Precision), Attainment: cfg.Report.Attainment,
		Window: cfg.Stage.Duration, WindowMax: time.Duration(longer) * cfg.Stage.Duration, Seeds: capacitySeeds, SeedsMax: seedsMax,
	}
	if c.Search == sweep.OverConcurrency {
		s.search.Least, s.search.Most = 1, mostInFlightTried
	}
	put(&s.search.Start, c.Start)
	put(&s.search.Least, c.Least)
	put(&s.search.Most, c.Most)
	put(&s.search.WindowMax, c.WindowMax)
	put(&s.search.Seeds, c.Seeds)
	s.search.SeedsMax = max(s.search.SeedsMax, s.search.Seeds)
	put(&s.search.SeedsMax, c.SeedsMax)
	return s.plan()
}

// resume takes up a stored search.
func (c *capacityCmd) resume(s *capacityRun) error {
	none := capacityCmd{
		Resume: c.Resume, URL: c.URL, Search: "rate", Precision: 0.05, outputFlags: outputFlags{JSON: c.JSON, Quiet: c.Quiet},
		capacityGateFlags: c.capacityGateFlags, Sim: c.Sim,
	}
	none.targetFlags.Header, none.metricsFlags.MetricsHeader = c.Header, c.MetricsHeader
	if !reflect.DeepEqual(*c, none) || !plainEngine(&c.Sim) {
		return usagef("--resume goes on with what is stored: beside it only the URL, --header, --metrics-header, --fail-on, --json and -q have a meaning")
	}
	d, err := s.reopen(c.Resume, rundir.CapacityKind, &c.targetFlags, &c.metricsFlags, c.URL)
	if err != nil {
		return err
	}
	if s.search, err = storedSearch(&d.Meta, s.base.Report.Attainment); err != nil {
		return err
	}
	return s.plan()
}

func storedSearch(m *rundir.SweepMeta, attainment float64) (sweep.Search, error) {
	p := m.Capacity
	if p == nil {
		return sweep.Search{}, usagef("sweep.json has no plan of a search")
	}
	return sweep.Search{
		Over: p.Over, Start: p.Start, Least: p.Least, Most: p.Most, Precision: p.Precision, Attainment: attainment,
		Window: p.Window, WindowMax: p.WindowMax, Seeds: p.Seeds, SeedsMax: p.SeedsMax,
	}, nil
}

// plan refuses what cannot be meant, before anything is run.
func (s *capacityRun) plan() error {
	if err := s.check(); err != nil {
		return err
	}
	if s.base.Report.SLO == "" {
		return usagef("a capacity is that under an objective: give --slo, as in --slo ttft=1s,tpot=150ms")
	}
	if err := s.search.Check(); err != nil {
		return usageError{err}
	}
	_, err := s.at(s.search.Start)
	return err
}

// at is the configuration at a load.
func (s *capacityRun) at(load float64) (config, error) {
	key := sweep.RateKey
	if s.search.Over == sweep.OverConcurrency {
		key = sweep.ConcurrencyKey
	}
	return s.base.with([]sweep.Setting{{Key: key, Value: strconv.FormatFloat(load, 'f', -1, 64)}})
}

// all searches, and reports.
func (s *capacityRun) all(ctx context.Context, asJSON bool) error {
	if s.dir == nil {
		p := s.search
		err := s.create(rundir.SweepMeta{
			Kind: rundir.CapacityKind, Seed: s.base.Seed, Repeats: p.Seeds,
			Capacity: &rundir.CapacityPlan{
				Over: p.Over, Start: p.Start, Least: p.Least, Most: p.Most, Precision: p.Precision,
				Window: p.Window, WindowMax: p.WindowMax, Seeds: p.Seeds, SeedsMax: p.SeedsMax,
			},
		})
		if err != nil {
			return err
		}
	}
	s.say("%s", s.planned())
	s.say("writing %s", s.dir.Dir)
	first, err := s.at(s.search.Start)
	if err != nil {
		return err
	}
	if err := s.start(ctx, first); err != nil {
		s.discard()
		return err
	}
	err = s.probes(ctx)
	m := &s.dir.Meta
	m.Complete, m.Ended = err == nil, ""
	if err != nil {
		m.Ended = err.Error()
	}
	if serr := s.dir.Save(); err == nil && serr != nil {
		return serr
	}
	out, cerr := concludeCapacity(s.dir, &statFlags{})
	if cerr != nil {
		return errors.Join(err, cerr)
	}
	if rerr := s.store(out, func(f *os.File) error { return report.CapacityMarkdown(f, out) }); rerr != nil {
		return errors.Join(err, rerr)
	}
	if perr := printCapacity(s.env, out, asJSON); perr != nil {
		return perr
	}
	if err != nil {
		return err
	}
	return s.gates.checkCapacity(out)
}

// planned says how long the search may take. Its number of runs is not known
// before it is over: what is said is what most searches need.
func (s *capacityRun) planned() string {
	p, st := s.search, s.base.Stage
	const looking, levels = 8, 4
	extra := st.WarmupMax + st.CooldownMax
	unit := ""
	if s.flags.Virtual {
		unit = " of virtual time"
	}
	return fmt.Sprintf("searching for the %s: about %d runs of %s to find the place, then %d runs of %s to %s for each of about %d levels: "+
		"%s to %s%s of measured windows; warm-up (at most %s) and drain (at most %s) of each run on top",
		p.Over, looking, p.Window, p.Seeds, 2*p.Window, p.WindowMax, levels,
		round(looking*p.Window+time.Duration(levels*p.Seeds)*2*p.Window), round(looking*p.Window+time.Duration(levels*p.SeedsMax)*2*p.WindowMax),
		unit, st.WarmupMax, extra-st.WarmupMax)
}

// probes makes runs until the search is over.
func (s *capacityRun) probes(ctx context.Context) error {
	m := &s.dir.Meta
	for _, p := range m.Probes {
		o, err := probeOutcome(s.dir.Dir, p, &statFlags{})
		if err != nil {
			return err
		}
		s.made = append(s.made, o)
	}
	failures := 0
	for {
		p, done := s.search.Next(s.made)
		if done {
			return nil
		}
		purpose := "looking"
		if p.Deciding {
			purpose = "deciding"
		}
		s.say("run %d: %s, %s %g, seed %d, %s", len(s.made)+1, purpose, s.search.Over, p.Load, p.Seed, p.Window)
		o, err := s.probe(ctx, p)
		if err != nil {
			return err
		}
		s.made = append(s.made, o)
		if o.Failed == "" {
			failures = 0
			s.say("  %s", sweepLine(o.Stage))
		} else {
			failures++
			s.say("  failed: %s", o.Failed)
		}
		if failures == mostFailures {
			return &real.TargetError{Text: fmt.Sprintf("%d runs in a row failed, the last: %s", failures, o.Failed)}
		}
		if l := s.search.Judge(s.made, p.Load); p.Deciding && l.Verdict != "" {
			s.say("  %s %g: %s: %s", s.search.Over, l.Load, strings.ToUpper(l.Verdict), l.Cause)
		}
	}
}

// probe makes one run and stores that it was made.
func (s *capacityRun) probe(ctx context.Context, p sweep.Probe) (sweep.Outcome, error) {
	cfg, err := s.at(p.Load)
	if err != nil {
		return sweep.Outcome{}, err
	}
	cfg.Seed, cfg.Stage.Duration = sweep.RunSeed(s.base.Seed, p.Seed), p.Window
	name, out, err := s.one(ctx, cfg, p.Seed)
	stored := rundir.SweepProbe{Load: p.Load, Seed: p.Seed, Window: p.Window, Deciding: p.Deciding, Run: name}
	o := sweep.Outcome{Probe: p}
	var usage usageError
	switch {
	case errors.Is(err, errInterrupted) || errors.As(err, &usage):
		return o, err
	case err != nil:
		stored.Error = oneLine(err.Error())
		o.Failed = stored.Error
	default:
		o.Stage = &out.Stages[0]
		if s.dir.Meta.Target.URL == "" {
			s.dir.Meta.Target = out.Target
		}
	}
	s.dir.Meta.Probes = append(s.dir.Meta.Probes, stored)
	return o, s.dir.Save()
}

// probeOutcome is that of a stored probe.
func probeOutcome(dir string, p rundir.SweepProbe, f *statFlags) (sweep.Outcome, error) {
	o := sweep.Outcome{Probe: sweep.Probe{Load: p.Load, Seed: p.Seed, Window: p.Window, Deciding: p.Deciding}, Failed: p.Error}
	if p.Error != "" {
		return o, nil
	}
	run, err := concludeIn(dir, p.Run, f)
	if err != nil {
		return o, usageError{err}
	}
	o.Stage = &run.Stages[0]
	return o, nil
}

// concludeCapacity makes the report of a search from its directory alone.
func concludeCapacity(d *rundir.Sweep, f *statFlags) (*result.Capacity, error) {
	m := &d.Meta
	cfg := defaultConfig()
	if err := decodeYAML(m.Config, &cfg); err != nil {
		return nil, usagef("%s: config: %w", filepath.Join(d.Dir, "sweep.json"), err)
	}
	s, err := storedSearch(m, cfg.Report.Attainment)
	if err != nil {
		return nil, err
	}
	out := &result.Capacity{
		SchemaVersion: result.SchemaVersion, ID: m.ID, Dir: d.Dir, ToolVersion: m.ToolVersion, Complete: m.Complete, Ended: m.Ended,
		Began: m.Began, Target: m.Target, Seed: m.Seed, Check: m.Check, Over: s.Over, Attainment: s.Attainment, Precision: s.Precision,
		Warnings: m.Warnings,
	}
	if !out.Complete && out.Ended == "" {
		out.Ended = "it died, or is not over yet"
	}
	var made []sweep.Outcome
	for _, p := range m.Probes {
		o, err := probeOutcome(d.Dir, p, f)
		if err != nil {
			return nil, err
		}
		made = append(made, o)
		out.Runs++
		if st := o.Stage; st != nil {
			out.Measured += st.Window.Length()
			out.WorkloadText = cmp.Or(out.WorkloadText, st.Load)
			if out.SLO == nil && st.Goodput != nil {
				out.SLO = st.Goodput.SLO
			}
		}
		if !p.Deciding {
			out.Looked = append(out.Looked, looked(&p, &o))
		}
	}
	s.Conclude(out, made)
	return out, nil
}

func looked(p *rundir.SweepProbe, o *sweep.Outcome) result.CapacityLook {
	l := result.CapacityLook{Load: p.Load, Error: p.Error, Run: p.Run}
	if o.Stage != nil {
		l.Stability = o.Stage.Stability.Verdict
		if g := o.Stage.Goodput; g != nil {
			l.Percent = &g.Percent
		}
	}
	return l
}

func printCapacity(e *env, out *result.Capacity, asJSON bool) error {
	if asJSON {
		return report.WriteJSON(e.stdout, out)
	}
	return report.Capacity(e.stdout, out, reportOptions(e.stdout))
}

// checkCapacity says which gates a search fails.
func (g gates) checkCapacity(out *result.Capacity) error {
	var failed []string
	for _, l := range out.Levels {
		if l.Invalid > 0 && g["invalid-client"] {
			failed = append(failed, fmt.Sprintf("invalid-client: at %s %g: %s", out.Over, l.Load, l.Cause))
			break
		}
	}
	if out.Pass == nil && g["slo"] {
		failed = append(failed, "slo: "+out.Text)
	}
	if failed == nil {
		return nil
	}
	return gateError{"gate failed: " + strings.Join(failed, "; ")}
}
