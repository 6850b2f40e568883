package metric

import (
	"fmt"
	"time"

	"github.com/assay-bench/assay/result"
	"github.com/assay-bench/assay/stat"
)

// goodput is percentage-goodput: due requests that met every limit over all due
// requests, each judged by its last attempt.
func (s *Stage) goodput(v view) *result.Goodput {
	if s.options.SLO.IsZero() {
		return nil
	}
	g := &result.Goodput{Due: len(v.judged), Misses: make(map[string]int)}
	otherLength := 0
	good := make([]float64, len(v.judged)) // 0 or 1, in time order
	for i, r := range v.judged {
		miss := s.miss(r)
		if miss == "" {
			g.Good++
			good[i] = 1
		} else {
			g.Misses[miss]++
		}
		if r.completed() && r.n == 1 {
			g.OneToken++
		}
		if r.completed() && r.n != 0 && r.n != seedTokens {
			otherLength++
		}
	}
	if g.Due > 0 {
		g.Percent = 100 * float64(g.Good) / float64(g.Due)
		if nEff := stat.EffectiveN(good); !s.untimed && nEff >= 1 {
			lo, hi := stat.ShareInterval(float64(g.Good)/float64(g.Due), nEff, 0.95)
			g.NEff, g.PercentCI = &nEff, &result.Interval{100 * lo, 100 * hi}
		}
	}
	if length := s.window.Length(); length > 0 && !s.untimed {
		g.Rate = num(float64(g.Good) / length.Seconds())
	}
	g.SLO = s.thresholds(otherLength)
	return g
}

// miss says why a request is not good, empty if it is. The first reason that
// applies is the one.
func (s *Stage) miss(r *row) string {
	switch {
	case !r.completed():
		return r.outcome.name(s.outcomes)
	case r.n == 0:
		return ZeroTokens.String()
	case !r.hasText:
		return NoText.String()
	}
	ttft := qTTFT
	if s.options.FromSchedule {
		ttft = qTTFTFromSchedule
	}
	if miss := r.over("ttft", ttft, s.options.SLO.TTFT); miss != "" {
		return miss
	}
	if r.n != 1 { // one token has no gap: TTFT and E2E decide
		if miss := r.over("tpot", s.tpotQuantity(), s.options.SLO.TPOT); miss != "" {
			return miss
		}
	}
	return r.over("e2e", qE2E, s.options.SLO.E2E)
}

// over compares strictly. A limit on a number that does not exist is not met:
// nothing shows that it was.
func (r *row) over(name string, q quantity, limit time.Duration) string {
	switch {
	case limit == 0:
		return ""
	case r.why[q] != Defined:
		return name + " undefined: " + r.why[q].String()
	case r.value[q] < float64(limit)/nsPerMS:
		return ""
	}
	return name
}

func (s *Stage) thresholds(otherLength int) []result.Threshold {
	o := s.options
	var list []result.Threshold
	add := func(name string, limit time.Duration, note string) {
		if limit != 0 {
			list = append(list, result.Threshold{Metric: name, LimitMS: float64(limit) / nsPerMS, Note: note})
		}
	}
	if o.FromSchedule {
		add("ttft_from_schedule", o.SLO.TTFT, "")
	} else {
		add("ttft", o.SLO.TTFT, "")
	}
	tpotNote := ""
	if o.TPOT == TPOTPair {
		tpotNote = "paired form"
	}
	add("tpot", o.SLO.TPOT, tpotNote)
	e2eNote := ""
	if o.SLO.Seed && otherLength > 0 {
		e2eNote = fmt.Sprintf("not the seed's for %d requests: its limit is for %d output tokens", otherLength, seedTokens)
	}
	add("e2e", o.SLO.E2E, e2eNote)
	return list
}
