//go:build linux && (amd64 || arm64)

package wire

import (
	"encoding/binary"
	"io"
	"net"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/assay-bench/assay/internal/clock"
	"github.com/assay-bench/assay/record"
)

// receiver reads a TCP socket by recvmsg, with the kernel's software receive
// stamp (SO_TIMESTAMPING, linux/Documentation/networking/timestamping.rst) and
// the number of bytes still queued (TCP_INQ). Of several segments that were
// queued before the read, the stamp is that of the last one. The kernel begins
// to stamp some milliseconds after the first socket of the machine has asked
// for it; events before that have the stamp of user space and say so.
type receiver struct {
	raw  syscall.RawConn
	wall *wallOffset

	// The read that is going on. The closure is made once, so that a read
	// allocates nothing.
	try   func(fd uintptr) bool
	msg   mmsghdr
	iov   unix.Iovec
	ctl   [128]byte
	n     int
	errno syscall.Errno
	inq   int32 // bytes queued behind it; -1: not told

	// The stream that is going on.
	each func(fd uintptr) bool
	conn *stampConn
	take func(p []byte, st ReadStamp) bool
	cut  syscall.Errno // how the connection ended, behind what is still queued
	more bool
	err  error
}

// mmsghdr is struct mmsghdr of recvmmsg(2).
type mmsghdr struct {
	unix.Msghdr
	length uint32
}

// newReceiver returns nil if the socket has no kernel stamps.
func newReceiver(c net.Conn, wall *wallOffset) *receiver {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	var serr error
	err = raw.Control(func(fd uintptr) { serr = askStamps(int(fd)) })
	if err != nil || serr != nil || !mayRecvmmsg() {
		return nil
	}
	r := &receiver{raw: raw, wall: wall}
	r.try, r.each = r.recvmsg, r.readable
	return r
}

// askStamps asks the kernel for receive stamps and queue lengths on a socket. If a
// single write asks for its transmit stamp, that comes without what was written.
func askStamps(fd int) error {
	const flags = unix.SOF_TIMESTAMPING_RX_SOFTWARE | unix.SOF_TIMESTAMPING_SOFTWARE | unix.SOF_TIMESTAMPING_OPT_TSONLY
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPING, flags); err != nil {
		return err
	}
	return unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_INQ, 1)
}

// recvmsg reports whether the read is over; if not, the caller waits.
func (r *receiver) recvmsg(fd uintptr) bool {
	for {
		r.msg.Control = &r.ctl[0]
		r.msg.SetControllen(len(r.ctl))
		n, _, errno := syscall.Syscall(unix.SYS_RECVMSG, fd, uintptr(unsafe.Pointer(&r.msg)), unix.MSG_DONTWAIT)
		switch errno {
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			return false
		}
		r.n, r.errno = int(n), errno
		return true
	}
}

// poll is recvmsg for a thread that reads nothing else: it does not tell the
// scheduler of the call, which never waits, and saves a tenth of a microsecond.
func (r *receiver) poll(fd int) bool {
	for {
		r.msg.Control = &r.ctl[0]
		r.msg.SetControllen(len(r.ctl))
		n, _, errno := syscall.RawSyscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&r.msg)), unix.MSG_DONTWAIT)
		switch errno {
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			return false
		}
		r.n, r.errno = int(n), errno
		return true
	}
}

// recvmmsg reads one message as poll does, but fails first if the connection has
// an error pending, such as a reset: that this call looks before it takes data
// is how it reports, by the manual page, what befell it between two messages.
// What is queued can be read after that, since the error is told once.
func (r *receiver) recvmmsg(fd uintptr) bool {
	for {
		r.msg.Control = &r.ctl[0]
		r.msg.SetControllen(len(r.ctl))
		_, _, errno := syscall.RawSyscall6(unix.SYS_RECVMMSG, fd, uintptr(unsafe.Pointer(&r.msg)), 1, unix.MSG_DONTWAIT, 0, 0)
		switch errno {
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			return false
		}
		r.n, r.errno = int(r.msg.length), errno
		return true
	}
}

// mayRecvmmsg reports whether the call gets as far as to look for its socket: a
// sandbox may know recvmsg alone.
func mayRecvmmsg() bool {
	_, _, errno := syscall.RawSyscall6(unix.SYS_RECVMMSG, ^uintptr(0), 0, 0, unix.MSG_DONTWAIT, 0, 0)
	return errno == unix.EBADF
}

// read is one raw read, as of net.Conn.
func (r *receiver) read(p []byte, clk *clock.Clock) (int, ReadStamp, error) {
	if len(p) == 0 {
		return 0, ReadStamp{}, nil
	}
	r.iov.Base = &p[0]
	r.iov.SetLen(len(p))
	r.msg.Iov, r.msg.Iovlen = &r.iov, 1
	err := r.raw.Read(r.try)
	now := record.Stamp(clk.Now())
	r.iov.Base = nil
	switch {
	case err != nil:
		return 0, ReadStamp{}, err
	case r.errno != 0:
		return 0, ReadStamp{}, os.NewSyscallError("recvmsg", r.errno)
	case r.n == 0:
		return 0, ReadStamp{}, io.EOF
	}
	st := ReadStamp{At: now, Read: now, Shared: r.n == len(p)}
	r.control(&st)
	return r.n, st, nil
}

// readsAtOnce bounds the reads of a stream between two looks at its deadline.
const readsAtOnce = 16

// stream reads again and again and hands over what came, until take returns
// false (more is false then), or the read fails, or now and then so that the
// caller calls again. Unlike read it holds a buffer only while there is something
// to read.
func (r *receiver) stream(c *stampConn, take func(p []byte, st ReadStamp) bool) (more bool, err error) {
	r.conn, r.take, r.more, r.err = c, take, true, nil
	err = r.raw.Read(r.each)
	r.conn, r.take = nil, nil
	if err == nil {
		err = r.err
	}
	return r.more, err
}

// readable reads what there is. It reports whether the stream is to be left; if
// not, its caller waits.
//
// Go's poller is edge-triggered: what came before the wake-up, or before
// RawConn.Read, is not told again. So we may wait only when nothing is left: no
// bytes and no FIN, which the length of the queue says, and no error, such as a
// reset that came with the last data, for which recvmmsg looked before it read.
// What comes after it has looked makes another wake-up, which is not lost.
func (r *receiver) readable(fd uintptr) bool {
	buf := largeBuffers.Get().(*[largeRead]byte)
	defer largeBuffers.Put(buf)
	r.iov.Base = &buf[0]
	r.iov.SetLen(len(buf))
	r.msg.Iov, r.msg.Iovlen = &r.iov, 1
	defer func() { r.iov.Base = nil }()
	for range readsAtOnce {
		some := r.recvmmsg(fd)
		switch {
		case some && r.errno != 0 && r.cut == 0:
			r.cut = r.errno // behind the data
			continue
		case r.cut != 0 && (!some || r.errno != 0 || r.n == 0):
			r.err = os.NewSyscallError("recvmsg", r.cut)
			return true
		case !some:
			return false
		case r.n == 0:
			r.err = io.EOF
			return true
		}
		now := r.conn.now()
		st := ReadStamp{At: now, Read: now, Shared: r.n == len(buf)}
		r.control(&st)
		r.conn.note(&st)
		if r.more = r.take(buf[:r.n], st); !r.more {
			return true
		}
		// Something that gives no stamps may be no Linux but for its system calls:
		// its queue is read until it is empty.
		if r.inq == 0 && st.Kernel && r.cut == 0 {
			return false
		}
	}
	return true
}

// control takes the kernel's stamp and the queue length from the control
// messages. A first packet after the stamps were turned on may have none.
func (r *receiver) control(st *ReadStamp) {
	const header = unix.SizeofCmsghdr
	r.inq = -1
	b := r.ctl[:min(int(r.msg.Controllen), len(r.ctl))]
	for len(b) >= header {
		size := binary.NativeEndian.Uint64(b)
		level, kind := binary.NativeEndian.Uint32(b[8:]), binary.NativeEndian.Uint32(b[12:])
		if size < header || size > uint64(len(b)) {
			return
		}
		data := b[header:size]
		switch {
		case level == unix.SOL_SOCKET && kind == unix.SO_TIMESTAMPING && len(data) >= 16:
			sec, nsec := binary.NativeEndian.Uint64(data), binary.NativeEndian.Uint64(data[8:])
			if sec != 0 {
				st.At, st.Kernel = r.wall.stamp(int64(sec)*1e9+int64(nsec), st.Read), true
			}
		case level == unix.IPPROTO_TCP && kind == unix.TCP_CM_INQ && len(data) >= 4:
			// 1 is also what the kernel says when only the FIN is behind.
			r.inq = int32(binary.NativeEndian.Uint32(data))
			st.Shared = r.inq > 1
		}
		b = b[min((size+7)&^7, uint64(len(b))):]
	}
}
