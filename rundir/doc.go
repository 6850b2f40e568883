// Package rundir is the run directory: it streams a run to disk while it
// happens, and reads it back.
//
// # Files
//
//   - run.json: what was run and what was decided ([Meta]). Written at the
//     start with complete=false and replaced, by rename, at the end.
//   - records.jsonl: one [record.Attempt] a line, in order of completion: the truth.
//   - events.seg: the events of each attempt, in the same order (see segment.go
//     for the format).
//   - requests.csv: request_id,prompt_tokens,completion_tokens,TTFT_ms,E2E_ms of
//     the measured, completed requests with n >= 1.
//   - clock.csv: stamp_ns,wall_ns,window_ns: what lay between the stamps and the
//     wall clock, which the kernel stamps with, once a second ([record.ClockOffset]).
//   - server/: raw scrapes, with their times ([Scrape]).
//   - report.json: the conclusions, which can be made again from the others.
//
// Everything is appended and flushed at least once a second, events before the
// records that they belong to, so that a run that dies leaves a directory that
// can be read and that says it is partial. Nothing is ever overwritten: [Create]
// makes a directory that did not exist.
//
// # Compatibility
//
// A reader of this package reads the directories of all earlier versions.
package rundir
