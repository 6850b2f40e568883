package workload

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Spec is a workload as the user states it. Start from [Default]: the zero
// value is not valid.
type Spec struct {
	// PromptTokens and OutputTokens are the lengths to ask for.
	PromptTokens Length `yaml:"prompt_tokens" json:"prompt_tokens"`
	OutputTokens Length `yaml:"output_tokens" json:"output_tokens"`
	// ExactOutput asks the server for exactly that many output tokens, where the
	// dialect has a way to say so. Without it OutputTokens is only a cap.
	ExactOutput bool `yaml:"exact_output" json:"exact_output"`
	// Arrival says when requests are due.
	Arrival Arrival `yaml:"arrival" json:"arrival"`
	// Concurrency is the number of slots of a closed loop.
	Concurrency int `yaml:"concurrency,omitempty" json:"concurrency,omitzero"`
	// ThinkTime of a slot of a closed loop between two requests; of a session before
	// a later turn.
	ThinkTime Think `yaml:"think_time,omitempty" json:"think_time_ns,omitzero"`
	// Ramp spreads the first requests of a closed loop over so long, instead of a
	// burst: slots with equal lengths that start together stay together, and every
	// TTFT then contains the prefill of all of them.
	Ramp time.Duration `yaml:"ramp,omitempty" json:"ramp_ns,omitzero"`
	// ReusePrompts sends the same prompts in every run, so that a prefix cache
	// may serve them.
	ReusePrompts bool `yaml:"reuse_prompts,omitempty" json:"reuse_prompts,omitzero"`
	// LengthCorrelation is the rank correlation (Spearman) of prompt and output
	// lengths, by a Gaussian copula: both keep their own distribution.
	LengthCorrelation float64 `yaml:"length_correlation,omitempty" json:"length_correlation,omitzero"`
	// LengthPairs are joint lengths [prompt, output], drawn with equal chances and
	// put back. Where they are given, they take the place of PromptTokens and
	// OutputTokens.
	LengthPairs []LengthPair `yaml:"length_pairs,omitempty" json:"length_pairs,omitempty"`
	// Trace of arrivals (process trace) or lengths (dist trace).
	Trace *Trace `yaml:"trace,omitempty" json:"trace,omitempty"`
	// Prompts of a file take the place of synthetic ones, and of PromptTokens. Where
	// OutputTokens are a trace's and there is none, they are those of this file.
	Prompts *Prompts `yaml:"prompts,omitempty" json:"prompts,omitempty"`
	// Prefix makes prompts share their beginnings; nil: none do.
	Prefix *Prefix `yaml:"prefix,omitempty" json:"prefix,omitempty"`
	// CacheSalt sends a cache_salt (vLLM) that is another in every run ("run"), for
	// every session ("session") or for every request ("request"). Empty sends none.
	CacheSalt string `yaml:"cache_salt,omitempty" json:"cache_salt,omitzero"`
	// Sessions make multi-turn conversations of the requests.
	Sessions *Sessions `yaml:"sessions,omitempty" json:"sessions,omitempty"`
}

// LengthPair is one observed request: prompt and output tokens.
type LengthPair [2]int

// Default is 512 prompt tokens, exactly 128 output tokens, closed loop.
func Default() Spec {
	return Spec{PromptTokens: FixedLength(512), OutputTokens: FixedLength(128), ExactOutput: true}
}

// Resolve fills in what was left open: the process, and one slot for a closed
// loop. Lengths that pairs take the place of are gone from it.
func (s Spec) Resolve() Spec {
	s.Arrival = s.Arrival.resolve()
	if s.Arrival.Process == Closed && s.Concurrency == 0 {
		s.Concurrency = 1
	}
	if len(s.LengthPairs) > 0 {
		s.PromptTokens, s.OutputTokens = Length{}, Length{}
	}
	if s.Prompts != nil {
		s.PromptTokens = Length{}
	}
	return s
}

// Open reports whether requests are due by a clock, whatever the server does.
func (s Spec) Open() bool { return s.Resolve().Arrival.Process != Closed }

// NeedsTrace reports whether arrivals or lengths come from a trace.
func (s Spec) NeedsTrace() bool {
	if s.Prompts != nil {
		// A file of prompts has lengths of its own.
		return s.Arrival.Process == ByTrace || s.OutputTokens.Dist == FromTrace && s.Trace != nil
	}
	return s.Arrival.Process == ByTrace || s.PromptTokens.Dist == FromTrace || s.OutputTokens.Dist == FromTrace || s.Sessions.FollowTrace()
}

// maxSlots beyond which a number is taken for a typing error.
const maxSlots = 1_000_000

// Validate says all that is wrong, one line a problem, each naming its field.
func (s Spec) Validate() error {
	s = s.Resolve()
	var errs []error
	field := func(name string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	s.checkLengths(field)
	s.checkSharing(field)
	if s.Sessions != nil {
		s.Sessions.check(field)
		field("think_time", s.ThinkTime.Validate())
	}
	if s.Arrival.Process == Closed {
		field("concurrency", checkSlots(s.Concurrency, 1))
		if s.Sessions == nil {
			field("think_time", s.ThinkTime.Validate())
		}
		field("ramp", checkRamp(s.Ramp))
		if s.Arrival.Rate != 0 {
			field("arrival.rate", errors.New("a closed loop has no rate; name an open process (poisson, constant)"))
		} else if err := s.Arrival.check(); err != nil {
			errs = append(errs, arrivalError(err))
		}
		if s.Arrival.MaxInFlight != 0 {
			field("arrival.max_in_flight", errors.New("a closed loop is bounded by its concurrency"))
		}
	} else {
		if err := s.Arrival.check(); err != nil {
			errs = append(errs, arrivalError(err))
		}
		field("arrival.max_in_flight", checkSlots(s.Arrival.MaxInFlight, 0))
		if s.Concurrency != 0 {
			field("concurrency", errors.New("an open loop has none; bound it by arrival.max_in_flight"))
		}
		if !s.ThinkTime.IsZero() && s.Sessions == nil {
			field("think_time", errors.New("an open loop has none, but for the turns of sessions (sessions.turns)"))
		}
		if s.Ramp != 0 {
			field("ramp", errors.New("an open loop has none"))
		}
	}
	switch {
	case s.NeedsTrace() && (s.Trace == nil || s.Trace.File == ""):
		field("trace.file", errors.New("the workload follows a trace, and none is named"))
	case !s.NeedsTrace() && s.Trace != nil:
		field("trace", errors.New("neither the arrivals (process: trace) nor the lengths (dist: trace) follow it"))
	case s.Trace != nil:
		s.Trace.check(field)
	}
	return errors.Join(errs...)
}

// arrivalError names the field of the arrivals.
func arrivalError(err error) error {
	if faultKey(err) == "" {
		return fmt.Errorf("arrival: %w", err)
	}
	return fmt.Errorf("arrival.%w", err)
}

// checkLengths passes what is wrong with the lengths to field.
func (s *Spec) checkLengths(field func(string, error)) {
	if len(s.LengthPairs) == 0 {
		if s.Prompts == nil {
			field("prompt_tokens", s.PromptTokens.Validate())
		}
		field("output_tokens", s.OutputTokens.Validate())
	}
	for i, p := range s.LengthPairs {
		for k, name := range [...]string{"prompt", "output"} {
			if err := checkTokens(p[k]); err != nil {
				field("length_pairs", fmt.Errorf("pair %d: %s: %w", i+1, name, err))
			}
		}
	}
	switch c := s.LengthCorrelation; {
	case c == 0:
	case !(c >= -1 && c <= 1):
		field("length_correlation", fmt.Errorf("%v is not within -1 and 1", c))
	case len(s.LengthPairs) > 0:
		field("length_correlation", errors.New("length_pairs have their own"))
	case !s.PromptTokens.correlates() || !s.OutputTokens.correlates():
		field("length_correlation", errors.New("mixtures and traces take none"))
	}
}

// checkSharing passes what is wrong with prefixes and salts to field.
func (s *Spec) checkSharing(field func(string, error)) {
	if s.Prefix != nil {
		s.Prefix.check(field)
	}
	if s.Prompts != nil {
		s.checkPrompts(field)
	}
	switch {
	case s.CacheSalt == "":
	case !slices.Contains([]string{SaltRun, SaltSession, SaltRequest}, s.CacheSalt):
		field("cache_salt", fmt.Errorf("%q is not known: want run, session or request", s.CacheSalt))
	case s.CacheSalt == SaltSession && s.Sessions == nil && s.PromptTokens.Dist != FromTrace:
		// A trace may have sessions.
		field("cache_salt", errors.New("requests are of no session: want run or request"))
	}
}

// checkPrompts passes to field what is wrong with prompts, or does not go with them.
func (s *Spec) checkPrompts(field func(string, error)) {
	s.Prompts.check(field)
	switch {
	case s.Sessions != nil:
		field("prompts", errors.New("sessions take theirs from a trace of conversations (trace.file)"))
	case s.Prefix != nil:
		field("prompts", errors.New("they are as they are in the file: no prefix is put before them"))
	case len(s.LengthPairs) > 0 || s.LengthCorrelation != 0:
		field("prompts", errors.New("their lengths are those of the file: length_pairs and length_correlation have no place"))
	}
}

// correlates reports whether the length has a quantile function.
func (l Length) correlates() bool { return l.Dist != Mixture && l.Dist != FromTrace }

func checkSlots(n, low int) error {
	if n < low || n > maxSlots {
		return fmt.Errorf("%d is not within %d and %d", n, low, maxSlots)
	}
	return nil
}

func checkRamp(d time.Duration) error {
	if d < 0 || d > maxThink {
		return fmt.Errorf("%v is not within 0 and %v", d, maxThink)
	}
	return nil
}

// Describe says the workload in words.
func (s Spec) Describe() string {
	s = s.Resolve()
	var b strings.Builder
	b.WriteString(s.DescribeLoop())
	how := "at most"
	turns := ""
	if s.Sessions != nil {
		turns = " a turn"
	}
	if s.ExactOutput {
		how = "exactly"
	}
	if n := len(s.LengthPairs); n > 0 {
		fmt.Fprintf(&b, "; prompts and outputs (%s) as in %d pairs of lengths", how, n)
	} else if s.Prompts != nil {
		fmt.Fprintf(&b, "; %s, outputs %s %s tokens", s.Prompts.describe(), how, s.describeOutputs())
	} else {
		fmt.Fprintf(&b, "; prompts %s tokens%s, outputs %s %s tokens", s.PromptTokens.describe(), turns, how, s.OutputTokens.describe())
	}
	if s.Sessions != nil && s.Sessions.FirstPromptTokens != nil {
		fmt.Fprintf(&b, "; first prompts %s tokens", s.Sessions.FirstPromptTokens.describe())
	}
	if s.LengthCorrelation != 0 {
		fmt.Fprintf(&b, "; their ranks correlated by %v", s.LengthCorrelation)
	}
	if s.Trace != nil {
		b.WriteString(s.Trace.describe())
	}
	if s.Prefix != nil {
		what := "prompts"
		if s.Sessions != nil {
			what = "first prompts"
		}
		b.WriteString(s.Prefix.describe(what))
	}
	if s.CacheSalt != "" {
		fmt.Fprintf(&b, "; a cache salt for each %s", s.CacheSalt)
	}
	if s.ReusePrompts {
		b.WriteString("; prompts reused between runs")
	}
	return b.String()
}

func (s Spec) describeOutputs() string {
	if s.OutputTokens.Dist == FromTrace && !s.NeedsTrace() {
		return "the recorded"
	}
	return s.OutputTokens.describe()
}

// DescribeLoop is the part of Describe without the lengths: who decides when a
// request is sent.
func (s Spec) DescribeLoop() string {
	s = s.Resolve()
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	switch talks := s.Sessions; {
	case talks != nil && s.Arrival.Process == Closed:
		add("closed loop of sessions, concurrency %d sessions, %s", s.Concurrency, talks.describe(s.ThinkTime))
	case talks != nil:
		add("partly open loop, session arrivals: %s", strings.ReplaceAll(s.Arrival.describe(), " requests/s", "/s"))
		add("%s", talks.describe(s.ThinkTime))
	case s.Arrival.Process == Closed:
		add("closed loop, concurrency %d, %s", s.Concurrency, s.ThinkTime.describe())
	default:
		add("open loop, %s", s.Arrival.describe())
	}
	if s.Ramp != 0 && s.Arrival.Process == Closed {
		add("started over %v", s.Ramp)
	}
	if n := s.Arrival.MaxInFlight; n > 0 && s.Sessions != nil {
		add("at most %d sessions in progress", n)
	} else if n > 0 {
		add("at most %d in flight", n)
	}
	return strings.Join(parts, ", ")
}

// Fingerprint is a short hash of the resolved workload and the seed. Runs with
// the same one were asked the same lengths at the same times; the nonce of
// their prompts is not part of it. It is stable: fields that later versions
// add, and that are not used, do not change it.
func (s Spec) Fingerprint(seed uint64) string {
	s = s.Resolve()
	if s.Trace != nil && s.Trace.SHA256 != "" {
		// What it says counts, not where it lies.
		t := *s.Trace
		t.File, s.Trace = "", &t
	}
	if s.Prompts != nil && s.Prompts.SHA256 != "" {
		x := *s.Prompts
		x.File, s.Prompts = "", &x
	}
	spec, err := json.Marshal(s)
	if err != nil {
		// Only a rate that is not a number; Validate refuses it.
		spec = fmt.Appendf(nil, "%+v", s)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "assay workload 1\n%s\n%d", spec, seed))
	return hex.EncodeToString(sum[:8])
}
