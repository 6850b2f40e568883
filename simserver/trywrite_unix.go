//go:build unix

package simserver

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// tryWriter makes one write call on a socket that never waits.
type tryWriter struct {
	raw  syscall.RawConn
	call func(fd uintptr) bool
	buf  []byte
	n    int
	err  error
}

// newTryWriter returns nil for a connection without a file descriptor.
func newTryWriter(nc net.Conn) *tryWriter {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	w := &tryWriter{raw: raw}
	w.call = func(fd uintptr) bool { // made once: a closure a call would allocate
		for {
			w.n, w.err = unix.Write(int(fd), w.buf)
			if w.err != unix.EINTR {
				return true // done, whatever came of it: do not wait for the socket
			}
		}
	}
	return w
}

// try writes what the socket takes at once; a full socket is n = 0 without error.
func (w *tryWriter) try(b []byte) (n int, err error) {
	w.buf = b
	err = w.raw.Write(w.call)
	w.buf = nil
	switch {
	case err != nil:
		return 0, err
	case w.err == unix.EAGAIN:
		return 0, nil
	case w.err != nil:
		return 0, w.err
	}
	return w.n, nil
}
