package calibrate

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/assay-bench/assay/dialect"
	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/wire"
)

// openAtOnce bounds the connections that are being opened at the same time.
const openAtOnce = 64

// Assay is the client of this tool: package wire and the chat dialect, one
// goroutine a stream, as in a run.
func Assay(ctx context.Context, s *Session) error {
	client, body, err := prepare(s)
	if err != nil {
		return err
	}
	defer client.Close()
	if n, err := client.Prewarm(ctx, s.Load.Streams); err != nil {
		return fmt.Errorf("%d connections were opened: %w", n, err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	opening := make(chan struct{}, openAtOnce)
	for slot := range s.Load.Streams {
		opening <- struct{}{}
		wg.Go(func() {
			st := newStream(s, slot, func() { <-opening })
			if err := st.run(ctx, client, body); err != nil {
				cancel(fmt.Errorf("stream %d: %w", slot, err))
			}
		})
	}
	wg.Wait()
	s.back = client.Stats().StampsBack
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// prepare makes the client, and the body that all requests have.
func prepare(s *Session) (*wire.Client, []byte, error) {
	scheme, _, _ := strings.Cut(s.URL(), ":")
	client, err := wire.NewClient(wire.Config{
		Scheme: scheme, Host: s.Addr, TLS: s.TLSConfig(), Clock: s.Clock,
		Timeouts: wire.Timeouts{Connect: 10 * time.Second, First: 60 * time.Second, Idle: 30 * time.Second},
		MaxIdle:  time.Minute,
	})
	if err != nil {
		return nil, nil, err
	}
	options := dialect.Options{Model: "metronome", Stream: true, IncludeUsage: true, ContinuousUsage: true}
	prompt := record.Prompt{Messages: []record.Message{{Role: "user", Content: "count"}}}
	body, err := dialect.Chat{}.AppendRequest(nil, &record.Request{Prompt: prompt, MaxTokens: s.Load.Events}, &options)
	return client, body, err
}

// assayStream is the sink of one stream's replies.
type assayStream struct {
	session   *Session
	slot, nth int
	reader    dialect.Reader
	attempt   record.Attempt
	opened    func() // called once
	refused   error
}

func newStream(s *Session, slot int, opened func()) *assayStream {
	return &assayStream{session: s, slot: slot, reader: dialect.Chat{}.NewReader(), opened: opened}
}

func (st *assayStream) run(ctx context.Context, client *wire.Client, body []byte) error {
	defer st.open()
	for st.nth = range st.session.Load.Replies {
		st.begin()
		req := st.request(body)
		if err := client.Do(ctx, &st.attempt, &req, st); err != nil {
			return err
		}
		if err := st.finish(); err != nil {
			return err
		}
	}
	return nil
}

func (st *assayStream) request(body []byte) wire.Request {
	return wire.Request{
		Method: http.MethodPost, Path: "/v1/chat/completions?" + st.session.Query(st.slot, st.nth),
		Header: http.Header{"Content-Type": {"application/json"}, "X-Request-Id": {strconv.Itoa(st.slot)}},
		Body:   body,
	}
}

func (st *assayStream) open() {
	if st.opened != nil {
		st.opened()
		st.opened = nil
	}
}

// Head implements wire.Sink.
func (st *assayStream) Head(resp *http.Response) (wire.Framing, error) {
	if resp.StatusCode != http.StatusOK {
		st.refused = fmt.Errorf("HTTP %d", resp.StatusCode)
		return wire.Whole, nil
	}
	return wire.SSE, nil
}

// Frame implements wire.Sink.
func (st *assayStream) Frame(f wire.Frame) (terminal bool) {
	if st.refused != nil {
		return false
	}
	if st.opened != nil { // the role chunk
		st.open()
		st.session.Ready()
	}
	e := record.Event{At: f.At, Read: f.Read, WireBytes: int32(f.WireBytes), Flags: f.Flags}
	terminal = st.reader.Event(f.Name, f.Data, &e, &st.attempt)
	st.attempt.Observe(e)
	if e.Flags.Has(record.FlagText) {
		st.session.Event(st.slot, st.nth, int64(e.At), int64(e.Read), e.Flags.Has(record.FlagCoalesced))
	}
	return terminal
}

// Terminal implements wire.Sink.
func (st *assayStream) Terminal() {}
