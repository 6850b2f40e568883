//go:build !linux

package environ

// kernel has nothing to tell on this system.
func kernel() (release string, sync *ClockSync) { return "", nil }
