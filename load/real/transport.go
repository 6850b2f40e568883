package real

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/wire"
)

// transport carries the requests of a run.
type transport interface {
	// exchange is wire.Client.Do, but that it may return early: done is called once
	// with the outcome, before exchange returns or later from another goroutine.
	exchange(ctx context.Context, a *record.Attempt, req *wire.Request, sink wire.Sink, done func(error))
	// start is exchange without waiting: if that can be, the request is sent before
	// it returns, and rest (nil if nothing is left to do) is to be called in a
	// goroutine of its own. ok is false if nothing has happened.
	start(ctx context.Context, a *record.Attempt, req *wire.Request, sink wire.Sink, done func(error)) (rest func(), ok bool)
	// prewarm opens n connections, and says how many it opened.
	prewarm(ctx context.Context, n int) (opened int, err error)
	// String names the transport for the report.
	String() string
}

// perStream has a goroutine for every stream: the one that calls exchange.
type perStream struct{ client *wire.Client }

func (p perStream) exchange(ctx context.Context, a *record.Attempt, req *wire.Request, sink wire.Sink, done func(error)) {
	done(p.client.Do(ctx, a, req, sink))
}

func (p perStream) start(ctx context.Context, a *record.Attempt, req *wire.Request, sink wire.Sink, done func(error)) (rest func(), ok bool) {
	finish, ok := p.client.Start(ctx, a, req, sink)
	if !ok {
		return nil, false
	}
	return func() { done(finish()) }, true
}

func (p perStream) prewarm(ctx context.Context, n int) (int, error) { return p.client.Prewarm(ctx, n) }

func (perStream) String() string { return "goroutine per stream, HTTP/1.1" }

// perThread has a few threads that read all streams.
type perThread struct{ loop *wire.Loop }

func (p perThread) exchange(ctx context.Context, a *record.Attempt, req *wire.Request, sink wire.Sink, done func(error)) {
	// What follows an exchange may wait; the thread must not.
	p.loop.Start(ctx, a, req, sink, func(err error) { go done(err) })
}

func (p perThread) start(ctx context.Context, a *record.Attempt, req *wire.Request, sink wire.Sink, done func(error)) (rest func(), ok bool) {
	p.exchange(ctx, a, req, sink, done)
	return nil, true
}

func (p perThread) prewarm(ctx context.Context, n int) (int, error) { return p.loop.Prewarm(ctx, n) }

func (p perThread) String() string {
	return fmt.Sprintf("epoll loop, threads: %d, HTTP/1.1", p.loop.Threads())
}

// UseLoop makes the runs on the target go over an epoll loop instead of a
// goroutine a stream, until it is closed after them. Single requests
// ([Target.Try]) still do not. It fails where package wire has no loop, and if the
// target is reached by TLS or through a proxy.
func (t *Target) UseLoop() (closeLoop func(), err error) {
	l, err := wire.NewLoop(t.client, 0)
	if err != nil {
		return nil, err
	}
	t.transport = perThread{l}
	return l.Close, nil
}

// Transport names what carries the requests, for the report.
func (t *Target) Transport() string { return t.transport.String() }

// Prewarm opens n connections, so that the first requests do not wait for them.
func (t *Target) Prewarm(ctx context.Context, n int) error {
	opened, err := t.transport.prewarm(ctx, n)
	if err != nil {
		return fmt.Errorf("opening %d connections ahead: %d were opened: %w%s", n, opened, err, backlogHint(opened, err))
	}
	return nil
}

// backlogHint says why a target that took some connections takes no more.
func backlogHint(opened int, err error) string {
	var w *wire.Error
	full := errors.Is(err, syscall.ECONNREFUSED) || errors.As(err, &w) && w.Outcome == record.TimeoutConnect
	if opened == 0 || !full {
		return ""
	}
	return "; the far side takes no more: look at the listen backlog there (the server's own and net.core.somaxconn), its limit of open files, and any proxy between"
}
