package metric

import (
	"fmt"
	"time"

	"github.com/assay-bench/assay/record"
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
		if nEff := min(stat.EffectiveN(good), episodeN(v.judged, good)); !s.untimed && nEff >= 1 {
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

// episodeN is the effective number of the requests behind a share, seen as the
// outcome that fewer of them have befalling them in episodes: requests of that
// outcome that overlap in time are of one. Episodes of sizes k that come
// independently of each other make the variance of their sum Σk² where single
// requests would make it Σk, so that n requests tell as much as n Σk/Σk² that are
// independent. Batches see this too when there are many episodes; when there are
// few, they take them for chance.
func episodeN(judged []*row, good []float64) float64 {
	rare, sum := 0., 0.
	for _, g := range good {
		sum += g
	}
	if 2*sum <= float64(len(good)) {
		rare = 1
	}
	var size, squares, all float64
	var until record.Stamp
	for i, r := range judged {
		if good[i] != rare {
			continue
		}
		if r.scheduled >= until {
			squares += size * size
			size = 0
		}
		size++
		all++
		until = max(until, r.end)
	}
	if squares += size * size; squares == 0 {
		return float64(len(good))
	}
	return float64(len(good)) * all / squares
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
