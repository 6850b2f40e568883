package cli

import (
	"io"
	"strings"
	"time"

	"github.com/assay-bench/assay/experiment"
	"github.com/assay-bench/assay/workload"
)

// The groups of flags that several commands share. Flags that a configuration
// file can also set are pointers: nil means not given.

// targetFlags say what is measured, and how it is reached.
type targetFlags struct {
	Model      *string  `help:"Model to ask for; needed where the server offers several." group:"Target"`
	Dialect    *string  `help:"openai-chat or openai-completions (default: what the URL or the server says)." group:"Target"`
	APIKeyEnv  *string  `name:"api-key-env" placeholder:"NAME" help:"Environment variable that holds the API key." group:"Target"`
	Header     []string `placeholder:"NAME: VALUE" sep:"none" help:"Header to send with every request; values are stored nowhere." group:"Target"`
	ExtraBody  *string  `name:"extra-body" placeholder:"JSON" help:"JSON object merged into every request body." group:"Target"`
	NoStream   bool     `name:"no-stream" help:"Ask for replies in one piece: E2E alone is measured." group:"Target"`
	CAFile     *string  `name:"ca-file" placeholder:"PEM" help:"Certificates to trust." group:"Target"`
	Insecure   bool     `help:"Do not verify the server's certificate." group:"Target"`
	Resolve    []string `placeholder:"HOST:PORT:ADDR" help:"Connect to ADDR for HOST:PORT, as curl does." group:"Target"`
	Host       *string  `placeholder:"NAME" help:"Host header to send." group:"Target"`
	Conn       *string  `placeholder:"reuse" help:"Connections: reuse, per-request or spread (over all addresses)." group:"Target"`
	Transport  *string  `placeholder:"auto" help:"What reads the streams: a goroutine each (goroutine), a few threads for all (epoll: Linux, http:// and no proxy), or auto: epoll from 2,000 at a time where it can." group:"Target"`
	VerifySend bool     `name:"verify-send" help:"Take the kernel's transmit stamp of one request in four, as a proof of when they were sent (Linux)." group:"Target"`
	SourceAddr []string `name:"source-addr" placeholder:"ADDR" help:"Local address for connections; several are used in turn, each with its own range of local ports." group:"Target"`

	TimeoutConnect *time.Duration `name:"timeout-connect" placeholder:"10s" help:"Longest wait for a connection." group:"Target"`
	TimeoutFirst   *time.Duration `name:"timeout-first" placeholder:"2m" help:"Longest wait from sending to the first event." group:"Target"`
	TimeoutIdle    *time.Duration `name:"timeout-idle" placeholder:"1m" help:"Longest silence inside a stream." group:"Target"`
	TimeoutTotal   *time.Duration `name:"timeout-total" placeholder:"10m" help:"Longest request." group:"Target"`
}

// loadFlags say what load is applied, and how long and how it is measured.
type loadFlags struct {
	levelFlags
	lengthFlags
	baseFlags
}

// levelFlags say how much load; commands that choose it themselves do without.
type levelFlags struct {
	Concurrency *int     `placeholder:"16" help:"Closed loop: requests in flight at any time." group:"Workload"`
	Rate        *float64 `placeholder:"R/S" help:"Open loop: arrivals per second, whatever the server does." group:"Workload"`
}

// lengthFlags say how long requests are; a sweep has lists of them.
type lengthFlags struct {
	PromptTokens *workload.Length `name:"prompt-tokens" placeholder:"512" help:"Prompt length, a range such as 100..900, or a distribution such as lognormal:mean=512,cv=1.2,max=4096." group:"Workload"`
	OutputTokens *workload.Length `name:"output-tokens" placeholder:"128" help:"Output length: exact where the server can be told, else the cap." group:"Workload"`
}

// baseFlags say all else about the load and the measurement.
type baseFlags struct {
	File []string `short:"f" name:"file" placeholder:"bench.yaml" help:"Configuration file, - for standard input; later ones win."`
	Set  []string `name:"set" placeholder:"KEY=VALUE" sep:"none" help:"Set any key of the configuration, as in workload.arrival.rate=4."`

	Arrival            *string          `placeholder:"poisson" help:"Arrivals of an open loop: poisson, constant, gamma, weibull, pareto, lomax, hyperexponential; others, such as on-off or ramp, by -f or --set." group:"Workload"`
	CV                 *float64         `name:"cv" placeholder:"CV" help:"Standard deviation over mean of the gaps between arrivals: above 1 is burstier than poisson. Alone it means gamma." group:"Workload"`
	MaxInFlight        *int             `name:"max-in-flight" placeholder:"N" help:"Cap on the requests in flight of an open loop; time spent capped is reported." group:"Workload"`
	ThinkTime          *workload.Think  `name:"think-time" placeholder:"0s" help:"Closed loop: rest of a slot between its requests; sessions: rest before a later turn; such as 2s or exponential:mean=2s,max=1m." group:"Workload"`
	Turns              *workload.Length `placeholder:"1" help:"Sessions of so many turns, each with all that was said before in its prompt: a number, a range such as 2..8, or a distribution. --rate and --concurrency are then of sessions, --prompt-tokens and --output-tokens of a turn; prefixes, first prompts and tool delays by -f or --set workload.sessions.KEY=VALUE." group:"Workload"`
	Ramp               *time.Duration   `placeholder:"2s" help:"Closed loop: spread the first requests over so long; 1ns starts all at once." group:"Workload"`
	Trace              *string          `placeholder:"FILE" help:"Replay a trace: its arrival times and lengths, but for those that other flags give. Unit, columns, dithering and scaling by -f or --set workload.trace.unit=ms." group:"Workload"`
	Prompts            *string          `placeholder:"FILE" help:"Send the prompts of a file: JSON lines, ShareGPT, an OpenAI batch file, recorded request bodies, CSV or Parquet with a text column, or .txt with a prompt a line. Lengths are then observed. --output-tokens trace takes the recorded reply's length. Order, columns and format by -f or --set workload.prompts.order=file." group:"Workload"`
	SharedPrefixTokens *workload.Length `name:"shared-prefix-tokens" placeholder:"N" help:"Prompts begin with a shared prefix of so many tokens, which count within --prompt-tokens; with --turns first prompts do, and it comes on top. Share of the requests or sessions and choice of the prefix by -f or --set workload.prefix.share=0.5." group:"Workload"`
	PrefixPools        *int             `name:"prefix-pools" placeholder:"1" help:"Distinct shared prefixes, each of some requests or, with --turns, of some sessions." group:"Workload"`
	ReusePrompts       bool             `name:"reuse-prompts" help:"The same prompts in every run of a seed: a prefix cache may then serve them." group:"Workload"`
	Seed               *uint64          `placeholder:"1" help:"Seed of schedule and lengths." group:"Workload"`

	Duration *time.Duration `placeholder:"8s" help:"Length of the measured window alone; warm-up and cooldown come on top." group:"Measurement"`
	Requests *int           `placeholder:"N" help:"Close the measured window after N requests; without --duration, nothing else does." group:"Measurement"`
	UntilCI  []string       `name:"until-ci" placeholder:"ttft.p99=5%" help:"Close the measured window once the half-width of the 95 percent interval is at most so much of the estimate: mean, p50, p95 or p99 of ttft, tpot or e2e; of several, all must be. --duration and --requests are then the longest window (default 10m)." group:"Measurement"`
	Warmup   *string        `placeholder:"mser5" help:"What ends the warm-up: mser5, median or none." group:"Measurement"`
	statFlags
	Attainment *float64 `placeholder:"0.99" help:"Least share of due requests that must meet the SLO for the gate slo to pass." group:"Measurement"`
}

// gateFlags say which findings make the exit code 1.
type gateFlags struct {
	FailOn []string `name:"fail-on" default:"invalid-client,slo" help:"Gates that make the exit code 1: invalid-client, slo, unstable, not-stabilised, until-ci (not reached), ledger, none." group:"Measurement"`
}

// outputFlags say where results go.
type outputFlags struct {
	Out         *string           `placeholder:"runs" help:"Folder for run directories." group:"Output"`
	Label       map[string]string `placeholder:"KEY=VALUE" mapsep:"none" help:"Label of the run, as config=fp8: assay compare --by config groups by it." group:"Output"`
	JSON        bool              `name:"json" help:"Print the report as JSON." group:"Output"`
	Quiet       bool              `short:"q" help:"No progress on standard error." group:"Output"`
	PrintConfig bool              `name:"print-config" help:"Print the configuration as resolved, and do nothing." group:"Output"`
}

func put[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

// resolve makes the configuration out of defaults, files, --set and flags, in
// that order. There is no target without t.
func (c *loadFlags) resolve(stdin io.Reader, o *outputFlags, t *targetFlags, url *string) (config, error) {
	cfg, err := c.over(defaultConfig(), stdin, o, t, url)
	if err != nil {
		return cfg, err
	}
	cfg.Sweep = nil // a file may serve the sweep, and each of its runs
	cfg.settle()
	return cfg, c.place(cfg.validate(), &cfg)
}

// over puts files, --set and flags over a configuration, and settles nothing yet.
// The file named - is stdin.
func (c *loadFlags) over(cfg config, stdin io.Reader, o *outputFlags, t *targetFlags, url *string) (config, error) {
	for _, f := range c.File {
		if f == "-" {
			b, err := io.ReadAll(stdin)
			if err == nil {
				err = cfg.readYAML(b, "standard input")
			}
			if err != nil {
				return cfg, usagef("-f -: %w", err)
			}
			continue
		}
		if err := cfg.readFile(f); err != nil {
			return cfg, err
		}
	}
	for _, s := range c.Set {
		if err := cfg.set(s); err != nil {
			return cfg, err
		}
	}
	if url != nil && strings.TrimSpace(*url) == "" {
		return cfg, usagef("the URL is empty: leave it out to measure the built-in engine")
	}
	put(&cfg.Target.URL, url)
	if t != nil {
		t.put(&cfg.Target)
	}
	put(&cfg.Out, o.Out)
	for k, v := range o.Label {
		if cfg.Labels == nil {
			cfg.Labels = make(map[string]string)
		}
		cfg.Labels[k] = v
	}
	return cfg, c.put(&cfg)
}

func (c *targetFlags) put(t *targetConfig) {
	put(&t.Model, c.Model)
	put(&t.Dialect, c.Dialect)
	put(&t.APIKeyEnv, c.APIKeyEnv)
	t.Headers = append(t.Headers, c.Header...)
	put(&t.ExtraBody, c.ExtraBody)
	t.Stream = t.Stream && !c.NoStream
	put(&t.CAFile, c.CAFile)
	t.Insecure = t.Insecure || c.Insecure
	t.Resolve = append(t.Resolve, c.Resolve...)
	put(&t.Host, c.Host)
	put(&t.Conn, c.Conn)
	put(&t.Transport, c.Transport)
	t.VerifySend = t.VerifySend || c.VerifySend
	t.SourceAddrs = append(t.SourceAddrs, c.SourceAddr...)
	put(&t.Timeout.Connect, c.TimeoutConnect)
	put(&t.Timeout.First, c.TimeoutFirst)
	put(&t.Timeout.Idle, c.TimeoutIdle)
	put(&t.Timeout.Total, c.TimeoutTotal)
}

func (c *loadFlags) put(cfg *config) error {
	if err := c.workload(&cfg.Workload); err != nil {
		return err
	}
	s := &cfg.Stage
	put(&s.Duration, c.Duration)
	put(&s.Requests, c.Requests)
	if c.Requests != nil && c.Duration == nil {
		s.Duration = 0
	}
	s.bounded = s.bounded || c.Duration != nil || c.Requests != nil
	if c.UntilCI != nil {
		u, err := experiment.ParseUntilCI(strings.Join(c.UntilCI, ","))
		if err != nil {
			return usagef("--until-ci: %w", err)
		}
		s.UntilCI = u
	}
	put(&s.Warmup, c.Warmup)
	r := &cfg.Report
	put(&r.SLO, c.SLO)
	put(&r.Attainment, c.Attainment)
	put(&r.TPOT, c.TPOT)
	put(&r.QuantileType, c.QuantileType)
	if c.Percentiles != nil {
		r.Percentiles = c.Percentiles
	}
	put(&cfg.Seed, c.Seed)
	return nil
}

func (c *loadFlags) workload(w *workload.Spec) error {
	if c.Concurrency != nil && c.Rate != nil {
		return usagef("--concurrency makes a closed loop and --rate an open one: give one of them")
	}
	if c.Requests != nil && *c.Requests < 1 {
		return usagef("--requests is %d: want a count from 1", *c.Requests)
	}
	if c.Concurrency != nil && *c.Concurrency < 1 {
		return usagef("--concurrency is %d: want a count from 1", *c.Concurrency)
	}
	if c.Concurrency != nil {
		w.Concurrency = *c.Concurrency
		w.Arrival = workload.Arrival{Process: workload.Closed, MaxInFlight: w.Arrival.MaxInFlight}
	}
	if c.Rate != nil {
		if !w.Open() {
			w.Arrival.Process = workload.Poisson
		}
		w.Arrival.Rate, w.Concurrency = *c.Rate, 0
	}
	if c.CV != nil {
		w.Arrival.CV = *c.CV
		if w.Arrival.Process == "" || w.Arrival.Process == workload.Poisson {
			w.Arrival.Process = workload.Gamma
		}
	}
	put(&w.Arrival.Process, c.Arrival)
	put(&w.Arrival.MaxInFlight, c.MaxInFlight)
	put(&w.PromptTokens, c.PromptTokens)
	put(&w.OutputTokens, c.OutputTokens)
	if c.Trace != nil {
		c.follow(w)
	}
	if c.Turns != nil {
		var s workload.Sessions
		put(&s, w.Sessions)
		s.Turns, w.Sessions = *c.Turns, &s
	}
	if c.Prompts != nil {
		var x workload.Prompts
		put(&x, w.Prompts)
		x.File, w.Prompts = *c.Prompts, &x
	}
	put(&w.ThinkTime, c.ThinkTime)
	put(&w.Ramp, c.Ramp)
	w.ReusePrompts = w.ReusePrompts || c.ReusePrompts
	return c.prefix(w)
}

// prefix takes the flags of shared prefixes.
func (c *baseFlags) prefix(w *workload.Spec) error {
	if c.SharedPrefixTokens == nil && c.PrefixPools == nil {
		return nil
	}
	if c.PrefixPools != nil && *c.PrefixPools < 1 {
		return usagef("--prefix-pools is %d: want a count from 1", *c.PrefixPools)
	}
	if c.SharedPrefixTokens == nil && w.Prefix == nil {
		return usagef("--prefix-pools without --shared-prefix-tokens: there is no prefix to share")
	}
	if l := c.SharedPrefixTokens; w.Sessions != nil && w.Prefix == nil && l != nil && c.PrefixPools == nil && (l.Dist == workload.Fixed || l.Dist == "") {
		s := *w.Sessions
		s.SharedPrefixTokens, w.Sessions = l.Tokens, &s // on top of the first prompts
		return nil
	}
	var x workload.Prefix
	put(&x, w.Prefix)
	put(&x.Tokens, c.SharedPrefixTokens)
	put(&x.Pools, c.PrefixPools)
	w.Prefix = &x
	return nil
}

// follow takes from the trace what no flag says.
func (c *loadFlags) follow(w *workload.Spec) {
	var t workload.Trace
	put(&t, w.Trace)
	t.File, w.Trace = *c.Trace, &t
	if c.Rate == nil && c.Concurrency == nil && c.Arrival == nil && c.CV == nil {
		w.Arrival, w.Concurrency = workload.Arrival{Process: workload.ByTrace, MaxInFlight: w.Arrival.MaxInFlight}, 0
	}
	if c.PromptTokens == nil {
		w.PromptTokens = workload.Length{Dist: workload.FromTrace}
	}
	if c.OutputTokens == nil {
		w.OutputTokens = workload.Length{Dist: workload.FromTrace}
	}
}
