package simserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
)

// apiError is an answer that is not a result, in vLLM's shape.
type apiError struct {
	status  int
	kind    string // "BadRequestError", "NotFoundError", ...
	message string
	param   string // "" is null
}

func (e *apiError) Error() string { return e.message }

// object is the body {"error": {...}}, also the data of an in-stream error.
func (e *apiError) object() []byte {
	var param any
	if e.param != "" {
		param = e.param
	}
	type inner struct {
		Message string `json:"message"`
		Type    string `json:"type"`
		Param   any    `json:"param"`
		Code    int    `json:"code"`
	}
	b, err := json.Marshal(map[string]inner{"error": {e.message, e.kind, param, e.status}})
	if err != nil {
		panic(err) // strings and a number always encode
	}
	return b
}

func badRequest(param, format string, args ...any) *apiError {
	return &apiError{400, "BadRequestError", fmt.Sprintf(format, args...), param}
}

// api tells the two generating endpoints apart.
type api int

const (
	apiChat api = iota
	apiCompletions
)

// genBody is the part of a chat or completions body that the server heeds.
// Other fields are allowed and ignored, as vLLM does.
type genBody struct {
	Model               string          `json:"model"`
	Messages            json.RawMessage `json:"messages"`
	Prompt              json.RawMessage `json:"prompt"`
	MaxTokens           *int            `json:"max_tokens"`
	MaxCompletionTokens *int            `json:"max_completion_tokens"`
	MinTokens           *int            `json:"min_tokens"`
	IgnoreEOS           bool            `json:"ignore_eos"`
	Stream              bool            `json:"stream"`
	StreamOptions       *struct {
		IncludeUsage         bool `json:"include_usage"`
		ContinuousUsageStats bool `json:"continuous_usage_stats"`
	} `json:"stream_options"`
	StreamInterval      *int            `json:"stream_interval"`
	ReturnTokenIDs      bool            `json:"return_token_ids"`
	N                   *int            `json:"n"`
	BestOf              *int            `json:"best_of"`
	Echo                bool            `json:"echo"`
	Temperature         *float64        `json:"temperature"`
	TopP                *float64        `json:"top_p"`
	TopK                *int            `json:"top_k"`
	MinP                *float64        `json:"min_p"`
	PresencePenalty     *float64        `json:"presence_penalty"`
	FrequencyPenalty    *float64        `json:"frequency_penalty"`
	RepetitionPenalty   *float64        `json:"repetition_penalty"`
	Stop                json.RawMessage `json:"stop"`
	StopTokenIDs        []int           `json:"stop_token_ids"`
	IncludeStop         bool            `json:"include_stop_str_in_output"`
	Logprobs            json.RawMessage `json:"logprobs"`
	TopLogprobs         *int            `json:"top_logprobs"`
	Seed                *int64          `json:"seed"`
	Priority            int             `json:"priority"`
	CacheSalt           string          `json:"cache_salt"`
	RequestID           string          `json:"request_id"`
	AddGenerationPrompt *bool           `json:"add_generation_prompt"`
	AddSpecialTokens    *bool           `json:"add_special_tokens"`
	Tools               json.RawMessage `json:"tools"`
}

// generation is a checked request, ready for the engine.
type generation struct {
	api             api
	id              string // chatcmpl-... or cmpl-...
	prompts         [][]int
	maxTokens       int // after the server's clamping
	maxTokensAsked  bool
	minTokens       int
	ignoreEOS       bool
	stream          bool
	includeUsage    bool
	continuousUsage bool
	streamInterval  int
	tokenIDs        bool
	stops           stopRules
	logprobs        int // likeliest tokens beside each token; -1: no log-probabilities
	n               int
	seed            uint64
	priority        int
	cacheSalt       string
}

// maxChoices bounds n times the number of prompts, for memory's sake: vLLM's own
// bound on n is 16384.
const maxChoices = 1024

// decodeBody reads a JSON body into v with vLLM's answer to one that is not JSON.
func decodeBody(body []byte, v any) *apiError {
	if err := json.Unmarshal(body, v); err != nil {
		return &apiError{400, "Bad Request", "invalid request body: " + err.Error(), ""}
	}
	return nil
}

// check validates the sampling fields in the words of vLLM's SamplingParams and
// fills everything of g but the prompts.
func (b *genBody) check(g *generation) *apiError {
	if b.StreamOptions != nil && !b.Stream {
		return badRequest("stream_options", "Stream options can only be defined when `stream=True`.")
	}
	g.n = 1
	if b.N != nil {
		g.n = *b.N
	}
	if g.n < 1 {
		return badRequest("n", "n must be at least 1, got %d.", g.n)
	}
	if g.n > maxChoices {
		return badRequest("n", "n must be at most %d, got %d.", maxChoices, g.n)
	}
	if b.BestOf != nil && *b.BestOf != g.n {
		return badRequest("best_of", "best_of is not supported by the simulated server.")
	}
	if b.Echo {
		return badRequest("echo", "echo is not supported by the simulated server.")
	}
	if t := b.Temperature; t != nil && !(*t >= 0) {
		return badRequest("temperature", "temperature must be non-negative, got %g.", *t)
	}
	if p := b.TopP; p != nil && !(*p > 0 && *p <= 1) {
		return badRequest("top_p", "top_p must be in (0, 1], got %g.", *p)
	}
	if k := b.TopK; k != nil && *k < -1 {
		return badRequest("top_k", "top_k must be 0 (disable), or at least 1, got %d.", *k)
	}
	if p := b.MinP; p != nil && !(*p >= 0 && *p <= 1) {
		return badRequest("min_p", "min_p must be in [0, 1], got %g.", *p)
	}
	if p := b.PresencePenalty; p != nil && !(math.Abs(*p) <= 2) {
		return badRequest("presence_penalty", "presence_penalty must be in [-2, 2], got %g.", *p)
	}
	if p := b.FrequencyPenalty; p != nil && !(math.Abs(*p) <= 2) {
		return badRequest("frequency_penalty", "frequency_penalty must be in [-2, 2], got %g.", *p)
	}
	if p := b.RepetitionPenalty; p != nil && !(*p > 0) {
		return badRequest("repetition_penalty", "repetition_penalty must be greater than zero, got %g.", *p)
	}
	maxTokens := b.MaxTokens
	if b.MaxCompletionTokens != nil && g.api == apiChat {
		maxTokens = b.MaxCompletionTokens
	}
	if maxTokens == nil && g.api == apiCompletions {
		maxTokens = new(16)
	}
	if maxTokens != nil {
		g.maxTokens, g.maxTokensAsked = *maxTokens, true
		if g.maxTokens < 1 {
			return badRequest("max_tokens", "max_tokens must be at least 1, got %d.", g.maxTokens)
		}
	}
	if b.MinTokens != nil {
		g.minTokens = *b.MinTokens
	}
	if g.minTokens < 0 {
		return badRequest("min_tokens", "min_tokens must be greater than or equal to 0, got %d.", g.minTokens)
	}
	if g.maxTokensAsked && g.minTokens > g.maxTokens {
		return badRequest("min_tokens", "min_tokens must be less than or equal to max_tokens=%d, got %d.", g.maxTokens, g.minTokens)
	}
	if b.StreamInterval != nil {
		if *b.StreamInterval < 1 {
			return badRequest("stream_interval", "stream_interval must be at least 1, got %d.", *b.StreamInterval)
		}
		g.streamInterval = max(g.streamInterval, *b.StreamInterval)
	}
	var bad *apiError
	if g.stops, bad = parseStops(b.Stop, b.StopTokenIDs, b.IncludeStop); bad != nil {
		return bad
	}
	if g.logprobs, bad = parseLogprobs(g.api, b.Logprobs, b.TopLogprobs); bad != nil {
		return bad
	}
	if b.Seed != nil {
		g.seed = uint64(*b.Seed)
	}
	g.ignoreEOS, g.stream, g.tokenIDs = b.IgnoreEOS, b.Stream, b.ReturnTokenIDs
	g.priority, g.cacheSalt = b.Priority, b.CacheSalt
	if o := b.StreamOptions; o != nil {
		g.includeUsage = o.IncludeUsage
		g.continuousUsage = o.IncludeUsage && o.ContinuousUsageStats
	}
	return nil
}

// tokens renders the prompts of a body into token ids.
func (b *genBody) tokens(a api) ([][]int, *apiError) {
	if a == apiCompletions {
		return promptTokens(b.Prompt, b.AddSpecialTokens == nil || *b.AddSpecialTokens)
	}
	messages, err := parseMessages(b.Messages)
	if err != nil {
		return nil, err
	}
	if len(b.Tools) > 0 && !bytes.Equal(b.Tools, []byte("null")) {
		messages = append([]message{{"system", string(b.Tools)}}, messages...)
	}
	// A chat's template brings its own beginning token.
	generation := b.AddGenerationPrompt == nil || *b.AddGenerationPrompt
	return [][]int{chatTokens(messages, true, generation)}, nil
}

// parseMessages reads the messages of a chat: contents are strings or lists of
// text parts.
func parseMessages(raw json.RawMessage) ([]message, *apiError) {
	var list []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	}
	if err := json.Unmarshal(raw, &list); len(raw) == 0 || err != nil {
		return nil, badRequest("messages", "messages must be a list of objects with role and content.")
	}
	if len(list) == 0 {
		return nil, badRequest("messages", "messages must not be empty.")
	}
	messages := make([]message, 0, len(list))
	for i, m := range list {
		if m.Role == "" {
			return nil, badRequest("messages", "messages[%d] has no role.", i)
		}
		text, err := contentText(m.Content)
		if err != nil {
			return nil, badRequest("messages", "messages[%d]: %s", i, err.Error())
		}
		messages = append(messages, message{m.Role, text})
	}
	return messages, nil
}

func contentText(raw json.RawMessage) (string, error) {
	if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
		return "", nil // an assistant's turn with tool calls alone
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text, nil
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return "", fmt.Errorf("content must be a string or a list of parts")
	}
	texts := make([]string, 0, len(parts))
	for _, p := range parts {
		if p.Type != "text" {
			return "", fmt.Errorf("content part of type %q is not supported by the simulated server", p.Type)
		}
		texts = append(texts, p.Text)
	}
	return strings.Join(texts, "\n"), nil
}

// promptTokens reads the four forms of a completions prompt: a string, a list of
// strings, a list of ids, a list of lists of ids. Text gets a beginning token,
// ids are taken as they are.
func promptTokens(raw json.RawMessage, special bool) ([][]int, *apiError) {
	text := func(s string) []int {
		var ids []int
		if special {
			ids = append(ids, tokenBegin)
		}
		return tokenize(ids, s)
	}
	var one string
	var many []string
	var ids []int
	var lists [][]int
	var prompts [][]int
	switch {
	case len(raw) == 0 || bytes.Equal(raw, []byte("null")):
		return nil, badRequest("prompt", "Either prompt or prompt_embeds must be provided and non-empty.")
	case json.Unmarshal(raw, &one) == nil:
		prompts = [][]int{text(one)}
	case json.Unmarshal(raw, &ids) == nil:
		prompts = [][]int{ids}
	case json.Unmarshal(raw, &many) == nil:
		for _, s := range many {
			prompts = append(prompts, text(s))
		}
	case json.Unmarshal(raw, &lists) == nil:
		prompts = lists
	default:
		return nil, badRequest("prompt", "prompt must be a string, a list of strings, a list of token ids or a list of lists of token ids.")
	}
	for _, p := range prompts {
		if len(p) == 0 {
			return nil, badRequest("prompt", "The decoder prompt cannot be empty.")
		}
		if err := checkIDs(p); err != nil {
			return nil, err
		}
	}
	return prompts, nil
}

// checkIDs refuses ids outside the vocabulary.
func checkIDs(ids []int) *apiError {
	for _, id := range ids {
		if id < 0 || id >= VocabSize {
			return badRequest("prompt", "Token id %d is out of vocabulary", id)
		}
	}
	return nil
}

// fit checks the prompts against the context length and resolves max_tokens.
func (g *generation) fit(maxModelLen int) *apiError {
	if len(g.prompts)*g.n > maxChoices {
		return badRequest("n", "%d prompts with n=%d are more than %d sequences.", len(g.prompts), g.n, maxChoices)
	}
	longest := 0
	for _, p := range g.prompts {
		longest = max(longest, len(p))
	}
	asked := g.maxTokens // 0 when not asked for
	if longest+max(asked, 1) > maxModelLen {
		// vLLM stops counting the prompt as soon as it is too long.
		least := max(maxModelLen-asked+1, 1)
		return badRequest("input_tokens", "This model's maximum context length is %d tokens. However, you requested %d output tokens "+
			"and your prompt contains at least %d input tokens, for a total of at least %d tokens. "+
			"Please reduce the length of the input prompt or the number of requested output tokens. "+
			"(parameter=input_tokens, value=%d)", maxModelLen, asked, least, least+asked, least)
	}
	if !g.maxTokensAsked {
		g.maxTokens = maxModelLen - longest
	}
	return nil
}

// outputLength draws how many tokens a sequence yields, and whether the last
// one is a stop token. The draw is lognormal with the given mean and a log
// standard deviation of 0.8 (near that of public chat traces), and depends on
// nothing but the key.
func (g *generation) outputLength(key uint64, mean float64) (tokens int, stopped bool) {
	if g.ignoreEOS {
		return g.maxTokens, false
	}
	const sigma = 0.8
	u1 := float64(mix(key)>>11+1) / (1 << 53)
	u2 := float64(mix(key^0x5bf03635)>>11) / (1 << 53)
	z := math.Sqrt(-2*math.Log(u1)) * math.Cos(2*math.Pi*u2) // Box-Muller
	length := math.Exp(math.Log(mean) - sigma*sigma/2 + sigma*z)
	drawn := max(1, int(math.Round(min(length, 1e9))))
	// min_tokens suppresses the stop token until that many tokens are out.
	drawn = max(drawn, g.minTokens+1)
	if drawn > g.maxTokens {
		return g.maxTokens, false
	}
	return drawn, true
}
