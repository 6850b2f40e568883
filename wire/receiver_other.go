//go:build !(linux && (amd64 || arm64))

package wire

import (
	"net"

	"github.com/assay-bench/assay/internal/clock"
)

// receiver has no kernel stamps on this system.
type receiver struct{}

func newReceiver(net.Conn, *wallOffset) *receiver { return nil }

// read is never called: there is no receiver.
func (*receiver) read([]byte, *clock.Clock) (int, ReadStamp, error) { return 0, ReadStamp{}, nil }

// stream is never called either.
func (*receiver) stream(*stampConn, func([]byte, ReadStamp) bool) (bool, error) { return false, nil }
