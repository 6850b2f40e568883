//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package wire

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// dead reports whether the peer has closed an unused connection, without
// taking anything from it. Queued bytes make a plain connection unfit as well
// (an unasked reply, such as 408), but not one with TLS, where session tickets
// wait until the first read.
func (cn *conn) dead() bool {
	sc, ok := cn.raw.Conn.(syscall.Conn)
	if !ok {
		return false
	}
	rc, err := sc.SyscallConn()
	if err != nil {
		return true
	}
	dead := false
	err = rc.Control(func(fd uintptr) { dead = peerGone(int(fd), cn.raw.tls) })
	return dead || err != nil
}

func peerGone(fd int, tls bool) bool {
	var b [1]byte
	n, _, err := unix.Recvfrom(fd, b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	if err != nil {
		return err != unix.EAGAIN && err != unix.EINTR
	}
	return n == 0 || !tls
}
