// Package calibrate finds how far this client's stamps are from the truth, and
// how much load it takes on this machine before they are too far.
//
// A [Session] opens streams to a truth server (package metronome, in another
// process), starts them all at once, and compares what a client stamped with
// what the server logged, event by event: both are on CLOCK_MONOTONIC. The
// client is a [Drive]: [Assay] is package wire as a run uses it, [Bare] an epoll
// loop that does nothing but read, the bound that the machine sets.
//
// # The errors
//
//   - Stamp: event stamp - the server's write begun. Everything that lies
//     between the two is in it: the server's own way through the kernel, too.
//   - TTFT: (first event - sent), as the client has it, minus (write begun -
//     request received by the kernel), as the server has it.
//   - ITL: the gap between two events as stamped minus the gap as written,
//     without its sign.
//
// The server's slip, write begun - planned, is in none of them.
package calibrate
