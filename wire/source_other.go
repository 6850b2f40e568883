//go:build !linux

package wire

// shareLocalPorts has nothing to set on this system.
func shareLocalPorts(int) error { return nil }
