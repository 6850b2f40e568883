package clock

import "time"

// Offset relates a clock to the wall clock at one moment. Two of them, taken at
// the start and at the end of a run, show how far the wall clock moved against
// the monotonic one.
type Offset struct {
	// Stamp and Wall are the same moment on both clocks, to within Window.
	Stamp int64
	Wall  time.Time
	// Window bounds the error: the two were read inside it.
	Window time.Duration
}

// Offset reads both clocks in turn 64 times and returns the narrowest pair. It
// takes some 20 us.
func (c *Clock) Offset() Offset {
	best := Offset{Window: time.Duration(Never)}
	for range 64 {
		before := c.Now()
		wall := time.Now().Round(0) // Round strips the monotonic reading
		after := c.Now()
		if d := time.Duration(after - before); d < best.Window {
			best = Offset{Stamp: before + int64(d)/2, Wall: wall, Window: d}
		}
	}
	return best
}
