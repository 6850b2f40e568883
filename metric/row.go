package metric

import (
	"cmp"
	"math"
	"slices"

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
	session int64
	turn    int32 // from 1; 0 of no session
	turns   int32 // planned
	try     int32
	check   OneToken
	outcome outcomeCode
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

func newRow(a *record.Attempt, outcome outcomeCode, due bool) row {
	r := row{
		request: a.Request, session: a.Session, turn: count(a.Turn), turns: count(a.Turns), try: int32(a.Try), check: CheckOneToken(a), outcome: outcome, due: due,
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

func (r *row) completed() bool { return r.outcome == completed }

// outcomeCode is an index into record.Outcomes: rows have no pointers, so that
// a garbage collection need not look at them.
type outcomeCode uint8

const completed outcomeCode = 0

// codeOf gives an outcome that is not in the list the code after the last.
func codeOf(outcomes []record.Outcome, o record.Outcome) outcomeCode {
	if i := slices.Index(outcomes, o); i >= 0 {
		return outcomeCode(i)
	}
	return outcomeCode(len(outcomes))
}

// name of the outcome as it stands in the ledger.
func (c outcomeCode) name(outcomes []record.Outcome) string {
	if int(c) >= len(outcomes) {
		return "unknown outcome"
	}
	return string(outcomes[c])
}

// rowChunk is how many rows are allocated at once: growing never copies.
const rowChunk = 1024

// rowList is a list of rows that never moves them.
type rowList struct {
	chunks [][]row
	n      int
}

func (l *rowList) add(r row) *row {
	if l.n%rowChunk == 0 {
		l.chunks = append(l.chunks, make([]row, 0, rowChunk))
	}
	last := &l.chunks[len(l.chunks)-1]
	*last = append(*last, r)
	l.n++
	return &(*last)[len(*last)-1]
}

func (l *rowList) pointers() []*row {
	all := make([]*row, 0, l.n)
	for _, chunk := range l.chunks {
		for i := range chunk {
			all = append(all, &chunk[i])
		}
	}
	return all
}

// inTimeOrder sorts by the planned time, then by request and try, so that every
// series is the same in whatever order attempts were added.
func inTimeOrder(a, b *row) int {
	return cmp.Or(cmp.Compare(a.scheduled, b.scheduled), cmp.Compare(a.request, b.request), cmp.Compare(a.try, b.try))
}
