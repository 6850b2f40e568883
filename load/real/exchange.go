package real

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/assay-bench/assay/dialect"
	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/wire"
)

// maxErrorBody is how much of an error reply is kept.
const maxErrorBody = 2 << 10

// Reasons for which a run cuts its own requests off; the cause of a cancelled
// context.
var (
	errCensored    = errors.New("cut off at the cooldown bound")
	errInterrupted = errors.New("cut off: the run was interrupted")
)

// replyKind is how the body of a reply is read.
type replyKind int

const (
	replyStream  replyKind = iota // the dialect's events
	replyWhole                    // one JSON object
	replyError                    // kept as text: a status that is no success
	replyForeign                  // kept as text: not the dialect's
)

// exchange is one attempt while it happens: the sink of a wire.Client's frames.
// It is reused for later attempts.
type exchange struct {
	a       record.Attempt
	request []byte // encoded; nil once a reply has begun, since no retry can follow
	reader  dialect.Reader
	events  []record.Event
	kind    replyKind
	body    []byte // of replies that are kept as text
	server  string // Server header
	redir   string // Location of a redirect
	failed  bool   // an error event was seen
	wholeOK bool
	secrets secrets
	// over is called when the slot is free.
	over func()
}

func (x *exchange) reset(request []byte, over func()) {
	x.request = request
	x.a = record.Attempt{}
	x.reader.Reset()
	x.events, x.body = x.events[:0], x.body[:0]
	x.kind, x.failed, x.wholeOK, x.redir, x.server, x.over = replyStream, false, false, "", "", over
}

// Head implements wire.Sink: it decides by status and content type how the body
// is read. HTTP 200 alone is no success.
func (x *exchange) Head(h *http.Response) (wire.Framing, error) {
	x.request = nil
	x.server = h.Header.Get("Server")
	media, _, _ := mime.ParseMediaType(h.Header.Get("Content-Type"))
	switch {
	case h.StatusCode < 200 || h.StatusCode > 299:
		x.kind, x.redir = replyError, h.Header.Get("Location")
		return wire.Whole, nil
	case !x.a.Streamed:
		x.kind = replyWhole
		return wire.Whole, nil
	case media == "text/event-stream":
		return wire.SSE, nil
	case strings.Contains(media, "ndjson"):
		return wire.NDJSON, nil
	}
	x.kind = replyForeign
	x.a.Error = fmt.Sprintf("streaming was asked for and the reply is %q, not text/event-stream", media)
	return wire.Whole, nil
}

// Frame implements wire.Sink.
func (x *exchange) Frame(f wire.Frame) (terminal bool) {
	e := record.Event{At: f.At, Read: f.Read, WireBytes: int32(f.WireBytes), Flags: f.Flags}
	switch x.kind {
	case replyError, replyForeign:
		x.body = append(x.body, x.secrets.clip(f.Data, maxErrorBody)...)
		return false
	case replyWhole:
		if err := x.reader.Whole(f.Data, &e, &x.a); err != nil {
			x.kind = replyForeign
			x.a.Error = err.Error()
			x.body = append(x.body, x.secrets.clip(f.Data, maxErrorBody)...)
			return false
		}
		x.wholeOK = true
	default:
		terminal = x.reader.Event(f.Name, f.Data, &e, &x.a)
	}
	if e.Flags.Has(record.FlagError) {
		x.failed = true
	}
	x.a.Observe(e)
	x.events = append(x.events, e)
	return terminal
}

// Terminal implements wire.Sink.
func (x *exchange) Terminal() {
	if x.over != nil {
		x.over()
	}
}

// conclude enters the attempt into exactly one row of the ledger, after the
// transport ended with err.
func (x *exchange) conclude(ctx context.Context, err error) {
	a := &x.a
	switch {
	case a.Status != 0 && (a.Status < 200 || a.Status > 299):
		x.concludeStatus()
	case x.kind == replyForeign:
		a.Outcome, a.ErrorBody = record.NotDialect, string(x.body)
	case x.failed:
		a.Outcome = record.StreamError
	case a.Streamed && (a.Finish.Known() || a.Done.Known()), x.wholeOK && err == nil:
		a.Outcome = record.Completed
		if err != nil {
			a.Error = "complete but unterminated: " + err.Error()
		}
	case err != nil:
		a.Outcome, a.Error = outcomeOf(ctx, a, err)
	case a.Events > 0 && x.foreign():
		a.Outcome, a.Error = record.NotDialect, "no event of the stream is the dialect's"
	default:
		a.Outcome, a.Error = record.Truncated, "the stream ended without a finish reason or a terminal marker"
	}
}

// answered reports whether the reply is whole, as far as it was read: what conclude
// will call completed.
func (x *exchange) answered() bool {
	a := &x.a
	switch {
	case a.Status < 200 || a.Status > 299, x.kind == replyForeign, x.failed:
		return false
	case a.Streamed:
		return a.Finish.Known() || a.Done.Known()
	}
	return x.wholeOK
}

// foreign reports whether the dialect knew none of the events.
func (x *exchange) foreign() bool {
	return !slices.ContainsFunc(x.events, func(e record.Event) bool { return !e.Flags.Has(record.FlagOther) })
}

func (x *exchange) concludeStatus() {
	a := &x.a
	a.ErrorBody = string(x.body)
	a.Outcome = record.HTTPError
	if a.Status == http.StatusTooManyRequests || a.Status == http.StatusServiceUnavailable {
		a.Outcome = record.Rejected
	}
	a.Error = fmt.Sprintf("HTTP %d", a.Status)
	if text := dialect.ParseError(x.body); text != "" {
		a.Error += ": " + text
	}
	if a.Status >= 300 && a.Status < 400 {
		a.Error = fmt.Sprintf("HTTP %d redirects to %s; redirects are refused: give that URL", a.Status, withoutUser(x.redir))
	}
}

func outcomeOf(ctx context.Context, a *record.Attempt, err error) (record.Outcome, string) {
	if ctx.Err() != nil {
		cause := context.Cause(ctx)
		switch {
		case errors.Is(cause, errCensored):
			if a.Sent == 0 {
				return record.NeverSent, cause.Error()
			}
			return record.Censored, cause.Error()
		default:
			if a.Sent == 0 {
				return record.NeverSent, errInterrupted.Error()
			}
			return record.Interrupted, errInterrupted.Error()
		}
	}
	var w *wire.Error
	if errors.As(err, &w) {
		return w.Outcome, w.Error()
	}
	return record.StreamReset, err.Error()
}
