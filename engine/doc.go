// Package engine simulates an LLM serving engine in the manner of vLLM, as a
// pure step function: scheduler, paged KV cache and step time, without a
// clock, a goroutine, a socket or a sleep.
//
// # Driving it
//
// The caller owns time. It Adds requests as they arrive and calls Step again
// and again; a Step says when it ends, and what it yielded:
//
//	e, err := engine.New(engine.DefaultConfig())
//	err = e.Add(now, &engine.Request{PromptTokens: 512, OutputTokens: 128})
//	for e.HasWork() {
//		s := e.Step(now)
//		now = s.End // a virtual driver jumps, a wall-clock driver sleeps
//		// s.Outputs became visible at s.End
//	}
//
// All times are integer nanoseconds on the caller's axis. The outputs of a
// step take effect at Step.End. A request that arrives between Start and End
// is Added with its own time and joins the next step. Given the same
// configuration, seed and calls, the results are bit-equal (on one processor
// architecture; others may fuse floating-point operations): that is what makes
// a wall-clock run and its virtual twin comparable.
//
// # What is modelled
//
// One step serves decodes and prefill chunks together, under a token budget
// and a limit of running requests: running requests first, in the order of
// their admission, then waiting ones. KV memory is in blocks, taken step by
// step. When none is free, the last running request is preempted: it loses
// its blocks, goes to the head of the queue and recomputes. Its freed full
// blocks stay in the prefix cache until something else needs the memory.
// The first token comes out of the step that completes the prefill.
//
// Step time is a roofline blend of compute and memory traffic plus attention,
// all-reduce and fixed overheads, with constants that hold for all GPUs and
// models of the tables (see Constants).
//
// Replicas of a dense model are engines of their own. Replicas that share the
// experts of a mixture run in lock step: see Group.
//
// Not modelled: the frontend (HTTP, tokenisation, detokenisation), pipeline
// parallelism, LoRA, multimodal encoders.
package engine
