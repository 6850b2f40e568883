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
	before := record.Stamp(t.clock.Now())
	p, err := t.fetch(ctx, http.MethodGet, t.Endpoint.Root+path, nil)
	if err != nil {
		return Page{}, fmt.Errorf("getting %s: %w", path, err)
	}
	body := p.body
	if len(t.secrets.list) > 0 { // pages are stored
		body = []byte(t.secrets.replacer.Replace(string(body)))
	}
	return Page{Status: p.status, Header: p.header, Body: body, Before: before, After: record.Stamp(t.clock.Now())}, nil
}
