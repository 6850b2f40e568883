package record

import "time"

// UnknownTokens is the token delta of an event whose server does not tell how
// many tokens it carries. It is never replaced by a guess.
const UnknownTokens = -1

// EventFlags says what an event carries. One event may carry several things:
// llama.cpp puts the finish reason, the usage and an empty text in one.
type EventFlags uint16

const (
	// FlagText marks generated text of any kind that is not empty: answer,
	// reasoning, refusal or tool-call arguments.
	FlagText EventFlags = 1 << iota
	// FlagAnswer marks answer text that is not empty.
	FlagAnswer
	// FlagReasoning marks reasoning text that is not empty.
	FlagReasoning
	// FlagRefusal marks refusal text that is not empty.
	FlagRefusal
	// FlagToolCall marks tool-call text (name or arguments) that is not empty.
	FlagToolCall
	// FlagRole marks an event that only names the role.
	FlagRole
	// FlagFinish marks an event with a finish reason.
	FlagFinish
	// FlagUsage marks an event with the final usage of the request. Usage that
	// rides on every chunk (continuous usage) gives deltas and is not marked.
	FlagUsage
	// FlagError marks an error object inside the stream.
	FlagError
	// FlagDone marks the dialect's terminal marker, such as [DONE].
	FlagDone
	// FlagOther marks an event that the dialect does not know; it is never text.
	FlagOther
	// FlagCoalesced marks an event whose bytes shared a read with those of
	// another event, or came with more bytes queued behind them: its stamp is an
	// upper bound, and no gap may be published from it alone.
	FlagCoalesced
	// FlagKernel marks an event whose At is the kernel's receive stamp.
	FlagKernel
)

// Has reports whether any of the given flags is set.
func (f EventFlags) Has(g EventFlags) bool { return f&g != 0 }

// Event is one streamed frame as the client saw it.
type Event struct {
	// At is the stamp behind every metric: the kernel's receive time of the
	// event's last byte where it is known (FlagKernel), else Read.
	At Stamp
	// Read is when the read that completed the event returned, in user space.
	// Read - At is the client's own lag.
	Read Stamp
	// Tokens is the number of new tokens that the server said the event
	// carries, or UnknownTokens.
	Tokens int32
	// TextBytes and AnswerBytes count the UTF-8 bytes of generated text of any
	// kind, and of answer text.
	TextBytes, AnswerBytes int32
	// WireBytes is the size of the event's payload on the wire.
	WireBytes int32
	// Flags says what the event carries.
	Flags EventFlags
}

// ReadLag is how much later than the kernel the client read the event; 0 where
// there is no kernel stamp.
func (e Event) ReadLag() time.Duration { return time.Duration(e.Read - e.At) }
