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

// ParseSLO reads "ttft=1s,tpot=150ms,e2e=5s" in any order and choice, or "seed"
// for [SeedSLO]. An unknown or repeated key, a duration that cannot be read and
// a limit that is not above 0 are errors.
func ParseSLO(text string) (SLO, error) {
	if strings.TrimSpace(text) == "seed" {
		return SeedSLO(), nil
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
