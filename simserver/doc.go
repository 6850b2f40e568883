// Package simserver puts the simulated engine behind HTTP and /metrics in wall-clock time, with faults on request and a log of the truth.
//
// It is the default target of Assay and the oracle that the measuring side is
// checked against, so it shares no parsing, framing or timing code with the
// packages that measure: it has its own HTTP loop, its own encoder and its own
// writer.
//
// # Time
//
// One goroutine on its own locked thread runs each engine. It plans a step,
// encodes every event of the step while the step "runs", sleeps to the planned
// end and then makes one write call an event. Steps are anchored to the plan: a
// step that is written late does not move the next one, so that errors do not
// add up. The plan is a function of the stamps of the arrivals alone; how late
// the writes were ("slip") is logged apart.
//
// A request joins the first step that starts at or after its queued stamp. An
// idle engine starts a step at that stamp.
//
// If the machine is too busy, the plan runs ahead of the writes and the loop
// catches up as fast as it can, as a server of too little CPU does. [Config.TruthLog]
// has the stamps of plan and write side by side.
//
// A step's events are encoded while it runs, and each is one write call that
// does not wait. What a full socket does not take goes to a goroutine of its
// connection, so that a client that does not read holds up nobody.
//
// # What is like vLLM, and what is not
//
// Stream shapes, error bodies, keep-alive of 5 s, names, labels, buckets and
// semantics of /metrics follow vLLM 0.33 with one API process: a first event
// only when there is a token, usage and [DONE] as there, 0 observed for the time
// per output token of one-token answers, no sample for clients that leave. The
// frontend costs what this server costs, some 50 us a request, not what Python
// costs. Sampling fields are checked and have no effect but for stop strings and
// stop tokens, which end the synthetic text where they occur in it;
// log-probabilities are made up, and the token of the answer is always the
// likeliest. Tool calls are accepted and never appear; echo and best_of are refused.
// The length of an answer is max_tokens with ignore_eos, else a lognormal draw
// that depends on prompt, seed and choice alone. Faults come by [FaultHeader] or
// [Config.Fault].
//
// # Words for tokens
//
// The tokenizer is deterministic and has no data files. Text is cut into runs of
// letters, runs of digits and single other characters; white space in front
// belongs to what follows and has no token of its own. A run of letters is one
// token for every started [WordLetters] letters, a run of digits one for every
// started three. Token ids stand for words of one to three syllables ("ba",
// "cemi", "datovu"): such a word has its own id, every other piece gets one of
// the ids by hash. So token -> text -> token is exact, and counts add up when
// texts are joined by a space; text -> token -> text keeps the count only.
//
// The chat template costs one token to begin, five a message (header of three,
// line break, end of turn) and four for the generation prompt.
package simserver
