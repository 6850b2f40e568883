package simserver

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/assay-bench/assay/engine"
)

// engineRequest is the engine's view of q.
func engineRequest(q *sequence, g *generation, meanOutput float64) engine.Request {
	tokens, stopped := g.outputLength(q.key, meanOutput)
	q.eos = stopped
	return engine.Request{
		PromptTokens: len(q.prompt), OutputTokens: tokens, Stop: stopped, Priority: g.priority, Data: q,
	}
}

// blockHashes are those of the prompt and of the output to come. The last output
// token is not in the KV cache when the request ends, so that no block can end
// with it; its hash does no harm.
func (q *sequence) blockHashes(blockTokens int) []uint64 {
	prompt := len(q.prompt)
	return blockHashes(func(i int) int {
		if i < prompt {
			return q.prompt[i]
		}
		return q.token(i - prompt)
	}, prompt+q.req.OutputTokens, blockTokens, q.st.gen.cacheSalt)
}

// echoID is the X-Request-Id of the answer, "" if the server sends none.
func (st *stream) echoID() string {
	if !st.core.srv.cfg.RequestIDHeaders {
		return ""
	}
	if st.requestID != "" && !strings.ContainsAny(st.requestID, "\r\n") {
		return st.requestID
	}
	_, id, _ := strings.Cut(st.gen.id, "-")
	return id
}

// body encodes the whole answer of a request that is not streamed.
func (c *core) body(st *stream) {
	st.ended = true
	for _, q := range st.seqs {
		q.sent, q.held = q.req.Generated, 0
		st.tokens += q.sent
	}
	f := frame{st: st, kind: EventBody, from: len(c.buf), tokens: st.tokens, then: thenDone, outcome: "completed"}
	r := &reply{status: 200, body: st.bodyJSON()}
	cut := st.cutBody(&f)
	if f.outcome == "error" {
		r = errorReply(errMidStream)
	}
	st.status, st.bodyBytes = r.status, len(r.body)
	c.buf = appendHead(c.buf, r, st.close, c.srv.dateNow(), st.echoID())
	c.buf = append(c.buf, r.body...)
	if cut {
		c.buf = c.buf[:f.from]
	}
	f.to = len(c.buf)
	c.frames = append(c.frames, f)
}

// cutBody applies the faults of a stream to an answer of one piece, which has
// no place in its middle: at most its status and body change (error-after), or
// nothing of it is sent and silent is true.
func (st *stream) cutBody(f *frame) (silent bool) {
	at := func(k int) bool { return k >= 0 && st.tokens >= k }
	switch x := st.fault; {
	case x.Well():
		return false
	case at(x.ErrorAfter):
		f.outcome = "error"
		return false
	case at(x.EndAfter), at(x.TruncateAfter):
		f.then = thenClose
	case at(x.ResetAfter):
		f.then = thenReset
	case at(x.StallAfter) && x.Stall == 0:
		f.then = thenHang
	default:
		return false
	}
	f.outcome = "fault"
	return true
}

// bodyJSON is the body in vLLM's order of fields.
func (st *stream) bodyJSON() []byte {
	chat := st.gen.api == apiChat
	object := `chat.completion`
	if !chat {
		object = `text_completion`
	}
	b := append([]byte(nil), `{"id":`...)
	b = appendJSONString(b, st.gen.id)
	b = append(b, `,"object":"`+object+`","created":`...)
	b = appendInt(b, int(st.created))
	b = append(b, `,"model":`...)
	b = appendJSONString(b, st.core.srv.cfg.ModelName)
	b = append(b, `,"choices":[`...)
	for i, q := range st.seqs {
		if i > 0 {
			b = append(b, ',')
		}
		b = st.appendChoice(b, q, chat)
	}
	b = append(b, `],"service_tier":null,"system_fingerprint":null`...)
	if !st.fault.NoUsage {
		b = st.appendUsage(b, st.prompts, st.tokens, true)
	}
	if chat {
		b = append(b, `,"prompt_logprobs":null,"prompt_token_ids":`...)
		if st.gen.tokenIDs {
			b = appendIDs(b, st.seqs[0].prompt)
		} else {
			b = append(b, "null"...)
		}
	}
	b = append(b, `,"kv_transfer_params":null`...)
	if m := st.metricsObject(); m != nil {
		b = append(b, `,"metrics":`...)
		b = append(b, m...)
	}
	return append(b, '}')
}

func (st *stream) appendChoice(b []byte, q *sequence, chat bool) []byte {
	b = append(b, `{"index":`...)
	b = appendInt(b, q.index)
	if chat {
		b = append(b, `,"message":{"role":"assistant","content":"`...)
		b = q.appendDelta(b, 0, q.sent, true)
		b = append(b, `","refusal":null,"annotations":null,"audio":null,"function_call":null,"tool_calls":[],"reasoning":null},"logprobs":`...)
	} else {
		b = append(b, `,"text":"`...)
		b = q.appendDelta(b, 0, q.sent, true)
		b = append(b, `","logprobs":`...)
	}
	b = q.appendLogprobs(b, 0, q.sent)
	b = append(b, `,"finish_reason":"`...)
	b = append(b, q.finishReason()...)
	b = append(b, `","stop_reason":`...)
	b = q.appendStopReason(b, true)
	b = append(b, `,"token_ids":`...)
	if !st.gen.tokenIDs {
		b = append(b, "null"...)
	} else {
		ids := make([]int, q.sent)
		for j := range ids {
			ids[j] = q.token(j)
		}
		b = appendIDs(b, ids)
	}
	if !chat {
		b = append(b, `,"prompt_logprobs":null,"prompt_token_ids":`...)
		if st.gen.tokenIDs {
			b = appendIDs(b, q.prompt)
		} else {
			b = append(b, "null"...)
		}
	}
	return append(b, '}')
}

func appendInt(b []byte, n int) []byte { return strconv.AppendInt(b, int64(n), 10) }

// appendJSONString appends text as a JSON string.
func appendJSONString(b []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			quoted, err := json.Marshal(text)
			if err != nil {
				panic("simserver: " + err.Error()) // a string always encodes
			}
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, text...)
	return append(b, '"')
}
