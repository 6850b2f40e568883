//go:build linux && (amd64 || arm64)

package metronome

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-bench/assay/internal/clock"
)

// stampedReader reads a connection and knows when the kernel received the last
// bytes. It is not fast; requests are few.
type stampedReader struct {
	net.Conn
	clock *clock.Clock
	raw   syscall.RawConn
	at    int64
}

func newStampedReader(c net.Conn, clk *clock.Clock) *stampedReader {
	r := &stampedReader{Conn: c, clock: clk}
	sc, ok := c.(syscall.Conn)
	if !ok {
		return r
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return r
	}
	err = raw.Control(func(fd uintptr) {
		if unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1) == nil {
			r.raw = raw
		}
	})
	if err != nil {
		r.raw = nil
	}
	return r
}

// stamp is when the bytes of the last read were received.
func (r *stampedReader) stamp() int64 { return r.at }

// Read implements io.Reader.
func (r *stampedReader) Read(p []byte) (int, error) {
	if r.raw == nil {
		n, err := r.Conn.Read(p)
		r.at = r.clock.Now()
		return n, err
	}
	var n, control int
	var oob [64]byte
	var rerr error
	err := r.raw.Read(func(fd uintptr) bool {
		n, control, _, _, rerr = unix.Recvmsg(int(fd), p, oob[:], unix.MSG_DONTWAIT)
		return !errors.Is(rerr, unix.EAGAIN) && !errors.Is(rerr, unix.EINTR)
	})
	r.at = r.clock.Now()
	switch {
	case err != nil:
		return 0, err
	case rerr != nil:
		return 0, rerr
	case n == 0 && len(p) > 0:
		return 0, io.EOF
	}
	if wall, ok := stampOf(oob[:control]); ok {
		// The offset now, not that of the start: the wall clock is adjusted.
		o := r.clock.Offset()
		r.at = min(r.at, o.Stamp+int64(wall.Sub(o.Wall)))
	}
	return n, nil
}

// stampOf finds the receive time in the control messages.
func stampOf(oob []byte) (time.Time, bool) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return time.Time{}, false
	}
	for _, m := range messages {
		if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SO_TIMESTAMPNS && len(m.Data) >= 16 {
			sec, nsec := binary.NativeEndian.Uint64(m.Data), binary.NativeEndian.Uint64(m.Data[8:])
			return time.Unix(int64(sec), int64(nsec)), sec != 0
		}
	}
	return time.Time{}, false
}
