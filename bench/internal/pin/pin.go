// Package pin gives the two sides of a measurement a core each, so that neither
// takes the other's time.
package pin

// The cores of the two sides.
const (
	ServerCore = 0
	ClientCore = 1
)
