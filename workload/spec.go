package workload

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/assay-bench/assay/arrival"
)

// The arrival processes of a Spec.
const (
	// Closed: a fixed number of slots; each sends its next request when the
	// previous one has ended and the think time has passed.
	Closed = "closed"
	// Constant: open loop, at equal distances.
	Constant = "constant"
	// Poisson: open loop, with independent exponential gaps.
	Poisson = "poisson"
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
	// ThinkTime of a slot of a closed loop between two requests.
	ThinkTime time.Duration `yaml:"think_time,omitempty" json:"think_time_ns,omitzero"`
	// Ramp spreads the first requests of a closed loop over so long, instead of a
	// burst: slots with equal lengths that start together stay together, and every
	// TTFT then contains the prefill of all of them.
	Ramp time.Duration `yaml:"ramp,omitempty" json:"ramp_ns,omitzero"`
	// ReusePrompts sends the same prompts in every run, so that a prefix cache
	// may serve them.
	ReusePrompts bool `yaml:"reuse_prompts,omitempty" json:"reuse_prompts,omitzero"`
}

// Arrival says when requests are due.
type Arrival struct {
	// Process is closed, constant or poisson; empty means poisson if there is a
	// rate and closed if not.
	Process string `yaml:"process,omitempty" json:"process,omitzero"`
	// Rate of an open loop, in requests per second.
	Rate float64 `yaml:"rate,omitempty" json:"rate,omitzero"`
	// MaxInFlight bounds the requests in flight of an open loop; 0 does not. At
	// the bound the loop is closed, and the time spent there is reported.
	MaxInFlight int `yaml:"max_in_flight,omitempty" json:"max_in_flight,omitzero"`
}

// Default is 512 prompt tokens, exactly 128 output tokens, closed loop.
func Default() Spec {
	return Spec{PromptTokens: FixedLength(512), OutputTokens: FixedLength(128), ExactOutput: true}
}

// Resolve fills in what was left open: the process, and one slot for a closed loop.
func (s Spec) Resolve() Spec {
	if s.Arrival.Process == "" {
		s.Arrival.Process = Closed
		if s.Arrival.Rate != 0 {
			s.Arrival.Process = Poisson
		}
	}
	if s.Arrival.Process == Closed && s.Concurrency == 0 {
		s.Concurrency = 1
	}
	return s
}

// Open reports whether requests are due by a clock, whatever the server does.
func (s Spec) Open() bool { return s.Resolve().Arrival.Process != Closed }

// Bounds beyond which a number is taken for a typing error.
const (
	maxSlots = 1_000_000
	maxThink = 24 * time.Hour
)

// Validate says all that is wrong, one line a problem, each naming its field.
func (s Spec) Validate() error {
	s = s.Resolve()
	var errs []error
	field := func(name string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	field("prompt_tokens", s.PromptTokens.Validate())
	field("output_tokens", s.OutputTokens.Validate())
	switch s.Arrival.Process {
	case Closed:
		field("concurrency", checkSlots(s.Concurrency, 1))
		field("think_time", checkThink(s.ThinkTime))
		field("ramp", checkThink(s.Ramp))
		if s.Arrival.Rate != 0 {
			field("arrival.rate", errors.New("a closed loop has no rate; name an open process (poisson, constant)"))
		}
		if s.Arrival.MaxInFlight != 0 {
			field("arrival.max_in_flight", errors.New("a closed loop is bounded by its concurrency"))
		}
	case Constant, Poisson:
		field("arrival.rate", arrival.CheckRate(s.Arrival.Rate))
		field("arrival.max_in_flight", checkSlots(s.Arrival.MaxInFlight, 0))
		if s.Concurrency != 0 {
			field("concurrency", errors.New("an open loop has none; bound it by arrival.max_in_flight"))
		}
		if s.ThinkTime != 0 {
			field("think_time", errors.New("an open loop has none"))
		}
		if s.Ramp != 0 {
			field("ramp", errors.New("an open loop has none"))
		}
	default:
		field("arrival.process", fmt.Errorf("%q is none of %s, %s, %s", s.Arrival.Process, Closed, Constant, Poisson))
	}
	return errors.Join(errs...)
}

func checkSlots(n, low int) error {
	if n < low || n > maxSlots {
		return fmt.Errorf("%d is not within %d and %d", n, low, maxSlots)
	}
	return nil
}

func checkThink(d time.Duration) error {
	if d < 0 || d > maxThink {
		return fmt.Errorf("%v is not within 0 and %v", d, maxThink)
	}
	return nil
}

// Describe says the workload in words.
func (s Spec) Describe() string {
	s = s.Resolve()
	var b strings.Builder
	switch {
	case s.Arrival.Process == Closed:
		fmt.Fprintf(&b, "closed loop, concurrency %d, ", s.Concurrency)
		if s.ThinkTime == 0 {
			b.WriteString("no think time")
		} else {
			fmt.Fprintf(&b, "think time %v", s.ThinkTime)
		}
		if s.Ramp != 0 {
			fmt.Fprintf(&b, ", started over %v", s.Ramp)
		}
	case s.Arrival.Process == Constant:
		fmt.Fprintf(&b, "open loop, constant %v requests/s", s.Arrival.Rate)
	default:
		fmt.Fprintf(&b, "open loop, Poisson %v requests/s", s.Arrival.Rate)
	}
	if s.Arrival.MaxInFlight > 0 {
		fmt.Fprintf(&b, ", at most %d in flight", s.Arrival.MaxInFlight)
	}
	how := "at most"
	if s.ExactOutput {
		how = "exactly"
	}
	fmt.Fprintf(&b, "; prompts %s tokens, outputs %s %s tokens", s.PromptTokens.describe(), how, s.OutputTokens.describe())
	if s.ReusePrompts {
		b.WriteString("; prompts reused between runs")
	}
	return b.String()
}

// Fingerprint is a short hash of the resolved workload and the seed. Runs with
// the same one were asked the same lengths at the same times; the nonce of
// their prompts is not part of it. It is stable: fields that later versions
// add, and that are not used, do not change it.
func (s Spec) Fingerprint(seed uint64) string {
	spec, err := json.Marshal(s.Resolve())
	if err != nil {
		// Only a rate that is not a number; Validate refuses it.
		spec = fmt.Appendf(nil, "%+v", s.Resolve())
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "assay workload 1\n%s\n%d", spec, seed))
	return hex.EncodeToString(sum[:8])
}
