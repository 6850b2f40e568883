package engine

import "errors"

// Reasons why Add refuses a request. They wrap into an error that has the
// numbers; test with errors.Is.
var (
	// ErrTooLong: prompt and output exceed MaxModelLen, which New has
	// limited to the KV capacity. Such a request could never finish.
	ErrTooLong = errors.New("request is too long")
	// ErrEmptyPrompt: there is no token to compute.
	ErrEmptyPrompt = errors.New("prompt has no tokens")
	// ErrNegative: a count is below zero.
	ErrNegative = errors.New("negative token count")
	// ErrInFlight: the request is already waiting or running.
	ErrInFlight = errors.New("request is already in the engine")
)

// Finish reasons, as an OpenAI-compatible server words them.
const (
	FinishLength = "length" // the limit on output tokens was reached
	FinishStop   = "stop"   // the model ended by a stop token, which is counted
)

// Request is one sequence to be served. The caller owns it and may read it at
// any time between calls; it must not change it while the engine has it.
type Request struct {
	// ID is the caller's; the engine does not look at it.
	ID uint64
	// PromptTokens is the length of the prompt, at least 1.
	PromptTokens int
	// OutputTokens is how many tokens the model will generate, a final stop
	// token included. 0 and 1 both finish with the step that completes the
	// prefill.
	OutputTokens int
	// Stop says that generation ends by a stop token rather than by a limit.
	// It decides the finish reason only.
	Stop bool
	// Priority orders requests under the priority policy; lower is served
	// first, as in vLLM. Ignored under first come, first served.
	Priority int
	// BlockHashes are chained prefix-cache hashes of the full blocks of the
	// prompt (Config.BlockSize tokens each): equal hash means equal content
	// from the start of the prompt on. It may be shorter than the prompt, and
	// it may go on into the output where the caller knows it (the next turn
	// of a conversation then hits it). Blocks without a hash are private: only
	// this request can hit them again, after a preemption.
	BlockHashes []uint64
	// Data is the caller's.
	Data any

	// Queued is when Add was called, ns.
	Queued int64
	// FirstScheduled is the start of the step that first admitted it, ns.
	// A preemption does not move it.
	FirstScheduled int64
	// FirstToken and LastToken are ends of steps, ns. A request without any
	// output token has both at the end of its prefill.
	FirstToken, LastToken int64
	// Generated counts output tokens so far.
	Generated int
	// CachedTokens counts prompt tokens that its first admission found in the
	// prefix cache.
	CachedTokens int
	// Preemptions counts how often it lost its KV memory.
	Preemptions int

	state    state
	serial   uint64  // unique in the engine, in order of Add
	computed int     // tokens whose KV is stored
	sched    int     // tokens scheduled in the current step
	drafts   int     // of these, draft tokens to verify
	blocks   []int32 // held; after a preemption those it once held
	cached   int     // leading blocks already entered into the cache

	prev, next *Request // waiting list
	heapIndex  int      // waiting heap
}

type state uint8

const (
	stateNew state = iota
	stateWaiting
	stateRunning
	stateDone
)

// tokens is the length of the sequence as known so far.
func (r *Request) tokens() int { return r.PromptTokens + r.Generated }

// decoding reports whether all that is left to compute is the newest token.
func (r *Request) decoding() bool {
	return r.Generated > 0 && r.tokens()-r.computed == 1
}

// urgentThan orders by priority, then arrival, then order of Add.
func (r *Request) urgentThan(o *Request) bool {
	if r.Priority != o.Priority {
		return r.Priority < o.Priority
	}
	if r.Queued != o.Queued {
		return r.Queued < o.Queued
	}
	return r.serial < o.serial
}
