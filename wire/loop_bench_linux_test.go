//go:build amd64 || arm64

package wire

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/assay-bench/assay/record"
)

// reader is one way to read n streams; it counts their events.
type reader struct {
	name  string
	start func(b testing.TB, sv *rawServer, n int, events *atomic.Int64) (stop func())
}

// readers are the two transports (the loop with one thread), and the least that
// any client could do: an epoll loop that reads with stamps and counts events.
func readers() []reader {
	return []reader{
		{"bare", startBare},
		{"epoll", func(b testing.TB, sv *rawServer, n int, events *atomic.Int64) func() {
			return startExchanges(b, newLoopOf(b, 1, sv.addr, nil), sv, n, events)
		}},
		{"goroutine", func(b testing.TB, sv *rawServer, n int, events *atomic.Int64) func() {
			return startExchanges(b, &subject{Client: newClient(b, sv.addr, nil)}, sv, n, events)
		}},
	}
}

func startExchanges(b testing.TB, c *subject, sv *rawServer, n int, events *atomic.Int64) func() {
	var wg sync.WaitGroup
	attempts := make([]record.Attempt, n)
	count := &recorderFunc{func(Frame) bool { events.Add(1); return false }}
	wg.Add(n)
	done := func(err error) {
		if err != nil {
			b.Error(err)
		}
		wg.Done()
	}
	go func() {
		for i := range n {
			if c.loop != nil {
				c.loop.Start(context.Background(), &attempts[i], post(), count, done)
			} else {
				go func() { done(c.Client.Do(context.Background(), &attempts[i], post(), count)) }()
			}
		}
	}()
	sv.await(n)
	return func() {
		sv.all("0\r\n\r\n")
		wg.Wait()
		c.close()
	}
}

func startBare(b testing.TB, sv *rawServer, n int, events *atomic.Int64) func() {
	c := newClient(b, sv.addr, nil)
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		b.Fatal(err)
	}
	var fds []int
	c.route.Store(&route{addrs: []string{sv.addr}})
	l := &Loop{client: c}
	to, err := l.addresses()
	if err != nil {
		b.Fatal(err)
	}
	opened := make(chan struct{})
	go func() {
		defer close(opened)
		for range n {
			k := &socket{link: link{client: c}, fd: -1}
			if err := k.open(to[0]); err != nil {
				b.Error(err)
				return
			}
			pfd := []unix.PollFd{{Fd: int32(k.fd), Events: unix.POLLOUT}}
			if _, err := unix.Poll(pfd, 10_000); err != nil {
				b.Error(err)
			}
			unix.Write(k.fd, []byte("GET / HTTP/1.1\r\n\r\n"))
			fds = append(fds, k.fd)
		}
	}()
	sv.await(n)
	<-opened
	for _, fd := range fds {
		if err := unix.EpollCtl(ep, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}); err != nil {
			b.Fatal(err)
		}
	}
	quit := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer close(quit)
		bareLoop(c, ep, len(fds), events)
	}()
	return func() {
		for _, fd := range fds {
			unix.Shutdown(fd, unix.SHUT_RDWR)
		}
		<-quit
		for _, fd := range append(fds, ep) {
			unix.Close(fd)
		}
	}
}

func bareLoop(c *Client, ep, open int, events *atomic.Int64) {
	var ready [loopBatch]unix.EpollEvent
	buf := make([]byte, loopBuffer)
	rx := receiver{wall: c.wall}
	rx.iov.Base = &buf[0]
	rx.iov.SetLen(len(buf))
	rx.msg.Iov, rx.msg.Iovlen = &rx.iov, 1
	for open > 0 {
		n, err := unix.EpollWait(ep, ready[:], -1)
		if err != nil {
			continue
		}
		for _, e := range ready[:n] {
			if !rx.poll(int(e.Fd)) {
				continue
			}
			if rx.errno != 0 || rx.n == 0 {
				unix.EpollCtl(ep, unix.EPOLL_CTL_DEL, int(e.Fd), nil)
				open--
				continue
			}
			st := ReadStamp{Read: c.now()}
			rx.control(&st)
			events.Add(int64(bytes.Count(buf[:rx.n], []byte("\n\n"))))
		}
	}
}

// BenchmarkTransports: what an event costs the client when it is at its limit,
// in CPU of the whole process but for the thread that writes, and how many
// events shared a read. One writer goes round the streams as fast as it can,
// with no more than one event a stream under way.
func BenchmarkTransports(b *testing.B) {
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	for _, n := range []int{200, 2000} {
		for _, r := range readers() {
			b.Run(fmt.Sprintf("streams=%d/%s", n, r.name), func(b *testing.B) {
				sv := newRawServer(b)
				var events atomic.Int64
				stop := r.start(b, sv, n, &events)
				ev := []byte(event200())
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				b.ReportAllocs()
				b.ResetTimer()
				all, own := cpu(b, unix.RUSAGE_SELF), cpu(b, unix.RUSAGE_THREAD)
				for i := range b.N {
					for int64(i)-events.Load() >= int64(n) {
						runtime.Gosched()
					}
					sv.write(sv.fds[i%n], ev)
				}
				for events.Load() < int64(b.N) {
					runtime.Gosched()
				}
				b.StopTimer()
				all, own = cpu(b, unix.RUSAGE_SELF)-all, cpu(b, unix.RUSAGE_THREAD)-own
				b.ReportMetric(float64(all-own)/float64(b.N), "client-cpu-ns/op")
				stop()
			})
		}
	}
}

func cpu(b testing.TB, who int) time.Duration {
	var r unix.Rusage
	if err := unix.Getrusage(who, &r); err != nil {
		b.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// BenchmarkIdleStream is the user memory of a stream that waits for its next
// event, once it had some: heap and stacks, without the caller's attempt.
func BenchmarkIdleStream(b *testing.B) {
	const n = 4000
	for _, r := range readers()[1:] {
		b.Run(r.name, func(b *testing.B) {
			for b.Loop() {
				sv := newRawServer(b)
				var events atomic.Int64
				before := inUse()
				stop := r.start(b, sv, n, &events)
				for range 3 {
					sv.all(event200())
				}
				for events.Load() < 3*n {
					runtime.Gosched()
				}
				b.ReportMetric(float64(inUse()-before)/n-float64(unsafe.Sizeof(record.Attempt{})), "B/stream")
				stop()
			}
		})
	}
}

func inUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
