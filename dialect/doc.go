// Package dialect speaks the wire protocols of serving engines: a planned
// request to bytes, event bytes to text sizes, token deltas, usage, finish and
// error. It has no sockets and no clock.
//
// # Reading a stream
//
// A [Reader] is given one frame at a time, in order. It fills the content
// fields of a [record.Event] and those fields of a [record.Attempt] that only
// the content tells (usage, finish reason, model, error). It never stamps and
// never calls [record.Attempt.Observe]: the caller does, afterwards.
//
// # Token deltas
//
// The number of tokens in an event is taken from what the server says, in this
// order: the difference of cumulative completion_tokens (continuous usage) of
// the same choice; the length of token_ids; the length of the logprobs list.
// Where it says none of these the delta is [record.UnknownTokens]. It is never
// guessed from text, and never assumed to be 1. Events that cannot carry a
// token (the first role-only chunk of a choice, usage and error frames, the
// terminal marker) have a delta of 0.
//
// Continuous usage is read as vLLM, SGLang and TensorRT-LLM send it: cumulative
// for the choice of its chunk. A server that sums it over several choices would
// have its deltas counted too high; with one choice there is no difference.
// Text that comes while completion_tokens stays 0 shows a server that counts at
// the end only: unknown.
//
// # Usage
//
// Attempt.Usage is that of the frame without choices which ends a stream. The
// last chunk with a finish reason sets it too, and it stands if no such frame
// follows: llama.cpp's completions have it there, and so has continuous usage
// when a stream breaks off. Usage on any earlier chunk gives deltas only.
//
// # Speed
//
// A frame is read by a single-pass scanner that allocates nothing. Whatever it
// does not expect (an escaped or repeated key, a value of another type, text
// that is not UTF-8, invalid JSON, an error object) is read again by a full
// decode with encoding/json. Both give the same answer; they are fuzzed to agree.
package dialect
