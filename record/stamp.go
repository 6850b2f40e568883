package record

import "time"

// Stamp is a moment: nanoseconds on the monotonic clock since the run's epoch.
// Zero means that the moment did not happen or was not seen.
type Stamp int64

// Known reports whether the moment was seen.
func (s Stamp) Known() bool { return s != 0 }

// Since returns s - earlier. Both must be known; ok is false otherwise.
func (s Stamp) Since(earlier Stamp) (d time.Duration, ok bool) {
	if s == 0 || earlier == 0 {
		return 0, false
	}
	return time.Duration(s - earlier), true
}

// Add returns the moment d later.
func (s Stamp) Add(d time.Duration) Stamp { return s + Stamp(d) }

// Window is a declared half-open interval [Start, End) of a run.
type Window struct {
	Start Stamp `json:"start_ns"`
	End   Stamp `json:"end_ns"`
}

// Contains reports whether s lies in the window.
func (w Window) Contains(s Stamp) bool { return s >= w.Start && s < w.End }

// Length of the window; 0 for one that is not closed yet.
func (w Window) Length() time.Duration {
	if w.End <= w.Start {
		return 0
	}
	return time.Duration(w.End - w.Start)
}
