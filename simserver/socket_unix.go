//go:build unix && !linux

package simserver

import "golang.org/x/sys/unix"

// writeNow makes one call that writes what the socket takes at once; a full
// socket is n = 0 without an error. The caller sees to it that the descriptor
// stays open. Sockets of the net package never block.
func writeNow(fd int, b []byte) (n int, err error) {
	for {
		n, err := unix.Write(fd, b)
		switch err {
		case nil:
			return n, nil
		case unix.EINTR:
		case unix.EAGAIN:
			return 0, nil
		default:
			return 0, err
		}
	}
}
