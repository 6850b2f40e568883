package calibrate

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/assay-bench/assay/internal/metronome"
)

// Bare is the least that a client can do: one locked thread, one epoll, one
// recvmsg with the kernel's stamp and the queue length for what is readable. It
// knows from counting bytes which events it has, and parses nothing.
func Bare(ctx context.Context, s *Session) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	b, err := newBare(s)
	if err != nil {
		return err
	}
	defer b.close()
	for slot := range s.Load.Streams {
		if err := b.open(slot); err != nil {
			return fmt.Errorf("stream %d: %w", slot, err)
		}
		// As the replies come in, so that the server's queue does not overflow.
		if slot%64 == 63 {
			if err := b.poll(0); err != nil {
				return err
			}
		}
	}
	for b.left > 0 {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := b.poll(100); err != nil {
			return err
		}
	}
	return nil
}

type bare struct {
	s       *Session
	addr    unix.Sockaddr
	family  int
	epoll   int
	streams []bareStream
	left    int // streams that have replies to come
	ready   []unix.EpollEvent

	preamble, event, end int // sizes

	buf    [16 << 10]byte
	ctl    [128]byte
	iov    unix.Iovec
	msg    unix.Msghdr
	offset int64 // wall ns - stamp
	fresh  int64 // stamp until which the offset is used
}

type bareStream struct {
	fd, nth, bytes int32
}

func newBare(s *Session) (*bare, error) {
	if s.TLS {
		return nil, errors.New("the bare loop speaks no TLS")
	}
	a, err := net.ResolveTCPAddr("tcp", s.Addr)
	if err != nil {
		return nil, err
	}
	b := &bare{
		s: s, streams: make([]bareStream, s.Load.Streams), left: s.Load.Streams, ready: make([]unix.EpollEvent, 256),
		preamble: len(metronome.Preamble()), event: len(metronome.Event(s.Load.Size)), end: len(metronome.End(s.Load.Events)),
	}
	b.family, b.addr = unix.AF_INET6, &unix.SockaddrInet6{Port: a.Port, Addr: a.AddrPort().Addr().As16()}
	if ip4 := a.IP.To4(); ip4 != nil {
		b.family, b.addr = unix.AF_INET, &unix.SockaddrInet4{Port: a.Port, Addr: [4]byte(ip4)}
	}
	b.iov.Base = &b.buf[0]
	b.iov.SetLen(len(b.buf))
	b.msg.Iov, b.msg.Iovlen = &b.iov, 1
	if b.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	return b, nil
}

func (b *bare) close() {
	for i := range b.streams {
		if fd := int(b.streams[i].fd); fd > 0 {
			_ = unix.Close(fd)
		}
	}
	_ = unix.Close(b.epoll)
}

// open connects a stream and sends its first request.
func (b *bare) open(slot int) error {
	fd, err := unix.Socket(b.family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	b.streams[slot].fd = int32(fd)
	if err := unix.Connect(fd, b.addr); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	const flags = unix.SOF_TIMESTAMPING_RX_SOFTWARE | unix.SOF_TIMESTAMPING_SOFTWARE
	err = errors.Join(
		unix.SetNonblock(fd, true),
		unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPING, flags),
		unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_INQ, 1),
		unix.EpollCtl(b.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(slot)}),
	)
	if err != nil {
		return fmt.Errorf("preparing a socket: %w", err)
	}
	return b.request(slot)
}

func (b *bare) request(slot int) error {
	st := &b.streams[slot]
	text := "POST /v1/chat/completions?" + b.s.Query(slot, int(st.nth)) + " HTTP/1.1\r\nHost: " + b.s.Addr + "\r\nContent-Length: 0\r\n\r\n"
	b.s.Sent(slot, int(st.nth), b.s.Clock.Now())
	if n, err := unix.Write(int(st.fd), []byte(text)); err != nil || n < len(text) {
		return fmt.Errorf("sending a request: %w", err)
	}
	return nil
}

// poll reads what is readable, after waiting for it at most so long.
func (b *bare) poll(ms int) error {
	n, err := unix.EpollWait(b.epoll, b.ready, ms)
	if err != nil && !errors.Is(err, unix.EINTR) {
		return fmt.Errorf("epoll: %w", err)
	}
	for _, e := range b.ready[:max(n, 0)] {
		if err := b.read(int(e.Fd)); err != nil {
			return fmt.Errorf("stream %d: %w", e.Fd, err)
		}
	}
	return nil
}

func (b *bare) read(slot int) error {
	st := &b.streams[slot]
	b.msg.Control = &b.ctl[0]
	b.msg.SetControllen(len(b.ctl))
	n, _, errno := syscall.Syscall(unix.SYS_RECVMSG, uintptr(st.fd), uintptr(unsafe.Pointer(&b.msg)), unix.MSG_DONTWAIT)
	now := b.s.Clock.Now()
	switch {
	case errno == unix.EAGAIN || errno == unix.EINTR:
		return nil
	case errno != 0:
		return errno
	case n == 0:
		return errors.New("the server closed the connection")
	}
	at, queued := b.control(now)
	return b.count(slot, int32(n), at, now, queued)
}

// count finds the events that n more bytes complete.
func (b *bare) count(slot int, n int32, at, now int64, queued bool) error {
	st := &b.streams[slot]
	had := b.complete(st.bytes)
	if st.bytes < int32(b.preamble) && st.bytes+n >= int32(b.preamble) && st.nth == 0 {
		b.s.Ready()
	}
	st.bytes += n
	have := b.complete(st.bytes)
	for range have - had {
		b.s.Event(slot, int(st.nth), at, now, queued || have-had > 1)
	}
	if int(st.bytes) < b.preamble+b.s.Load.Events*b.event+b.end {
		return nil
	}
	st.bytes = 0
	if st.nth++; int(st.nth) == b.s.Load.Replies {
		b.left--
		return nil
	}
	return b.request(slot)
}

// complete is how many events so many bytes hold.
func (b *bare) complete(bytes int32) int {
	return min(max(0, (int(bytes)-b.preamble)/b.event), b.s.Load.Events)
}

// control takes the kernel's stamp and whether more is queued.
func (b *bare) control(now int64) (at int64, queued bool) {
	at = now
	for c := b.ctl[:min(int(b.msg.Controllen), len(b.ctl))]; len(c) >= unix.SizeofCmsghdr; {
		size := int(binary.NativeEndian.Uint64(c))
		level, kind := binary.NativeEndian.Uint32(c[8:]), binary.NativeEndian.Uint32(c[12:])
		if size < unix.SizeofCmsghdr || size > len(c) {
			break
		}
		data := c[unix.SizeofCmsghdr:size]
		switch {
		case level == unix.SOL_SOCKET && kind == unix.SO_TIMESTAMPING && len(data) >= 16:
			sec, nsec := binary.NativeEndian.Uint64(data), binary.NativeEndian.Uint64(data[8:])
			if sec != 0 {
				at = int64(sec)*1e9 + int64(nsec) - b.wall(now)
			}
		case level == unix.IPPROTO_TCP && kind == unix.TCP_CM_INQ && len(data) >= 4:
			queued = int32(binary.NativeEndian.Uint32(data)) > 1
		}
		c = c[min((size+7)&^7, len(c)):]
	}
	return at, queued
}

// wall is the offset of the wall clock, estimated anew every second.
func (b *bare) wall(now int64) int64 {
	if now > b.fresh {
		o := b.s.Clock.Offset()
		b.offset, b.fresh = o.Wall.UnixNano()-o.Stamp, now+1e9
	}
	return b.offset
}

// NullSyscall is what the cheapest system call costs here, the best of a few
// tries.
func NullSyscall(now func() int64) int64 {
	const calls = 2000
	best := int64(1<<63 - 1)
	for range 20 {
		begin := now()
		for range calls {
			_, _, _ = syscall.RawSyscall(unix.SYS_GETPPID, 0, 0, 0)
		}
		best = min(best, (now()-begin)/calls)
	}
	return best
}
