//go:build !linux || !(amd64 || arm64)

package metronome

import (
	"net"

	"github.com/assay-bench/assay/internal/clock"
)

// stampedReader reads a connection and knows when the last read returned.
type stampedReader struct {
	net.Conn
	clock *clock.Clock
	at    int64
}

func newStampedReader(c net.Conn, clk *clock.Clock) *stampedReader {
	return &stampedReader{Conn: c, clock: clk}
}

// stamp is when the last read returned.
func (r *stampedReader) stamp() int64 { return r.at }

// Read implements io.Reader.
func (r *stampedReader) Read(p []byte) (int, error) {
	n, err := r.Conn.Read(p)
	r.at = r.clock.Now()
	return n, err
}
