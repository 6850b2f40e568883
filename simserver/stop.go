package simserver

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"
)

// stopRules are what ends an answer beside its length and the drawn end.
type stopRules struct {
	strings       []string
	ids           []int
	includeInText bool // the stop string, or the stop token's text, is part of the answer
}

func (r *stopRules) none() bool { return len(r.strings) == 0 && len(r.ids) == 0 }

// held is how many characters of a text wait until it is sure that no stop string
// begins in them.
func (r *stopRules) held() int {
	if r.includeInText {
		return 0
	}
	longest := 1
	for _, s := range r.strings {
		longest = max(longest, utf8.RuneCountInString(s))
	}
	return longest - 1
}

// parseStops reads "stop", a string or a list of strings, and "stop_token_ids".
func parseStops(stop json.RawMessage, ids []int, include bool) (stopRules, *apiError) {
	r := stopRules{ids: ids, includeInText: include}
	var one *string
	switch {
	case len(stop) == 0:
	case json.Unmarshal(stop, &one) == nil:
		if one != nil {
			r.strings = []string{*one}
		}
	case json.Unmarshal(stop, &r.strings) != nil:
		return r, badRequest("stop", "stop must be a string or a list of strings.")
	}
	if slices.Contains(r.strings, "") {
		return r, badRequest("stop", "stop cannot contain an empty string.")
	}
	return r, nil
}

// stoppedText is the text of a sequence that has stop rules. The tokens of a
// sequence are known before it runs, and so is its end.
type stoppedText struct {
	text string
	ends []int // ends[j] is where the text is after token j, before it was cut
	held int
	sent int
}

// stop cuts a sequence at the first stop token or stop string of its tokens. In
// vLLM the frontend finds the strings and has the engine abort the request, which
// may make one more token that nobody gets; here the engine ends with the string.
func (q *sequence) stop(r *stopRules, minTokens int) {
	if r.none() || q.req.OutputTokens == 0 {
		return
	}
	if j := q.stopToken(r.ids, minTokens); j >= 0 {
		q.stopReason = appendInt(nil, q.token(j))
		q.endAt(j)
	}
	t := &stoppedText{held: r.held(), ends: make([]int, q.req.OutputTokens)}
	var b []byte
	for j := range q.req.OutputTokens {
		// The token that ended it has no text, unless it is asked for.
		if j < q.req.OutputTokens-1 || q.stopReason == nil || r.includeInText {
			b = q.appendText(b, j, j+1)
		}
		t.ends[j] = len(b)
	}
	t.text = string(b)
	q.text = t
	s, end := firstStop(t.text, r.strings, t.after(minTokens))
	if end < 0 {
		return
	}
	j, _ := slices.BinarySearch(t.ends, end)
	q.endAt(j)
	q.stopReason = appendJSONString(nil, s)
	if !r.includeInText {
		end -= len(s)
	}
	t.text, t.ends = t.text[:end], t.ends[:j+1]
}

// endAt makes the j-th token the last, and a stop.
func (q *sequence) endAt(j int) {
	q.eos = q.eos && j == q.req.OutputTokens-1
	q.req.OutputTokens, q.req.Stop = j+1, true
}

// stopToken is the first token of ids, or -1. The end of turn of a drawn length
// goes before.
func (q *sequence) stopToken(ids []int, minTokens int) int {
	for j := minTokens; len(ids) > 0 && j < q.req.OutputTokens; j++ {
		if q.eos && j == q.req.OutputTokens-1 {
			return -1
		}
		if slices.Contains(ids, q.token(j)) {
			return j
		}
	}
	return -1
}

// after is where the text is after n tokens.
func (t *stoppedText) after(n int) int {
	if n == 0 {
		return 0
	}
	return t.ends[min(n, len(t.ends))-1]
}

// firstStop finds the stop string that is complete first, beyond a position, and
// where it ends; of two that end together the one listed first. end is -1 if there
// is none.
func firstStop(text string, stops []string, beyond int) (found string, end int) {
	end = -1
	for _, s := range stops {
		from := max(0, beyond+1-len(s))
		if from > len(text) {
			continue
		}
		i := strings.Index(text[from:], s)
		if i < 0 {
			continue
		}
		if e := from + i + len(s); end < 0 || e < end {
			found, end = s, e
		}
	}
	return found, end
}

// appendDelta appends the text that an event of output tokens from up to to hands
// out: less than theirs while a stop string may begin in it.
func (q *sequence) appendDelta(b []byte, from, to int, finished bool) []byte {
	t := q.text
	if t == nil {
		return q.appendText(b, from, to)
	}
	end := len(t.text)
	if !finished {
		end = min(end, t.ends[to-1]-t.held)
	}
	if end > t.sent {
		b = append(b, t.text[t.sent:end]...)
		t.sent = end
	}
	return b
}

// appendStopReason appends null, the stop token or the stop string.
func (q *sequence) appendStopReason(b []byte, finished bool) []byte {
	if !finished || q.stopReason == nil {
		return append(b, "null"...)
	}
	return append(b, q.stopReason...)
}
