package simserver

import (
	"encoding/json"
	"math"
	"strconv"
)

// maxLogprobs is vLLM's default of --max-logprobs.
const maxLogprobs = 20

// parseLogprobs reads what each endpoint calls "logprobs": a flag of a chat, which
// has "top_logprobs" beside it, and a number of completions. top is -1 for none.
func parseLogprobs(a api, logprobs json.RawMessage, chatTop *int) (top int, bad *apiError) {
	param, n, on := "logprobs", (*int)(nil), false
	if a == apiChat {
		if len(logprobs) > 0 && json.Unmarshal(logprobs, &on) != nil {
			return -1, badRequest(param, "`logprobs` must be a boolean.")
		}
		param, n = "top_logprobs", chatTop
		if n == nil && on {
			n = new(0)
		}
	} else if len(logprobs) > 0 && json.Unmarshal(logprobs, &n) != nil {
		return -1, badRequest(param, "`logprobs` must be an integer.")
	}
	switch {
	case n == nil:
		return -1, nil
	case *n < -1:
		return -1, badRequest(param, "`%s` must be a positive value or -1.", param)
	case a == apiChat && !on && *n != 0:
		return -1, badRequest(param, "when using `top_logprobs`, `logprobs` must be set to true.")
	case a == apiChat && !on:
		return -1, nil
	case *n == -1:
		return -1, badRequest("logprobs", "Requested sample logprobs of %d, which is greater than max allowed: %d", VocabSize, maxLogprobs)
	case *n > maxLogprobs:
		return -1, badRequest("logprobs", "Requested sample logprobs of %d, which is greater than max allowed: %d", *n, maxLogprobs)
	}
	return *n, nil
}

// logprob is the made-up log-probability of the r-th likeliest token in the place of
// output token j, which itself is the likeliest: it has at least one half, the next
// half of what is left, and so on.
func (q *sequence) logprob(j, r int) (id int, logprob float64) {
	id = q.token(j)
	p := 0.5 + 0.49*float64(mix(q.key^uint64(j))>>11)/(1<<53)
	if r == 0 {
		return id, math.Log(p)
	}
	const stride = 6151 // no common factor with the ordinary ids: all differ
	return (id + r*stride) % firstSpecial, math.Log1p(-p) - float64(r)*math.Ln2
}

// appendLogprobs appends the value of "logprobs" for output tokens from up to to.
func (q *sequence) appendLogprobs(b []byte, from, to int) []byte {
	switch {
	case q.st.gen.logprobs < 0:
		return append(b, "null"...)
	case q.st.gen.api == apiChat:
		return q.appendChatLogprobs(b, from, to)
	}
	return q.appendTextLogprobs(b, from, to)
}

// appendChatLogprobs has an entry a token, with as many of the likeliest as were
// asked for.
func (q *sequence) appendChatLogprobs(b []byte, from, to int) []byte {
	b = append(b, `{"content":[`...)
	for j := from; j < to; j++ {
		if j > from {
			b = append(b, ',')
		}
		b = q.appendChatLogprob(b, j, 0)
		b = append(b, `,"top_logprobs":[`...)
		for r := range q.st.gen.logprobs {
			if r > 0 {
				b = append(b, ',')
			}
			b = append(q.appendChatLogprob(b, j, r), '}')
		}
		b = append(b, "]}"...)
	}
	return append(b, "]}"...)
}

// appendChatLogprob leaves the object open.
func (q *sequence) appendChatLogprob(b []byte, j, r int) []byte {
	id, logprob := q.logprob(j, r)
	b = append(b, `{"token":`...)
	word := appendWord(nil, id)
	b = appendJSONString(b, string(word))
	b = append(b, `,"logprob":`...)
	b = appendLogprob(b, logprob)
	b = append(b, `,"bytes":[`...)
	for i, c := range word {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendInt(b, int(c))
	}
	return append(b, ']')
}

// appendTextLogprobs has parallel lists. The offsets are of the tokens' texts, which
// run ahead of the text that is handed out while a stop string may begin in it.
func (q *sequence) appendTextLogprobs(b []byte, from, to int) []byte {
	list := func(name string, item func(j int)) {
		b = append(b, name...)
		for j := from; j < to; j++ {
			if j > from {
				b = append(b, ',')
			}
			item(j)
		}
		b = append(b, ']')
	}
	list(`{"text_offset":[`, func(j int) {
		b = appendInt(b, q.offset)
		q.offset += len(appendWord(nil, q.token(j)))
	})
	list(`,"token_logprobs":[`, func(j int) {
		_, logprob := q.logprob(j, 0)
		b = appendLogprob(b, logprob)
	})
	list(`,"tokens":[`, func(j int) { b = appendJSONString(b, string(appendWord(nil, q.token(j)))) })
	list(`,"top_logprobs":[`, func(j int) {
		b = append(b, '{')
		for r := range max(1, q.st.gen.logprobs) {
			if r > 0 {
				b = append(b, ',')
			}
			id, logprob := q.logprob(j, r)
			b = appendJSONString(b, string(appendWord(nil, id)))
			b = append(b, ':')
			b = appendLogprob(b, logprob)
		}
		b = append(b, '}')
	})
	return append(b, '}')
}

// appendLogprob has the digits of a float32, as the sampler's are.
func appendLogprob(b []byte, x float64) []byte { return strconv.AppendFloat(b, x, 'f', -1, 32) }
