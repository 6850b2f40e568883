package metric

import (
	"fmt"
	"maps"
	"math/bits"
	"slices"

	"github.com/assay-bench/assay/result"
)

func (s *Stage) metrics(v view) result.Metrics {
	sum := func(q quantity, unit string) *result.Summary {
		return s.options.summarize(s.collect(v.sample, q, unit))
	}
	m := result.Metrics{
		TTFT:             sum(qTTFT, "ms"),
		TTFTFromSchedule: sum(qTTFTFromSchedule, "ms"),
		TTFAnswer:        sum(qTTFAnswer, "ms"),
		Headers:          sum(qHeaders, "ms"),
		TPOT:             sum(qTPOT, "ms"),
		TPOTPaired:       sum(qTPOTPaired, "ms"),
		E2E:              sum(qE2E, "ms"),
		UserTPS:          sum(qUserTPS, "tokens/s"),
		DNS:              s.connection(v, qDNS),
		Connect:          s.connection(v, qConnect),
		TLS:              s.connection(v, qTLS),
		SendLag:          s.sendLag(v),
		ReadLag:          s.readLag(),
		GapMean:          gapMean(v.sample),
		Strata:           s.strata(v.sample),
	}
	for _, r := range v.sample {
		countCheck(&m.OneToken, r.check)
	}
	m.OneToken.Verdict = checkVerdict(m.OneToken).String()
	s.gapSummaries(&m, v)
	s.noteE2E(&m, v)
	return m
}

// collect takes one quantity of the given rows, in their order.
func (s *Stage) collect(rows []*row, q quantity, unit string) sample {
	c := sample{unit: unit, weights: result.RequestWeighted, excluded: new(exclusions)}
	if s.untimed {
		c.depends = unordered
	}
	c.series = make([]float64, 0, len(rows))
	for _, r := range rows {
		if why := r.why[q]; why != Defined {
			c.excluded[why]++
			continue
		}
		c.series = append(c.series, r.value[q])
	}
	return c
}

// connection summarises the set-up of new connections. Most are opened before
// the window; where none was inside, those of all phases are shown.
func (s *Stage) connection(v view, q quantity) *result.Summary {
	if s.opened == 0 {
		return nil
	}
	inside := s.collect(v.due, q, "ms")
	note := ""
	if len(inside.series) == 0 {
		inside = s.collect(v.all, q, "ms")
		note = "connections opened outside the window: none was opened inside it"
	}
	inside.excluded = nil // a reused connection is no exclusion
	sum := s.options.summarize(inside)
	if sum != nil {
		sum.Note = note
	}
	return sum
}

// sendLag is of first tries only: a linked attempt keeps the scheduled stamp
// and would look late.
func (s *Stage) sendLag(v view) *result.Summary {
	if !s.options.Planned || s.untimed {
		return nil
	}
	firsts := slices.DeleteFunc(slices.Clone(v.due), func(r *row) bool { return r.try > 0 })
	return s.options.summarize(s.collect(firsts, qSendLag, "ms"))
}

func (s *Stage) readLag() *result.Summary {
	sum := s.options.summarizeSpans(&s.lags)
	if sum != nil {
		sum.Weighting = "event"
		sum.CIMethod = "none: events of one read depend on each other"
		sum.Note = fmt.Sprintf("over the %d of %d events that have a kernel stamp", s.kernelEvents, s.events)
	}
	return sum
}

// gapMean is the gap-weighted mean ITL in ms: the sum of E2E - TTFT over the sum
// of n - 1, over the requests whose TPOT is defined.
func gapMean(rows []*row) *float64 {
	var span, gaps int64
	for _, r := range rows {
		if r.why[qTPOT] == Defined {
			span += r.span
			gaps += int64(r.n) - 1
		}
	}
	if gaps == 0 {
		return nil
	}
	return num(float64(span) / float64(gaps) / nsPerMS)
}

// coalescedShare is the share of gaps between text events that are unknown
// because both came out of one read. A first event has no gap to spoil.
func (s *Stage) coalescedShare() (share float64, ok bool) {
	if s.textGaps == 0 {
		return 0, false
	}
	return float64(s.coalesced) / float64(s.textGaps), true
}

func (s *Stage) gapsWithheld() bool {
	share, ok := s.coalescedShare()
	return ok && share > s.options.CoalescedLimit
}

// gapSummaries publishes gaps between tokens if every checked request passed,
// else gaps between chunks, else nothing.
func (s *Stage) gapSummaries(m *result.Metrics, v view) {
	gaps, excluded := &s.gaps, new(exclusions)
	verdict := checkVerdict(m.OneToken)
	perToken := verdict == Proven || verdict == Inferred
	if perToken {
		for _, r := range v.sample {
			if r.check == Unchecked {
				excluded[r.uncheckedBecause()]++
			}
		}
	} else if s.otherGaps.n > 0 {
		gaps = new(durations)
		gaps.addAll(&s.gaps)
		gaps.addAll(&s.otherGaps)
	}
	if gaps.n == 0 {
		return
	}
	if s.gapsWithheld() {
		share, _ := s.coalescedShare()
		m.ChunkGap = &result.Summary{
			N: int(gaps.n), Unit: "ms", Boundary: result.Client, Weighting: result.GapWeighted, QuantileType: s.options.QuantileType,
			Note: fmt.Sprintf("withheld: %.1f %% of the text events shared a read with the one before (limit %.1f %%)",
				100*share, 100*s.options.CoalescedLimit),
		}
		return
	}
	sum := s.options.summarizeSpans(gaps)
	sum.Excluded = excluded.byName()
	if perToken {
		m.ITL = sum
		if verdict == Inferred {
			sum.Note = "one token an event is inferred from counts of events; it can pass by coincidence"
		}
		return
	}
	sum.Note = chunkNote(m.OneToken)
	m.ChunkGap = sum
}

func chunkNote(c result.OneTokenCheck) string {
	const unknown = "; the distribution of gaps between tokens is unknown"
	if c.Checked == 0 {
		return "no request could be checked for one token an event" + unknown
	}
	passed := c.Proven + c.Inferred
	return fmt.Sprintf("%d of %d requests (%.1f %%) have one token an event",
		passed, c.Checked, 100*float64(passed)/float64(c.Checked)) + unknown
}

func (r *row) uncheckedBecause() Reason {
	switch {
	case r.n == unknownCount:
		return NoUsage
	case r.n == 0:
		return ZeroTokens
	case r.n == 1:
		return OneTokenOnly
	}
	return NotStreamed
}

// noteE2E says where E2E is not that of a stream.
func (s *Stage) noteE2E(m *result.Metrics, v view) {
	if m.E2E == nil {
		return
	}
	whole := 0
	for _, r := range v.sample {
		if r.why[qE2E] == Defined && r.why[qTTFT] == NotStreamed {
			whole++
		}
	}
	if whole > 0 {
		m.E2E.Note = fmt.Sprintf("not streamed: end of body - sent (%d of %d)", whole, m.E2E.N)
	}
}

// maxStrata bounds the bins of observed completion tokens.
const maxStrata = 8

// strata splits the sample by observed n in bins of powers of two, of powers of
// four where that makes more than eight bins, and so on. A bin in which all
// requests have the same n is labelled with that n alone.
func (s *Stage) strata(rows []*row) []result.Stratum {
	var bins map[int][]*row
	width := 1
	for ; ; width++ {
		bins = make(map[int][]*row)
		for _, r := range rows {
			if r.n > 0 {
				bin := (bits.Len32(uint32(r.n)) - 1) / width
				bins[bin] = append(bins[bin], r)
			}
		}
		if len(bins) <= maxStrata {
			break
		}
	}
	tpot := s.tpotQuantity()
	var list []result.Stratum
	for _, bin := range slices.Sorted(maps.Keys(bins)) {
		in := bins[bin]
		st := result.Stratum{LoTokens: 1 << (bin * width), HiTokens: 1<<((bin+1)*width) - 1, N: len(in)}
		if same := func(r *row) bool { return r.n != in[0].n }; !slices.ContainsFunc(in, same) {
			st.LoTokens, st.HiTokens = int(in[0].n), int(in[0].n)
		}
		st.EarlyStopRate = earlyStopRate(in)
		st.TPOT = s.options.summarize(s.collect(in, tpot, "ms"))
		st.E2E = s.options.summarize(s.collect(in, qE2E, "ms"))
		list = append(list, st)
	}
	return list
}

// tpotQuantity is the form of TPOT behind the SLO and the strata.
func (s *Stage) tpotQuantity() quantity {
	if s.options.TPOT == TPOTPair {
		return qTPOTPaired
	}
	return qTPOT
}
