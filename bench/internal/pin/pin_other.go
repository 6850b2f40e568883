//go:build !linux

package pin

// Possible reports whether there are two cores to give.
func Possible() bool { return false }

// StartOn calls start.
func StartOn(_ int, start func() error) error { return start() }

// Self does nothing here.
func Self(int) error { return nil }
