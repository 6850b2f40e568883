// Package record holds the nouns of a measurement (request, attempt, event,
// outcome, ledger) and their codec; it does no maths.
//
// # Stamps
//
// Every time is a [Stamp]: nanoseconds on the monotonic clock since the run's
// epoch. The epoch lies before the first stamp of a run, so the zero Stamp
// means "did not happen" and never a moment.
//
// # What an attempt knows
//
// An [Attempt] is one try at one planned [Request]. While its reply streams
// in, [Attempt.Observe] folds each [Event] into the stamps that MEASUREMENT.md
// section 1 names. Events themselves are kept apart (they are many), so that
// an Attempt stays small and every number can be recomputed from both.
//
// # Compatibility
//
// [Version] is written with every record. A reader of this package reads all
// older versions; unknown fields of newer ones are ignored.
package record

// Version of the record format that this package writes.
const Version = 1
