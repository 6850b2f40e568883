package dialect

import "github.com/assay-bench/assay/record"

// Options are the choices of a target that hold for all of its requests. The
// zero value asks for a reply in one piece, at temperature 0.
type Options struct {
	// Model as the server names it. Left out of the body when empty.
	Model string
	// Stream asks for a streamed reply.
	Stream bool
	// IncludeUsage asks a stream to end with a usage frame.
	IncludeUsage bool
	// ContinuousUsage asks for cumulative usage on every chunk, which makes
	// token deltas known. Servers need IncludeUsage with it.
	ContinuousUsage bool
	// Temperature is always sent, since servers take differing defaults from the
	// model's files. Nil sends 0: greedy, the same text for the same prompt.
	Temperature *float64
	// Choices asks for several completions of one prompt (n). 0 and 1 send nothing.
	Choices int
	// MaxCompletionTokens names the output cap of a chat max_completion_tokens,
	// as hosted reasoning models demand, in place of max_tokens, which every open
	// engine takes.
	MaxCompletionTokens bool
	// ExtraBody is a JSON object, or empty. Its members are put at the top level
	// of every body, as they are written, and replace those of the same name.
	ExtraBody []byte
}

// Dialect is one wire protocol. Implementations hold no state and are safe for
// concurrent use.
type Dialect interface {
	// Name as used on the command line ("openai-chat").
	Name() string
	// Path below the base URL that ends in /v1, without a leading slash.
	Path() string
	// AppendRequest appends the body of r to dst. It fails when the prompt is of
	// a kind that the dialect cannot carry, or ExtraBody is not a JSON object.
	AppendRequest(dst []byte, r *record.Request, o *Options) ([]byte, error)
	// NewReader makes a reader for one reply at a time.
	NewReader() Reader
}

// Reader reads the frames of one reply, in order. It is not safe for
// concurrent use; Reset makes it ready for the next reply.
type Reader interface {
	// Reset forgets the reply read so far.
	Reset()
	// Event reads one frame: its event name, if any, and its data. It sets
	// e.Tokens, e.TextBytes and e.AnswerBytes, adds to e.Flags, and sets in a the
	// Usage, FinishReason, StopReason, Model and Error that the frame tells.
	// terminal is true at the dialect's end marker.
	Event(name, data []byte, e *record.Event, a *record.Attempt) (terminal bool)
	// Whole reads a reply with status 200 that was not streamed. It fails when
	// the body is not the dialect's; an error object is no failure of Whole.
	Whole(body []byte, e *record.Event, a *record.Attempt) error
	// Collect makes the reader keep the answer text of the replies to come, for the
	// next turn of a session. Answer is that of the first choice so far: the text
	// that TextBytes counts as answer, without reasoning, refusals and tool calls. It
	// ends at 16 MB, and is valid until the next call of any other method. ToolCalls
	// are those of the first choice so far, as the server wrote them.
	Collect()
	Answer() []byte
	ToolCalls() []record.ToolCall
}

// All lists the dialects, the default first.
func All() []Dialect { return []Dialect{Chat{}, Completions{}} }

// ByName finds a dialect by its name.
func ByName(name string) (Dialect, bool) {
	for _, d := range All() {
		if d.Name() == name {
			return d, true
		}
	}
	return nil, false
}
