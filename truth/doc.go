// Package truth checks a measurement against the truth log of the engine that
// was measured: the same requests, once as the client saw them and once as the
// server wrote them.
//
// [Read] takes the log, after the run; [Compare] is pure over it and the records.
// What the two disagree by is the way between them (network, kernel, parsing)
// plus the error of the client: over loopback it must be microseconds.
package truth
