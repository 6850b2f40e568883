//go:build amd64 || arm64

package wire

import (
	"crypto/tls"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-bench/assay/record"
)

// TestVerifySend: the kernel's transmit stamp of a request lies between the moment
// before its first write and the reply, on a new and on a kept connection, for
// short and long requests.
func TestVerifySend(t *testing.T) { both(t, testVerifySend) }

func testVerifySend(t *testing.T, newClient opener) {
	addr := serve(t, nil, replies(sseHead+chunk("data: x\n\n", done)))
	c := newClient(t, addr, func(c *Config) { c.VerifySend = 1 })
	for name, size := range map[string]int{"short": 10, "a part": askedPart, "long": 1 << 20} {
		for range 3 {
			req := post()
			req.Body = []byte(strings.Repeat("x", size))
			var a record.Attempt
			if err := c.Do(t.Context(), &a, req, &recorder{}); err != nil {
				t.Fatal(name, err)
			}
			if a.SentKernel < a.Sent-record.Stamp(slack) || a.SentKernel > a.Headers+record.Stamp(slack) {
				t.Errorf("%s: sent at %d, by the kernel at %d, reply at %d", name, a.Sent, a.SentKernel, a.Headers)
			}
			if a.SentLast < a.Sent || a.SentLast > a.Headers+record.Stamp(time.Second) {
				t.Errorf("%s: sent from %d to %d", name, a.Sent, a.SentLast)
			}
		}
	}
	if s := c.Stats(); s.SendsAsked != 9 || s.Opened != 1 {
		t.Errorf("%d requests were asked on %d connections", s.SendsAsked, s.Opened)
	}
}

// TestVerifySendTLS: the stamp is that of the first record.
func TestVerifySendTLS(t *testing.T) {
	s := httptest.NewUnstartedServer(nil)
	s.StartTLS()
	cert := s.TLS.Certificates
	s.Close()
	addr := serve(t, &tls.Config{Certificates: cert}, replies(sseHead+chunk(done)))
	c := newClient(t, addr, func(c *Config) {
		c.Scheme, c.TLS, c.VerifySend = "https", &tls.Config{InsecureSkipVerify: true}, 1
	})
	for _, size := range []int{10, 1 << 20} {
		req := post()
		req.Body = make([]byte, size)
		var a record.Attempt
		if err := c.Do(t.Context(), &a, req, &recorder{}); err != nil {
			t.Fatal(err)
		}
		if a.SentKernel < a.Sent-record.Stamp(slack) || a.SentKernel > a.Headers {
			t.Errorf("sent at %d, by the kernel at %d, reply at %d", a.Sent, a.SentKernel, a.Headers)
		}
	}
}

// TestVerifySample: one request in so many is asked, the others have no stamp.
func TestVerifySample(t *testing.T) { both(t, testVerifySample) }

func testVerifySample(t *testing.T, newClient opener) {
	addr := serve(t, nil, replies(sseHead+chunk(done)))
	c := newClient(t, addr, func(c *Config) { c.VerifySend = 4 })
	n, stamped := 40, 0
	for range n {
		a, err := do(t, c, &recorder{})
		if err != nil {
			t.Fatal(err)
		}
		if a.SentKernel != 0 {
			stamped++
		}
	}
	if asked := int(c.Stats().SendsAsked); asked != stamped || asked < n/8 || asked > n/2 {
		t.Errorf("%d of %d requests were asked, %d have a stamp", asked, n, stamped)
	}
}

// TestNoTransmitStamp: a device that gives none is asked no more, and nobody fails.
func TestNoTransmitStamp(t *testing.T) {
	c := newClient(t, "127.0.0.1:1", func(c *Config) { c.VerifySend = 1 })
	if !c.verify() {
		t.Fatal("not asked at all")
	}
	if at := c.verified(0, false); at != 0 {
		t.Errorf("a stamp out of nothing: %d", at)
	}
	if c.verify() {
		t.Error("asked again")
	}
}

// TestErrorQueueIsLeftEmpty: a stamp that is left in the error queue would wake
// the poller, and break it while the send buffer is full.
func TestErrorQueueIsLeftEmpty(t *testing.T) {
	hold := make(chan struct{})
	addr := serve(t, nil, func(p *peer) {
		<-hold // reads nothing: the buffers fill
		for p.request() != nil {
			p.send(sseHead + chunk(done))
		}
	})
	c := newClient(t, addr, func(c *Config) { c.VerifySend = 1 })
	cn, _, err := c.acquire(t.Context(), false, &timings{})
	if err != nil {
		t.Fatal(err)
	}
	defer cn.close()
	cn.raw.arm(true)
	wrote := make(chan error, 1)
	go func() {
		_, err := cn.raw.Write(make([]byte, 16<<20))
		wrote <- err
	}()
	full := func() (full, owed bool) {
		err := cn.raw.tx.raw.Control(func(fd uintptr) {
			p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
			if _, perr := unix.Poll(p, 0); perr != nil {
				t.Error(perr)
			}
			full, owed = p[0].Revents&unix.POLLOUT == 0, p[0].Revents&unix.POLLERR != 0
		})
		if err != nil {
			t.Fatal(err)
		}
		return full, owed
	}
	for {
		isFull, owed := full()
		if isFull && owed {
			t.Error("the send buffer is full while a stamp lies in the error queue")
		}
		if isFull {
			break
		}
	}
	cn.raw.Conn.SetDeadline(longAgo)
	if err := <-wrote; !isDeadline(err) {
		t.Error(err)
	}
	close(hold)
}

// TestStampsBack: a kernel stamp before the one before it, as after loss, is
// raised to that on both transports, and counted.
func TestStampsBack(t *testing.T) {
	c := newClient(t, "127.0.0.1:1", nil)
	sc := newStampConn(nil, c.cfg.Clock)
	sc.back = &c.stats.back
	s := &stream{loop: &Loop{client: c}, sock: &socket{}, state: heading, a: &record.Attempt{}, scan: headScan{limit: 100}}
	for i, at := range []record.Stamp{100, 90, 100, 120} {
		st := ReadStamp{At: at, Read: 1000, Kernel: true}
		sc.note(&st)
		s.received([]byte("HTTP"[i:i+1]), ReadStamp{At: at, Read: 1000, Kernel: true})
		if want := max(at, 100); st.At != want || sc.floor != want || s.sock.floor != want {
			t.Errorf("%d became %d on one transport and %d on the other, want %d", at, st.At, s.sock.floor, want)
		}
	}
	if got := c.Stats().StampsBack; got != 2 { // one on each
		t.Errorf("%d stamps went back", got)
	}
}
