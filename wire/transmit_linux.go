//go:build amd64 || arm64

package wire

import (
	"encoding/binary"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// transmitStamps says whether this system has them.
const transmitStamps = true

// A request that is verified asks for one transmit stamp, by a control message of
// its first write alone (SO_TIMESTAMPING of a sendmsg, Linux documentation,
// networking/timestamping.rst, 1.3.4): the socket itself is never switched to
// transmit stamps. The stamp is SOF_TIMESTAMPING_TX_SOFTWARE: taken when the
// driver of the device is handed the segment with the last byte of that write,
// behind the queueing discipline, which TX_SCHED would be before. On loopback the
// driver is what delivers to the receiver. It waits in the error queue of the
// socket, as a stamp alone (OPT_TSONLY).
//
// While it waits there, epoll reports EPOLLERR. With it alone (nothing to read
// and no room to write) Go's poller takes the descriptor for broken, and a Read
// fails. So the write that is stamped is short enough to leave room, and the
// stamp is taken right after it, before anything else is written.

const (
	// askedPart is the most that is written with a stamp asked for: less than what
	// a new connection may send at once (RFC 6928: ten segments), so that the stamp
	// does not wait for an answer, and far less than a send buffer.
	askedPart = 8 << 10
	// stampPatience bounds the wait for the stamp before a long request goes on:
	// what is written behind cannot leave before it anyway.
	stampPatience = 10 * time.Millisecond
)

// sendAsking writes to a socket and asks for the transmit stamp of its last byte.
func sendAsking(fd int, p []byte) (int, error) {
	var oob [unix.SizeofCmsghdr + 8]byte // with padding
	binary.NativeEndian.PutUint64(oob[:], unix.SizeofCmsghdr+4)
	binary.NativeEndian.PutUint32(oob[8:], unix.SOL_SOCKET)
	binary.NativeEndian.PutUint32(oob[12:], unix.SO_TIMESTAMPING)
	binary.NativeEndian.PutUint32(oob[16:], unix.SOF_TIMESTAMPING_TX_SOFTWARE)
	return unix.SendmsgN(fd, p, oob[:], nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
}

// refusesAsking reports whether the write failed for what it asked.
func refusesAsking(err error) bool {
	return err == unix.EINVAL || err == unix.ENOPROTOOPT || err == unix.EOPNOTSUPP || err == unix.ENOSYS
}

// takeTransmit empties the error queue of a socket, and returns the wall time of
// the last transmit stamp in it.
func takeTransmit(fd int) (wall int64, ok bool) {
	var oob [256]byte
	for {
		_, n, _, _, err := unix.Recvmsg(fd, nil, oob[:], unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return wall, ok
		}
		if w, is := transmitOf(oob[:n]); is {
			wall, ok = w, true
		}
	}
}

// transmitOf finds a transmit stamp in control messages: a sock_extended_err of
// the origin "timestamping" says that it is one, and of what kind.
func transmitOf(oob []byte) (wall int64, ok bool) {
	const originTimestamping, kindSend = 4, 0 // SO_EE_ORIGIN_TIMESTAMPING, SCM_TSTAMP_SND
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return 0, false
	}
	sent := false
	for _, m := range messages {
		level, kind := m.Header.Level, m.Header.Type
		switch {
		case level == unix.SOL_SOCKET && kind == unix.SO_TIMESTAMPING && len(m.Data) >= 16:
			sec, nsec := binary.NativeEndian.Uint64(m.Data), binary.NativeEndian.Uint64(m.Data[8:])
			wall = int64(sec)*1e9 + int64(nsec)
		case (level == unix.SOL_IP && kind == unix.IP_RECVERR || level == unix.SOL_IPV6 && kind == unix.IPV6_RECVERR) && len(m.Data) >= 12:
			sent = m.Data[4] == originTimestamping && binary.NativeEndian.Uint32(m.Data[8:]) == kindSend
		}
	}
	return wall, sent && wall != 0
}

// transmitter takes the transmit stamps of a connection that Go's poller watches.
type transmitter struct {
	raw  syscall.RawConn
	owed bool  // asked for, and not come yet
	at   int64 // wall ns of the stamp, 0: none
}

// newTransmitter returns nil if the socket has no transmit stamps.
func newTransmitter(c net.Conn) *transmitter {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	return &transmitter{raw: raw}
}

// write writes a first part of p with its stamp asked for, none of it where the
// system refuses to be asked. If a rest is left the stamp is waited for: it must
// not lie in the error queue while the send buffer is full.
func (t *transmitter) write(p []byte) (n int, err error) {
	t.owed, t.at = false, 0
	part := p[:min(len(p), askedPart)]
	werr := t.raw.Write(func(fd uintptr) bool {
		for {
			if n, err = sendAsking(int(fd), part); err != unix.EINTR {
				return err != unix.EAGAIN
			}
		}
	})
	switch {
	case werr != nil:
		return 0, werr
	case refusesAsking(err):
		return 0, nil
	case err != nil:
		return 0, os.NewSyscallError("sendmsg", err)
	}
	t.owed = true
	t.look(n < len(p))
	return n, nil
}

// look takes the stamp if it is there; patient waits a little.
func (t *transmitter) look(patient bool) {
	_ = t.raw.Control(func(fd uintptr) {
		at, ok := takeTransmit(int(fd))
		if !ok && patient {
			p := []unix.PollFd{{Fd: int32(fd)}} // an error is always told
			_, _ = unix.Poll(p, int(stampPatience/time.Millisecond))
			at, ok = takeTransmit(int(fd))
		}
		if ok {
			t.at, t.owed = at, false
		}
	})
}

// collect returns the stamp, in wall nanoseconds, of the write that asked last; ok
// is false if there is none. It looks once more for one that has not come yet.
func (t *transmitter) collect() (wall int64, ok bool) {
	if t.owed {
		t.look(false)
		t.owed = false
	}
	return t.at, t.at != 0
}
