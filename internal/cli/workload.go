package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/assay-bench/assay/dataset"
	"github.com/assay-bench/assay/dialect"
	"github.com/assay-bench/assay/report"
	"github.com/assay-bench/assay/workload"
)

// workloadCmd has the commands that look at a workload without sending anything.
type workloadCmd struct {
	Describe workloadDescribeCmd `cmd:"" help:"Say what a workload or a trace looks like: lengths, rate over time, burstiness."`
	Sample   workloadSampleCmd   `cmd:"" help:"Print requests as they would be sent."`
	Fit      workloadFitCmd      `cmd:"" help:"Write a workload that looks like a trace."`
}

// specFlags name a workload.
type specFlags struct {
	Set  []string `name:"set" placeholder:"KEY=VALUE" sep:"none" help:"Set any key of the configuration, as in workload.arrival.rate=4."`
	Seed *uint64  `placeholder:"1" help:"Seed of schedule and lengths."`
}

// traceFlags say how a trace is read.
type traceFlags struct {
	Format  string            `placeholder:"NAME" help:"Format of a trace, if it is not to be found out: azure, burstgpt, mooncake, bailian, servegen, columns and others." group:"Trace"`
	Unit    string            `placeholder:"UNIT" help:"Unit of its stamps: s, ms, us, ns or date." group:"Trace"`
	Column  map[string]string `placeholder:"FIELD=NAME" help:"Column of a field: time, prompt_tokens, output_tokens." group:"Trace"`
	SkipBad bool              `name:"skip-bad" help:"Leave malformed rows out, and count them." group:"Trace"`
	AnySpan bool              `name:"any-span" help:"Take a trace that spans absurdly long." group:"Trace"`
}

// resolve makes the configuration out of a file, which is a whole configuration
// or its workload alone, and of the flags.
func (f *specFlags) resolve(path string) (config, error) {
	cfg := defaultConfig()
	b, err := os.ReadFile(path)
	if err != nil {
		return cfg, usagef("%w", err)
	}
	if name := filepath.Base(path); bareSpec(b) {
		err = placeIn(b, name, decodeYAML(b, &cfg.Workload))
	} else {
		err = cfg.readYAML(b, name)
	}
	if err != nil {
		return cfg, err
	}
	for _, s := range f.Set {
		if err := cfg.set(s); err != nil {
			return cfg, err
		}
	}
	put(&cfg.Seed, f.Seed)
	cfg.settle()
	if err := cfg.Workload.Validate(); err != nil {
		return cfg, usageError{blame(err, b, filepath.Base(path), bareSpec(b))}
	}
	return cfg, cfg.validate()
}

// bareSpec reports whether a file has the keys of a workload at its top, and not
// those of a configuration.
func bareSpec(b []byte) bool {
	var top map[string]any
	if decodeYAML(b, &top) != nil {
		return false
	}
	for key := range top {
		if slices.Contains([]string{"prompt_tokens", "output_tokens", "exact_output", "arrival", "concurrency", "think_time", "ramp",
			"reuse_prompts", "length_correlation", "length_pairs", "trace", "prompts", "prefix", "cache_salt", "sessions"}, key) {
			return true
		}
	}
	return false
}

// blame gives what is wrong with a workload the line and column of the first key
// that it names, or of what that is in.
func blame(err error, b []byte, name string, bare bool) error {
	first, _, _ := strings.Cut(err.Error(), "\n")
	path, _, ok := strings.Cut(first, ": ")
	for ok && path != "" {
		full := "$.workload." + path
		if bare {
			full = "$." + path
		}
		if p, perr := yaml.PathString(full); perr == nil {
			if node, nerr := p.ReadNode(strings.NewReader(string(b))); nerr == nil && node.GetToken() != nil {
				at := node.GetToken().Position
				return fmt.Errorf("%s:%d:%d: %w", name, at.Line, at.Column, err)
			}
		}
		cut := strings.LastIndex(path, ".")
		if cut < 0 {
			break
		}
		path = path[:cut]
	}
	return fmt.Errorf("%s: %w", name, err)
}

// sayTo prints lines to w.
func sayTo(w io.Writer) func(format string, args ...any) {
	return func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
}

// isSpec reports whether a path is that of a workload, not of a trace.
func isSpec(path string) bool {
	return slices.Contains([]string{".yaml", ".yml"}, strings.ToLower(filepath.Ext(path)))
}

// estimated says where lengths of prompts come from that only a server can count.
const estimated = "note: without the server's tokenizer, lengths of prompts are estimates: 4 bytes a token"

type workloadDescribeCmd struct {
	Source string `arg:"" placeholder:"SPEC|TRACE" help:"Workload (.yaml: a configuration, or what stands under workload in one), or a trace."`
	specFlags
	traceFlags
	N    int  `short:"n" name:"requests" default:"100000" help:"Requests to look at, from the first on."`
	JSON bool `name:"json" help:"Print as JSON."`
}

// Help implements kong's detailed help.
func (workloadDescribeCmd) Help() string {
	return `Draws the first requests of the plan, exactly those that a run with this seed would
send, or reads those of a trace, and sums them up.

  assay workload describe bench.yaml
  assay workload describe AzureLLMInferenceTrace_code.csv`
}

// workloadLook is what describe prints as JSON.
type workloadLook struct {
	Workload    string            `json:"workload"`
	Fingerprint string            `json:"fingerprint"`
	Seed        uint64            `json:"seed"`
	Trace       *dataset.Summary  `json:"trace,omitempty"`
	Profile     workload.Profile  `json:"profile"`
	Sharing     *workload.Sharing `json:"planned_sharing,omitempty"`
	Fits        *workload.Fits    `json:"nearest,omitempty"`
}

// Run implements the command.
func (c *workloadDescribeCmd) Run(e *env) error {
	defer frugal()()
	if c.N < 1 {
		return usagef("--requests is %d: want a count from 1", c.N)
	}
	if !isSpec(c.Source) {
		return c.describeTrace(e)
	}
	cfg, err := c.resolve(c.Source)
	if err != nil {
		return err
	}
	plan, err := cfg.draw(cfg.Workload, sayTo(e.stderr))
	if err != nil {
		return usageError{err}
	}
	if plan.PromptFile() != nil {
		fmt.Fprintln(e.stderr, estimated)
	}
	sample, err := plan.Sample(c.N)
	if err != nil {
		return usageError{err}
	}
	return c.print(e, &workloadLook{
		Workload: cfg.Workload.Describe(), Fingerprint: cfg.Workload.Fingerprint(cfg.Seed), Seed: cfg.Seed, Profile: sample.Profile(), Sharing: sample.Sharing,
	}, cfg.Workload.Describe())
}

func (c *workloadDescribeCmd) describeTrace(e *env) error {
	if len(c.Set) > 0 {
		return usagef("--set is of a workload; a trace has none to set")
	}
	seed := defaultConfig().Seed
	put(&seed, c.Seed)
	t, err := c.open(c.Source, seed)
	if err != nil {
		return err
	}
	sample, err := t.sample(c.N)
	if err != nil {
		return err
	}
	fits, spread, err := t.fits(sample, c.N)
	if err != nil {
		return err
	}
	t.say(sayTo(e.stderr))
	if spread != "" {
		fmt.Fprintf(e.stderr, "note: %s\n", spread)
	}
	look := &workloadLook{
		Workload: t.spec.Describe(), Fingerprint: t.spec.Fingerprint(seed), Seed: seed, Profile: sample.Profile(), Fits: fits,
	}
	if t.file != nil {
		look.Trace = &t.file.Summary
		if look.Profile.Sessions == nil && t.file.HasSessions() {
			look.Profile.Sessions = c.sessionsOf(t.spec, t.file, seed)
		}
	}
	return c.print(e, look, t.note())
}

// sessionsOf is what the sessions of a trace look like when they are replayed; nil if
// they cannot be.
func (c *workloadDescribeCmd) sessionsOf(s workload.Spec, f *workload.TraceFile, seed uint64) *workload.SessionProfile {
	s.Sessions = &workload.Sessions{Turns: workload.Length{Dist: workload.FromTrace}}
	p, err := workload.NewSessionPlan(s, seed, f)
	if err != nil {
		return nil
	}
	sample, err := p.Sample(c.N)
	if err != nil {
		return nil
	}
	return sample.Profile().Sessions
}

func (c *workloadDescribeCmd) print(e *env, d *workloadLook, title string) error {
	if c.JSON {
		return report.WriteJSON(e.stdout, d)
	}
	return d.print(e.stdout, title)
}

type workloadSampleCmd struct {
	Spec string `arg:"" placeholder:"SPEC|TRACE" help:"Workload (.yaml), or a trace or a file of prompts as they would be replayed."`
	specFlags
	traceFlags
	N       int    `short:"n" name:"requests" default:"10" help:"Requests to print."`
	Dialect string `default:"openai-chat" placeholder:"openai-chat" help:"openai-chat or openai-completions."`
	Full    bool   `help:"Print whole bodies, not their beginnings."`
	JSON    bool   `name:"json" help:"Print a line of JSON for each, with its whole body."`
}

// bodyShown is how much of a body is printed.
const bodyShown = 240

// config is that of the workload, or of a run with --trace or --prompts.
func (c *workloadSampleCmd) config() (config, error) {
	if isSpec(c.Spec) {
		return c.resolve(c.Spec)
	}
	cfg := defaultConfig()
	for _, s := range c.Set {
		if err := cfg.set(s); err != nil {
			return cfg, err
		}
	}
	put(&cfg.Seed, c.Seed)
	t, err := c.open(c.Spec, cfg.Seed)
	if err != nil {
		return cfg, err
	}
	t.replay(&cfg.Workload)
	cfg.settle()
	return cfg, cfg.validate()
}

// Run implements the command.
func (c *workloadSampleCmd) Run(e *env) error {
	defer frugal()()
	if c.N < 1 {
		return usagef("--requests is %d: want a count from 1", c.N)
	}
	d, ok := dialect.ByName(c.Dialect)
	if !ok {
		return usagef("--dialect is %q: want openai-chat or openai-completions", c.Dialect)
	}
	cfg, err := c.config()
	if err != nil {
		return err
	}
	plan, err := cfg.draw(cfg.Workload, sayTo(e.stderr))
	if err != nil {
		return usageError{err}
	}
	options := workload.CalibrateOptions{Chat: d.Name() == dialect.Chat{}.Name(), Nonce: "sample", Reuse: cfg.Workload.ReusePrompts}
	content := workload.Uncalibrated(options)
	if f := plan.PromptFile(); f != nil {
		content = workload.Own(options)
		if err := f.Fits(options.Chat); err != nil {
			if f.Fits(!options.Chat) == nil {
				return usagef("prompts: %w: --dialect %s", err, otherDialect(options.Chat))
			}
			return usagef("prompts: %w", err)
		}
		fmt.Fprintln(e.stderr, "the nonce of a run is not there yet")
	} else {
		fmt.Fprintln(e.stderr, "prompts are text, uncalibrated: without a server a word is taken for a token, and the nonce of a run is not there yet")
	}
	model := cfg.Target.Model
	if model == "" {
		model = "MODEL"
	}
	asked := dialect.Options{Model: model, Stream: cfg.Target.Stream, IncludeUsage: cfg.Target.Stream, ExtraBody: []byte(cfg.Target.ExtraBody)}
	times := plan.Arrivals()
	due := time.Duration(0)
	source := newSampleSource(plan, content)
	for range c.N {
		r, rest, ok := source.next()
		if !ok {
			break
		}
		body, err := d.AppendRequest(nil, &r, &asked)
		if err != nil {
			return usagef("encoding request %d: %w", r.Index, err)
		}
		line := sampled{Index: r.Index, PromptTokens: r.PromptTokens, MaxTokens: r.MaxTokens, Exact: r.ExactOutput, Body: body}
		if r.Turn > 0 {
			line.Session, line.Turn, line.Turns = &r.Session, r.Turn, r.Turns
		}
		if r.Turn > 1 {
			line.Rest, line.due = &rest, turnText(plan.Spec().Sessions, rest)
		} else if times != nil {
			due += times.Next()
			line.Due = &due
		}
		if err := line.print(e.stdout, c.JSON, c.Full); err != nil {
			return err
		}
	}
	if err := plan.Err(); err != nil {
		return usageError{err}
	}
	return nil
}

// otherDialect is that of completions, of a chat, and the other way round.
func otherDialect(chat bool) string {
	if chat {
		return dialect.Completions{}.Name()
	}
	return dialect.Chat{}.Name()
}

// sampled is one request that sample prints.
type sampled struct {
	Index   int64          `json:"index"`
	Session *int64         `json:"session,omitempty"`
	Turn    int            `json:"turn,omitempty"`
	Turns   int            `json:"turns,omitempty"`
	Due     *time.Duration `json:"due_ns,omitempty"`
	// Rest of a later turn after the end of the one before, or its time after the
	// session's start.
	Rest         *time.Duration `json:"rest_ns,omitempty"`
	due          string
	PromptTokens int             `json:"prompt_tokens"`
	MaxTokens    int             `json:"max_tokens"`
	Exact        bool            `json:"exact_output"`
	Body         json.RawMessage `json:"body"`
}

func (s *sampled) print(w io.Writer, asJSON, full bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(s)
	}
	due := "when a slot is free"
	if s.due != "" {
		due = s.due
	} else if s.Due != nil {
		due = "due at " + s.Due.Round(time.Microsecond).String()
	}
	how := "at most"
	if s.Exact {
		how = "exactly"
	}
	body := string(s.Body)
	if !full && len(body) > bodyShown {
		body = fmt.Sprintf("%s … %s (%d bytes)", strings.ToValidUTF8(body[:bodyShown*2/3], ""), strings.ToValidUTF8(body[len(body)-bodyShown/3:], ""), len(body))
	}
	turn := ""
	if s.Turn > 0 {
		turn = fmt.Sprintf(" (session %d, turn %d of %d)", *s.Session, s.Turn, s.Turns)
	}
	length := fmt.Sprintf("%d prompt tokens", s.PromptTokens)
	if s.PromptTokens == 0 {
		length = "its own prompt"
	}
	if s.MaxTokens == 0 {
		how = "no cap,"
	}
	_, err := fmt.Fprintf(w, "request %d%s, %s: %s, %s %d output tokens\n%s\n", s.Index, turn, due, length, how, s.MaxTokens, body)
	return err
}

type workloadFitCmd struct {
	Trace string `arg:"" help:"Trace of any format that assay reads."`
	traceFlags
	N int `short:"n" name:"requests" default:"1000000" help:"Requests to look at, from the first on."`
}

// Help implements kong's detailed help.
func (workloadFitCmd) Help() string {
	return `Fits the nearest simple arrival process and length distributions, says how near they
are, and prints a configuration to run.

  assay workload fit trace.csv > bench.yaml`
}

// Run implements the command.
func (c *workloadFitCmd) Run(e *env) error {
	defer frugal()()
	if c.N < 1 {
		return usagef("--requests is %d: want a count from 1", c.N)
	}
	seed := defaultConfig().Seed
	t, err := c.open(c.Trace, seed)
	if err != nil {
		return err
	}
	sample, err := t.sample(c.N)
	if err != nil {
		return err
	}
	fits, spread, err := t.fits(sample, c.N)
	if err != nil {
		return err
	}
	spec, notes, err := fits.Spec()
	if err != nil {
		return usagef("%s: %w", filepath.Base(c.Trace), err)
	}
	t.say(sayTo(e.stderr))
	var b strings.Builder
	fmt.Fprintf(&b, "# Fitted to %d requests of %s.\n# %s\n", sample.Requests(), filepath.Base(c.Trace), t.note())
	if spread != "" {
		notes = slices.Insert(notes, 0, spread)
	}
	notes = append(notes, t.unfitted()...)
	for _, n := range notes {
		fmt.Fprintf(&b, "# %s\n", n)
	}
	text, err := yaml.MarshalWithOptions(map[string]any{"workload": spec}, yaml.Indent(2), yaml.IndentSequence(true))
	if err != nil {
		return fmt.Errorf("printing the workload: %w", err)
	}
	_, err = fmt.Fprintf(e.stdout, "%s%s", b.String(), text)
	return err
}
