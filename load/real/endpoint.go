package real

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/assay-bench/assay/dialect"
)

// Endpoint is where the target's API lives, taken apart from a URL.
type Endpoint struct {
	Scheme string // "http" or "https"
	Host   string // host, with a port if the URL had one
	// Base is the path that a dialect's path is appended to ("/v1"); Root is the
	// path above it, where /health, /metrics and /tokenize live ("" or "/prefix").
	Base, Root string
	// Guessed: the URL named no version, so Base is Root + "/v1" by custom.
	Guessed bool
	// Query is sent with every request of the API, without "?".
	Query string
	// Dialect that a full endpoint names; nil otherwise.
	Dialect dialect.Dialect
	// User holds credentials of the URL. They are sent as basic authorization and
	// stored nowhere.
	User *url.Userinfo
}

// ParseEndpoint takes a URL with or without /v1, with a path prefix, or of a
// full endpoint ("http://h:8000/prefix/v1/chat/completions"). Without a scheme
// it is taken for http. Errors never repeat credentials.
func ParseEndpoint(raw string) (Endpoint, error) {
	raw = WithScheme(raw)
	u, err := url.Parse(raw)
	if err != nil {
		// url.Error repeats the whole URL, and so any credentials in it.
		return Endpoint{}, fmt.Errorf("the URL cannot be parsed: want http://HOST:PORT or https://HOST/PREFIX")
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return Endpoint{}, fmt.Errorf("the URL's scheme is %q: want http or https", u.Scheme)
	}
	if u.Hostname() == "" {
		return Endpoint{}, fmt.Errorf("the URL names no host: want http://HOST:PORT or https://HOST/PREFIX")
	}
	if p := u.Port(); p != "" {
		if n, err := strconv.Atoi(p); err != nil || n < 1 || n > 65535 {
			return Endpoint{}, fmt.Errorf("the URL's port is %s: want 1 to 65535", p)
		}
	}
	e := Endpoint{Scheme: u.Scheme, Host: u.Host, Query: u.RawQuery, User: u.User}
	path := strings.TrimRight(u.EscapedPath(), "/")
	for _, d := range dialect.All() {
		if rest, ok := strings.CutSuffix(path, "/"+d.Path()); ok {
			e.Dialect, path = d, rest
			break
		}
	}
	switch base, isVersioned := cutVersion(path); {
	case isVersioned:
		e.Base, e.Root = path, base
	case e.Dialect != nil:
		// A full endpoint says where its base is, whatever it is called.
		e.Base, e.Root = path, path
	default:
		e.Base, e.Root, e.Guessed = path+"/v1", path, true
	}
	return e, nil
}

// WithScheme puts http:// before a URL that has no scheme.
func WithScheme(raw string) string {
	if strings.Contains(raw, "://") {
		return raw
	}
	return "http://" + raw
}

// cutVersion removes a last element like "/v1" from a path.
func cutVersion(path string) (rest string, ok bool) {
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return path, false
	}
	v := path[i+1:]
	if len(v) < 2 || v[0] != 'v' || strings.Trim(v[1:], "0123456789") != "" {
		return path, false
	}
	return path[:i], true
}

// URL is the endpoint for people and files: without credentials and query.
func (e Endpoint) URL() string { return e.Scheme + "://" + e.Host + e.Base }

// api is the request target of a path below Base.
func (e Endpoint) api(path string) string {
	if e.Query != "" {
		return e.Base + "/" + path + "?" + e.Query
	}
	return e.Base + "/" + path
}
