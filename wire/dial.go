package wire

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/assay-bench/assay/record"
)

// timings of opening a connection.
type timings struct {
	dns, connect, tls time.Duration
}

// route is where connections go: the target, or a proxy that tunnels to it.
type route struct {
	proxy   *url.URL // nil: direct
	connect string   // host:port for CONNECT
	addrs   []string // address:port, in the order of the resolver
}

// dialRoute returns the route, resolving it the first time. A failure is not
// remembered.
func (c *Client) dialRoute(ctx context.Context, t *timings) (*route, error) {
	if r := c.route.Load(); r != nil {
		return r, nil
	}
	select {
	case c.resolving <- struct{}{}:
		defer func() { <-c.resolving }()
	case <-ctx.Done():
		return nil, &Error{Outcome: record.ConnectDNS, Err: ctx.Err()}
	}
	if r := c.route.Load(); r != nil {
		return r, nil
	}
	begin := c.now()
	r, err := c.resolve(ctx)
	t.dns = time.Duration(c.now() - begin)
	if err != nil {
		return nil, &Error{Outcome: record.ConnectDNS, Err: err}
	}
	c.route.Store(r)
	return r, nil
}

func (c *Client) resolve(ctx context.Context) (*route, error) {
	r := &route{connect: c.cfg.Host}
	hostport := c.cfg.Host
	if mapped, ok := c.cfg.Resolve[hostport]; ok {
		_, port, _ := net.SplitHostPort(hostport)
		if _, _, err := net.SplitHostPort(mapped); err != nil {
			mapped = net.JoinHostPort(strings.Trim(mapped, "[]"), port)
		}
		hostport, r.connect = mapped, mapped
	}
	if c.cfg.Proxy != nil {
		p, err := c.cfg.Proxy(&url.URL{Scheme: c.cfg.Scheme, Host: c.cfg.Host})
		if err != nil {
			return nil, fmt.Errorf("choosing a proxy: %w", err)
		}
		if p != nil {
			port := map[string]string{"http": "80", "https": "443"}[p.Scheme]
			if port == "" {
				return nil, fmt.Errorf("proxy scheme %q is neither http nor https", p.Scheme)
			}
			if p.Port() != "" {
				port = p.Port()
			}
			r.proxy, hostport = p, net.JoinHostPort(p.Hostname(), port)
		}
	}
	host, port, err := net.SplitHostPort(hostport)
	if err != nil {
		return nil, fmt.Errorf("address of the target: %w", err)
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		r.addrs = []string{net.JoinHostPort(ip.String(), port)}
		return r, nil
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, fmt.Errorf("resolving %s: %w", host, err)
	}
	for _, ip := range ips {
		r.addrs = append(r.addrs, net.JoinHostPort(ip.Unmap().String(), port))
	}
	if len(r.addrs) == 0 {
		return nil, fmt.Errorf("resolving %s: no address", host)
	}
	return r, nil
}

// open makes a connection that is ready for a request. Address is an index
// into the route; only spread mode insists on it.
func (c *Client) open(ctx context.Context, r *route, address int, t *timings) (*conn, error) {
	begin := c.now()
	raw, err := c.dialTCP(ctx, r, address)
	t.connect = time.Duration(c.now() - begin)
	if err != nil {
		return nil, &Error{Outcome: record.ConnectTCP, Err: err}
	}
	sc := newStampConn(raw, c.cfg.Clock)
	sc.back = &c.stats.back
	if !c.cfg.UserStamps {
		sc.rx = newReceiver(raw, c.wall)
	}
	if sc.rx != nil && c.cfg.VerifySend > 0 {
		sc.tx = newTransmitter(raw)
	}
	top, err := c.layer(ctx, r, sc, t)
	if err != nil {
		raw.Close()
		return nil, err
	}
	cn := &conn{link: link{client: c, address: address, remote: raw.RemoteAddr().String()}, raw: sc, top: top}
	cn.emitFunc = cn.emit
	cn.readFunc = cn.read
	cn.readSize = smallRead
	if sc.tls {
		cn.readSize = tlsRead
	}
	return cn, nil
}

// dialTCP goes through the addresses, the one that worked last first, and gives
// each its part of the time that is left.
func (c *Client) dialTCP(ctx context.Context, r *route, address int) (net.Conn, error) {
	if c.cfg.ConnMode == ConnSpread {
		return c.dialPart(ctx, r.addrs[address], 1)
	}
	first := int(c.preferred.Load())
	var errs []error
	for i := range r.addrs {
		k := (first + i) % len(r.addrs)
		conn, err := c.dialPart(ctx, r.addrs[k], len(r.addrs)-i)
		if err == nil {
			c.preferred.Store(int32(k))
			return conn, nil
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(errs...)
}

func (c *Client) dialPart(ctx context.Context, addr string, parts int) (net.Conn, error) {
	if deadline, ok := ctx.Deadline(); ok && parts > 1 {
		left := deadline.Sub(c.cfg.Clock.Time(c.cfg.Clock.Now()))
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, left/time.Duration(parts))
		defer cancel()
	}
	d, err := c.dialer(addr)
	if err != nil {
		return nil, err
	}
	return d.DialContext(ctx, "tcp", addr)
}

// layer puts tunnel and TLS on a raw connection.
func (c *Client) layer(ctx context.Context, r *route, sc *stampConn, t *timings) (net.Conn, error) {
	var top net.Conn = sc
	if r.proxy != nil {
		begin := c.now()
		tunnel, err := c.tunnel(ctx, r, sc)
		t.connect += time.Duration(c.now() - begin)
		if err != nil {
			return nil, &Error{Outcome: record.ConnectTCP, Err: fmt.Errorf("proxy %s: %w", r.proxy.Host, err)}
		}
		top = tunnel
	}
	if c.cfg.Scheme != "https" {
		return top, nil
	}
	sc.tls = true
	begin := c.now()
	tc := tls.Client(top, c.cfg.TLS)
	err := tc.HandshakeContext(ctx)
	t.tls = time.Duration(c.now() - begin)
	if err != nil {
		return nil, &Error{Outcome: record.ConnectTLS, Err: explainTLS(err)}
	}
	return tc, nil
}

// explainTLS says what the two usual misunderstandings mean.
func explainTLS(err error) error {
	var plain tls.RecordHeaderError
	switch {
	case errors.As(err, &plain):
		return fmt.Errorf("TLS handshake: the server does not speak TLS (try http://): %w", err)
	case strings.Contains(err.Error(), "no application protocol"):
		return fmt.Errorf("TLS handshake: the server refuses HTTP/1.1 (ALPN), which is all that this client speaks: %w", err)
	}
	return fmt.Errorf("TLS handshake: %w", err)
}

// tunnel asks the proxy for a way to the target (RFC 9110, section 9.3.6).
func (c *Client) tunnel(ctx context.Context, r *route, sc *stampConn) (net.Conn, error) {
	stop := context.AfterFunc(ctx, func() { sc.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	var top net.Conn = sc
	if r.proxy.Scheme == "https" {
		sc.tls = true
		tc := tls.Client(sc, tlsConfig(&tls.Config{RootCAs: c.cfg.TLS.RootCAs, InsecureSkipVerify: c.cfg.TLS.InsecureSkipVerify}, r.proxy.Hostname()))
		if err := tc.HandshakeContext(ctx); err != nil {
			return nil, explainTLS(err)
		}
		top = tc
	}
	var auth string
	if u := r.proxy.User; u != nil {
		pw, _ := u.Password()
		auth = "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(u.Username()+":"+pw)) + "\r\n"
	}
	if _, err := fmt.Fprintf(top, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", r.connect, r.connect, auth); err != nil {
		return nil, fmt.Errorf("CONNECT: %w", err)
	}
	// The target is silent until we speak, so nothing is read beyond the head.
	br := bufio.NewReader(io.LimitReader(top, int64(c.cfg.MaxHead)))
	resp, err := http.ReadResponse(br, &http.Request{Method: http.MethodConnect})
	if err != nil {
		if ctx.Err() != nil || errors.Is(err, os.ErrDeadlineExceeded) {
			err = os.ErrDeadlineExceeded
		}
		return nil, fmt.Errorf("CONNECT: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("CONNECT refused with status %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	}
	if br.Buffered() > 0 {
		return nil, errors.New("CONNECT: the proxy sent data after its reply")
	}
	return top, nil
}
