package cli

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"os"
	"strings"

	"github.com/assay-bench/assay/internal/clock"
	"github.com/assay-bench/assay/load/real"
	"github.com/assay-bench/assay/wire"
)

// verifyEvery is how many requests there are for one whose sending is verified:
// some six microseconds of work each, and enough for a p99 in most runs.
const verifyEvery = 4

// openTarget makes a target of the configuration. Nothing is dialled yet.
func openTarget(t *targetConfig, rawURL string, c *clock.Clock) (*real.Target, func(), error) {
	endpoint, err := real.ParseEndpoint(rawURL)
	if err != nil {
		return nil, nil, usageError{err}
	}
	header, err := headers(t)
	if err != nil {
		return nil, nil, err
	}
	tlsConfig, err := tlsConfig(t)
	if err != nil {
		return nil, nil, err
	}
	resolve, err := resolveMap(t.Resolve)
	if err != nil {
		return nil, nil, err
	}
	sources, err := t.sources()
	if err != nil {
		return nil, nil, err
	}
	verify := 0
	if t.VerifySend {
		verify = verifyEvery
	}
	client, err := wire.NewClient(wire.Config{
		Scheme: endpoint.Scheme, Host: endpoint.Host, HostHeader: t.Host, TLS: tlsConfig, Resolve: resolve,
		Proxy: proxyFromEnvironment, ConnMode: wire.ConnMode(t.Conn),
		Timeouts: wire.Timeouts{Connect: t.Timeout.Connect, First: t.Timeout.First, Idle: t.Timeout.Idle, Total: t.Timeout.Total},
		Sources:  sources, VerifySend: verify, Clock: c,
	})
	if err != nil {
		return nil, nil, usageError{err}
	}
	target := real.NewTarget(endpoint, client, c, header)
	target.Options.ExtraBody = []byte(t.ExtraBody)
	return target, client.Close, nil
}

// headers are those of the configuration and the key. Errors name a header,
// never its value.
func headers(t *targetConfig) (http.Header, error) {
	h := make(http.Header)
	for i, line := range t.Headers {
		name, value, ok := strings.Cut(line, ":")
		name = textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(name))
		value = strings.TrimSpace(value)
		if !ok || !validName(name) {
			return nil, usagef("header %d (--header): want \"NAME: VALUE\"", i+1)
		}
		if !validValue(value) {
			return nil, usagef("header %s (--header): its value has characters that no header may have", name)
		}
		if value == redactedValue {
			if !givenAgain(t.Headers, i, name) {
				return nil, usagef("header %s: its value is not in the file, since values of headers are never printed; give it with --header", name)
			}
			continue
		}
		if name == "Content-Length" || name == "Transfer-Encoding" || name == "Host" {
			return nil, usagef("header %s (--header): it is not yours to set; for Host there is --host", name)
		}
		h.Add(name, value)
	}
	if t.APIKeyEnv == "" {
		return h, nil
	}
	key := strings.TrimSpace(os.Getenv(t.APIKeyEnv))
	if key == "" {
		return nil, usagef("target.api_key_env (--api-key-env): the environment variable %s is not set", t.APIKeyEnv)
	}
	if !validValue(key) {
		return nil, usagef("target.api_key_env (--api-key-env): the value of %s has characters that no header may have", t.APIKeyEnv)
	}
	h.Set("Authorization", "Bearer "+key)
	return h, nil
}

// givenAgain reports whether another line than the i-th gives the header.
func givenAgain(lines []string, i int, name string) bool {
	for k, line := range lines {
		other, value, _ := strings.Cut(line, ":")
		if k != i && strings.EqualFold(strings.TrimSpace(other), name) && strings.TrimSpace(value) != redactedValue {
			return true
		}
	}
	return false
}

func tlsConfig(t *targetConfig) (*tls.Config, error) {
	c := &tls.Config{InsecureSkipVerify: t.Insecure}
	if t.CAFile == "" {
		return c, nil
	}
	pem, err := os.ReadFile(t.CAFile)
	if err != nil {
		return nil, usagef("target.ca_file (--ca-file): %w", err)
	}
	c.RootCAs = x509.NewCertPool()
	if !c.RootCAs.AppendCertsFromPEM(pem) {
		return nil, usagef("target.ca_file (--ca-file): %s has no certificate in PEM form", t.CAFile)
	}
	return c, nil
}

// resolveMap reads HOST:PORT:ADDR, where ADDR may be an IPv6 address in
// brackets or without.
func resolveMap(lines []string) (map[string]string, error) {
	m := make(map[string]string)
	for _, line := range lines {
		parts := strings.SplitN(line, ":", 3)
		if len(parts) != 3 || net.ParseIP(strings.Trim(parts[2], "[]")) == nil {
			return nil, usagef("resolve (--resolve) %q: want HOST:PORT:ADDRESS", line)
		}
		m[net.JoinHostPort(parts[0], parts[1])] = strings.Trim(parts[2], "[]")
	}
	return m, nil
}

// proxyFromEnvironment is Go's usual reading of HTTPS_PROXY, HTTP_PROXY and
// NO_PROXY; loopback is never proxied.
func proxyFromEnvironment(u *url.URL) (*url.URL, error) {
	return http.ProxyFromEnvironment(&http.Request{URL: u})
}

// validName and validValue follow RFC 9110, section 5.
func validName(s string) bool {
	const marks = "!#$%&'*+-.^_`|~"
	ok := func(r rune) bool {
		return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || strings.ContainsRune(marks, r)
	}
	return s != "" && strings.IndexFunc(s, func(r rune) bool { return !ok(r) }) < 0
}

func validValue(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) < 0
}
