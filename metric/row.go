package metric

import (
	"cmp"
	"math"

	"github.com/assay-bench/assay/record"
)

// quantity indexes the per-request metrics of a row.
type quantity int

const (
	qTTFT quantity = iota
	qTTFTFromSchedule
	qTTFAnswer
	qHeaders
	qE2E
	qTPOT
	qTPOTPaired
	qUserTPS
	qSendLag
	qDNS
	qConnect
	qTLS
	quantities
)

// row is what a stage keeps of an attempt: enough for every aggregate, so that
// neither the attempt nor its events need to stay in memory.
type row struct {
	request int64
	try     int32
	check   OneToken
	outcome record.Outcome
	hasText bool
	due     bool // scheduled in the window

	scheduled, sent, start, end, last record.Stamp

	n              int32 // completion tokens, unknownCount if not told
	prompt, cached int32
	asked          int32 // prompt tokens asked for, 0 if not planned
	maxTokens      int32
	span           int64 // ns of the seed form of TPOT, where that is defined

	value [quantities]float64
	why   [quantities]Reason
}

const unknownCount = -1

func newRow(a *record.Attempt, due bool) row {
	r := row{
		request: a.Request, try: int32(a.Try), check: CheckOneToken(a), outcome: a.Outcome, due: due,
		scheduled: a.Scheduled, sent: a.Sent, start: startOf(a), end: endOf(a), last: lastOf(a),
		n: unknownCount, prompt: unknownCount, asked: count(a.PromptTokensAsked), maxTokens: count(a.MaxTokens),
	}
	r.hasText = a.TextBytes > 0 || a.FirstText.Known()
	if n, ok := Tokens(a); ok {
		r.n, r.prompt, r.cached = count(n), count(a.Usage.PromptTokens), count(a.Usage.CachedTokens)
	}
	if span, _, why := seedForm(a); why == Defined {
		r.span = int64(span)
	}
	for q, measure := range [quantities]func(*record.Attempt) (float64, Reason){
		TTFT, TTFTFromSchedule, TimeToFirstAnswer, HeadersTime, E2E, TPOT, TPOTPaired, UserTPS,
		SendLateness, DNSTime, ConnectTime, TLSTime,
	} {
		r.value[q], r.why[q] = measure(a)
	}
	return r
}

// count narrows what a server may claim.
func count(n int) int32 { return int32(min(max(n, 0), math.MaxInt32)) }

func (r *row) completed() bool { return r.outcome == record.Completed }

// inTimeOrder sorts by the planned time, then by request and try, so that every
// series is the same in whatever order attempts were added.
func inTimeOrder(a, b *row) int {
	return cmp.Or(cmp.Compare(a.scheduled, b.scheduled), cmp.Compare(a.request, b.request), cmp.Compare(a.try, b.try))
}
