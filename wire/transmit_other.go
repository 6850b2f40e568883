//go:build !(linux && (amd64 || arm64))

package wire

import "net"

// transmitStamps says whether this system has them.
const transmitStamps = false

// transmitter has no transmit stamps on this system.
type transmitter struct{}

func newTransmitter(net.Conn) *transmitter { return nil }

// write is never called: there is no transmitter.
func (*transmitter) write([]byte) (int, error) { return 0, nil }

// collect is never called either.
func (*transmitter) collect() (int64, bool) { return 0, false }
