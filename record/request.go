package record

// Message is one turn of a chat prompt.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
	// ToolCalls of an assistant, each answered by a message of the role tool, whose
	// ToolCallID names it.
	ToolCalls  []ToolCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

// ToolCall is a function that the model wants called.
type ToolCall struct {
	ID       string   `json:"id"`
	Function Function `json:"function"`
}

// Function is its name and its arguments, a JSON object as text.
type Function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// Prompt is the content of a request. Exactly one of its fields is set.
type Prompt struct {
	// Text of a completion.
	Text string
	// TokenIDs of a completion, for servers that take them: the one way to an
	// exact length without a tokenizer.
	TokenIDs []int32
	// Messages of a chat.
	Messages []Message
	// Body is a request as it was recorded, a JSON object. It is sent as it is, but
	// for what the run itself says: model, stream, a salt.
	Body []byte
}

// Request is one planned request: what the workload wants to be sent. It says
// nothing of when; that is the scheduler's.
type Request struct {
	// Index counts the requests of a run from 0, in planned order.
	Index int64
	// Session counts the sessions of a run from 0, Turn the requests of one from 1,
	// of Turns that are planned. Turn 0 is a request of no session.
	Session     int64
	Turn, Turns int
	// PromptTokens is the prompt length that was asked for, in tokens.
	PromptTokens int
	// PrefixPool is which shared prefix the prompt begins with, from 1; 0 for none.
	// PrefixTokens is its length, within PromptTokens.
	PrefixPool, PrefixTokens int
	// Blocks stand for what the prompt is made of, BlockTokens each, the last perhaps
	// in part: equal numbers, equal tokens. What is past them is the request's own.
	// Empty where prompts are not of recorded blocks.
	Blocks      []uint64
	BlockTokens int
	// KnownTokens is how many of the prompt's tokens, from its start on, requests
	// ahead of it in planned order had in their prompts or, in its session, replies:
	// what a prefix cache that forgets nothing could have.
	KnownTokens int
	// CacheSalt keeps the prefix cache of requests with another salt apart, where the
	// server has that (vLLM's cache_salt). In a plan without prompts it is the scope
	// of the salt, not yet the salt. Empty for none.
	CacheSalt string
	// MaxTokens caps the output, in tokens. It is a cap, not a length.
	MaxTokens int
	// ExactOutput asks the server to produce exactly MaxTokens (ignore_eos,
	// min_tokens) where the dialect has a way to say so.
	ExactOutput bool
	// Prompt is the content. It may be empty in a plan without bodies.
	Prompt Prompt
}
