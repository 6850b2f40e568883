package simserver

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// oracleStop goes token by token, as vLLM's detokenizer and scheduler do, and looks
// through all of the text each time.
func oracleStop(q *sequence, r *stopRules, minTokens int) (tokens int, text, reason string, deltas []string) {
	held, sent := 0, 0
	for _, s := range r.strings {
		if !r.includeInText {
			held = max(held, len(s)-1)
		}
	}
	hand := func(upTo int) {
		deltas = append(deltas, text[sent:max(sent, upTo)])
		sent = max(sent, upTo)
	}
	for j := range q.req.OutputTokens {
		before := len(text)
		word := string(q.appendText(nil, j, j+1))
		byID := j >= minTokens && !(q.eos && j == q.req.OutputTokens-1) && slices.Contains(r.ids, q.token(j))
		if !byID || r.includeInText {
			text += word
		}
		for end := before + 1; end <= len(text) && j+1 > minTokens; end++ {
			for _, s := range r.strings {
				if strings.HasSuffix(text[:end], s) {
					text = text[:end]
					if !r.includeInText {
						text = text[:end-len(s)]
					}
					hand(len(text))
					return j + 1, text, fmt.Sprintf("%q", s), deltas
				}
			}
		}
		if byID || j == q.req.OutputTokens-1 {
			hand(len(text))
			if byID {
				reason = fmt.Sprint(q.token(j))
			}
			return j + 1, text, reason, deltas
		}
		hand(len(text) - held)
	}
	return 0, text, "", nil
}

func TestStopOracle(t *testing.T) {
	srv, err := New(fastConfig())
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		g := &generation{n: 1, maxTokens: rapid.IntRange(1, 30).Draw(t, "max"), ignoreEOS: rapid.Bool().Draw(t, "ignore"), logprobs: -1}
		st := &stream{core: srv.cores[0], gen: g}
		q := &sequence{st: st, prompt: []int{1}, key: rapid.Uint64().Draw(t, "key")}
		q.req = engineRequest(q, g, 10)
		whole := string(q.appendText(nil, 0, q.req.OutputTokens))
		r := stopRules{includeInText: rapid.Bool().Draw(t, "include")}
		for range rapid.IntRange(0, 3).Draw(t, "stops") {
			s := rapid.StringMatching("[ab ]{1,3}").Draw(t, "foreign")
			if len(whole) > 0 && rapid.IntRange(0, 3).Draw(t, "own") > 0 {
				from := rapid.IntRange(0, len(whole)-1).Draw(t, "from")
				s = whole[from:min(len(whole), from+rapid.IntRange(1, 20).Draw(t, "length"))]
			}
			r.strings = append(r.strings, s)
		}
		if rapid.Bool().Draw(t, "ids") {
			r.ids = []int{q.token(rapid.IntRange(0, q.req.OutputTokens-1).Draw(t, "id")), 7}
		}
		minTokens := rapid.IntRange(0, 3).Draw(t, "min")
		tokens, text, reason, deltas := oracleStop(q, &r, minTokens)

		q.stop(&r, minTokens)
		if q.req.OutputTokens != tokens || string(q.stopReason) != reason {
			t.Fatalf("%d tokens, reason %s; the oracle has %d, %s", q.req.OutputTokens, q.stopReason, tokens, reason)
		}
		got := ""
		for j := range tokens {
			d := string(q.appendDelta(nil, j, j+1, j == tokens-1))
			if d != deltas[j] {
				t.Fatalf("token %d of %d hands out %q, by the oracle %q", j, tokens, d, deltas[j])
			}
			got += d
		}
		if got != text {
			t.Fatalf("text %q, by the oracle %q", got, text)
		}
	})
}

// stopChunk is what an event says of stops and log-probabilities.
type stopChunk struct {
	Choices []struct {
		Text         string
		Delta        struct{ Content string }
		FinishReason *string         `json:"finish_reason"`
		StopReason   json.RawMessage `json:"stop_reason"`
		TokenIDs     []int           `json:"token_ids"`
		Logprobs     *struct {
			Content []struct {
				Token       string
				Logprob     float64
				Bytes       []int
				TopLogprobs []struct {
					Token   string
					Logprob float64
				} `json:"top_logprobs"`
			}
			TextOffset    []int                `json:"text_offset"`
			TokenLogprobs []float64            `json:"token_logprobs"`
			Tokens        []string             `json:"tokens"`
			TopLogprobs   []map[string]float64 `json:"top_logprobs"`
		}
	}
	Usage *struct {
		Completion int `json:"completion_tokens"`
	}
}

// events are the JSON events of a streamed body.
func events(t *testing.T, body string) (out []stopChunk) {
	t.Helper()
	for sc := bufio.NewScanner(strings.NewReader(body)); sc.Scan(); {
		data, ok := strings.CutPrefix(sc.Text(), "data: ")
		if !ok || data == "[DONE]" {
			continue
		}
		var c stopChunk
		unmarshal(t, data, &c)
		out = append(out, c)
	}
	return out
}

// last is what a stream came to: its text, its token ids, its end and its usage.
func last(t *testing.T, list []stopChunk) (text string, ids []int, finish, reason string, usage int) {
	t.Helper()
	for _, c := range list {
		if c.Usage != nil {
			usage = c.Usage.Completion
		}
		for _, choice := range c.Choices {
			text += choice.Text + choice.Delta.Content
			ids = append(ids, choice.TokenIDs...)
			if choice.FinishReason != nil {
				finish, reason = *choice.FinishReason, string(choice.StopReason)
			}
		}
	}
	return text, ids, finish, reason, usage
}

func TestStops(t *testing.T) {
	r := start(t, fastConfig())
	for path, prompt := range map[string]string{"/v1/chat/completions": `"messages":[{"role":"user","content":"x"}]`, "/v1/completions": `"prompt":"x"`} {
		ask := func(more string) string {
			return r.post(200, path, `{`+prompt+`,"max_tokens":20,"ignore_eos":true,"stream":true,"return_token_ids":true,"stream_options":{"include_usage":true}`+more+`}`)
		}
		whole, ids, finish, reason, _ := last(t, events(t, ask("")))
		if finish != "length" || reason != "null" || len(ids) != 20 {
			t.Fatalf("%s: %d tokens, %s, %s", path, len(ids), finish, reason)
		}
		upTo := func(n int) string { return detokenize(ids[:n]) }
		// From the middle of the 6th word to the middle of the 8th.
		stop := whole[len(upTo(5))+2 : len(upTo(7))+3]
		for name, c := range map[string]struct {
			more, text, reason string
			tokens             int
		}{
			"string":        {fmt.Sprintf(`,"stop":%q`, stop), upTo(5) + whole[len(upTo(5)):len(upTo(5))+2], fmt.Sprintf("%q", stop), 8},
			"included":      {fmt.Sprintf(`,"stop":[%q,"never"],"include_stop_str_in_output":true`, stop), whole[:len(upTo(7))+3], fmt.Sprintf("%q", stop), 8},
			"min_tokens":    {fmt.Sprintf(`,"stop":%q,"min_tokens":9`, stop), whole, "null", 20},
			"token":         {fmt.Sprintf(`,"stop_token_ids":[%d]`, ids[3]), upTo(3), fmt.Sprint(ids[3]), 4},
			"token, then":   {fmt.Sprintf(`,"stop":[%q],"stop_token_ids":[%d]`, stop, ids[3]), upTo(3), fmt.Sprint(ids[3]), 4},
			"no such":       {`,"stop":["never"],"stop_token_ids":[]`, whole, "null", 20},
			"null":          {`,"stop":null,"stop_token_ids":null`, whole, "null", 20},
			"end together":  {fmt.Sprintf(`,"stop":[%q,%q]`, stop[2:], stop), upTo(5) + whole[len(upTo(5)):len(upTo(5))+4], fmt.Sprintf("%q", stop[2:]), 8},
			"in the last":   {fmt.Sprintf(`,"stop":%q`, whole[len(upTo(19))+1:]), upTo(19) + " ", fmt.Sprintf("%q", whole[len(upTo(19))+1:]), 20},
			"at the limit":  {fmt.Sprintf(`,"stop_token_ids":[%d]`, ids[19]), upTo(19), fmt.Sprint(ids[19]), 20},
			"intervals, of": {fmt.Sprintf(`,"stop":%q,"stream_interval":3`, stop), upTo(5) + whole[len(upTo(5)):len(upTo(5))+2], fmt.Sprintf("%q", stop), 8},
		} {
			t.Run(path[4:]+"/"+name, func(t *testing.T) {
				want := "stop"
				if c.reason == "null" {
					want = "length"
				}
				text, got, finish, reason, usage := last(t, events(t, ask(c.more)))
				if text != c.text || finish != want || reason != c.reason || usage != c.tokens || !slices.Equal(got, ids[:c.tokens]) {
					t.Errorf("text %q, %d tokens, %s, reason %s; want %q, %d, %s, %s", text, usage, finish, reason, c.text, c.tokens, want, c.reason)
				}
				// The answer in one piece says the same.
				var body struct {
					Choices []struct {
						Text         string
						Message      struct{ Content string }
						FinishReason string          `json:"finish_reason"`
						StopReason   json.RawMessage `json:"stop_reason"`
					}
				}
				unmarshal(t, r.post(200, path, `{`+prompt+`,"max_tokens":20,"ignore_eos":true`+strings.Replace(c.more, `,"stream_interval":3`, "", 1)+`}`), &body)
				if b := body.Choices[0]; b.Text+b.Message.Content != c.text || b.FinishReason != want || string(b.StopReason) != c.reason {
					t.Errorf("in one piece: %+v", b)
				}
			})
		}
	}
}

// What is counted is what was handed out.
func TestStopMetrics(t *testing.T) {
	r := start(t, fastConfig())
	const body = `{"prompt":"x","max_tokens":20,"ignore_eos":true,"stream":true,"return_token_ids":true,"stream_options":{"include_usage":true}`
	whole, _, _, _, all := last(t, events(t, r.post(200, "/v1/completions", body+`}`)))
	_, _, _, _, some := last(t, events(t, r.post(200, "/v1/completions", body+fmt.Sprintf(`,"stop":%q}`, whole[20:28]))))
	m := r.scrape()
	if got := m.sum(t, "vllm:generation_tokens_total"); all != 20 || some >= all || got != float64(all+some) {
		t.Errorf("%g tokens made, %d and %d handed out", got, all, some)
	}
	for reason, want := range map[string]float64{"stop": 1, "length": 1} {
		if got := m.sum(t, "vllm:request_success_total", "finished_reason", reason); got != want {
			t.Errorf("%g ended by %s", got, reason)
		}
	}
}

func TestLogprobs(t *testing.T) {
	r := start(t, fastConfig())
	// A long stop string, so that text and log-probabilities come at different times.
	const more = `"max_tokens":9,"ignore_eos":true,"stream":true,"stop":"never comes","stream_options":{"include_usage":true}`
	t.Run("chat", func(t *testing.T) {
		list := events(t, r.post(200, "/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}],"logprobs":true,"top_logprobs":3,`+more+`}`))
		text, _, _, _, usage := last(t, list)
		tokens, n := "", 0
		for _, c := range list {
			for _, choice := range c.Choices {
				if choice.Logprobs == nil {
					continue // of the role
				}
				for _, e := range choice.Logprobs.Content {
					tokens += e.Token
					n++
					sum := 0.0
					for i, x := range e.TopLogprobs {
						sum += math.Exp(x.Logprob)
						if i > 0 && x.Logprob >= e.TopLogprobs[i-1].Logprob {
							t.Errorf("not in order: %v", e.TopLogprobs)
						}
					}
					if len(e.TopLogprobs) != 3 || e.TopLogprobs[0].Token != e.Token || e.TopLogprobs[0].Logprob != e.Logprob || sum > 1 || len(e.Bytes) != len(e.Token) {
						t.Errorf("%+v", e)
					}
				}
			}
		}
		if tokens != text || n != usage || n != 9 {
			t.Errorf("%d entries %q, %d tokens %q", n, tokens, usage, text)
		}
	})
	t.Run("completions", func(t *testing.T) {
		list := events(t, r.post(200, "/v1/completions", `{"prompt":"x","logprobs":2,`+more+`}`))
		text, _, _, _, usage := last(t, list)
		tokens, n := "", 0
		for _, c := range list {
			for _, choice := range c.Choices {
				l := choice.Logprobs
				if len(l.TokenLogprobs) != len(l.Tokens) || len(l.TextOffset) != len(l.Tokens) || len(l.TopLogprobs) != len(l.Tokens) {
					t.Fatalf("%+v", l)
				}
				for i, token := range l.Tokens {
					if l.TextOffset[i] != len(tokens) || len(l.TopLogprobs[i]) != 2 || l.TopLogprobs[i][token] != l.TokenLogprobs[i] || !(l.TokenLogprobs[i] < 0) {
						t.Errorf("token %d: %+v", n, l)
					}
					tokens += token
					n++
				}
			}
		}
		if tokens != text || n != usage || n != 9 {
			t.Errorf("%d entries %q, %d tokens %q", n, tokens, usage, text)
		}
	})
	t.Run("without", func(t *testing.T) {
		for path, body := range map[string]string{
			"/v1/chat/completions": `{"messages":[{"role":"user","content":"x"}],"logprobs":false,"top_logprobs":0,"max_tokens":1}`,
			"/v1/completions":      `{"prompt":"x","logprobs":null,"max_tokens":1}`,
		} {
			if text := r.post(200, path, body); !strings.Contains(text, `"logprobs":null`) {
				t.Error(text)
			}
		}
	})
}

func TestStopErrors(t *testing.T) {
	r := start(t, fastConfig())
	for name, c := range map[string]struct{ path, more, want string }{
		"empty stop":      {"completions", `"stop":["a",""]`, "stop cannot contain an empty string."},
		"stop number":     {"completions", `"stop":3`, "stop must be a string or a list of strings."},
		"stop id":         {"completions", `"stop_token_ids":["a"]`, "stop_token_ids"},
		"too many":        {"completions", `"logprobs":21`, "Requested sample logprobs of 21, which is greater than max allowed: 20"},
		"all":             {"completions", `"logprobs":-1`, "greater than max allowed: 20"},
		"negative":        {"completions", `"logprobs":-2`, "`logprobs` must be a positive value or -1."},
		"flag":            {"completions", `"logprobs":true`, "`logprobs` must be an integer."},
		"chat number":     {"chat/completions", `"logprobs":2`, "`logprobs` must be a boolean."},
		"chat without":    {"chat/completions", `"top_logprobs":2`, "when using `top_logprobs`, `logprobs` must be set to true."},
		"chat too many":   {"chat/completions", `"logprobs":true,"top_logprobs":21`, "greater than max allowed: 20"},
		"chat a negative": {"chat/completions", `"logprobs":true,"top_logprobs":-2`, "`top_logprobs` must be a positive value or -1."},
	} {
		t.Run(name, func(t *testing.T) {
			body := r.post(400, "/v1/"+c.path, `{"prompt":"x","messages":[{"role":"user","content":"x"}],`+c.more+`}`)
			if !strings.Contains(body, c.want) {
				t.Errorf("%s does not say %q", body, c.want)
			}
		})
	}
}
