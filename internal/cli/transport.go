package cli

import (
	"fmt"
	"net/netip"
	"time"

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

// fits refuses a load that the machine has no room for. Spread connections have
// ports by address.
func (c *config) fits(l real.Limits) error {
	if wire.ConnMode(c.Target.Conn) == wire.ConnSpread {
		l.PortLow, l.PortHigh = 0, 0
	}
	if err := l.Check(c.streams(), len(c.Target.SourceAddrs)); err != nil {
		return usageError{err}
	}
	return nil
}

// room bounds an open loop that has no bound of its own, so that one which the
// target cannot follow ends in late requests, and not in a process without files
// or memory: how many requests at a time the machine has connections for, 0 if
// that is not known or there is a bound. Sessions are not requests in flight.
func (c *config) room(l real.Limits) int {
	if !c.Workload.Open() || c.streams() > 0 || c.Workload.Sessions != nil {
		return 0
	}
	if wire.ConnMode(c.Target.Conn) == wire.ConnSpread {
		l.PortLow, l.PortHigh = 0, 0
	}
	return l.Room(len(c.Target.SourceAddrs))
}

// longReply is how long replies must be able to last on average, or it is told
// before the run how long they may.
const longReply = time.Minute

// tightRoom says that a room is small for the rate, by Little's law; "" if not, or
// if there is no bound or no one rate.
func (c *config) tightRoom(room int) string {
	rate := c.Workload.Arrival.Rate
	if room == 0 || rate <= 0 || float64(room) >= rate*longReply.Seconds() {
		return ""
	}
	return fmt.Sprintf("this machine has room for %d requests at a time (open files, local ports): at %g/s replies may last %.3g s on average; what is due beyond that is held back, and late",
		room, rate, float64(room)/rate)
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
