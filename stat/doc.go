// Package stat holds the estimators of the benchmark: it turns samples into
// numbers and says when a sample cannot support one.
//
// Everything here is a pure function. There is no clock and no goroutine, and
// randomness comes only from a seed that the caller gives. Inputs are never
// modified. A function that needs ascending input names its parameter sorted
// and does not check it; a function that needs time order names it series.
// Samples must not hold NaN.
//
// # Refusals are values
//
// An estimator that cannot honestly answer does not guess and does not log. It
// answers NaN (a point), false (a rank or an interval) or fills
// [Interval.Why] with a [Refusal] that can be printed as it is.
//
// # Which interval
//
// Requests of one run are not independent: they shared a queue and a batch.
// [QuantileInterval] and [MeanInterval] therefore estimate the effective
// sample size from batches of the series and are the ones to report.
// [OrderStatCI] is exact for independent samples only and must be labelled so.
// [BootstrapQuantile] and [BootstrapMean] are a second opinion built on other
// assumptions. Their measured coverage is given at each of them.
package stat
