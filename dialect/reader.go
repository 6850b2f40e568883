package dialect

import (
	"bytes"
	"errors"
	"math"

	"github.com/assay-bench/assay/record"
)

// openaiReader reads the frames of both OpenAI protocols, which differ in where
// the answer text is.
type openaiReader struct {
	chat bool
	// choices by index; it grows once a reply with many of them.
	choices []choiceState
	// continuous: usage came on a chunk that was not the last of its choice.
	continuous bool
	// mixed: an event held several choices, whose usage cannot be told apart.
	mixed bool
	// collect keeps the answer of the first choice.
	collect bool
	said    []byte
	calls   []record.ToolCall
}

// maxAnswer is how much of an answer is kept.
const maxAnswer = 16 << 20

// Collect keeps answers from now on. See [Reader].
func (r *openaiReader) Collect() { r.collect = true }

// Answer is what was kept. See [Reader].
func (r *openaiReader) Answer() []byte { return r.said }

// keep adds the answer of a chunk, unless it is another choice's.
func (r *openaiReader) keep(c *chunk) {
	said := c.saidText
	if r.chat {
		said = c.saidContent
	}
	if !r.collect || said.empty() || c.choices == 1 && c.index != 0 {
		return
	}
	text := said.b
	if said.escaped {
		text = []byte(said.String())
	}
	r.said = append(r.said, text[:min(len(text), maxAnswer-len(r.said))]...)
}

// choiceState follows the tokens of one choice.
type choiceState struct {
	seen bool
	// counted tokens so far; dirty when events came that told no delta.
	counted int
	dirty   bool
}

// Reset makes the reader ready for the next reply.
func (r *openaiReader) Reset() {
	r.choices = r.choices[:0]
	r.continuous, r.mixed = false, false
	r.said, r.calls = r.said[:0], nil
}

// Event reads one frame. See [Reader].
func (r *openaiReader) Event(name, data []byte, e *record.Event, a *record.Attempt) (terminal bool) {
	e.Tokens, e.TextBytes, e.AnswerBytes = 0, 0, 0
	data = bytes.TrimSpace(data)
	if string(data) == "[DONE]" {
		e.Flags |= record.FlagDone
		return true
	}
	var c chunk
	if !scanChunk(data, &c) {
		c = chunk{}
		fullChunk(data, "delta", &c)
	}
	if string(name) == "error" && c.err == "" {
		c.err = orDefault(ParseError(data))
	}
	switch {
	case c.err != "":
		e.Flags |= record.FlagError
		a.Error = c.err
	case len(data) == 0:
		e.Flags |= record.FlagOther
		return false
	case !c.known:
		e.Flags |= record.FlagOther
		e.Tokens = record.UnknownTokens
		return false
	}
	r.content(&c, e, a)
	r.keepCalls(&c, data)
	first := r.first(&c)
	e.Tokens = clamp32(r.tokens(&c, first))
	r.usage(&c, e, a)
	if c.role && first && c.generated(r.answer(&c)) == 0 && c.finish.empty() && e.Tokens <= 0 {
		e.Flags |= record.FlagRole
	}
	return false
}

// Whole reads a reply in one piece. See [Reader].
func (r *openaiReader) Whole(body []byte, e *record.Event, a *record.Attempt) error {
	e.Tokens, e.TextBytes, e.AnswerBytes = 0, 0, 0
	var c chunk
	if !fullChunk(body, "message", &c) {
		e.Flags |= record.FlagOther
		return errors.New("the reply is not a JSON object")
	}
	if c.err != "" {
		e.Flags |= record.FlagError
		a.Error = c.err
		return nil
	}
	if c.choices == 0 {
		e.Flags |= record.FlagOther
		return errors.New("the reply has no choices")
	}
	r.content(&c, e, a)
	r.keepCalls(&c, body)
	own, known := c.ownTokens(c.generated(r.answer(&c)))
	switch {
	case c.usage.ok:
		e.Tokens = clamp32(c.usage.completion)
	case known:
		e.Tokens = clamp32(own)
	default:
		e.Tokens = record.UnknownTokens
	}
	if c.usage.ok {
		e.Flags |= record.FlagUsage
		setUsage(a, &c.usage, c.usage.completion)
	}
	return nil
}

func (r *openaiReader) answer(c *chunk) int {
	if r.chat {
		return c.content
	}
	return c.text
}

// content sets text sizes, the flags of what the chunk carries, and what it names.
func (r *openaiReader) content(c *chunk, e *record.Event, a *record.Attempt) {
	r.keep(c)
	answer := r.answer(c)
	generated := c.generated(answer)
	e.TextBytes, e.AnswerBytes = clamp32(generated), clamp32(answer)
	flag := func(on bool, f record.EventFlags) {
		if on {
			e.Flags |= f
		}
	}
	flag(generated > 0, record.FlagText)
	flag(answer > 0, record.FlagAnswer)
	flag(c.reasoning > 0, record.FlagReasoning)
	flag(c.refusal > 0, record.FlagRefusal)
	flag(c.tool > 0, record.FlagToolCall)
	flag(!c.finish.empty(), record.FlagFinish)
	if !c.finish.empty() {
		a.FinishReason = finishReason(c.finish)
	}
	if !c.stop.empty() {
		a.StopReason = c.stop.String()
	}
	if a.Model == "" && !c.model.empty() {
		a.Model = c.model.String()
	}
}

// finishReason spares the common ones an allocation.
func finishReason(r rawString) string {
	for _, known := range [...]string{"stop", "length", "tool_calls", "abort", "content_filter"} {
		if r.equals(known) {
			return known
		}
	}
	return r.String()
}

// first reports whether the chunk is the first of its only choice, and notes it.
func (r *openaiReader) first(c *chunk) bool {
	if c.choices == 0 {
		return false
	}
	if c.choices > 1 || c.index < 0 {
		r.mixed = true
		return false
	}
	for len(r.choices) <= c.index {
		r.choices = append(r.choices, choiceState{})
	}
	st := &r.choices[c.index]
	first := !st.seen
	st.seen = true
	return first
}

// tokens is the number of new tokens in the chunk, by the package's order of
// trust, or UnknownTokens.
func (r *openaiReader) tokens(c *chunk, first bool) int {
	if c.choices == 0 {
		return 0
	}
	generated := c.generated(r.answer(c))
	own, known := c.ownTokens(generated)
	if r.mixed {
		if known {
			return own
		}
		return record.UnknownTokens
	}
	st := &r.choices[c.index]
	if c.usage.ok && r.ofChoice(c) {
		d := c.usage.completion - st.counted
		// Text while nothing was ever counted: this server counts at the end only.
		idle := c.usage.completion == 0 && generated > 0
		told := !st.dirty && d >= 0 && !idle
		st.counted, st.dirty = c.usage.completion, idle
		if told {
			return d
		}
	} else if known {
		st.counted += own
	}
	if known {
		return own
	}
	if first && c.role && generated == 0 && c.finish.empty() {
		return 0
	}
	if !c.usage.ok {
		st.dirty = true
	}
	return record.UnknownTokens
}

// ofChoice reports whether the chunk's usage counts its own choice alone. The
// usage on the last chunk of one among several, where there was none before, is
// that of the whole request.
func (r *openaiReader) ofChoice(c *chunk) bool {
	return r.continuous || len(r.choices) == 1 || c.finish.empty()
}

// ownTokens is what the chunk says without regard to earlier ones. An empty
// logprobs list beside text tells nothing: reasoning has no logprobs.
func (c *chunk) ownTokens(generated int) (n int, known bool) {
	switch {
	case c.choices == 0:
		return 0, false
	case c.withIDs == c.choices:
		return c.ids, true
	case c.withLogs == c.choices && (c.logprobs > 0 || generated == 0):
		return c.logprobs, true
	}
	return 0, false
}

// usage keeps the final usage: that of a frame without choices, else that of
// the last chunk with a finish reason, which stands when the stream ends without
// a usage frame. Only where usage did not ride on earlier chunks is the latter
// marked as the usage event.
func (r *openaiReader) usage(c *chunk, e *record.Event, a *record.Attempt) {
	switch {
	case !c.usage.ok:
	case c.choices == 0:
		e.Flags |= record.FlagUsage
		setUsage(a, &c.usage, c.usage.completion)
	case c.finish.empty():
		r.continuous = true
	case r.continuous:
		setUsage(a, &c.usage, r.total(c))
	default:
		e.Flags |= record.FlagUsage
		setUsage(a, &c.usage, c.usage.completion)
	}
}

// total is the completion tokens of all choices, where usage is cumulative for
// each of them.
func (r *openaiReader) total(c *chunk) int {
	if r.mixed || len(r.choices) < 2 {
		return c.usage.completion
	}
	sum := 0
	for _, st := range r.choices {
		sum += st.counted
	}
	return sum
}

func setUsage(a *record.Attempt, u *usage, completion int) {
	if a.Usage == nil {
		a.Usage = new(record.Usage)
	}
	*a.Usage = record.Usage{
		PromptTokens:     u.prompt,
		CompletionTokens: completion,
		CachedTokens:     u.cached,
		ReasoningTokens:  u.reasoning,
	}
}

func clamp32(n int) int32 { return int32(min(n, math.MaxInt32)) }
