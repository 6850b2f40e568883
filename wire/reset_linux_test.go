//go:build amd64 || arm64

package wire

import (
	"net"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-bench/assay/internal/clock"
	"github.com/assay-bench/assay/record"
)

// TestResetWithData: a reset that comes in one wake-up with the last data ends
// the stream behind that data, long before its timeout. The sink holds the reader
// up until the server has gone, so that the wake-ups for both are one.
func TestResetWithData(t *testing.T) { both(t, testResetWithData) }

func testResetWithData(t *testing.T, newClient opener) {
	stampsOn(t)
	const rounds, before, event = 20, 5, "9\r\ndata: x\n\n\r\n"
	for name, tc := range map[string]struct {
		last   string
		events int
	}{"event": {event, 1}, "events": {event + event + event, 3}, "part": {event + event[:5], 1}, "nothing": {"", 0}} {
		t.Run(name, func(t *testing.T) {
			seen, gone := make(chan struct{}), make(chan struct{})
			addr := serve(t, nil, func(p *peer) {
				p.request()
				p.send(sseHead)
				for range before {
					p.send(event)
					<-seen
				}
				p.send(tc.last)
				p.reset()
				gone <- struct{}{}
			})
			c := newClient(t, addr, func(c *Config) { c.Timeouts.Idle = time.Hour })
			for range rounds {
				n := 0
				sink := recorder{onFrame: func(Frame) {
					if n++; n <= before {
						seen <- struct{}{}
					}
					if n == before {
						<-gone
					}
				}}
				_, err := do(t, c, &sink)
				if outcome(t, err) != record.StreamReset || !isReset(err) || n != before+tc.events {
					t.Fatalf("%v after %d events, want a reset after %d", err, n, before+tc.events)
				}
			}
		})
	}
}

// TestStreamResetBehindMuch: what was queued before a reset is read to its last
// byte, in more than one read, though the reset is told first.
func TestStreamResetBehindMuch(t *testing.T) {
	queued := make(chan struct{})
	addr := serve(t, nil, func(p *peer) {
		p.send(string(make([]byte, 2*largeRead)))
		<-queued
		p.reset()
		queued <- struct{}{}
	})
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if err := nc.(*net.TCPConn).SetReadBuffer(4 * largeRead); err != nil {
		t.Fatal(err)
	}
	clk := clock.Start()
	c := newStampConn(nc, clk)
	if c.rx = newReceiver(nc, newWallOffset(clk.Offset)); c.rx == nil {
		t.Fatal("no kernel stamps")
	}
	inq := func() (n int) {
		var ierr error
		err := c.rx.raw.Control(func(fd uintptr) { n, ierr = unix.IoctlGetInt(int(fd), unix.SIOCINQ) })
		if err != nil || ierr != nil {
			t.Fatal(err, ierr)
		}
		return n
	}
	if _, err := nc.Read(make([]byte, 1000)); err != nil { // so that the window grows
		t.Fatal(err)
	}
	for inq() <= largeRead {
		runtime.Gosched()
	}
	queued <- struct{}{}
	<-queued
	want, got := inq(), 0
	more, err := c.stream(func(p []byte, _ ReadStamp) bool { got += len(p); return true })
	if !more || !isReset(err) || got != want {
		t.Errorf("%v after %d bytes, want a reset after %d", err, got, want)
	}
}
