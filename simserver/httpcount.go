package simserver

import (
	"cmp"
	"maps"
	"slices"
	"sync"
)

// httpCounts is http_requests_total as prometheus_fastapi_instrumentator has it:
// answers by handler, method and class of status. Probes and scrapes are not
// counted.
type httpCounts struct {
	mu    sync.Mutex
	count map[httpKey]uint64
}

type httpKey struct{ handler, method, status string }

// uncounted are the paths that vLLM excludes.
var uncounted = map[string]bool{"/metrics": true, "/health": true, "/load": true, "/ping": true, "/version": true}

func (h *httpCounts) add(path, method string, status int) {
	if uncounted[path] {
		return
	}
	if _, ok := endpoints[path]; !ok {
		path = "none"
	}
	class := string(rune('0'+status/100)) + "xx"
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.count == nil {
		h.count = make(map[httpKey]uint64)
	}
	h.count[httpKey{path, method, class}]++
}

func (h *httpCounts) clear() {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.count)
}

func (h *httpCounts) write(e *expo, created float64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	keys := slices.SortedFunc(maps.Keys(h.count), func(a, b httpKey) int {
		return cmp.Or(cmp.Compare(a.handler, b.handler), cmp.Compare(a.method, b.method), cmp.Compare(a.status, b.status))
	})
	labels := func(k httpKey) []label {
		return []label{{"handler", k.handler}, {"method", k.method}, {"status", k.status}}
	}
	e.family("http_requests_total", "counter", "Total number of requests by method, status and handler.")
	for _, k := range keys {
		e.sample("http_requests_total", labels(k), float64(h.count[k]))
	}
	e.family("http_requests_created", "gauge", "Total number of requests by method, status and handler.")
	for _, k := range keys {
		e.sample("http_requests_created", labels(k), created)
	}
}
