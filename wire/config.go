package wire

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/assay-bench/assay/internal/clock"
)

// ConnMode says when connections are opened.
type ConnMode string

const (
	// ConnReuse keeps connections and takes the one used last.
	ConnReuse ConnMode = "reuse"
	// ConnPerRequest opens a connection for every request.
	ConnPerRequest ConnMode = "per-request"
	// ConnSpread keeps connections, and goes round the addresses of the target
	// request by request. An address that cannot be reached is an error there,
	// not a reason to take the next one.
	ConnSpread ConnMode = "spread"
)

// Timeouts bound the stages of an exchange. 0 means no bound.
type Timeouts struct {
	// Connect bounds name lookup, TCP, proxy and TLS together.
	Connect time.Duration
	// First bounds the time from sending to the first event.
	First time.Duration
	// Idle bounds the silence between reads after that. It is enforced at up
	// to a quarter more, so that it needs no timer a read, and never less.
	Idle time.Duration
	// Total bounds everything from the start of Do to the terminal marker.
	Total time.Duration
}

// DefaultMaxIdle is how long an unused connection is kept unless the server
// says otherwise: below the 5 s after which uvicorn (vLLM) closes one.
const DefaultMaxIdle = 4 * time.Second

// DefaultDrain bounds the reading after the terminal marker.
const DefaultDrain = 100 * time.Millisecond

// DefaultMaxHead is the largest accepted response head, in bytes.
const DefaultMaxHead = 256 << 10

// Config says whom to talk to, and how. Scheme, Host and Clock are required.
type Config struct {
	// Scheme is http or https; Host is host or host:port.
	Scheme, Host string
	// HostHeader is sent as Host; default is Host without a default port.
	HostHeader string
	// TLS is used for https; it is cloned. ServerName defaults to the host, and
	// ALPN is always http/1.1 alone.
	TLS *tls.Config
	// Resolve maps host:port to an address or address:port, as curl's --resolve.
	Resolve map[string]string
	// Proxy returns the proxy for a URL, nil for none. Both schemes are then
	// tunnelled by CONNECT.
	Proxy func(*url.URL) (*url.URL, error)
	// Timeouts of each stage.
	Timeouts Timeouts
	// ConnMode defaults to ConnReuse.
	ConnMode ConnMode
	// MaxIdle caps how long an unused connection is kept. If it is 0, the
	// server's Keep-Alive timeout rules, and DefaultMaxIdle where it has none.
	MaxIdle time.Duration
	// Drain bounds the reading after the terminal marker; 0 means DefaultDrain.
	Drain time.Duration
	// MaxEvent bounds one event or whole body in bytes; 0 means DefaultMaxEvent.
	MaxEvent int
	// MaxHead bounds the response head in bytes; 0 means DefaultMaxHead.
	MaxHead int
	// UserStamps turns the kernel's receive stamps off, which are used where
	// there are any (Linux on amd64 and arm64).
	UserStamps bool
	// VerifySend asks the kernel for the transmit stamp of one request in so many,
	// as a proof of Sent; 0 asks for none. See record.Attempt.SentKernel. It needs
	// kernel stamps.
	VerifySend int
	// Sources are local addresses that connections come from, in turn; nil leaves
	// the choice to the system. Each has its own range of ephemeral ports.
	Sources []netip.Addr
	// Clock gives the stamps.
	Clock *clock.Clock
}

// withDefaults checks c and fills in what was left out.
func (c Config) withDefaults() (Config, error) {
	if c.Clock == nil {
		return c, errors.New("wire: no clock")
	}
	port := map[string]string{"http": "80", "https": "443"}[c.Scheme]
	if port == "" {
		return c, fmt.Errorf("wire: scheme %q is neither http nor https", c.Scheme)
	}
	if strings.ContainsAny(c.Host, "/@ ") || c.Host == "" {
		return c, errors.New("wire: the host must be host or host:port")
	}
	h, p, err := net.SplitHostPort(c.Host)
	if err != nil {
		h, p = strings.Trim(c.Host, "[]"), port
	}
	if h == "" || p == "" {
		return c, errors.New("wire: the host must be host or host:port")
	}
	c.Host = net.JoinHostPort(h, p)
	if c.HostHeader == "" {
		c.HostHeader = c.Host
		if p == port {
			c.HostHeader = strings.TrimSuffix(c.Host, ":"+p)
		}
	}
	if strings.ContainsAny(c.HostHeader, "\r\n \x00/") {
		return c, errors.New("wire: invalid Host header")
	}
	if c.ConnMode == "" {
		c.ConnMode = ConnReuse
	}
	if !slices.Contains([]ConnMode{ConnReuse, ConnPerRequest, ConnSpread}, c.ConnMode) {
		return c, fmt.Errorf("wire: unknown connection mode %q", c.ConnMode)
	}
	if c.Drain == 0 {
		c.Drain = DefaultDrain
	}
	if c.MaxEvent == 0 {
		c.MaxEvent = DefaultMaxEvent
	}
	if c.MaxHead == 0 {
		c.MaxHead = DefaultMaxHead
	}
	switch {
	case c.VerifySend < 0:
		return c, fmt.Errorf("wire: one request in %d cannot be verified", c.VerifySend)
	case c.VerifySend > 0 && c.UserStamps:
		return c, errors.New("wire: transmit stamps are the kernel's, and those are turned off")
	case c.VerifySend > 0 && !transmitStamps:
		return c, errors.New("transmit stamps are not available here (they need Linux on amd64 or arm64)")
	}
	c.TLS = tlsConfig(c.TLS, h)
	return c, nil
}

func tlsConfig(base *tls.Config, host string) *tls.Config {
	t := &tls.Config{}
	if base != nil {
		t = base.Clone()
	}
	if t.ServerName == "" {
		t.ServerName = host
	}
	t.NextProtos = []string{"http/1.1"}
	return t
}

// Request is what is sent. The Host header comes from the configuration, and
// the length from Body.
type Request struct {
	// Method and Path (with query, if any) of the request line.
	Method, Path string
	// Header is sent as given, but for Host and Content-Length.
	Header http.Header
	// Body is sent whole. It is not changed and not kept.
	Body []byte
	// Fresh asks for a new connection even if an unused one is there: for the
	// retry after a stale one, of which there may be more.
	Fresh bool
}

// Sink takes a reply. Its methods are called in the goroutine of Do, or on the
// thread of a Loop.
type Sink interface {
	// Head takes the status and the header fields, and says how the body is
	// framed. The body of resp is always empty. An error ends the exchange.
	Head(resp *http.Response) (Framing, error)
	// Frame takes one event, and reports whether it is the terminal marker.
	Frame(f Frame) (terminal bool)
	// Terminal is called once if Head succeeded: right when the terminal marker
	// was seen, or else when the reply ended, well or not. The slot is free
	// then; Do may go on to drain, and the Attempt is still Do's until it
	// returns. It is not called if there was no reply: Do returns at once.
	Terminal()
}
