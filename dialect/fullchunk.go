package dialect

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// object is a decoded JSON object, with numbers as they were written.
type object = map[string]any

// decodeValue decodes one JSON value and nothing beside it.
func decodeValue(data []byte) (v any, ok bool) {
	if !json.Valid(data) {
		return nil, false
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return v, d.Decode(&v) == nil
}

// fullChunk fills c by a full decode. body names the member of a choice that
// holds its content: "delta" in a stream, "message" in a whole reply. ok is
// false when data is not a JSON object.
func fullChunk(data []byte, body string, c *chunk) (ok bool) {
	v, _ := decodeValue(data)
	o, ok := v.(object)
	if !ok {
		return false
	}
	c.model = stringOf(o["model"])
	if e := errorIn(o); e != "" {
		c.err = e
		c.known = true
	}
	if choices, present := o["choices"]; present {
		list, isList := choices.([]any)
		c.known = c.known || isList || choices == nil
		for _, v := range list {
			c.choices++
			c.fullChoice(v, body)
		}
	}
	if u, isObject := o["usage"].(object); isObject {
		c.known = true
		c.fullUsage(u)
	}
	return true
}

func (c *chunk) fullChoice(v any, body string) {
	o, _ := v.(object)
	c.index = 0
	if i, present := o["index"]; present && i != nil {
		n, ok := countOf(i)
		if !ok || n >= maxChoices {
			n = -1
		}
		c.index = n
	}
	text := stringOf(o["text"])
	c.text += text.len()
	if c.choices == 1 {
		c.saidText = text
	}
	if r := stringOf(o["finish_reason"]); !r.empty() {
		c.finish = r
	}
	if r := stringOf(o["stop_reason"]); !r.empty() {
		c.stop = r
	}
	if list, ok := o["token_ids"].([]any); ok {
		c.ids += len(list)
		c.withIDs++
	}
	if l, ok := o["logprobs"].(object); ok {
		c.addLogprobs(listLen(l["content"]), listLen(l["tokens"]))
	}
	if d, ok := o[body].(object); ok {
		c.fullDelta(d)
	}
}

func (c *chunk) fullDelta(d object) {
	if !stringOf(d["role"]).empty() {
		c.role = true
	}
	c.fullContent(d["content"])
	c.reasoning += max(stringOf(d["reasoning_content"]).len(), stringOf(d["reasoning"]).len())
	c.refusal += stringOf(d["refusal"]).len()
	if list, ok := d["tool_calls"].([]any); ok {
		for _, v := range list {
			t, _ := v.(object)
			c.fullFunction(t["function"])
		}
	}
	c.fullFunction(d["function_call"])
}

// fullContent takes content as a string, or as the list of typed parts that
// some hosted services stream; parts of a thinking type are reasoning.
func (c *chunk) fullContent(v any) {
	list, ok := v.([]any)
	if !ok {
		list = []any{object{"text": v}}
	}
	var said []byte
	for _, v := range list {
		part, _ := v.(object)
		kind := stringOf(part["type"]).String()
		if strings.Contains(kind, "thinking") || strings.Contains(kind, "reasoning") {
			c.reasoning += len(appendPart(nil, part["thinking"])) + len(appendPart(nil, part["text"]))
			continue
		}
		said = appendPart(said, part["text"])
	}
	c.content += len(said)
	if c.choices == 1 {
		c.saidContent = rawString{b: said}
	}
}

// appendPart appends a text that is a string or a list of objects with one.
func appendPart(dst []byte, v any) []byte {
	list, ok := v.([]any)
	if !ok {
		return append(dst, stringOf(v).b...)
	}
	for _, v := range list {
		part, _ := v.(object)
		dst = append(dst, stringOf(part["text"]).b...)
	}
	return dst
}

// fullFunction counts name and arguments; arguments that are not a string, as
// some servers have it, count by their JSON.
func (c *chunk) fullFunction(v any) {
	f, _ := v.(object)
	c.tool += stringOf(f["name"]).len()
	switch a := f["arguments"].(type) {
	case nil:
	case string:
		c.tool += len(a)
	default:
		b, _ := json.Marshal(a)
		c.tool += len(b)
	}
}

func (c *chunk) fullUsage(o object) {
	u := &c.usage
	u.prompt, _ = countOf(o["prompt_tokens"])
	u.completion, u.ok = countOf(o["completion_tokens"])
	if d, ok := o["prompt_tokens_details"].(object); ok {
		u.cached, _ = countOf(d["cached_tokens"])
	}
	if d, ok := o["completion_tokens_details"].(object); ok {
		u.reasoning, _ = countOf(d["reasoning_tokens"])
	}
}

// stringOf is v if it is a string, else empty.
func stringOf(v any) rawString {
	s, _ := v.(string)
	return rawString{b: []byte(s)}
}

// listLen is the length of v if it is a list, else -1.
func listLen(v any) int {
	if l, ok := v.([]any); ok {
		return len(l)
	}
	return -1
}

// countOf is v if it is a whole number from 0 up to the largest int32, in any
// notation.
func countOf(v any) (n int, ok bool) {
	num, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(num), 64)
	if err != nil || f < 0 || f > math.MaxInt32 || f != math.Trunc(f) {
		return 0, false
	}
	return int(f), true
}
