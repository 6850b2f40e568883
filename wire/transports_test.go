package wire

import (
	"context"
	"runtime"
	"testing"

	"github.com/assay-bench/assay/record"
)

// subject is a client whose exchanges go over one of the transports.
type subject struct {
	*Client
	loop *Loop
	// halved makes exchanges by Start, where that can be.
	halved bool
}

// opener makes a subject for a test server; edit may change its configuration.
type opener func(t testing.TB, addr string, edit func(*Config)) *subject

// both runs a test on each transport.
func both(t *testing.T, test func(t *testing.T, newClient opener)) {
	t.Run("goroutine", func(t *testing.T) {
		test(t, func(t testing.TB, addr string, edit func(*Config)) *subject {
			return &subject{Client: newClient(t, addr, edit)}
		})
	})
	t.Run("started", func(t *testing.T) {
		test(t, func(t testing.TB, addr string, edit func(*Config)) *subject {
			return &subject{Client: newClient(t, addr, edit), halved: true}
		})
	})
	if runtime.GOOS != "linux" {
		return
	}
	t.Run("epoll", func(t *testing.T) { test(t, newLoop) })
}

func newLoop(t testing.TB, addr string, edit func(*Config)) *subject {
	t.Helper()
	return newLoopOf(t, 2, addr, edit)
}

func newLoopOf(t testing.TB, threads int, addr string, edit func(*Config)) *subject {
	t.Helper()
	c := newClient(t, addr, edit)
	l, err := NewLoop(c, threads)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return &subject{Client: c, loop: l}
}

// Do is an exchange on the transport of the subject.
func (s *subject) Do(ctx context.Context, a *record.Attempt, req *Request, sink Sink) error {
	if s.halved {
		if finish, ok := s.Client.Start(ctx, a, req, sink); ok {
			return finish()
		}
	}
	if s.loop == nil {
		return s.Client.Do(ctx, a, req, sink)
	}
	over := make(chan error, 1)
	s.loop.Start(ctx, a, req, sink, func(err error) { over <- err })
	return <-over
}

// Prewarm opens connections of the transport of the subject.
func (s *subject) Prewarm(ctx context.Context, n int) (int, error) {
	if s.loop == nil {
		return s.Client.Prewarm(ctx, n)
	}
	return s.loop.Prewarm(ctx, n)
}

// close closes the unused connections.
func (s *subject) close() {
	s.Close()
	if s.loop != nil {
		s.loop.Close()
	}
}
