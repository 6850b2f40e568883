// Package workload plans what is asked of a server: how many requests in what
// rhythm, how long their prompts and outputs, and what their prompts say.
//
// A [Spec] is what the user writes. A [Plan] draws from it, by a seed, the
// lengths, arrivals and think times; the same seed gives the same plan on every
// machine, and each of these has a random stream of its own, so that a change to
// one leaves the others as they were. A [Content] fills planned requests with
// prompts of the planned lengths. It has no tokenizer: it asks the server, once,
// before the run ([Calibrate]).
//
// With [Sessions] a plan gives conversations ([Plan.NextSession]); [Conversations]
// are these while they happen, and make each later turn from the reply before it.
//
// A [Sample] of a plan or of a trace has a [Profile], and [Fits]: the simple forms
// nearest to it.
//
// # Prompts that no cache knows
//
// A prompt begins with a code of its index under the run's nonce. Within a run
// no two codes are equal; between runs they agree by chance alone. So no prompt
// shares its first block of 16 tokens with another, and a prefix cache cannot
// serve what it should compute. What a chat template puts before the text is
// shared by all chats and beyond our reach; prompts too short for the code
// (12 tokens) may repeat. With Reuse the nonce is left out: a second run sends
// the prompts of the first.
package workload
