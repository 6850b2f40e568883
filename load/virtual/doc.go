// Package virtual applies a load to the simulated engine in virtual time: the
// same scheduler as a real run, the same records, and minutes of load in a
// second.
//
// A [Runner] is a discrete-event loop on one goroutine. Its clock jumps from one
// moment at which anything happens to the next, so a run depends on its
// configuration and seeds alone: two runs are identical to the bit, on any
// machine.
//
// # What the client sees
//
// The path between client and engine takes no time and loses nothing: a request
// is sent when it is dispatched, the outputs of an engine step are read at the
// step's end. A reply is that of a streaming completions endpoint whose server
// tells the token counts: one event for each output of the engine, the last with
// the finish reason, then one with the usage, then the terminal marker. Lateness
// and read lag are zero.
//
// A request that is sent because another one ended with a step arrives just
// after the engine has formed its next batch, as it would over any network, and
// waits for the batch after that.
//
// A request that the engine refuses (longer than the model allows) is answered
// with status 400.
package virtual
