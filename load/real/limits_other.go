//go:build !linux

package real

// ReadLimits knows of no limits on this system.
func ReadLimits() Limits { return Limits{} }
