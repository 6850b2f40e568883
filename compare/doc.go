// Package compare says whether two configurations may be compared, and whether
// a difference between them was shown.
//
// The unit is the run: a run is a separate process with its own connections and
// its own start, and requests within it depend on each other, so that a test over
// pooled requests would find differences between any two runs. Of each run one
// number a metric is taken (MEASUREMENT.md section 4: the same statistic of each
// run, compared with the run as the unit), and the numbers of both sides are
// compared by an exact rank test (Mann and Whitney 1947), or, for paired runs of
// the same seeds, by random signs (Fisher 1935). Holm's method keeps the chance of
// any false alarm in the whole family of hypotheses below alpha.
//
// What a comparison may not do is told apart from what it does not show:
// [Objections] are reasons not to compare at all (another workload, another
// window, an invalid client, an unstable stage), and "not enough runs" says that
// no difference however large could have been shown.
package compare
