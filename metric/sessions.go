package metric

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/result"
)

// sessions sums up the conversations; nil if no attempt belongs to one.
func (s *Stage) sessions(v view) (*result.Sessions, []result.Warning) {
	talks := s.talks(v.all)
	if len(talks) == 0 {
		return nil, nil
	}
	out := &result.Sessions{}
	var spans []span
	var lasted float64
	began := talks[0][0].scheduled
	for _, t := range talks {
		before := out.Run.Completed
		end := s.countTalk(&out.Run, t)
		if out.Run.Completed > before {
			lasted += time.Duration(t[len(t)-1].end - t[0].scheduled).Seconds()
		}
		began = min(began, t[0].scheduled)
		if t[0].due {
			s.countTalk(&out.Window, t)
		}
		if begin := max(t[0].start, s.window.Start); t[0].outcome != s.neverSent() && begin < end {
			spans = append(spans, span{begin, end})
		}
		for i, r := range t[1:] {
			if !r.due {
				continue
			}
			out.LaterTurns++
			if r.scheduled <= t[i].end {
				out.AtOnce++
			}
		}
	}
	out.MeanDuration = num(lasted / float64(out.Run.Completed))
	out.InProgress = overlap(s.window, spans)
	out.ByTurn = s.byTurn(v.sample)
	for _, r := range v.all {
		out.CachedTold = out.CachedTold || r.cached > 0 && r.turn > 0
	}
	return out, sessionWarnings(out, time.Duration(s.window.Start-began).Seconds())
}

func (s *Stage) neverSent() outcomeCode { return codeOf(s.outcomes, record.NeverSent) }

// sessionWarnings say what the figures are not. The window opened some seconds after
// the first session began.
func sessionWarnings(s *result.Sessions, opened float64) []result.Warning {
	var list []result.Warning
	if s.Run.Abandoned > 0 {
		list = append(list, result.Warning{Code: "sessions-abandoned", Text: fmt.Sprintf(
			"%d of %d sessions ended with a turn that failed: their %d turns after it were never due, and are in no figure; what is left are the turns of sessions that went well",
			s.Run.Abandoned, s.Run.Started, s.Run.AbandonedTurns)})
	}
	if d := s.MeanDuration; d != nil && opened < *d {
		list = append(list, result.Warning{Code: "sessions-young", Text: fmt.Sprintf(
			"the window opened %.3g s after the first session began, and a session takes %.3g s on average: early turns are more frequent in it than they would be later", opened, *d)})
	}
	return list
}

// talks are the sessions, each with the last try of its turns in order.
func (s *Stage) talks(all []*row) [][]*row {
	var turns []*row
	for _, r := range all {
		if r.turn > 0 {
			turns = append(turns, r)
		}
	}
	slices.SortFunc(turns, func(a, b *row) int {
		return cmp.Or(cmp.Compare(a.session, b.session), cmp.Compare(a.turn, b.turn), cmp.Compare(a.try, b.try))
	})
	last := turns[:0]
	for i, r := range turns {
		if i+1 < len(turns) && turns[i+1].session == r.session && turns[i+1].turn == r.turn {
			continue
		}
		last = append(last, r)
	}
	var talks [][]*row
	for i := 0; i < len(last); {
		j := i + 1
		for j < len(last) && last[j].session == last[i].session {
			j++
		}
		talks = append(talks, last[i:j])
		i = j
	}
	return talks
}

// countTalk enters a session, and returns when it was over, or the end of the
// window if that was later or never.
func (s *Stage) countTalk(l *result.SessionLedger, t []*row) record.Stamp {
	last := t[len(t)-1]
	rest := max(0, int(last.turns-last.turn))
	l.Started++
	l.Turns += len(t)
	for _, r := range t {
		if r.completed() {
			l.TurnsCompleted++
		}
	}
	switch end := min(last.end, s.window.End); {
	case last.completed() && rest == 0:
		l.Completed++
		return end
	case last.completed():
		l.Cut++
		l.CutTurns += rest
		return s.window.End
	case s.ours(last.outcome):
		l.Cut++
		l.CutTurns += rest
		return end
	default:
		l.Abandoned++
		l.AbandonedTurns += rest
		return end
	}
}

// ours reports whether we ended the attempt, or never made it.
func (s *Stage) ours(o outcomeCode) bool {
	for _, x := range []record.Outcome{record.Censored, record.Interrupted, record.NeverSent} {
		if o == codeOf(s.outcomes, x) {
			return true
		}
	}
	return false
}

// turnClass is the row of the table that a turn is in: the first eight turns have
// one each, those after them one for each doubling.
func turnClass(turn int32) (first, last int32) {
	if turn <= 8 {
		return turn, turn
	}
	first, last = 9, 16
	for turn > last {
		first, last = last+1, 2*last
	}
	return first, last
}

// byTurn sums up the completed requests by their place in the session.
func (s *Stage) byTurn(completed []*row) []result.TurnSummary {
	classes := make(map[int32][]*row)
	for _, r := range completed {
		if r.turn > 0 {
			first, _ := turnClass(r.turn)
			classes[first] = append(classes[first], r)
		}
	}
	var list []result.TurnSummary
	for first, rows := range classes {
		_, last := turnClass(first)
		t := result.TurnSummary{Turn: int(first), LastTurn: int(last), Requests: len(rows)}
		c := sample{unit: "ms", weights: result.RequestWeighted, excluded: new(exclusions)}
		for _, r := range rows {
			if why := r.why[qTTFT]; why == Defined {
				c.series = append(c.series, r.value[qTTFT])
			} else {
				c.excluded[why]++
			}
			if r.prompt != unknownCount {
				t.PromptTokens += int64(r.prompt)
				t.CachedTokens += int64(r.cached)
			}
		}
		t.TTFT = s.options.summarize(c)
		t.CachedShare = num(float64(t.CachedTokens) / float64(t.PromptTokens))
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b result.TurnSummary) int { return a.Turn - b.Turn })
	return list
}
