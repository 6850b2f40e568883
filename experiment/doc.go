// Package experiment turns a load test into a measurement: phases of a stage
// (warm-up, measured window, cooldown), and the verdicts on it.
//
// A [Stage] watches a run through the [Observer] methods that a runner calls;
// it holds no clock, so that the real and the virtual runner are judged by the
// same code. Nothing is concluded while load runs but the end of the warm-up:
// [Conclude] reads the finished records again, from wherever they are stored,
// so that a report made later is made by the same code from the same data.
package experiment
