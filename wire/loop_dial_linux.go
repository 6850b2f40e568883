//go:build amd64 || arm64

package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-bench/assay/record"
)

// socket is a connection of a loop.
type socket struct {
	link
	fd    int
	floor record.Stamp // no later read is stamped before this
}

func (k *socket) dead() bool { return peerGone(k.fd, false) }
func (k *socket) close()     { _ = unix.Close(k.fd) }

// dialing is what a stream needs while it has no connection.
type dialing struct {
	turn  int64
	begin record.Stamp // of the first address
	by    record.Stamp // when the connect timeout runs out; 0: never
	tried int
	errs  []error
}

// connect opens a connection for the stream, after the name was resolved, and
// hands the stream over.
func (s *stream) connect(turn int64) {
	c := s.loop.client
	s.state = connecting
	s.dial = &dialing{turn: turn, by: after(c.now(), c.cfg.Timeouts.Connect)}
	if c.route.Load() != nil {
		s.dialFirst()
		s.hand()
		return
	}
	go func() {
		s.resolve()
		s.hand()
	}()
}

func (s *stream) resolve() {
	c := s.loop.client
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	defer context.AfterFunc(s.loop.life, cancel)()
	for _, at := range []record.Stamp{s.dial.by, s.total} {
		if at != 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithDeadline(ctx, c.cfg.Clock.Time(int64(at)))
			defer cancel()
		}
	}
	var t timings
	_, err := c.dialRoute(ctx, &t)
	s.a.DNS = t.dns
	if err != nil {
		s.state, s.err = refused, err
		return
	}
	s.dialFirst()
}

// dialFirst begins with the first address.
func (s *stream) dialFirst() {
	addrs, err := s.loop.addresses()
	if err != nil {
		s.state, s.err = refused, &Error{Outcome: record.ConnectDNS, Err: err}
		return
	}
	s.dial.begin = s.loop.client.now()
	s.dialNext(addrs)
}

// addresses are those of the route.
func (l *Loop) addresses() ([]netip.AddrPort, error) {
	if p := l.targets.Load(); p != nil {
		return *p, nil
	}
	var out []netip.AddrPort
	for _, text := range l.client.route.Load().addrs {
		a, err := net.ResolveTCPAddr("tcp", text) // an address, but the port may be a name
		if err != nil {
			return nil, fmt.Errorf("address of the target: %w", err)
		}
		p := a.AddrPort()
		out = append(out, netip.AddrPortFrom(p.Addr().Unmap(), p.Port()))
	}
	l.targets.Store(&out)
	return out, nil
}

// dialNext goes on through the addresses, the one that worked last first, and
// gives each its part of the time that is left. Only spread mode insists on one.
// With none left, the stream is refused.
func (s *stream) dialNext(addrs []netip.AddrPort) {
	c, d := s.loop.client, s.dial
	first, n := int(c.preferred.Load()), len(addrs)
	if c.cfg.ConnMode == ConnSpread {
		first, n = int(d.turn%int64(n)), 1
	}
	for d.tried < n {
		k := (first + d.tried) % len(addrs)
		now := c.now()
		by := d.by
		if s.total != 0 && (by == 0 || s.total < by) {
			by = s.total
		}
		if by != 0 {
			by = now + max(0, by-now)/record.Stamp(n-d.tried)
		}
		d.tried++
		s.sock = &socket{link: link{client: c, address: k, remote: addrs[k].String()}, fd: -1}
		err := s.sock.open(addrs[k])
		if err == nil {
			s.bound(record.TimeoutConnect, by)
			return
		}
		s.dropSocket(err)
	}
	s.notConnected(errors.Join(d.errs...))
}

// open begins to connect.
func (k *socket) open(to netip.AddrPort) error {
	family := unix.AF_INET
	if to.Addr().Is6() {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	k.fd = fd
	k.setOptions()
	from, err := k.client.source(to.Addr())
	if err != nil {
		return err
	}
	if from.IsValid() {
		if err := shareLocalPorts(fd); err != nil {
			return err
		}
		if err := unix.Bind(fd, sockaddr(netip.AddrPortFrom(from, 0))); err != nil {
			return os.NewSyscallError("bind", err)
		}
	}
	switch err := unix.Connect(fd, sockaddr(to)); err {
	case nil, unix.EINPROGRESS, unix.EINTR:
		return nil
	default:
		return os.NewSyscallError("connect", err)
	}
}

// setOptions sets what package net sets on its connections, and asks for stamps.
// None of them is needed to go on.
func (k *socket) setOptions() {
	for _, o := range [...]struct{ level, name, value int }{
		{unix.IPPROTO_TCP, unix.TCP_NODELAY, 1},
		{unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
		{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 15},
		{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 15},
		{unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 9},
	} {
		_ = unix.SetsockoptInt(k.fd, o.level, o.name, o.value)
	}
	if !k.client.cfg.UserStamps {
		_ = askStamps(k.fd)
	}
}

func sockaddr(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16(), ZoneId: zone(a.Addr().Zone())}
}

// zone is the interface of a link-local address, 0 for none.
func zone(name string) uint32 {
	if name == "" {
		return 0
	}
	if i, err := net.InterfaceByName(name); err == nil {
		return uint32(i.Index)
	}
	n, _ := strconv.ParseUint(name, 10, 32)
	return uint32(n)
}

// dropSocket notes why an address has no connection.
func (s *stream) dropSocket(err error) {
	k := s.sock
	s.sock = nil
	if k.fd >= 0 {
		k.close()
	}
	to := net.TCPAddrFromAddrPort((*s.loop.targets.Load())[k.address])
	s.dial.errs = append(s.dial.errs, &net.OpError{Op: "dial", Net: "tcp", Addr: to, Err: err})
}

// nextAddress goes on after a connection could not be opened.
func (s *stream) nextAddress(err error) {
	c := s.loop.client
	s.worker.forget(s)
	s.dropSocket(err)
	switch {
	case errors.Is(err, errClosed):
		s.notConnected(err)
		s.err = err
	case s.ctx.Err() != nil, s.total != 0 && c.now() >= s.total:
		s.notConnected(errors.Join(s.dial.errs...))
	default:
		s.dialNext(*s.loop.targets.Load())
	}
	s.worker.adopt(s)
}

// notConnected refuses the stream.
func (s *stream) notConnected(err error) {
	s.a.Connect = time.Duration(s.loop.client.now() - s.dial.begin)
	s.state, s.err = refused, &Error{Outcome: record.ConnectTCP, Err: err}
}

// connected asks whether the connection stands, and goes on.
func (s *stream) connected() {
	c := s.loop.client
	code, err := unix.GetsockoptInt(s.sock.fd, unix.SOL_SOCKET, unix.SO_ERROR)
	switch {
	case err != nil:
		s.broken(os.NewSyscallError("getsockopt", err))
		return
	case code != 0:
		s.broken(os.NewSyscallError("connect", unix.Errno(code)))
		return
	}
	now := c.now()
	s.a.Connect = time.Duration(now - s.dial.begin)
	if c.cfg.ConnMode != ConnSpread {
		c.preferred.Store(int32(s.sock.address))
	}
	s.dial = nil
	c.stats.opened.Add(1)
	s.sock.idleSince = now
	if s.sink == nil {
		s.worker.forget(s)
		s.sock.fit = true
		s.finish(nil)
		return
	}
	s.ready()
	s.worker.listen(s)
}
