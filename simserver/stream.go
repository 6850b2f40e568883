package simserver

import (
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/assay-bench/assay/engine"
)

// sequence is one choice of one prompt: what the engine sees of a request.
type sequence struct {
	st      *stream
	index   int // of the choice in the answer
	req     engine.Request
	prompt  []int
	key     uint64 // of its drawn tokens
	sent    int    // tokens handed out in events
	held    int    // tokens that wait for the next event (stream interval)
	first   int64  // its first output reached the frontend
	last    int64  // end of the step of its latest output
	preempt int    // preemptions counted so far
	done    bool

	eos        bool         // it ends in the end of turn, which has no text
	text       *stoppedText // nil without stop rules
	stopReason []byte       // as JSON; nil is null
	offset     int          // text offset of the next token's log-probability
}

// token is the id of the j-th output token, counted from 0. A sequence that ends by
// itself ends in the end of turn, which has no text.
func (q *sequence) token(j int) int {
	if q.eos && j == q.req.OutputTokens-1 {
		return tokenEndOfTurn
	}
	return int(mix(q.key+uint64(j)) % firstSpecial)
}

// appendText appends the text of output tokens from up to to.
func (q *sequence) appendText(dst []byte, from, to int) []byte {
	for j := from; j < to; j++ {
		if id := q.token(j); id < firstSpecial {
			dst = appendWord(dst, id)
		}
	}
	return dst
}

// finishReason as on the wire.
func (q *sequence) finishReason() string {
	if q.req.Stop {
		return engine.FinishStop
	}
	return engine.FinishLength
}

// stream is one request being answered, streamed or not. Its engine's loop owns
// it, but for what is said otherwise.
type stream struct {
	core      *core
	conn      *conn
	gen       *generation
	fault     *Fault // shared by all that have the same, so that it stays in the cache
	path      string
	requestID string // X-Request-Id as sent
	received  int64
	arrival   int64
	created   int64 // Unix seconds
	chunked   bool  // HTTP/1.1
	close     bool  // the connection ends with the answer; set before submission
	seqs      []*sequence
	prompts   int // prompt tokens of the usage: each prompt once

	// gone: the client left. Set by the connection; nothing is written or counted after it.
	gone atomic.Bool
	// over is closed when the connection may go on to its next request.
	over chan struct{}

	head     []byte // every event up to its choices, made once
	lateHead []byte // headers that wait for the first event
	begun    bool   // the first output was handled
	ended    bool   // nothing more will be encoded
	left     int    // unfinished sequences
	tokens   int    // handed out over all sequences
	events   int    // encoded
	stalled  bool
	counted  int // sequences whose end the metrics have

	// What the HTTP families say of it; status is 200 but for a fault's answer in
	// one piece.
	httpCounted                     bool
	status, requestBytes, bodyBytes int
	longest                         int // output of those

	// Under Fault.Merge: events that wait for a common write.
	merged       []byte
	mergedEvents int
	mergedTokens int

	truth  TruthEvents // nil without a log
	parent *spanParent // nil without an endpoint for spans
}

// leave ends a stream whose client is gone. Called by its connection.
func (st *stream) leave() {
	st.gone.Store(true)
	st.core.cancel(st)
}

// interval is the fewest tokens of an event.
func (st *stream) interval() int {
	return max(st.gen.streamInterval, st.fault.TokensPerChunk)
}

// makeHead prepares what all events of the stream begin with.
func (st *stream) makeHead(model string) {
	object := "chat.completion.chunk"
	if st.gen.api == apiCompletions {
		object = "text_completion"
	}
	b := append(st.head[:0], `{"id":`...)
	b = appendJSONString(b, st.gen.id)
	b = append(b, `,"object":"`...)
	b = append(b, object...)
	b = append(b, `","created":`...)
	b = strconv.AppendInt(b, st.created, 10)
	b = append(b, `,"model":`...)
	b = appendJSONString(b, model)
	st.head = append(b, `,"choices":[`...)
}

// appendRole is the first event of a chat's choice. It goes out immediately
// before the first token's event, never earlier.
func (st *stream) appendRole(b []byte, q *sequence) []byte {
	b = append(b, st.head...)
	b = append(b, `{"index":`...)
	b = strconv.AppendInt(b, int64(q.index), 10)
	b = append(b, `,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]`...)
	if st.gen.continuousUsage {
		b = st.appendUsage(b, len(q.prompt), 0, false)
	}
	b = append(b, `,"prompt_token_ids":`...)
	if st.gen.tokenIDs {
		b = appendIDs(b, q.prompt)
	} else {
		b = append(b, "null"...)
	}
	return append(b, '}')
}

// padding is what giant events are made of.
var padding = strings.Repeat(" padding", 512)

// appendToken is the event of output tokens from up to to, with finish_reason
// if they are the last.
func (st *stream) appendToken(b []byte, q *sequence, from, to int, finished bool) []byte {
	chat := st.gen.api == apiChat
	b = append(b, st.head...)
	b = append(b, `{"index":`...)
	b = strconv.AppendInt(b, int64(q.index), 10)
	switch {
	case chat && from < st.fault.Reasoning:
		b = append(b, `,"delta":{"reasoning":"`...)
	case chat:
		b = append(b, `,"delta":{"content":"`...)
	default:
		b = append(b, `,"text":"`...)
	}
	b = q.appendDelta(b, from, to, finished) // letters and spaces: no escaping
	if st.fault.Giant > 0 && from == 0 {
		for pad := st.fault.Giant; pad > 0; pad -= len(padding) {
			b = append(b, padding[:min(pad, len(padding))]...)
		}
	}
	b = append(b, '"')
	if chat {
		b = append(b, '}')
	}
	b = append(b, `,"logprobs":`...)
	b = q.appendLogprobs(b, from, to)
	b = append(b, `,"finish_reason":`...)
	if finished {
		b = append(b, '"')
		b = append(b, q.finishReason()...)
		b = append(b, '"')
	} else {
		b = append(b, "null"...)
	}
	if finished || !chat {
		b = append(b, `,"stop_reason":`...)
		b = q.appendStopReason(b, finished)
	}
	if !chat {
		b = append(b, `,"prompt_token_ids":`...)
		if st.gen.tokenIDs && from == 0 {
			b = appendIDs(b, q.prompt)
		} else {
			b = append(b, "null"...)
		}
	}
	b = append(b, `,"token_ids":`...)
	if st.gen.tokenIDs {
		b = append(b, '[')
		for j := from; j < to; j++ {
			if j > from {
				b = append(b, ',')
			}
			b = strconv.AppendInt(b, int64(q.token(j)), 10)
		}
		b = append(b, ']')
	} else {
		b = append(b, "null"...)
	}
	b = append(b, "}]"...)
	switch {
	case st.gen.continuousUsage:
		b = st.appendUsage(b, len(q.prompt), to, false)
	case !chat:
		b = append(b, `,"usage":null`...)
	}
	return append(b, '}')
}

// appendUsageEvent is the event after the last choice.
func (st *stream) appendUsageEvent(b []byte) []byte {
	b = append(b, st.head...)
	b = append(b, ']')
	b = st.appendUsage(b, st.prompts, st.tokens, true)
	if m := st.metricsObject(); m != nil {
		b = append(b, `,"metrics":`...)
		b = append(b, m...)
	}
	return append(b, '}')
}

// appendUsage appends a "usage" member, comma first. The final one has details
// of the prompt, if there is anything to say.
func (st *stream) appendUsage(b []byte, prompt, completion int, final bool) []byte {
	b = append(b, `,"usage":{"prompt_tokens":`...)
	b = strconv.AppendInt(b, int64(prompt), 10)
	b = append(b, `,"total_tokens":`...)
	b = strconv.AppendInt(b, int64(prompt+completion), 10)
	b = append(b, `,"completion_tokens":`...)
	b = strconv.AppendInt(b, int64(completion), 10)
	cached := 0
	for i := 0; i < len(st.seqs); i += st.gen.n { // each prompt once
		cached += st.seqs[i].req.CachedTokens
	}
	if final && cached > 0 && st.core.srv.cfg.PromptTokensDetails {
		b = append(b, `,"prompt_tokens_details":{"cached_tokens":`...)
		b = strconv.AppendInt(b, int64(cached), 10)
		b = append(b, '}')
	}
	return append(b, '}')
}

// metricsObject is vLLM's per-request metrics: nil if off, or if several
// sequences share the request.
func (st *stream) metricsObject() []byte {
	if !st.core.srv.cfg.PerRequestMetrics || len(st.seqs) != 1 {
		return nil
	}
	r := &st.seqs[0].req
	ms := func(b []byte, name string, ns int64) []byte {
		b = append(b, name...)
		return strconv.AppendFloat(b, float64(ns)/1e6, 'f', -1, 64)
	}
	b := ms(nil, `{"queue_time_ms":`, r.FirstScheduled-r.Queued)
	b = ms(b, `,"time_to_first_token_ms":`, r.FirstToken-r.FirstScheduled)
	b = ms(b, `,"generation_time_ms":`, r.LastToken-r.FirstToken)
	if r.Generated >= 2 {
		b = append(b, `,"mean_itl_ms":`...)
		b = strconv.AppendFloat(b, float64(r.LastToken-r.FirstToken)/1e6/float64(r.Generated-1), 'f', -1, 64)
	} else {
		b = append(b, `,"mean_itl_ms":null`...)
	}
	b = append(b, `,"tokens_per_second":`...)
	b = strconv.AppendFloat(b, float64(r.Generated)/(float64(r.LastToken-r.FirstScheduled)/1e9), 'f', -1, 64)
	return append(b, '}')
}

func appendIDs(b []byte, ids []int) []byte {
	b = append(b, '[')
	for i, id := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(id), 10)
	}
	return append(b, ']')
}
