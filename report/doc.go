// Package report turns results into views for people and programs: terminal
// text, Markdown and JSON.
//
// Nothing is measured or judged here. Every view is made from [result.Run],
// [result.Stage] or [metric.Trace] alone, so that a stored run prints the same
// again; what a number means is said by MEASUREMENT.md and repeated beside it.
//
// [Terminal] and [Markdown] print a run, [Table] the analysis of a five-column
// file, [Trace] that of one request's token times, and [JSON] and [WriteJSON] the
// same for programs. What is said is decided once, in a sheet of blocks; how it
// looks is the business of the two renderers. Whatever a server sent is escaped in all of them: a reply cannot
// steer a terminal.
package report
