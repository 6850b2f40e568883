package real

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/assay-bench/assay/dialect"
	"github.com/assay-bench/assay/internal/clock"
	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/wire"
)

// TargetError says that the target cannot be measured as asked: it is not
// reachable, refused us, or does not do what was asked for.
type TargetError struct {
	// Text is one line that says what to do about it.
	Text string
	Err  error
}

func (e *TargetError) Error() string { return e.Text }
func (e *TargetError) Unwrap() error { return e.Err }

func targetErrorf(err error, format string, args ...any) error {
	return &TargetError{Text: fmt.Sprintf(format, args...), Err: err}
}

// Target is one endpoint as a run talks to it.
type Target struct {
	Endpoint Endpoint
	// Dialect and Options are settled by Probe.
	Dialect dialect.Dialect
	Options dialect.Options

	client *wire.Client
	// transport carries the requests of runs; all else goes over client.
	transport transport
	clock     *clock.Clock
	header    http.Header
	secrets   secrets
	runID     string // 16 hexadecimal digits
}

// NewTarget makes a target that talks through client, with the given headers on
// every request. Headers may hold secrets; they go nowhere but to the target.
func NewTarget(e Endpoint, client *wire.Client, c *clock.Clock, header http.Header) *Target {
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails, see crypto/rand
	hidden := secretsOf(header, e.User, e.Query)
	h := header.Clone()
	if h == nil {
		h = make(http.Header)
	}
	setDefault(h, "Content-Type", "application/json")
	setDefault(h, "Accept", "text/event-stream, application/json")
	setDefault(h, "User-Agent", "assay")
	h.Set("Accept-Encoding", "identity")
	if e.User != nil && h.Get("Authorization") == "" {
		password, _ := e.User.Password()
		r := http.Request{Header: h}
		r.SetBasicAuth(e.User.Username(), password)
	}
	return &Target{Endpoint: e, client: client, transport: perStream{client}, clock: c, header: h, secrets: hidden, runID: hex.EncodeToString(id[:])}
}

func setDefault(h http.Header, key, value string) {
	if h.Get(key) == "" {
		h.Set(key, value)
	}
}

// RunID is unique in the world: it begins the id of every request of this run.
func (t *Target) RunID() string { return t.runID }

// TakeClock returns the estimates of the wall clock's offset since the last call,
// as [wire.Client.TakeClock] does.
func (t *Target) TakeClock() []record.ClockOffset { return t.client.TakeClock() }

// identify names the attempt, and returns the headers that carry its name: the
// request id, and a sampled trace parent so that a server's spans can be joined.
func (t *Target) identify(a *record.Attempt) http.Header {
	a.ID = "assay-" + t.runID + "-" + strconv.FormatInt(a.Request, 10)
	if a.Try > 0 {
		a.ID += "-" + strconv.Itoa(a.Try)
	}
	h := t.header.Clone()
	h["X-Request-Id"] = []string{a.ID}
	h["Traceparent"] = []string{fmt.Sprintf("00-%s%016x-%016x-01", t.runID, uint64(a.Request)+1, uint64(a.Try)+1)}
	return h
}

// request is the exchange's attempt as it is sent.
func (t *Target) request(x *exchange, fresh bool) *wire.Request {
	return &wire.Request{
		Method: http.MethodPost, Path: t.Endpoint.api(t.Dialect.Path()), Header: t.identify(&x.a), Body: x.request, Fresh: fresh,
	}
}

// conclude takes the end of the transport's part.
func (t *Target) conclude(ctx context.Context, x *exchange, err error) {
	x.conclude(ctx, err)
	for _, text := range []*string{&x.a.Error, &x.a.ErrorBody, &x.a.FinishReason, &x.a.StopReason, &x.a.Model} {
		*text = t.secrets.redact(*text)
	}
	if x.a.Ended == 0 {
		x.a.Ended = record.Stamp(t.clock.Now())
	}
}

// newExchange makes an exchange for the target's dialect.
func (t *Target) newExchange() *exchange {
	return &exchange{reader: t.Dialect.NewReader(), secrets: t.secrets}
}

// Try sends one request outside of any measurement and returns what became of
// it. A stale connection is tried once more.
func (t *Target) Try(ctx context.Context, r *record.Request, o *dialect.Options) (record.Attempt, error) {
	body, err := t.Dialect.AppendRequest(nil, r, o)
	if err != nil {
		return record.Attempt{}, fmt.Errorf("encoding a request: %w", err)
	}
	x := t.newExchange()
	for try := range 2 {
		x.reset(body, nil)
		now := record.Stamp(t.clock.Now())
		x.a = record.Attempt{Request: r.Index, Try: try, Streamed: o.Stream, MaxTokens: r.MaxTokens, Scheduled: now, Dispatched: now}
		t.conclude(ctx, x, t.client.Do(ctx, &x.a, t.request(x, try > 0), x))
		if x.a.Outcome != record.StaleConnection {
			break
		}
	}
	return x.a, nil
}

// page is a small reply that is read whole.
type page struct {
	status int
	header http.Header
	body   []byte
}

// Head implements wire.Sink.
func (p *page) Head(h *http.Response) (wire.Framing, error) {
	p.status, p.header = h.StatusCode, h.Header
	return wire.Whole, nil
}

// Frame implements wire.Sink.
func (p *page) Frame(f wire.Frame) bool {
	p.body = append(p.body, f.Data...)
	return false
}

// Terminal implements wire.Sink.
func (p *page) Terminal() {}

// anyType accepts whatever the target answers with.
const anyType = "*/*"

// fetch gets or posts something small by the same connections, with the same
// headers as the requests that are measured.
func (t *Target) fetch(ctx context.Context, method, path, accept string, body []byte) (*page, error) {
	h := t.header.Clone()
	if body == nil {
		h.Del("Content-Type")
	}
	h.Set("Accept", accept)
	for try := range 2 {
		p, a := &page{}, record.Attempt{}
		err := t.client.Do(ctx, &a, &wire.Request{Method: method, Path: path, Header: h, Body: body, Fresh: try > 0}, p)
		var w *wire.Error
		if try == 0 && errors.As(err, &w) && w.Outcome == record.StaleConnection {
			continue
		}
		if err != nil {
			return nil, err
		}
		return p, nil
	}
	return nil, errors.New("two connections in a row died before a reply") // not reached: a fresh connection is never stale
}

// withoutUser strips credentials off a URL that goes into a message.
func withoutUser(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "a URL that cannot be parsed"
	}
	u.User = nil
	if s := u.String(); strings.TrimSpace(s) != "" {
		return s
	}
	return "nowhere (no Location header)"
}
