package report

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-bench/assay/result"
)

// TestSessions pins the section, with and without cached tokens told.
func TestSessions(t *testing.T) {
	ttft := func(n int, mid float64) *result.Summary { return latencies(n, mid) }
	s := &result.Sessions{
		Window:     result.SessionLedger{Started: 30, Completed: 25, Abandoned: 2, AbandonedTurns: 1, Cut: 3, CutTurns: 7, Turns: 82, TurnsCompleted: 80},
		Run:        result.SessionLedger{Started: 41, Completed: 41, Turns: 123, TurnsCompleted: 123},
		InProgress: result.InFlight{Mean: new(7.5), Max: 8}, MeanDuration: new(4.25),
		LaterTurns: 52, AtOnce: 13, CachedTold: true,
		ByTurn: []result.TurnSummary{
			{Turn: 1, LastTurn: 1, Requests: 30, TTFT: ttft(30, 140), PromptTokens: 15000, CachedTokens: 0, CachedShare: new(0.0)},
			{Turn: 2, LastTurn: 2, Requests: 27, TTFT: ttft(27, 42), PromptTokens: 27000, CachedTokens: 12960, CachedShare: new(0.48)},
			{Turn: 9, LastTurn: 16, Requests: 3},
		},
	}
	for name, want := range map[string]string{
		"told": `SESSIONS    30 sessions whose first turn was due in the window · completed 25
            abandoned 2 (after a failed turn; 1 turn never due)
            cut 3 (by the end of the load; 7 turns never due) · turns 82, completed 80
all phases  41 sessions · completed 41 · abandoned 0 · cut 0 · turns 123, completed 123
in progress mean 7.500 · max 8
            sessions, between their turns too; the requests in flight are under WORKLOAD
            a completed one took 4.250 s on average
later turns 52 due in the window · 13 of them (25 %) at the very end of the turn before
by turn   n  TTFT mean    p50    p95  prompt tokens  cached
1        30      145.6  140.0  189.0          500.0     0 %
2        27      43.68  42.00  56.70           1000    48 %
9 to 16   3          –      –      –              –       –

            TTFT in ms, of the window's due requests that completed; prompt tokens are means,
            history included
            cached: share of the prompt tokens that usage.prompt_tokens_details.cached_tokens names
`,
		"not told": `by turn   n  TTFT mean    p50    p95  prompt tokens  cached
1        30      145.6  140.0  189.0          500.0       –
2        27      43.68  42.00  56.70           1000       –
9 to 16   3          –      –      –              –       –

            TTFT in ms, of the window's due requests that completed; prompt tokens are means,
            history included
            cached: the server named no cached tokens in any usage (vLLM does with
            --enable-prompt-tokens-details)
`,
	} {
		t.Run(name, func(t *testing.T) {
			s.CachedTold = name == "told"
			var sh sheet
			sh.sessions(s)
			var b strings.Builder
			if err := sh.text(&b, Options{}); err != nil {
				t.Fatal(err)
			}
			got := b.String()
			if name != "told" {
				_, got, _ = strings.Cut(got, "turn before\n")
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	var none sheet
	if none.sessions(nil); len(none.blocks) != 0 {
		t.Error("something is said of no sessions")
	}
}
