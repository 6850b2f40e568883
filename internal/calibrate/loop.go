package calibrate

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/wire"
)

// Loop is the client of this tool on its second transport: package wire's epoll
// loop with one thread, and the chat dialect.
func Loop(ctx context.Context, s *Session) error {
	client, body, err := prepare(s)
	if err != nil {
		return err
	}
	defer client.Close()
	loop, err := wire.NewLoop(client, 1)
	if err != nil {
		return err
	}
	defer loop.Close()
	if n, err := loop.Prewarm(ctx, s.Load.Streams); err != nil {
		return fmt.Errorf("%d connections were opened: %w", n, err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	opening := make(chan struct{}, openAtOnce)
	for slot := range s.Load.Streams {
		select {
		case opening <- struct{}{}:
		case <-ctx.Done(): // a stream failed
			continue
		}
		st := newStream(s, slot, func() { <-opening })
		wg.Add(1)
		var over func(error)
		start := func() {
			st.begin()
			req := st.request(body)
			loop.Start(ctx, &st.attempt, &req, st, over)
		}
		over = func(err error) { // on the loop's thread
			err = errors.Join(err, st.finish())
			if err != nil {
				cancel(fmt.Errorf("stream %d: %w", slot, err))
			}
			if st.nth++; err != nil || st.nth == s.Load.Replies {
				st.open()
				wg.Done()
				return
			}
			go start()
		}
		start()
	}
	wg.Wait()
	s.back = client.Stats().StampsBack
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// begin prepares for the next reply.
func (st *assayStream) begin() {
	st.reader.Reset()
	st.attempt = record.Attempt{}
}

// finish notes what the whole exchange told.
func (st *assayStream) finish() error {
	if st.refused != nil {
		return st.refused
	}
	st.session.Sent(st.slot, st.nth, int64(st.attempt.Sent))
	return nil
}
