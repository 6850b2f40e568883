package cli

import (
	"net/netip"

	"github.com/assay-bench/assay/load/real"
	"github.com/assay-bench/assay/wire"
)

// The values of target.transport.
const (
	transportAuto      = "auto"
	transportGoroutine = "goroutine"
	transportEpoll     = "epoll"
)

// manyStreams is from how many streams at a time the epoll transport is chosen by
// itself: memory and the scheduler's work begin to count there.
const manyStreams = 2000

// streams is how many requests may be in flight, 0 if there is no bound.
func (c *config) streams() int {
	return max(c.Workload.Concurrency, c.Workload.Arrival.MaxInFlight)
}

// fits refuses a load that the machine has no room for. An open loop without a
// cap has no size before it runs; spread connections have ports by address.
func (c *config) fits(l real.Limits) error {
	if wire.ConnMode(c.Target.Conn) == wire.ConnSpread {
		l.PortLow, l.PortHigh = 0, 0
	}
	if err := l.Check(c.streams(), len(c.Target.SourceAddrs)); err != nil {
		return usageError{err}
	}
	return nil
}

// sources are the local addresses.
func (t *targetConfig) sources() ([]netip.Addr, error) {
	var out []netip.Addr
	for _, text := range t.SourceAddrs {
		a, err := netip.ParseAddr(text)
		if err != nil || a.IsUnspecified() {
			return nil, usagef("target.source_addrs (--source-addr) %q: want an IP address of this machine", text)
		}
		out = append(out, a.Unmap())
	}
	return out, nil
}

// chooseTransport settles what carries the run's requests.
func (r *run) chooseTransport() error {
	t := r.cfg.Target.Transport
	if t == transportGoroutine || t == transportAuto && r.cfg.streams() < manyStreams {
		return nil
	}
	closeLoop, err := r.target.UseLoop()
	switch {
	case err == nil:
		r.closers = append(r.closers, closeLoop)
		return nil
	case t == transportAuto: // a goroutine a stream then
		return nil
	}
	return usagef("target.transport (--transport) epoll: %w", err)
}
