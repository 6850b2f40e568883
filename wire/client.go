package wire

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/assay-bench/assay/record"
)

// Client holds the connections to one target. It is safe for use by many
// goroutines at once.
type Client struct {
	cfg       Config
	route     atomic.Pointer[route]
	resolving chan struct{} // held while resolving
	preferred atomic.Int32  // address that last answered
	next      atomic.Int64  // address for the next request, spread mode
	// nextSource counts connections, to go round the local addresses.
	nextSource atomic.Int64
	learned    atomic.Int64 // keep-alive of the server in ns; 0: not told
	wall       *wallOffset
	stats      counters
	pool       pool[*conn]

	mu     sync.Mutex
	inUse  int
	closed bool
}

type counters struct {
	opened, reused, stale, closed, reconnects atomic.Int64
	early, survived                           atomic.Int64 // see afterStream
	requests, asked                           atomic.Int64 // see verify
	unverified                                atomic.Bool  // see verified
	back                                      atomic.Int64 // see Stats.StampsBack
}

// Stats counts what happened to connections since the client was made.
type Stats struct {
	// Opened and Closed count connections.
	Opened, Closed int64
	// Reused counts requests that were sent on a connection opened earlier.
	Reused int64
	// Stale counts connections that were found dead when they were to be
	// reused: either before the request was sent (nothing is lost) or after
	// (outcome stale_connection).
	Stale int64
	// Reconnects counts connections that were opened for a request although as
	// many had been opened before as were now in use: had none of them been
	// closed, this one would not have been needed. Always 0 per-request.
	Reconnects int64
	// ClosesStreams: the server was found to close connections right after
	// streamed replies without saying so (llama.cpp advertises keep-alive and
	// does that), and they are no longer reused after one.
	ClosesStreams bool
	// ClockSteps counts steps of the wall clock against the monotonic one by
	// more than 10 us: kernel stamps of up to a second before one are off by it.
	// ClockStep is the largest, without its sign.
	ClockSteps int64
	ClockStep  time.Duration
	// StampsBack counts the reads whose kernel stamp lay before that of the read
	// before, which was given to them instead: after loss, data that had waited for
	// a hole to be filled is stamped with when it came itself.
	StampsBack int64
	// SendsAsked counts the requests for which a transmit stamp was asked.
	SendsAsked int64
}

// NewClient checks the configuration; nothing is dialled or resolved yet.
func NewClient(cfg Config) (*Client, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Client{cfg: cfg, resolving: make(chan struct{}, 1), wall: newWallOffset(cfg.Clock.Offset)}
	c.pool = newPool[*conn](c)
	return c, nil
}

func (c *Client) now() record.Stamp { return record.Stamp(c.cfg.Clock.Now()) }

// Resolved lists the addresses that the target's name (or that of the proxy
// before it) had when it was resolved: once, at the first connection. It is
// nil before that.
func (c *Client) Resolved() []string {
	r := c.route.Load()
	if r == nil {
		return nil
	}
	return append([]string(nil), r.addrs...)
}

// Stats returns the counts so far.
func (c *Client) Stats() Stats {
	s := &c.stats
	steps, largest := c.wall.stepped()
	return Stats{
		Opened: s.opened.Load(), Closed: s.closed.Load(), Reused: s.reused.Load(),
		Stale: s.stale.Load(), Reconnects: s.reconnects.Load(), ClosesStreams: c.closesStreams(),
		ClockSteps: steps, ClockStep: largest.Abs(), SendsAsked: s.asked.Load(), StampsBack: s.back.Load(),
	}
}

// TakeClock returns the estimates of the wall clock's offset since the last
// call, one a second, after a new one if it is time. What nobody takes is kept
// for an hour of them.
func (c *Client) TakeClock() []record.ClockOffset {
	c.wall.refresh(c.now())
	return c.wall.take()
}

// VerifiesSends reports whether transmit stamps are asked for at all.
func (c *Client) VerifiesSends() bool { return c.cfg.VerifySend > 0 }

// verify reports whether the next request is one of the sample whose transmit
// stamp is asked for. The golden ratio spreads the sample evenly over any pattern.
func (c *Client) verify() bool {
	every := uint64(c.cfg.VerifySend)
	if every == 0 || c.stats.unverified.Load() {
		return false
	}
	n := uint64(c.stats.requests.Add(1)) * 0x9E3779B97F4A7C15
	if n>>32%every != 0 {
		return false
	}
	c.stats.asked.Add(1)
	return true
}

// verified converts the transmit stamp of a request whose reply has begun. If it
// has none by now the device gives none: no request is asked any more.
func (c *Client) verified(wall int64, ok bool) record.Stamp {
	if !ok {
		c.stats.unverified.Store(true)
		return 0
	}
	return c.wall.stamp(wall, c.now())
}

// Close closes the unused connections; those in use are closed when their
// exchange ends. Later calls of Do fail.
func (c *Client) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.pool.close()
}

// prewarmAtOnce bounds the connections that Prewarm opens at the same time.
const prewarmAtOnce = 16

// Prewarm opens n connections, a few at a time, and leaves them unused. It
// returns how many it opened, and the first error (an *Error). Those that are
// not used within the idle bound are dropped again. With ConnPerRequest there
// is nothing to prepare, and it opens none.
func (c *Client) Prewarm(ctx context.Context, n int) (opened int, err error) {
	if c.cfg.ConnMode == ConnPerRequest {
		return 0, nil
	}
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		slots = make(chan struct{}, prewarmAtOnce)
	)
	for range n {
		slots <- struct{}{}
		mu.Lock()
		failed := err != nil
		mu.Unlock()
		if failed {
			break
		}
		wg.Go(func() {
			defer func() { <-slots }()
			cn, e := c.dial(ctx, &timings{}, c.nextAddress())
			mu.Lock()
			defer mu.Unlock()
			if e != nil {
				if err == nil {
					err = c.explain(ctx, nil, record.TimeoutConnect, e)
				}
				return
			}
			opened++
			c.pool.put(cn)
		})
	}
	wg.Wait()
	return opened, err
}

// nextAddress counts through the addresses in spread mode; it is 0 else.
func (c *Client) nextAddress() int64 {
	if c.cfg.ConnMode != ConnSpread {
		return 0
	}
	return c.next.Add(1) - 1
}

// dial opens a connection within the connect timeout.
func (c *Client) dial(ctx context.Context, t *timings, turn int64) (*conn, error) {
	if d := c.cfg.Timeouts.Connect; d > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d)
		defer cancel()
	}
	r, err := c.dialRoute(ctx, t)
	if err != nil {
		return nil, err
	}
	cn, err := c.open(ctx, r, int(turn%int64(len(r.addrs))), t)
	if err != nil {
		return nil, err
	}
	c.stats.opened.Add(1)
	cn.idleSince = c.now()
	return cn, nil
}

// errClosed is returned after Close.
var errClosed = fmt.Errorf("the client is closed: %w", net.ErrClosed)

// acquire takes an unused connection, unless a fresh one is asked for, or opens one.
func (c *Client) acquire(ctx context.Context, fresh bool, t *timings) (cn *conn, reused bool, err error) {
	turn := c.nextAddress()
	inUse, err := c.enter()
	if err != nil {
		return nil, false, err
	}
	if cn, ok := c.pool.take(turn, fresh); ok {
		c.stats.reused.Add(1)
		return cn, true, nil
	}
	if c.cfg.ConnMode != ConnPerRequest && c.stats.opened.Load() >= int64(inUse) {
		c.stats.reconnects.Add(1)
	}
	cn, err = c.dial(ctx, t, turn)
	if err != nil {
		c.release(nil)
	}
	return cn, false, err
}

// unused takes a connection that is there already.
func (c *Client) unused() (cn *conn, ok bool) {
	if c.cfg.ConnMode == ConnSpread {
		return nil, false // a turn that finds nothing would be lost to its address
	}
	if _, err := c.enter(); err != nil {
		return nil, false
	}
	if cn, ok = c.pool.take(c.nextAddress(), false); !ok {
		c.leave()
		return nil, false
	}
	c.stats.reused.Add(1)
	return cn, true
}

// enter counts one more connection in use, and returns how many that makes.
func (c *Client) enter() (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return 0, &Error{Outcome: record.NeverSent, Err: errClosed}
	}
	c.inUse++
	return c.inUse, nil
}

// release ends the use of a connection. A nil one was never opened; one that
// is not fit for reuse is closed.
func (c *Client) release(cn *conn) {
	c.leave()
	if cn != nil {
		c.pool.settle(cn)
	}
}

// leave counts one connection less in use.
func (c *Client) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inUse--
}

// A server is taken for one that closes connections right after streamed
// replies once enoughEarly of them were found closed within closedEarly of a
// reply, and more than have survived one. A server that goes down closes its
// unused connections as well, but after those have survived.
const (
	enoughEarly = 3
	closedEarly = time.Second
)

// closesStreams reports whether connections are not worth keeping after a
// streamed reply: the next request would race with the server's close.
func (c *Client) closesStreams() bool {
	early := c.stats.early.Load()
	return early >= enoughEarly && early > c.stats.survived.Load()
}

// maxIdle is how long a connection may be left unused.
func (c *Client) maxIdle() time.Duration {
	limit := DefaultMaxIdle
	if told := time.Duration(c.learned.Load()); told > 0 {
		limit = told
	}
	if c.cfg.MaxIdle > 0 {
		limit = min(limit, c.cfg.MaxIdle)
	}
	return limit
}
