// Package scrape reads what a server says of itself: Prometheus expositions,
// windows between two of them, and a catalogue of what each metric means.
//
// # From bytes to numbers
//
// The caller fetches; this package never opens a socket. [Parse] turns a body
// into a [Scrape], [Between] puts two scrapes of one target side by side, and
// the [Window] answers for counters, histograms and gauges. A window is voided,
// with a reason, whenever its two ends do not describe the same process and the
// same series: see [Problem].
//
// # What a window may say
//
// The mean of a histogram over a window is exact: the delta of its sum over the
// delta of its count. A percentile is not known better than its bucket, so
// [HistogramDelta.Quantile] gives an interval, and a second one that the known
// sum of all samples tightens. Nothing is interpolated.
//
// # What a metric means
//
// [Catalogue] is data: for each engine and range of releases it says what one
// sample of a metric is, when it is taken and what is known to be wrong with
// it. [Reading] is a number with that entry beside it and with the rules of
// MEASUREMENT.md section 6 applied.
//
// Numbers of this package are the server's. They are never joined with rows of
// single requests, which the client saw.
package scrape
