// Package replay puts recorded requests of a real server through the simulated
// engine and compares the two: the validation of a simulation.
//
// [Read] takes JSON lines or CSV with one request a row, [Run] serves them in
// virtual time at their recorded arrivals, and says how far the simulated
// figures are from the recorded ones:
//
//	rows, err := replay.Read(f, "requests.jsonl", nil)
//	v, err := replay.Run(engine.DefaultConfig(), rows)
//
// The boundary of all figures is the engine: from when it had queued a request
// to when its tokens left the engine. No frontend and no network is in them.
package replay
