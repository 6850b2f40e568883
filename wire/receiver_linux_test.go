//go:build linux && (amd64 || arm64)

package wire

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/assay-bench/assay/internal/clock"
	"github.com/assay-bench/assay/record"
)

// slack is how far a converted kernel stamp may lie outside of the write that
// caused it: the error of two offsets, and much more for a busy machine.
const slack = 200 * time.Microsecond

// stampsOn returns when the kernel has begun to stamp, which it does in the
// background after the first socket has asked for it, and keeps that socket.
func stampsOn(t *testing.T) {
	c := newClient(t, serve(t, nil, replies(sseHead+chunk(done))), func(c *Config) { c.MaxIdle = time.Hour })
	for begin := c.now(); c.now() < begin.Add(20*time.Second); {
		var sink recorder
		if _, err := do(t, c, &sink); err != nil {
			t.Fatal(err)
		}
		if sink.raw[0].Flags.Has(record.FlagKernel) {
			return
		}
	}
	t.Fatal("the kernel does not stamp")
}

// TestKernelStamps compares the kernel's stamps with the clock of the server,
// which is the same one, with and without TLS above.
func TestKernelStamps(t *testing.T) {
	stampsOn(t)
	server, client := certificates(t)
	for name, tc := range map[string]*tls.Config{"plain": nil, "TLS": server} {
		t.Run(name, func(t *testing.T) {
			clk := clock.Start()
			const n = 50
			var wrote [n]atomic.Int64
			taken := make(chan struct{}, 1)
			addr := serve(t, tc, func(p *peer) {
				p.request()
				p.send(sseHead)
				for i := range n {
					wrote[i].Store(clk.Now())
					p.send("9\r\ndata: a\n\n\r\n")
					<-taken
				}
				p.send("0\r\n\r\n")
				p.silent()
			})
			c := newClient(t, addr, func(c *Config) {
				c.Clock = clk
				if tc != nil {
					c.Scheme, c.TLS = "https", client
				}
			})
			sink := recorder{onFrame: func(Frame) { taken <- struct{}{} }}
			a, err := do(t, c, &sink)
			if err != nil || len(sink.raw) != n {
				t.Fatal(err, len(sink.raw))
			}
			last := a.Headers
			for i, f := range sink.raw {
				// The first one may have come with the record of the head.
				if !f.Flags.Has(record.FlagKernel) || i > 0 && f.Flags.Has(record.FlagCoalesced) {
					t.Errorf("event %d: flags %b", i, f.Flags)
				}
				w := record.Stamp(wrote[i].Load())
				if f.At > f.Read || f.At < last || f.At < w.Add(-slack) {
					t.Errorf("event %d: written %d, stamped %d after %d, read %d", i, w, f.At, last, f.Read)
				}
				last = f.At
			}
		})
	}
}

func TestUserStamps(t *testing.T) {
	addr := serve(t, nil, replies(sseHead+chunk(done)))
	c := newClient(t, addr, func(c *Config) { c.UserStamps = true })
	var sink recorder
	if _, err := do(t, c, &sink); err != nil || sink.raw[0].Flags.Has(record.FlagKernel) || sink.raw[0].At != sink.raw[0].Read {
		t.Errorf("%v %+v", err, sink.raw)
	}
}

// TestReceiver: it reads as net.Conn does, and knows what is queued behind.
func TestReceiver(t *testing.T) {
	step := make(chan func(p *peer))
	defer close(step)
	addr := serve(t, nil, func(p *peer) {
		for f := range step {
			f(p)
			step <- nil
		}
	})
	server := func(f func(p *peer)) {
		step <- f
		<-step
	}
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	clk := clock.Start()
	r := newReceiver(nc, newWallOffset(clk.Offset))
	if r == nil {
		t.Fatal("no kernel stamps")
	}
	buf := make([]byte, 4)
	for i, tc := range []struct {
		do     func(p *peer)
		want   string
		shared bool
		err    error
	}{
		{func(p *peer) { p.send("0123456789") }, "0123", true, nil},
		{nil, "4567", true, nil},
		{nil, "89", false, nil},
		{func(p *peer) { p.send("abcd"); p.Conn.(*net.TCPConn).CloseWrite() }, "abcd", false, nil},
		{nil, "", false, io.EOF},
	} {
		if tc.do != nil {
			server(tc.do)
		}
		n, st, err := r.read(buf, clk)
		if !bytes.Equal(buf[:n], []byte(tc.want)) || st.Shared != tc.shared || err != tc.err {
			t.Errorf("read %d: %q, %+v, %v", i, buf[:n], st, err)
		}
	}
	nc.SetReadDeadline(longAgo)
	if _, _, err := r.read(buf, clk); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("deadline:", err)
	}
	nc.SetReadDeadline(time.Time{})
	server((*peer).reset)
	if _, _, err := r.read(buf, clk); err != io.EOF && !isReset(err) {
		t.Error("reset:", err)
	}
	if n, _, err := r.read(nil, clk); n != 0 || err != nil {
		t.Error(n, err)
	}
}
