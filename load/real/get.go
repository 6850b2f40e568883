package real

import (
	"context"
	"fmt"
	"net/http"

	"github.com/assay-bench/assay/record"
)

// Page is a small reply of the target outside its API.
type Page struct {
	Status int
	Header http.Header
	Body   []byte
	// Before the request was sent, and After its reply had been read.
	Before, After record.Stamp
}

// Get fetches a path below the endpoint's root, such as /metrics, over the same
// connections and with the same headers as the requests that are measured.
func (t *Target) Get(ctx context.Context, path string) (Page, error) {
	p, err := t.get(ctx, t.Endpoint.Root+path, anyType)
	if err != nil {
		return Page{}, fmt.Errorf("getting %s: %w", path, err)
	}
	return p, nil
}

// get fetches a path of the host.
func (t *Target) get(ctx context.Context, path, accept string) (Page, error) {
	before := record.Stamp(t.clock.Now())
	p, err := t.fetch(ctx, http.MethodGet, path, accept, nil)
	if err != nil {
		return Page{}, err
	}
	out := Page{Status: p.status, Header: p.header, Body: p.body, Before: before, After: record.Stamp(t.clock.Now())}
	if len(t.secrets.list) == 0 {
		return out, nil
	}
	// Pages are stored, and so are some of their headers.
	out.Body = []byte(t.secrets.replacer.Replace(string(out.Body)))
	for _, values := range out.Header {
		for i := range values {
			values[i] = t.secrets.redact(values[i])
		}
	}
	return out, nil
}

// Post sends a request without a body to a path below the endpoint's root, such as
// /reset_prefix_cache.
func (t *Target) Post(ctx context.Context, path string) (Page, error) {
	p, err := t.fetch(ctx, http.MethodPost, t.Endpoint.Root+path, anyType, []byte{})
	if err != nil {
		return Page{}, fmt.Errorf("posting to %s: %w", path, err)
	}
	return Page{Status: p.status, Header: p.header, Body: p.body}, nil
}
