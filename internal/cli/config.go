package cli

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/token"

	"github.com/assay-bench/assay/dialect"
	"github.com/assay-bench/assay/environ"
	"github.com/assay-bench/assay/experiment"
	"github.com/assay-bench/assay/metric"
	"github.com/assay-bench/assay/result"
	"github.com/assay-bench/assay/wire"
	"github.com/assay-bench/assay/workload"
)

// config is the whole of a run. The YAML file, --set and the short flags all end
// in it, and --print-config prints it.
type config struct {
	Target   targetConfig        `yaml:"target"`
	Workload workload.Spec       `yaml:"workload"`
	Stage    stageConfig         `yaml:"stage"`
	Metrics  metricsConfig       `yaml:"metrics"`
	Report   reportConfig        `yaml:"report"`
	Limits   result.ClientLimits `yaml:"client_limits"`
	// Environment is what only the operator of the server knows.
	Environment map[string]string `yaml:"environment,omitempty"`
	// Labels name the run for later comparisons, as in config: fp8.
	Labels map[string]string `yaml:"labels,omitempty"`
	// Sweep is for assay sweep alone.
	Sweep *sweepConfig `yaml:"sweep,omitempty"`
	// Seed of the schedule and the lengths.
	Seed uint64 `yaml:"seed"`
	// Out is the parent of run directories.
	Out string `yaml:"out"`
}

type targetConfig struct {
	URL     string `yaml:"url,omitempty"`
	Model   string `yaml:"model,omitempty"`
	Dialect string `yaml:"dialect,omitempty"`
	// APIKeyEnv names the environment variable that holds the key.
	APIKeyEnv string `yaml:"api_key_env,omitempty"`
	// Headers as "Name: value"; the values may be secrets.
	Headers   []string `yaml:"headers,omitempty"`
	ExtraBody string   `yaml:"extra_body,omitempty"`
	Stream    bool     `yaml:"stream"`
	CAFile    string   `yaml:"ca_file,omitempty"`
	Insecure  bool     `yaml:"insecure,omitempty"`
	Resolve   []string `yaml:"resolve,omitempty"`
	Host      string   `yaml:"host,omitempty"`
	Conn      string   `yaml:"conn"`
	// Transport is goroutine, epoll or auto.
	Transport string `yaml:"transport"`
	// VerifySend takes the kernel's transmit stamps of a sample of the requests.
	VerifySend bool `yaml:"verify_send,omitempty"`
	// SourceAddrs are local addresses that connections come from, in turn.
	SourceAddrs []string       `yaml:"source_addrs,omitempty"`
	Timeout     timeoutsConfig `yaml:"timeout"`
}

type timeoutsConfig struct {
	Connect time.Duration `yaml:"connect"`
	First   time.Duration `yaml:"first"`
	Idle    time.Duration `yaml:"idle"`
	Total   time.Duration `yaml:"total"`
}

type stageConfig struct {
	// Duration is the measured window alone.
	Duration time.Duration `yaml:"duration"`
	// Requests closes the window after so many requests became due.
	Requests int `yaml:"requests,omitempty"`
	// UntilCI closes the window once intervals are narrow enough, as in
	// ttft.p99=5%; Duration and Requests are then the most it may last.
	UntilCI     experiment.UntilCI `yaml:"until_ci,omitempty"`
	Warmup      string             `yaml:"warmup"`
	WarmupMax   time.Duration      `yaml:"warmup_max"`
	CooldownMax time.Duration      `yaml:"cooldown_max"`

	bounded bool // somebody said how long the window may be: Duration is no default
}

// same reports whether both are measured alike.
func (s stageConfig) same(o stageConfig) bool {
	s.bounded = o.bounded
	return reflect.DeepEqual(s, o)
}

// bound gives a window that --until-ci closes a longest duration if nobody has.
func (s *stageConfig) bound(untilCI bool) {
	if untilCI && !s.bounded {
		s.Duration, s.bounded = untilCIMax, true
	}
}

// untilCIMax is the longest window of --until-ci if nobody says how long it may be.
const untilCIMax = 10 * time.Minute

type reportConfig struct {
	SLO string `yaml:"slo,omitempty"`
	// Attainment is the least share of due requests that must meet the SLO for
	// the gate slo to pass.
	Attainment   float64   `yaml:"attainment"`
	TPOT         string    `yaml:"tpot"`
	QuantileType int       `yaml:"quantile_type"`
	Percentiles  []float64 `yaml:"percentiles,omitempty"`
}

// defaultConfig is what a run does without being told: short enough for a first
// table within a minute.
func defaultConfig() config {
	return config{
		Target: targetConfig{
			Stream: true, Conn: string(wire.ConnReuse), Transport: transportAuto,
			Timeout: timeoutsConfig{Connect: 10 * time.Second, First: 2 * time.Minute, Idle: time.Minute, Total: 10 * time.Minute},
		},
		Workload: workload.Default(),
		Stage: stageConfig{
			Duration: 8 * time.Second, Warmup: string(experiment.MSER5), WarmupMax: time.Minute, CooldownMax: time.Minute,
		},
		Report: reportConfig{Attainment: 0.99, TPOT: metric.TPOTSeed, QuantileType: 7},
		Limits: result.DefaultClientLimits(),
		Seed:   1,
		Out:    "runs",
	}
}

// The default load keeps 16 requests in flight, enough to see batching and little
// enough for a small server, and starts them over two seconds, so that slots with
// equal lengths do not move in lockstep.
const (
	defaultConcurrency = 16
	defaultRamp        = 2 * time.Second
)

// settle fills in, last of all, what depends on the rest: a rate alone makes an
// open loop, and a ramp belongs to a warm-up that it can vanish in.
func (c *config) settle() {
	c.Stage.bound(len(c.Stage.UntilCI) > 0)
	w := &c.Workload
	if w.Open() {
		return
	}
	if w.Concurrency == 0 {
		w.Concurrency = defaultConcurrency
	}
	if w.Ramp == 0 && experiment.Rule(c.Stage.Warmup) != experiment.NoWarmup {
		w.Ramp = defaultRamp
	}
}

// readFile puts a YAML file over the configuration. Errors name line and column.
func (c *config) readFile(path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return usagef("-f: %w", err)
	}
	return c.readYAML(b, filepath.Base(path))
}

func (c *config) readYAML(b []byte, name string) error {
	if len(bytes.TrimSpace(b)) == 0 {
		return usagef("%s: the file is empty", name)
	}
	return placeIn(b, name, c.decode(b))
}

// placeIn gives an error about the file b its line and column; nil stays nil.
func placeIn(b []byte, name string, err error) error {
	if err == nil {
		return nil
	}
	var at yaml.Error
	if errors.As(err, &at) && at.GetToken() != nil && at.GetToken().Position != nil {
		p := at.GetToken().Position
		return usagef("%s:%d:%d: %s%s", name, p.Line, p.Column, keyOf(at.GetToken(), at.GetMessage()), at.GetMessage())
	}
	if p := quoted(b, err.Error()); p != nil {
		return usagef("%s:%d:%d: %w", name, p.Line, p.Column, err)
	}
	return usagef("%s: %w", name, err)
}

// keyOf is the key of which t is the value, for a message that does not name it.
func keyOf(t *token.Token, message string) string {
	if t.Prev == nil || t.Prev.Type != token.MappingValueType || t.Prev.Prev == nil {
		return ""
	}
	if key := t.Prev.Prev.Value; !strings.Contains(message, key+":") && !strings.HasPrefix(message, key+" ") && !strings.HasPrefix(message, "unknown field") {
		return key + ": "
	}
	return ""
}

func (c *config) decode(b []byte) error {
	const untold = -1
	before := c.Stage.Duration
	c.Stage.Duration = untold
	err := decodeYAML(b, c)
	if c.Stage.Duration == untold {
		c.Stage.Duration = before
		return err
	}
	c.Stage.bounded = true
	return err
}

// decodeYAML puts b over v. What panics in the YAML library becomes an error: v1.19
// does so on an empty value with a tag where a list is wanted.
func decodeYAML(b []byte, v any) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("cannot be read as YAML: %v", p)
		}
	}()
	return yaml.NewDecoder(bytes.NewReader(b), yaml.Strict()).Decode(v)
}

// quoted finds the scalar that a message quotes: errors of a value's own reader,
// such as that of durations, come without a place.
func quoted(b []byte, message string) *token.Position {
	for _, t := range lexer.Tokenize(string(b)) {
		if t.Next == nil || t.Next.Type != token.MappingValueType {
			if t.Value != "" && strings.Contains(message, strconv.Quote(t.Value)) {
				return t.Position
			}
		}
	}
	return nil
}

// set puts one "key.path=value" over the configuration; the value is YAML.
func (c *config) set(assignment string) error {
	path, value, ok := strings.Cut(assignment, "=")
	if !ok || path == "" {
		return usagef("--set %q: want KEY.PATH=VALUE, as in --set workload.arrival.rate=4", assignment)
	}
	var b strings.Builder
	keys := strings.Split(path, ".")
	for depth, key := range keys {
		fmt.Fprintf(&b, "%s%s:", strings.Repeat("  ", depth), key)
		if depth < len(keys)-1 {
			b.WriteByte('\n')
		}
	}
	b.WriteString(" " + value + "\n")
	err := c.decode([]byte(b.String()))
	var at yaml.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &at):
		// Neither the value, which may be a secret, nor a place in YAML that the
		// user has not written.
		return usagef("--set %s: %s", path, at.GetMessage())
	}
	return usagef("--set %s: %w", path, err)
}

// maxRate is beyond any client; more is a typing error.
const maxRate = 1_000_000

// validate refuses what cannot be meant, naming the key.
func (c *config) validate() error {
	for _, d := range []struct {
		key   string
		value time.Duration
		least time.Duration
	}{
		{"target.timeout.connect", c.Target.Timeout.Connect, 0}, {"target.timeout.first", c.Target.Timeout.First, 0},
		{"target.timeout.idle", c.Target.Timeout.Idle, 0}, {"target.timeout.total", c.Target.Timeout.Total, 0},
		{"stage.duration (--duration)", c.Stage.Duration, 0}, {"stage.warmup_max", c.Stage.WarmupMax, 0},
		{"stage.cooldown_max", c.Stage.CooldownMax, 0},
	} {
		if d.value < d.least || d.value > 365*24*time.Hour {
			return usagef("%s is %s: want a duration from 0 to a year", d.key, d.value)
		}
	}
	switch {
	case c.Stage.Requests < 0:
		return usagef("stage.requests (--requests) is %d: want a count from 1", c.Stage.Requests)
	case c.Stage.Duration == 0 && c.Stage.Requests == 0:
		return usagef("neither stage.duration (--duration) nor stage.requests (--requests) closes the measured window")
	case !slices.Contains([]wire.ConnMode{wire.ConnReuse, wire.ConnPerRequest, wire.ConnSpread}, wire.ConnMode(c.Target.Conn)):
		return usagef("target.conn (--conn) is %q: want reuse, per-request or spread", c.Target.Conn)
	case !slices.Contains([]string{transportAuto, transportGoroutine, transportEpoll}, c.Target.Transport):
		return usagef("target.transport (--transport) is %q: want auto, goroutine or epoll", c.Target.Transport)
	case strings.ContainsFunc(c.Target.Host, func(r rune) bool { return r <= ' ' || r == '/' || r == 0x7f }):
		return usagef("target.host (--host) is %q: want a host name, with a port if need be", c.Target.Host)
	case c.Report.QuantileType < 1:
		return usagef("report.quantile_type (--quantile-type) is %d: Hyndman-Fan types are 1 to 9", c.Report.QuantileType)
	case c.Workload.Arrival.Rate > maxRate:
		return usagef("workload.arrival.rate (--rate) is %v: want at most %v requests/s", c.Workload.Arrival.Rate, maxRate)
	case c.Out == "":
		return usagef("out (--out) is empty: want the folder for run directories")
	}
	switch experiment.Rule(c.Stage.Warmup) {
	case experiment.MSER5, experiment.MedianRule, experiment.NoWarmup:
	default:
		return usagef("stage.warmup is %q: want mser5, median or none", c.Stage.Warmup)
	}
	if figure := c.Stage.UntilCI.Streamed(); figure != "" && !c.Target.Stream {
		return usagef("stage.until_ci (--until-ci): there is no %s without streaming (--no-stream): only e2e is measured", figure)
	}
	if _, err := c.dialect(); err != nil {
		return err
	}
	if _, err := c.Target.sources(); err != nil {
		return err
	}
	if c.Target.ExtraBody != "" {
		if err := dialect.CheckExtraBody([]byte(c.Target.ExtraBody)); err != nil {
			return usagef("target.extra_body (--extra-body): %w", err)
		}
	}
	if _, err := c.metricOptions(); err != nil {
		return err
	}
	for key, share := range map[string]float64{"client_limits.coalesced": c.Limits.Coalesced, "client_limits.sent": c.Limits.Sent, "client_limits.stale": c.Limits.Stale, "client_limits.cpu": c.Limits.CPU, "client_limits.steal": c.Limits.Steal, "report.attainment (--attainment)": c.Report.Attainment} {
		if math.IsNaN(share) || share < 0 || share > 1 {
			return usagef("%s is %v: want a share from 0 to 1", key, share)
		}
	}
	if err := c.Workload.Validate(); err != nil {
		return usagef("workload: %w", err)
	}
	if _, err := environ.FromDeclared(c.Environment); err != nil {
		return usagef("environment (--env, --env-file): %w", err)
	}
	return c.Metrics.validate()
}

// dialect is the one asked for, nil for the run to pick.
func (c *config) dialect() (dialect.Dialect, error) {
	if c.Target.Dialect == "" {
		return nil, nil
	}
	d, ok := dialect.ByName(c.Target.Dialect)
	if !ok {
		var names []string
		for _, d := range dialect.All() {
			names = append(names, d.Name())
		}
		return nil, usagef("target.dialect (--dialect) is %q: want %s", c.Target.Dialect, strings.Join(names, " or "))
	}
	return d, nil
}

func (c *config) metricOptions() (metric.Options, error) {
	o := metric.Options{
		TPOT: c.Report.TPOT, QuantileType: c.Report.QuantileType, Percentiles: c.Report.Percentiles,
		Planned: c.Workload.Open(), Seed: c.Seed,
	}
	if c.Report.SLO != "" {
		slo, err := metric.ParseSLO(c.Report.SLO)
		if err != nil {
			return o, usagef("report.slo (--slo): %w", err)
		}
		o.SLO = slo
	}
	if err := o.Validate(); err != nil {
		return o, usagef("report: %w", err)
	}
	return o, nil
}

// redactedValue stands in a printed configuration for the value of a header.
const redactedValue = "(redacted)"

// redacted is the configuration for files: no header value, no credentials and
// no query in the URL.
func (c config) redacted() config {
	c.Target.Headers = redactedHeaders(c.Target.Headers)
	c.Metrics = c.Metrics.redacted()
	if c.Target.URL != "" {
		c.Target.URL = redactedURL(c.Target.URL)
	}
	return c
}

// redactedHeaders keeps the names.
func redactedHeaders(lines []string) []string {
	out := make([]string, len(lines))
	for i, h := range lines {
		name, _, _ := strings.Cut(h, ":")
		out[i] = name + ": " + redactedValue
	}
	return out
}

func (c config) yaml() ([]byte, error) {
	b, err := yaml.MarshalWithOptions(c, yaml.Indent(2), yaml.IndentSequence(true))
	if err != nil {
		return nil, fmt.Errorf("printing the configuration: %w", err)
	}
	return b, nil
}
