// Package metronome is a server that writes streams at planned times and logs
// when it really did: the truth that a client's stamps are held against.
//
// It models no engine. A request says how many events it wants, when the first
// is due and how far apart they are; one locked thread writes them, one write an
// event, and notes when each write began and how long it took. Its replies are
// chat completion streams as OpenAI's clients know them, so that any client can
// be driven against it.
//
// # Request
//
// POST to any path with the query parameters of [Load]. All times are
// CLOCK_MONOTONIC nanoseconds, which all processes of a machine share. Before
// the first event comes the preamble: head and role chunk, in one write, as soon
// as the request was read. After the last one comes the end: finish reason,
// usage and [DONE], again in one write, one interval later.
//
// # Truth
//
// POST /take hands the log of the streams that ended over and forgets it; see
// [ReadLog]. Slip (write begun - planned) is the server's error, and what a
// client stamps later than a write began is the client's.
//
// It shares no parsing, framing or timing code with packages wire and dialect,
// but for the clock.
package metronome
