package metric

import (
	"errors"
	"fmt"
	"time"

	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/result"
)

// Row is one request as the five columns request_id, prompt_tokens,
// completion_tokens, TTFT_ms and E2E_ms have it. TTFT is 0 where the cell is
// empty: the request was not streamed.
type Row struct {
	RequestID                      string
	PromptTokens, CompletionTokens int
	TTFT, E2E                      time.Duration
}

// rowEpoch stands for the moment, unknown, at which every row was sent.
const rowEpoch record.Stamp = 1

// Attempt is the row as an attempt that completed. Its stamps are durations
// since an unknown moment, good for per-request metrics only.
func (r Row) Attempt() (record.Attempt, error) {
	switch {
	case r.PromptTokens < 0 || r.CompletionTokens < 0:
		return record.Attempt{}, errors.New("tokens below 0")
	case r.TTFT < 0 || r.E2E < 0:
		return record.Attempt{}, errors.New("latency below 0")
	case r.CompletionTokens > 0 && r.E2E == 0:
		return record.Attempt{}, errors.New("tokens, but no E2E")
	case r.TTFT > r.E2E:
		return record.Attempt{}, fmt.Errorf("TTFT %v is above E2E %v", r.TTFT, r.E2E)
	}
	a := record.Attempt{
		ID: r.RequestID, Phase: record.Measured, Outcome: record.Completed,
		Usage:     &record.Usage{PromptTokens: r.PromptTokens, CompletionTokens: r.CompletionTokens},
		Scheduled: rowEpoch, Sent: rowEpoch,
		Streamed: r.TTFT > 0 || r.CompletionTokens == 0,
	}
	switch {
	case r.CompletionTokens == 0:
	case a.Streamed:
		a.FirstText, a.LastText = rowEpoch.Add(r.TTFT), rowEpoch.Add(r.E2E)
	default:
		a.EOF = rowEpoch.Add(r.E2E)
		a.TextBytes = 1 // how much is not known, only that there was text
	}
	return a, nil
}

// NewTable makes a stage for rows without times: enter them with [Stage.AddRow].
// Its Result leaves out what five columns do not allow, and warns of it.
func NewTable(o Options) *Stage {
	s := NewStage(record.Window{}, o)
	s.untimed = true
	return s
}

// AddRow enters one row. An error says what is wrong with it; it is not counted
// then.
func (s *Stage) AddRow(r Row) error {
	a, err := r.Attempt()
	if err != nil {
		return fmt.Errorf("request %q: %w", r.RequestID, err)
	}
	a.Request = int64(s.rows.n)
	s.Add(&a, nil)
	return nil
}

// FiveColumnsLack says in words what the five columns do not allow.
func FiveColumnsLack() []string {
	return []string{
		"no failed request is in the columns: no ledger, and goodput is of the listed requests alone, an upper bound",
		"no moments: no throughput, no arrival rate, no concurrency, no TTFT from schedule, no send lateness",
		"no order in time: no stability verdict, no warm-up to find, and only iid intervals, which are too narrow in a queue",
		"no events: no ITL, no chunk gaps, no one-token-an-event check, no paired TPOT; a reply that came in one piece shows only by TTFT = E2E",
		"no finish reason and no max_tokens: no early-stop rate, and n may count a stop token without text, which makes TPOT short by one step",
		"no reasoning tokens: hidden reasoning in n would make TPOT too short, unseen",
		"no client record: whether the client was fit to measure is unknown",
	}
}

// stripTable removes what [record.Ledger] and others cannot know from a table.
func (s *Stage) stripTable(into *result.Stage) {
	into.Metrics.TTFTFromSchedule = nil
	into.Metrics.TPOTPaired, into.Metrics.TTFAnswer, into.Metrics.Headers = nil, nil, nil
	into.Workload.EarlyStopRate = nil
	for _, l := range []*record.Ledger{&into.Ledger, &into.LedgerRun} {
		l.NoText, l.Unterminated, l.StoppedEarly, l.FinishReasons = 0, 0, 0, nil
	}
	for _, text := range FiveColumnsLack() {
		into.Warnings = append(into.Warnings, result.Warning{Code: "five-columns", Text: text})
	}
}
