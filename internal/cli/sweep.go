package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"github.com/goccy/go-yaml"

	"github.com/assay-bench/assay/result"
	"github.com/assay-bench/assay/rundir"
	"github.com/assay-bench/assay/sweep"
	"github.com/assay-bench/assay/workload"
)

type sweepCmd struct {
	URL *string `arg:"" optional:"" help:"Endpoint, as for assay run; none: the built-in engine."`

	axisFlags
	Repeats *int   `placeholder:"3" help:"Runs of every stage, each a process of its own." group:"Sweep"`
	Quick   bool   `help:"A first curve in minutes: one run a stage, windows of 8s, no tails." group:"Sweep"`
	NoStop  bool   `name:"no-stop" help:"Run all stages: do not stop climbing at saturation." group:"Sweep"`
	Resume  string `placeholder:"DIR" help:"Go on with a sweep that was cut off; failed runs are tried again." group:"Sweep"`
	multiFlags

	targetFlags
	baseFlags
	metricsFlags
	environmentFlags
	sweepGateFlags
	outputFlags

	Sim simFlags `embed:"" group:"Built-in engine"`
}

// multiFlags are those of commands that make several runs.
type multiFlags struct {
	Virtual   bool           `help:"Run on the built-in engine in virtual time: minutes of load in a second." group:"Sweep"`
	NoCheck   bool           `name:"no-check" help:"Do not make the instrument check of assay check first." group:"Sweep"`
	NoReset   bool           `name:"no-reset" help:"Do not ask the server to reset its prefix cache between runs." group:"Sweep"`
	SettleMax *time.Duration `name:"settle-max" placeholder:"30s" help:"Longest wait between runs for the server to have nothing running." group:"Sweep"`
}

// axisFlags are the lists that a sweep goes through.
type axisFlags struct {
	Concurrency  *string  `placeholder:"1,2,4,8" help:"Closed loops with so many requests in flight." group:"Sweep"`
	Rate         *string  `placeholder:"1,2,4" help:"Open loops with so many arrivals per second." group:"Sweep"`
	PromptTokens *string  `name:"prompt-tokens" placeholder:"128,512" help:"Prompt lengths, or one distribution." group:"Sweep"`
	OutputTokens *string  `name:"output-tokens" placeholder:"64,256" help:"Output lengths, or one distribution." group:"Sweep"`
	Over         []string `placeholder:"KEY=A,B" sep:"none" help:"Any key of the configuration, as in workload.arrival.cv=1,2; repeat it for a grid." group:"Sweep"`
}

// sweepGateFlags are the gates of a sweep.
type sweepGateFlags struct {
	FailOn []string `name:"fail-on" default:"invalid-client,slo,check" help:"Gates that make the exit code 1: invalid-client, slo (no stage meets it), check, unstable, not-stabilised, until-ci (not reached), ledger, none." group:"Measurement"`
}

// Help implements kong's detailed help.
func (sweepCmd) Help() string {
	return `Runs stages over a list of loads, lengths or any key of the configuration, and
all combinations of several lists. Each stage is run --repeats times, each time by a
process of its own; the first round climbs and stops at saturation, the others are
interleaved in an order drawn from the seed. The report has medians over the runs,
the knee of throughput and the Universal Scalability Law.

  assay sweep http://localhost:8000 --concurrency 1,2,4,8,16,32
  assay sweep https://host/v1 --rate 1,2,4,8 --prompt-tokens 128,1024 --slo seed
  assay sweep --virtual --concurrency 1,2,4,8,16,32,64 --max-num-seqs 16
  assay sweep --resume runs/20261130T...`
}

// sweepConfig is the section sweep of a configuration file.
type sweepConfig struct {
	// Over maps keys of the configuration to lists of values, in order.
	Over    yaml.MapSlice `yaml:"over,omitempty"`
	Repeats int           `yaml:"repeats,omitempty"`
	Quick   bool          `yaml:"quick,omitempty"`
	NoStop  bool          `yaml:"no_stop,omitempty"`
	// SettleMax bounds the wait between two runs.
	SettleMax time.Duration `yaml:"settle_max,omitempty"`
	NoCheck   bool          `yaml:"no_check,omitempty"`
	NoReset   bool          `yaml:"no_reset,omitempty"`
}

const (
	defaultRepeats   = 3
	defaultSettleMax = 30 * time.Second
	// A stage of a sweep is measured longer than a first run, so that its lowest
	// load has the requests that a stability verdict needs.
	sweepDuration = time.Minute
	// A quick one has no tails and fewer doubts.
	quickDuration  = 8 * time.Second
	quickWarmupMax = 15 * time.Second
)

// Run implements the command.
func (c *sweepCmd) Run(e *env) error {
	gates, err := parseGates(c.FailOn)
	if err != nil {
		return err
	}
	s := &sweepRun{multi: multi{env: e, quiet: c.Quiet, sim: c.Sim, flags: c.multiFlags, gates: gates}}
	if c.Resume != "" {
		err = c.resume(s)
	} else {
		err = c.begin(s)
	}
	if err != nil {
		return err
	}
	if c.PrintConfig {
		return s.print()
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)() // a second Ctrl-C does not wait
	defer s.close()
	return s.all(ctx, c.JSON)
}

// begin plans a new sweep.
func (c *sweepCmd) begin(s *sweepRun) error {
	base := defaultConfig()
	base.Stage.Duration = sweepDuration
	quick := defaultConfig()
	quick.Stage.Duration, quick.Stage.WarmupMax = quickDuration, quickWarmupMax
	cfg, err := c.gather(s.env, base)
	if err == nil && (c.Quick || cfg.Sweep != nil && cfg.Sweep.Quick) {
		cfg, err = c.gather(s.env, quick)
	}
	if err != nil {
		return err
	}
	if s.axes, err = c.axes(cfg.Sweep); err != nil {
		return err
	}
	s.options = c.options(cfg.Sweep)
	cfg.Sweep = nil
	cfg.Stage.bound(len(cfg.Stage.UntilCI) > 0 || slices.ContainsFunc(s.axes, func(a result.SweepAxis) bool { return a.Key == "stage.until_ci" }))
	// One value is no axis: it is the same in all stages.
	for _, a := range s.axes {
		if len(a.Values) == 1 && !isLoad(a.Key) {
			if err := cfg.setOne(sweep.Setting{Key: a.Key, Value: a.Values[0]}); err != nil {
				return err
			}
		}
	}
	s.axes = slices.DeleteFunc(s.axes, func(a result.SweepAxis) bool { return len(a.Values) == 1 && !isLoad(a.Key) })
	s.base = cfg
	return s.plan()
}

func isLoad(key string) bool { return key == sweep.ConcurrencyKey || key == sweep.RateKey }

// gather puts what was given over a configuration, and settles nothing: the loads
// are yet to come.
func (c *sweepCmd) gather(e *env, base config) (config, error) {
	if slices.Contains(c.File, "-") {
		return base, usagef("-f -: a sweep is read from a file")
	}
	l := loadFlags{baseFlags: c.baseFlags}
	cfg, err := l.over(base, e.stdin, &c.outputFlags, &c.targetFlags, c.URL)
	if err == nil {
		err = c.environmentFlags.put(&cfg)
	}
	if err == nil {
		err = c.metricsFlags.put(&cfg)
	}
	return cfg, err
}

// options of the file, with those of the flags over them.
func (c *sweepCmd) options(file *sweepConfig) sweepConfig {
	var o sweepConfig
	put(&o, file)
	o.Quick = o.Quick || c.Quick
	if o.Repeats == 0 {
		o.Repeats = defaultRepeats
		if o.Quick {
			o.Repeats = 1
		}
	}
	put(&o.Repeats, c.Repeats)
	o.NoStop = o.NoStop || c.NoStop
	c.multiFlags.put(&o)
	return o
}

func (f *multiFlags) put(o *sweepConfig) {
	o.NoCheck, o.NoReset = o.NoCheck || f.NoCheck, o.NoReset || f.NoReset
	if o.SettleMax == 0 {
		o.SettleMax = defaultSettleMax
	}
	put(&o.SettleMax, f.SettleMax)
}

// axes of the file and of the flags; a flag takes the place of the file's list.
func (c *sweepCmd) axes(file *sweepConfig) ([]result.SweepAxis, error) {
	var axes []result.SweepAxis
	add := func(key string, values []string) {
		a := result.SweepAxis{Key: key, Name: axisName(key), Values: values}
		if i := slices.IndexFunc(axes, func(x result.SweepAxis) bool { return x.Key == key }); i >= 0 {
			axes[i] = a
			return
		}
		axes = append(axes, a)
	}
	if file != nil {
		for _, item := range file.Over {
			values, err := yamlValues(item.Value)
			if err != nil {
				return nil, usagef("sweep.over.%v: %w", item.Key, err)
			}
			add(fmt.Sprint(item.Key), values)
		}
	}
	// The flags of a load take the place of another one's list.
	load := func(key, other string, list *string) {
		if list == nil {
			return
		}
		for i := range axes {
			if axes[i].Key == other {
				axes[i] = result.SweepAxis{Key: key, Name: axisName(key), Values: splitValues(*list)}
				return
			}
		}
		add(key, splitValues(*list))
	}
	if c.Concurrency != nil && c.Rate != nil {
		return nil, usagef("--concurrency makes closed loops and --rate open ones: give one of them")
	}
	load(sweep.ConcurrencyKey, sweep.RateKey, c.Concurrency)
	load(sweep.RateKey, sweep.ConcurrencyKey, c.Rate)
	for _, l := range []struct {
		key, flag string
		list      *string
	}{{"workload.prompt_tokens", "--prompt-tokens", c.PromptTokens}, {"workload.output_tokens", "--output-tokens", c.OutputTokens}} {
		if l.list == nil {
			continue
		}
		values, err := lengthValues(*l.list)
		if err != nil {
			return nil, usagef("%s: %w", l.flag, err)
		}
		add(l.key, values)
	}
	for _, over := range c.Over {
		key, list, ok := strings.Cut(over, "=")
		if !ok || key == "" || list == "" {
			return nil, usagef("--over %q: want KEY.PATH=A,B, as in --over workload.arrival.cv=1,2", over)
		}
		add(key, splitValues(list))
	}
	return axes, nil
}

// axisName is the word for a key in the names of stages.
func axisName(key string) string {
	parts := strings.Split(key, ".")
	return strings.ReplaceAll(parts[len(parts)-1], "_", " ")
}

// splitValues splits at commas outside of brackets.
func splitValues(list string) []string {
	var out []string
	depth, from := 0, 0
	for i, r := range list {
		switch {
		case r == '{' || r == '[':
			depth++
		case r == '}' || r == ']':
			depth--
		case r == ',' && depth == 0:
			out = append(out, strings.TrimSpace(list[from:i]))
			from = i + 1
		}
	}
	return append(out, strings.TrimSpace(list[from:]))
}

// lengthValues are several lengths, or one whose text has commas in it.
func lengthValues(list string) ([]string, error) {
	var one workload.Length
	whole := one.UnmarshalText([]byte(list))
	values := splitValues(list)
	for _, v := range values {
		if err := one.UnmarshalText([]byte(v)); err != nil {
			if whole == nil {
				return []string{list}, nil
			}
			return nil, err
		}
	}
	return values, nil
}

// yamlValues are the elements of a list as YAML on one line.
func yamlValues(v any) ([]string, error) {
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	var out []string
	for _, x := range list {
		b, err := yaml.MarshalWithOptions(x, yaml.Flow(true))
		if err != nil {
			return nil, err
		}
		out = append(out, strings.TrimSpace(string(b)))
	}
	return out, nil
}

// resume takes up a stored sweep. What cannot be stored may be given again.
func (c *sweepCmd) resume(s *sweepRun) error {
	none := sweepCmd{Resume: c.Resume, URL: c.URL, outputFlags: outputFlags{JSON: c.JSON, Quiet: c.Quiet}, sweepGateFlags: c.sweepGateFlags, Sim: c.Sim}
	none.targetFlags.Header, none.metricsFlags.MetricsHeader = c.Header, c.MetricsHeader
	if !reflect.DeepEqual(*c, none) || !plainEngine(&c.Sim) {
		return usagef("--resume goes on with what is stored: beside it only the URL, --header, --metrics-header, --fail-on, --json and -q have a meaning")
	}
	d, err := s.reopen(c.Resume, rundir.SweepKind, &c.targetFlags, &c.metricsFlags, c.URL)
	if err != nil {
		return err
	}
	m := &d.Meta
	s.axes, s.options.Repeats, s.options.Quick, s.options.NoStop = m.Axes, m.Repeats, m.Quick, m.NoStop
	if err := s.plan(); err != nil {
		return err
	}
	return checkCells(d, s.stages)
}

// plainEngine reports whether no flag of the engine was given.
func plainEngine(f *simFlags) bool {
	var plain struct{ simFlags }
	if p, err := kong.New(&plain); err != nil {
		return false
	} else if _, err := p.Parse(nil); err != nil {
		return false
	}
	return slices.Equal(plain.args(), f.args())
}

// print shows the configuration as resolved, with the section sweep.
func (s *sweepRun) print() error {
	cfg := s.base.redacted()
	o := s.options
	for _, a := range s.axes {
		values := make([]any, len(a.Values))
		for i, v := range a.Values {
			if err := yaml.Unmarshal([]byte(v), &values[i]); err != nil {
				return usagef("%s: %w", a.Key, err)
			}
		}
		o.Over = append(o.Over, yaml.MapItem{Key: a.Key, Value: values})
	}
	cfg.Sweep = &o
	b, err := cfg.yaml()
	if err == nil {
		_, err = s.env.stdout.Write(b)
	}
	return err
}

// with is the configuration with the settings of a stage over it. The load is put
// as the flags of a run do, which knows what must go for it.
func (c *config) with(settings []sweep.Setting) (config, error) {
	b, err := c.yaml()
	if err != nil {
		return config{}, err
	}
	var out config
	if err := decodeYAML(b, &out); err != nil { // a copy that shares nothing
		return out, fmt.Errorf("copying the configuration: %w", err)
	}
	out.Stage.bounded = true // what is copied is resolved
	for _, v := range settings {
		if err := out.setOne(v); err != nil {
			return out, err
		}
	}
	out.settle()
	return out, out.validate()
}

func (c *config) setOne(v sweep.Setting) error {
	var l loadFlags
	var err error
	switch v.Key {
	case sweep.ConcurrencyKey:
		l.Concurrency = new(int)
		_, err = fmt.Sscan(v.Value, l.Concurrency)
	case sweep.RateKey:
		l.Rate = new(float64)
		_, err = fmt.Sscan(v.Value, l.Rate)
	default:
		return c.set(v.Key + "=" + v.Value)
	}
	if err != nil {
		return usagef("%s: %q is no number", v.Key, v.Value)
	}
	return l.workload(&c.Workload)
}

// storedConfig is the configuration for sweep.json.
func storedConfig(c *config) (json.RawMessage, bool, error) {
	text, err := c.redacted().yaml()
	if err != nil {
		return nil, false, err
	}
	b, err := yaml.YAMLToJSON(text)
	if err != nil {
		return nil, false, fmt.Errorf("encoding the configuration: %w", err)
	}
	return b, c.Target.URL != "" && redactedURL(c.Target.URL) != c.Target.URL, nil
}

// reopen takes up what is stored of a sweep or a search.
func (m *multi) reopen(dir, kind string, t *targetFlags, mf *metricsFlags, url *string) (*rundir.Sweep, error) {
	d, err := rundir.ResumeSweep(filepath.Clean(dir))
	if err != nil {
		return nil, usageError{err}
	}
	meta := &d.Meta
	if meta.Kind != kind {
		return nil, usagef("%s was made by assay %s: go on with assay %s --resume", dir, meta.Kind, meta.Kind)
	}
	cfg := defaultConfig()
	if err := decodeYAML(meta.Config, &cfg); err != nil {
		return nil, usagef("%s: config: %w", filepath.Join(dir, "sweep.json"), err)
	}
	cfg.Stage.bounded = true // what was stored is resolved
	put(&cfg.Target.URL, url)
	if meta.Redacted && url == nil {
		return nil, usagef("the URL had credentials or a query, which are stored nowhere: give it again, as in assay %s URL --resume %s", kind, dir)
	}
	cfg.Target.Headers = append(cfg.Target.Headers, t.Header...)
	if err := mf.put(&cfg); err != nil {
		return nil, err
	}
	var engine struct{ simFlags }
	p, err := kong.New(&engine)
	if err == nil {
		_, err = p.Parse(meta.Engine)
	}
	if err != nil {
		return nil, usagef("%s: engine_flags: %w", filepath.Join(dir, "sweep.json"), err)
	}
	m.base, m.sim, m.dir, m.flags.Virtual = cfg, engine.simFlags, d, meta.Virtual
	m.options.NoCheck, m.options.NoReset, m.options.SettleMax = meta.NoCheck, meta.NoReset, meta.SettleMax
	return d, nil
}
