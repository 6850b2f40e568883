package metric

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// SLO is a service level objective: limits that one request must stay strictly
// below. A zero limit is no limit.
type SLO struct {
	TTFT, TPOT, E2E time.Duration
	// Seed marks the preset of the seed lesson, whose E2E limit is meant for
	// outputs of 128 tokens. It is applied to all, and said to be not the
	// seed's where n differs.
	Seed bool
}

// seedTokens is the output length that the seed's E2E limit is for.
const seedTokens = 128

// SeedSLO is the seed lesson's example: TTFT < 1 s, TPOT < 150 ms, E2E < 5 s
// for a 128-token output.
func SeedSLO() SLO {
	return SLO{TTFT: time.Second, TPOT: 150 * time.Millisecond, E2E: 5 * time.Second, Seed: true}
}

// IsZero reports whether there is no limit at all.
func (s SLO) IsZero() bool { return s.TTFT == 0 && s.TPOT == 0 && s.E2E == 0 }

// String is the form that [ParseSLO] reads.
func (s SLO) String() string {
	if s == SeedSLO() {
		return "seed"
	}
	var parts []string
	for _, l := range []struct {
		key   string
		limit time.Duration
	}{{"ttft", s.TTFT}, {"tpot", s.TPOT}, {"e2e", s.E2E}} {
		if l.limit != 0 {
			parts = append(parts, l.key+"="+l.limit.String())
		}
	}
	return strings.Join(parts, ",")
}

// Preset is an objective with a name.
type Preset struct {
	Name string
	SLO  SLO
	// Source of its limits.
	Source string
}

// Presets are the objectives that [ParseSLO] knows by name: the seed's, and the
// latency limits of MLPerf Inference's server scenarios. MLPerf wants the 99th
// percentile of TTFT and that of TPOT below their limits, each by itself, over
// Poisson arrivals; here one request must stay below both.
func Presets() []Preset {
	const mlperf = "MLPerf Inference, server scenario"
	limits := func(ttft, tpot time.Duration) SLO {
		return SLO{TTFT: ttft * time.Millisecond, TPOT: tpot * time.Millisecond}
	}
	return []Preset{
		{"seed", SeedSLO(), "the seed lesson, for outputs of 128 tokens"},
		{"mlperf-llama2-70b", limits(2000, 200), mlperf},
		{"mlperf-llama2-70b-interactive", limits(450, 40), mlperf},
		{"mlperf-llama3.1-8b", limits(2000, 100), mlperf},
		{"mlperf-llama3.1-8b-interactive", limits(500, 30), mlperf},
		{"mlperf-llama3.1-405b", limits(6000, 175), mlperf},
		{"mlperf-llama3.1-405b-interactive", limits(4500, 80), mlperf},
		{"mlperf-deepseek-r1", limits(2000, 80), mlperf},
		{"mlperf-deepseek-r1-interactive", limits(1500, 15), mlperf},
		{"mlperf-gpt-oss-120b", limits(3000, 80), mlperf},
		{"mlperf-gpt-oss-120b-interactive", limits(2000, 15), mlperf},
	}
}

// ParseSLO reads "ttft=1s,tpot=150ms,e2e=5s" in any order and choice, or the name
// of one of the [Presets]. An unknown name, an unknown or repeated key, a duration that cannot be read and
// a limit that is not above 0 are errors.
func ParseSLO(text string) (SLO, error) {
	if name := strings.TrimSpace(text); name != "" && !strings.ContainsAny(name, "=,") {
		return preset(name)
	}
	var s SLO
	limits := map[string]*time.Duration{"ttft": &s.TTFT, "tpot": &s.TPOT, "e2e": &s.E2E}
	for part := range strings.SplitSeq(text, ",") {
		if err := parseLimit(limits, part); err != nil {
			return SLO{}, fmt.Errorf("slo %q: %w", text, err)
		}
	}
	return s, nil
}

func preset(name string) (SLO, error) {
	var names []string
	for _, p := range Presets() {
		if p.Name == name {
			return p.SLO, nil
		}
		names = append(names, p.Name)
	}
	if name == "ttft" || name == "tpot" || name == "e2e" {
		return SLO{}, fmt.Errorf("slo %q: %s has no value: want a duration, as in %s=150ms", name, name, name)
	}
	return SLO{}, fmt.Errorf("slo %q: no such preset: want limits, as in ttft=1s,tpot=150ms,e2e=5s, or one of %s", name, strings.Join(names, ", "))
}

func parseLimit(limits map[string]*time.Duration, part string) error {
	key, value, found := strings.Cut(strings.TrimSpace(part), "=")
	key, value = strings.TrimSpace(key), strings.TrimSpace(value)
	if key == "" {
		return errors.New("empty limit: want ttft=1s,tpot=150ms,e2e=5s")
	}
	limit, known := limits[key]
	switch {
	case !known:
		return fmt.Errorf("unknown limit %q: want ttft, tpot or e2e", key)
	case !found:
		return fmt.Errorf("%s has no value: want a duration, as in %s=150ms", key, key)
	case *limit != 0:
		return fmt.Errorf("%s is given twice", key)
	}
	d, err := time.ParseDuration(value)
	if err != nil {
		return fmt.Errorf("%s: %q is no duration: want a number with a unit, as in 150ms or 1.5s", key, value)
	}
	if d <= 0 {
		return fmt.Errorf("%s: %s is not above 0", key, value)
	}
	*limit = d
	return nil
}
