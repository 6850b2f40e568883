package wire

import (
	"fmt"
	"net"
	"net/netip"
	"syscall"
)

// source is the local address for a connection to an address: those of the
// configuration that are of its family, in turn. It is invalid if there are none
// to choose from.
func (c *Client) source(to netip.Addr) (netip.Addr, error) {
	if len(c.cfg.Sources) == 0 {
		return netip.Addr{}, nil
	}
	turn := uint64(c.nextSource.Add(1) - 1)
	n := uint64(len(c.cfg.Sources))
	for i := range n {
		if a := c.cfg.Sources[(turn+i)%n]; a.Is4() == to.Is4() {
			return a, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("no source address is of the same family as %s", to)
}

// dialer is how a connection to an address:port is opened.
func (c *Client) dialer(addr string) (*net.Dialer, error) {
	d := &net.Dialer{}
	if len(c.cfg.Sources) == 0 {
		return d, nil
	}
	to, err := net.ResolveTCPAddr("tcp", addr) // an address, but the port may be a name
	if err != nil {
		return nil, err
	}
	from, err := c.source(to.AddrPort().Addr().Unmap())
	if err != nil {
		return nil, err
	}
	d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))
	d.Control = func(_, _ string, raw syscall.RawConn) error {
		var err error
		if cerr := raw.Control(func(fd uintptr) { err = shareLocalPorts(int(fd)) }); cerr != nil {
			return cerr
		}
		return err
	}
	return d, nil
}
