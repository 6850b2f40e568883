package dialect

// Bits of the members that may stand only once for the scanner to be sure.
const (
	seenChoices = 1 << iota
	seenUsage
	seenModel
	seenObject
	seenError
	seenIndex
	seenText
	seenDelta
	seenFinish
	seenStop
	seenIDs
	seenLogprobs
	seenRole
	seenContent
	seenReasoning
	seenReasoningContent
	seenRefusal
	seenTools
	seenFunction
	seenName
	seenArguments
	seenTokens
	seenPrompt
	seenCompletion
	seenPromptDetails
	seenCompletionDetails
	seenCached
)

// once notes a member; a repeated one fails.
func (s *scanner) once(seen *uint32, bit uint32) {
	if *seen&bit != 0 {
		s.fail()
	}
	*seen |= bit
}

// scanChunk fills c from one streamed frame. ok is false when the scanner is
// not sure of what it saw; c is then to be thrown away.
func scanChunk(data []byte, c *chunk) (ok bool) {
	s := scanner{b: data}
	if !s.open('{') {
		return false
	}
	var seen uint32
	for first := true; ; first = false {
		key, more := s.member(first)
		if !more {
			break
		}
		switch string(key) {
		case "choices":
			s.once(&seen, seenChoices)
			s.choices(c)
		case "usage":
			s.once(&seen, seenUsage)
			s.usage(c)
		case "model":
			s.once(&seen, seenModel)
			c.model, _ = s.stringOrNull(true)
		case "object":
			s.once(&seen, seenObject)
			if r, _ := s.stringOrNull(false); r.escaped || r.equals("error") {
				s.fail()
			}
		case "error":
			s.once(&seen, seenError)
			if !s.null() {
				s.fail()
			}
		default:
			s.skip(0)
		}
	}
	return !s.bad && s.end()
}

func (s *scanner) choices(c *chunk) {
	c.known = true
	if s.null() {
		return
	}
	if !s.open('[') {
		return
	}
	for ; s.element(c.choices == 0); c.choices++ {
		s.choice(c)
	}
}

func (s *scanner) choice(c *chunk) {
	if !s.open('{') {
		return
	}
	c.index = 0
	var seen uint32
	for first := true; ; first = false {
		key, more := s.member(first)
		if !more {
			return
		}
		switch string(key) {
		case "index":
			s.once(&seen, seenIndex)
			if c.index, _ = s.count(); c.index >= maxChoices {
				c.index = -1
			}
		case "text":
			s.once(&seen, seenText)
			c.text += s.answerLen(c, &c.saidText)
		case "delta":
			s.once(&seen, seenDelta)
			s.delta(c)
		case "finish_reason":
			s.once(&seen, seenFinish)
			if r, ok := s.stringOrNull(true); ok && !r.empty() {
				c.finish = r
			}
		case "stop_reason":
			s.once(&seen, seenStop)
			s.stop(c)
		case "token_ids":
			s.once(&seen, seenIDs)
			if n, ok := s.arrayOrNull(); ok {
				c.ids += n
				c.withIDs++
			}
		case "logprobs":
			s.once(&seen, seenLogprobs)
			s.logprobs(c)
		default:
			s.skip(0)
		}
	}
}

// stop takes a stop_reason only if it is a string: the stop string that matched.
func (s *scanner) stop(c *chunk) {
	if s.space() != '"' {
		s.skip(0)
		return
	}
	if r, ok := s.stringOrNull(true); ok && !r.empty() {
		c.stop = r
	}
}

// logprobs counts the tokens of a chat's or llama.cpp's "content", else of the
// older "tokens".
func (s *scanner) logprobs(c *chunk) {
	if s.null() || !s.open('{') {
		return
	}
	var seen uint32
	content, tokens := -1, -1
	for first := true; ; first = false {
		key, more := s.member(first)
		if !more {
			break
		}
		switch string(key) {
		case "content":
			s.once(&seen, seenContent)
			if n, ok := s.arrayOrNull(); ok {
				content = n
			}
		case "tokens":
			s.once(&seen, seenTokens)
			if n, ok := s.arrayOrNull(); ok {
				tokens = n
			}
		default:
			s.skip(0)
		}
	}
	c.addLogprobs(content, tokens)
}

func (c *chunk) addLogprobs(content, tokens int) {
	if content < 0 {
		content = tokens
	}
	if content >= 0 {
		c.logprobs += content
		c.withLogs++
	}
}

func (s *scanner) delta(c *chunk) {
	if s.null() || !s.open('{') {
		return
	}
	var seen uint32
	var old, reasoning int
	for first := true; ; first = false {
		key, more := s.member(first)
		if !more {
			break
		}
		switch string(key) {
		case "role":
			s.once(&seen, seenRole)
			if r, ok := s.stringOrNull(false); ok && !r.empty() {
				c.role = true
			}
		case "content":
			s.once(&seen, seenContent)
			c.content += s.answerLen(c, &c.saidContent)
		case "reasoning_content":
			s.once(&seen, seenReasoningContent)
			old = s.textLen()
		case "reasoning":
			s.once(&seen, seenReasoning)
			reasoning = s.textLen()
		case "refusal":
			s.once(&seen, seenRefusal)
			c.refusal += s.textLen()
		case "tool_calls":
			s.once(&seen, seenTools)
			s.tools(c)
		case "function_call":
			s.once(&seen, seenFunction)
			s.function(c)
		default:
			s.skip(0)
		}
	}
	// Some servers send the same text under both names.
	c.reasoning += max(old, reasoning)
}

func (s *scanner) tools(c *chunk) {
	if s.null() || !s.open('[') {
		return
	}
	for first := true; s.element(first); first = false {
		s.tool(c)
	}
}

func (s *scanner) tool(c *chunk) {
	if !s.open('{') {
		return
	}
	var seen uint32
	for first := true; ; first = false {
		key, more := s.member(first)
		if !more {
			return
		}
		if string(key) != "function" {
			s.skip(0)
			continue
		}
		s.once(&seen, seenFunction)
		s.function(c)
	}
}

func (s *scanner) function(c *chunk) {
	if s.null() || !s.open('{') {
		return
	}
	var seen uint32
	for first := true; ; first = false {
		key, more := s.member(first)
		if !more {
			return
		}
		switch string(key) {
		case "name":
			s.once(&seen, seenName)
			c.tool += s.textLen()
		case "arguments":
			s.once(&seen, seenArguments)
			c.tool += s.textLen()
		default:
			s.skip(0)
		}
	}
}

func (s *scanner) usage(c *chunk) {
	if s.null() || !s.open('{') {
		return
	}
	c.known = true
	var seen uint32
	u := &c.usage
	for first := true; ; first = false {
		key, more := s.member(first)
		if !more {
			return
		}
		switch string(key) {
		case "prompt_tokens":
			s.once(&seen, seenPrompt)
			u.prompt, _ = s.count()
		case "completion_tokens":
			s.once(&seen, seenCompletion)
			u.completion, u.ok = s.count()
		case "prompt_tokens_details":
			s.once(&seen, seenPromptDetails)
			u.cached = s.detail("cached_tokens")
		case "completion_tokens_details":
			s.once(&seen, seenCompletionDetails)
			u.reasoning = s.detail("reasoning_tokens")
		default:
			s.skip(0)
		}
	}
}

// detail consumes an object or null and returns one count of it.
func (s *scanner) detail(name string) (n int) {
	if s.null() || !s.open('{') {
		return 0
	}
	var seen uint32
	for first := true; ; first = false {
		key, more := s.member(first)
		if !more {
			return n
		}
		if string(key) != name {
			s.skip(0)
			continue
		}
		s.once(&seen, seenCached)
		n, _ = s.count()
	}
}
