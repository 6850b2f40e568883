// Package sched decides when which request is sent: pure scheduling, as steps
// of a state machine.
//
// A [Scheduler] has no goroutine, no lock and no clock. Its runner tells it what
// happened and what time it is ([Scheduler.Start], [Scheduler.Wake],
// [Scheduler.Ended], [Scheduler.Stop]); every step answers with the requests to
// be sent now. [Scheduler.NextWake] says until when nothing is due. The same
// scheduler so drives sockets and wall time, and the simulated engine in virtual
// time.
//
// # Closed loop
//
// Concurrency slots are busy from the dispatch of a request to its end. A slot
// that ends thinks, and is then due again: the request's scheduled time is when
// its slot became free plus the think time.
//
// # Open loop
//
// Arrival i is scheduled at the start plus the sum of the first i+1 gaps,
// whatever the server does. A wake that comes late, and a cap on the requests in
// flight, send an arrival late; they never move its scheduled time and never
// drop it, so that latency from schedule stays free of coordinated omission. The
// time for which the cap held arrivals back is counted: over it the loop was in
// truth closed.
//
// # Sessions
//
// With [Config.After] the requests of the source are first turns of sessions. A
// later turn is scheduled when the one before has ended plus its delay, and has no
// other bound: a session holds its slot from its first turn to its last. In a
// closed loop the slots are sessions; in an open one, then a partly open one
// (Schroeder, Wierman and Harchol-Balter 2006), the arrivals and the cap are of
// sessions. A turn that failed ends its session ([Scheduler.Abandoned]).
//
// The schedule of an open loop (times and requests) depends on its gaps and its
// source alone, not on the order in which replies end.
package sched
