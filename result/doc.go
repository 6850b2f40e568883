// Package result holds what a run concludes: stages with their windows,
// summaries, verdicts and warnings, as plain values that travel to every report.
//
// Durations in it are float64 milliseconds in fields that end in _ms, since
// that is what people read and compare; stamps stay nanoseconds. A number that
// does not exist is a nil pointer (null in JSON), never 0.
package result

// SchemaVersion of report.json and of the sections of run.json that this
// package defines.
const SchemaVersion = 1
