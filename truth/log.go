package truth

import (
	"cmp"
	"io"
	"math"

	"github.com/assay-bench/assay/engine"
	"github.com/assay-bench/assay/simserver"
)

// Row is what the log says of one request. Times are nanoseconds on the log's
// clock; 0 where it did not happen.
type Row struct {
	Outcome                    string
	PromptTokens, OutputTokens int
	// Received is when the server had read the request's first byte; in logs that
	// lack it, when the engine had the request.
	Received int64
	// First and Last are when the writes of the first and the last event with text
	// began; First is 0 for a reply in one piece.
	First, Last int64
	// slips are write - planned of every event with tokens, ns.
	slips []int32
}

// Log is a truth log by the X-Request-Id of its requests.
type Log map[string]Row

// Read reads a truth log. A last line that is cut short is an error: the server
// had not ended.
func Read(r io.Reader) (Log, error) {
	log := make(Log)
	err := simserver.ReadTruth(r, func(line simserver.TruthLine) error {
		if q := line.Request; q != nil && q.XRequestID != "" {
			log[q.XRequestID] = row(q)
		}
		return nil
	})
	return log, err
}

func row(q *simserver.TruthRequest) Row {
	r := Row{Outcome: q.Outcome, PromptTokens: q.PromptTokens, OutputTokens: q.OutputTokens, Received: cmp.Or(q.Received, q.Arrival)}
	// A stop token is counted and has no text: an event of it alone has none.
	stops := len(q.Sequences) == 1 && q.Sequences[0].FinishReason == engine.FinishStop
	handed := 0
	for _, e := range q.Events {
		switch {
		case e.Kind == simserver.EventBody:
			r.Last = e.Before
		case e.Kind != simserver.EventToken || e.Tokens == 0:
			continue
		}
		r.slips = append(r.slips, int32(min(e.Before-e.Planned, math.MaxInt32)))
		handed += int(e.Tokens)
		if e.Kind == simserver.EventBody || stops && e.Tokens == 1 && handed == q.OutputTokens {
			continue
		}
		if r.First == 0 {
			r.First = e.Before
		}
		r.Last = e.Before
	}
	if len(q.Sequences) != 1 {
		r.First, r.Last = 0, 0 // which of them has text when is not told
	}
	return r
}
