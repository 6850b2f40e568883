package report

import (
	"fmt"
	"strconv"

	"github.com/assay-bench/assay/result"
)

// sessions says what became of the conversations, and what their turns were like.
func (sh *sheet) sessions(s *result.Sessions) {
	if s == nil {
		return
	}
	sh.section("SESSIONS", sessionCounts(&s.Window, "whose first turn was due in the window")...)
	sh.row("all phases", sessionCounts(&s.Run, "")...)
	if s.InProgress.Mean != nil {
		sh.row("in progress", "mean "+number(*s.InProgress.Mean), "max "+strconv.Itoa(s.InProgress.Max), "sessions, between their turns too; the requests in flight are under WORKLOAD")
	}
	if s.MeanDuration != nil {
		sh.row("", "a completed one took "+number(*s.MeanDuration)+" s on average")
	}
	if s.LaterTurns > 0 {
		sh.row("later turns", fmt.Sprintf("%d due in the window", s.LaterTurns),
			fmt.Sprintf("%d of them (%s) at the very end of the turn before", s.AtOnce, percent(float64(s.AtOnce)/float64(s.LaterTurns))))
	}
	if len(s.ByTurn) == 0 {
		return
	}
	header := []string{"by turn", "n", "TTFT mean", "p50", "p95", "prompt tokens", "cached"}
	var rows [][]string
	for i := range s.ByTurn {
		rows = append(rows, turnCells(&s.ByTurn[i], s.CachedTold))
	}
	sh.add(grid{header: header, rows: rows})
	cached := "cached: share of the prompt tokens that usage.prompt_tokens_details.cached_tokens names"
	if !s.CachedTold {
		cached = "cached: the server named no cached tokens in any usage (vLLM does with --enable-prompt-tokens-details)"
	}
	sh.row("", "TTFT in ms, of the window's due requests that completed; prompt tokens are means, history included", cached)
}

func sessionCounts(l *result.SessionLedger, which string) []string {
	started := times(l.Started, "session", "sessions") + prefixed(" ", which)
	return []string{
		started, fmt.Sprintf("completed %d", l.Completed), ended("abandoned", l.Abandoned, l.AbandonedTurns, "after a failed turn"),
		ended("cut", l.Cut, l.CutTurns, "by the end of the load"), fmt.Sprintf("turns %d, completed %d", l.Turns, l.TurnsCompleted),
	}
}

// ended says how many sessions ended early, and what they left unasked.
func ended(how string, n, turns int, why string) string {
	text := fmt.Sprintf("%s %d", how, n)
	if n > 0 {
		text += fmt.Sprintf(" (%s; %s never due)", why, times(turns, "turn", "turns"))
	}
	return text
}

func turnCells(t *result.TurnSummary, told bool) []string {
	name := strconv.Itoa(t.Turn)
	if t.LastTurn > t.Turn {
		name += " to " + strconv.Itoa(t.LastTurn)
	}
	cells := []string{name, strconv.Itoa(t.Requests), none, none, none, none, none}
	if s := t.TTFT; s != nil {
		d := rowDecimals(s)
		for i, x := range []*float64{s.Mean, s.P50, s.P95} {
			if x != nil {
				cells[2+i] = fixed(*x, d)
			}
		}
	}
	if t.PromptTokens > 0 {
		cells[5] = number(float64(t.PromptTokens) / float64(t.Requests))
	}
	if t.CachedShare != nil && told {
		cells[6] = percent(*t.CachedShare)
	}
	return cells
}
