//go:build amd64 || arm64

package wire

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// rawServer is a server on bare descriptors, which costs no Go memory a stream,
// so that the client's can be measured beside it. It answers every connection's
// first request with a head, when it is awaited.
type rawServer struct {
	t      testing.TB
	addr   string
	listen int
	fds    []int
}

func newRawServer(t testing.TB) *rawServer {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	s := &rawServer{t: t, listen: fd}
	t.Cleanup(func() {
		for _, fd := range append(s.fds, s.listen) {
			unix.Close(fd)
		}
	})
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(fd, 4096)); err != nil {
		t.Fatal(err)
	}
	sa, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	s.addr = fmt.Sprintf("127.0.0.1:%d", sa.(*unix.SockaddrInet4).Port)
	return s
}

// await takes n requests on new connections, and answers each with a head.
func (s *rawServer) await(n int) {
	var buf [4096]byte
	for range n {
		fd, _, err := unix.Accept4(s.listen, unix.SOCK_CLOEXEC)
		if err != nil {
			s.t.Fatal(err)
		}
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
			s.t.Fatal(err)
		}
		s.fds = append(s.fds, fd)
		if _, err := unix.Read(fd, buf[:]); err != nil {
			s.t.Fatal(err)
		}
		s.write(fd, []byte(sseHead))
	}
}

func (s *rawServer) write(fd int, b []byte) {
	if _, err := syscall.Write(fd, b); err != nil && err != syscall.EPIPE && err != syscall.ECONNRESET {
		s.t.Fatal(err)
	}
}

// all writes to every connection.
func (s *rawServer) all(text string) {
	b := []byte(text)
	for _, fd := range s.fds {
		s.write(fd, b)
	}
}
