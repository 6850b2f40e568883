// Package sweep is the protocol of several runs: which conditions are run in which
// order and with which seeds ([Plan]), when a climb over the load has gone far
// enough ([Saturation]), what the runs say together ([Conclude]), and how the
// highest load that meets an objective is searched for ([Search]).
//
// It is pure. It starts nothing, reads no clock and draws only from seeds; whoever
// uses it makes the runs, stores what became of them, and asks what is next. A
// sweep that was cut off goes on from its stored cells.
//
// # Order
//
// The first repeat of each stage climbs: the levels of a series ascend, so that
// saturation is met once and not by every repeat. The others run all kept stages
// once a round, in an order drawn from the seed, so that drift of the server and
// its neighbours does not fall on one stage.
//
// # Seeds
//
// All stages of one round have the same seed: common random numbers make their
// differences smaller than the noise of the draws. Rounds differ.
package sweep
