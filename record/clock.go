package record

import "time"

// ClockOffset relates stamps to the wall clock at one moment. The kernel stamps
// with the wall clock; what lies between two of these shows whether that was set
// meanwhile. Both clocks are slewed alike, so that only a step shows.
type ClockOffset struct {
	// At and Wall, in nanoseconds since 1970, are the same moment to within half of
	// Window, in which the two clocks were read.
	At     Stamp
	Wall   int64
	Window time.Duration
}
