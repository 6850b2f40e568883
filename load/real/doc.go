// Package real runs a load in real time: it drives load/sched by the wall clock
// and sends every request over package wire to one target.
//
// [Target] is the endpoint as the run talks to it: it finds the model, probes
// what the server can do, and sends single requests. [Runner] applies a load to
// it and tells an observer of every attempt.
package real
