//go:build amd64 || arm64

package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/assay-bench/assay/record"
)

// maxThreads is how many threads a Loop has unless it is told.
const maxThreads = 2

// Loop is the transport for many thousand streams of plain HTTP/1.1: a few
// locked threads read all connections by epoll, and a stream needs no goroutine
// and no buffer of its own while it is silent. Outcomes, stamps, timeouts and
// the use of connections are those of [Client.Do].
//
// A request is written by the goroutine that starts it, so that neither its
// bytes nor a busy thread delay Sent. From then on the stream is read by one
// thread, and everything that it calls (the Sink, done) runs on that thread and
// holds up its other streams: it must be short, and must not block.
type Loop struct {
	client  *Client
	pool    pool[*socket]
	workers []*worker
	running sync.WaitGroup
	streams sync.Pool
	life    context.Context // until Close
	end     context.CancelFunc
	targets atomic.Pointer[[]netip.AddrPort] // the route's addresses, parsed
}

// NewLoop makes a loop that has the configuration, the statistics and the route
// of c, but connections of its own. Threads is how many read; 0 means two, or
// one on a single core. It fails if the target needs TLS or a proxy, which a
// loop does not speak.
func NewLoop(c *Client, threads int) (*Loop, error) {
	if c.cfg.Scheme != "http" {
		return nil, errors.New("the epoll transport speaks no TLS")
	}
	if c.cfg.Proxy != nil {
		p, err := c.cfg.Proxy(&url.URL{Scheme: c.cfg.Scheme, Host: c.cfg.Host})
		if err != nil {
			return nil, fmt.Errorf("choosing a proxy: %w", err)
		}
		if p != nil {
			return nil, errors.New("the epoll transport goes through no proxy")
		}
	}
	if threads <= 0 {
		threads = min(maxThreads, runtime.NumCPU())
	}
	l := &Loop{client: c, pool: newPool[*socket](c)}
	l.life, l.end = context.WithCancel(context.Background())
	l.streams.New = func() any {
		s := &stream{}
		s.emitFunc = s.emit
		return s
	}
	for range threads {
		w, err := newWorker(l)
		if err != nil {
			l.Close()
			return nil, fmt.Errorf("making an epoll loop: %w", err)
		}
		l.workers = append(l.workers, w)
		l.running.Go(w.run)
	}
	return l, nil
}

// Threads is how many threads read.
func (l *Loop) Threads() int { return len(l.workers) }

// Close cuts off what is in flight, closes the unused connections and waits for
// the threads to end. It must not be called by a Sink or a done.
func (l *Loop) Close() {
	l.end()
	for _, w := range l.workers {
		w.quit()
	}
	l.running.Wait()
	l.pool.close()
}

// Start sends one request, and returns once it is sent or on its way. It fills
// in of the attempt what [Client.Do] does, and done gets what Do would return,
// after the last use of attempt and sink. Done is called on the thread that
// reads the stream, even if nothing could be sent; if the loop has been closed,
// it is called before Start returns. Of req nothing is kept. A context that many
// streams share costs them nothing.
func (l *Loop) Start(ctx context.Context, a *record.Attempt, req *Request, sink Sink, done func(err error)) {
	c := l.client
	s := l.newStream(ctx, a, sink, done)
	s.method, s.hidden = req.Method, hiddenValues(req.Header)
	s.out = requestBuffers.Get().(*bytes.Buffer)
	s.total = after(s.begin, c.cfg.Timeouts.Total)
	if err := c.encode(s.out, req); err != nil {
		s.refuse(&Error{Outcome: record.NeverSent, Err: fmt.Errorf("building the request: %w", err)})
		return
	}
	if ctx.Err() != nil {
		s.refuse(ctx.Err())
		return
	}
	turn := c.nextAddress()
	inUse, err := c.enter()
	if err != nil {
		s.refuse(err)
		return
	}
	s.entered = true
	if k, ok := l.pool.take(turn, req.Fresh); ok {
		c.stats.reused.Add(1)
		a.ConnReused, s.sock = true, k
		s.ready()
		s.hand()
		return
	}
	if c.cfg.ConnMode != ConnPerRequest && c.stats.opened.Load() >= int64(inUse) {
		c.stats.reconnects.Add(1)
	}
	s.connect(turn)
}

// Prewarm opens n connections, as [Client.Prewarm] does.
func (l *Loop) Prewarm(ctx context.Context, n int) (opened int, err error) {
	c := l.client
	if c.cfg.ConnMode == ConnPerRequest {
		return 0, nil
	}
	var (
		mu    sync.Mutex
		wg    sync.WaitGroup
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
		wg.Add(1)
		s := l.newStream(ctx, &record.Attempt{}, nil, func(e error) {
			mu.Lock()
			if e == nil {
				opened++
			} else if err == nil {
				err = e
			}
			mu.Unlock()
			<-slots
			wg.Done()
		})
		s.connect(c.nextAddress())
	}
	wg.Wait()
	return opened, err
}

// newStream makes a stream for the worker that has the fewest.
func (l *Loop) newStream(ctx context.Context, a *record.Attempt, sink Sink, done func(error)) *stream {
	w := l.workers[0]
	for _, other := range l.workers[1:] {
		if other.inFlight.Load() < w.inFlight.Load() {
			w = other
		}
	}
	w.inFlight.Add(1)
	s := l.streams.Get().(*stream)
	s.loop, s.worker, s.ctx, s.a, s.sink, s.done = l, w, ctx, a, sink, done
	s.begin = l.client.now()
	return s
}
