package simserver

import (
	"cmp"
	"maps"
	"slices"
	"sync"
)

// httpCounts are the families of prometheus_fastapi_instrumentator: answers by
// handler, method and class of status, and how long they took from the first byte
// of the request to the end of the body. Probes and scrapes are not counted.
type httpCounts struct {
	mu       sync.Mutex
	count    map[httpKey]uint64
	duration map[httpKey]*histogram // without a status
	sizes    map[string]*httpSizes  // by handler
	highr    histogram
}

type httpKey struct{ handler, method, status string }

// httpSizes are sums of Content-Length: a streamed answer has none and counts as 0.
type httpSizes struct {
	answers, request, response uint64
}

// httpAnswer is one answer that is over.
type httpAnswer struct {
	path, method  string
	status        int
	took          float64 // s
	request, body int     // bytes as told by Content-Length
}

var (
	httpBounds      = []float64{.1, .5, 1}
	httpHighrBounds = []float64{.01, .025, .05, .075, .1, .25, .5, .75, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 7.5, 10, 30, 60}
)

// uncounted are the paths that vLLM excludes.
var uncounted = map[string]bool{"/metrics": true, "/health": true, "/load": true, "/ping": true, "/version": true}

func (h *httpCounts) add(a httpAnswer) {
	if uncounted[a.path] {
		return
	}
	if _, ok := endpoints[a.path]; !ok {
		a.path = "none"
	}
	class := string(rune('0'+a.status/100)) + "xx"
	h.mu.Lock()
	defer h.mu.Unlock()
	h.count[httpKey{a.path, a.method, class}]++
	by := httpKey{handler: a.path, method: a.method}
	if h.duration[by] == nil {
		d := newHistogram(httpBounds)
		h.duration[by] = &d
	}
	h.duration[by].observe(a.took)
	h.highr.observe(a.took)
	s := h.sizes[a.path]
	if s == nil {
		s = new(httpSizes)
		h.sizes[a.path] = s
	}
	s.answers++
	s.request += uint64(a.request)
	s.response += uint64(a.body)
}

// clear sets everything to a fresh start, and makes it ready for use.
func (h *httpCounts) clear() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.count, h.duration, h.sizes = make(map[httpKey]uint64), make(map[httpKey]*histogram), make(map[string]*httpSizes)
	h.highr = newHistogram(httpHighrBounds)
}

func (k httpKey) compare(l httpKey) int {
	return cmp.Or(cmp.Compare(k.handler, l.handler), cmp.Compare(k.method, l.method), cmp.Compare(k.status, l.status))
}

func (h *httpCounts) write(e *expo, created float64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	answers := slices.SortedFunc(maps.Keys(h.count), httpKey.compare)
	const totalHelp = "Total number of requests by method, status and handler."
	e.family("http_requests_total", "counter", totalHelp)
	for _, k := range answers {
		e.sample("http_requests_total", k.labels(), float64(h.count[k]))
	}
	e.family("http_requests_created", "gauge", totalHelp)
	for _, k := range answers {
		e.sample("http_requests_created", k.labels(), created)
	}

	handlers := slices.Sorted(maps.Keys(h.sizes))
	size := func(name, help string, sum func(*httpSizes) uint64) {
		e.family(name, "summary", help+" Only value of header is respected. Otherwise ignored. No percentile calculated.")
		for _, handler := range handlers {
			by := []label{{"handler", handler}}
			e.sample(name+"_count", by, float64(h.sizes[handler].answers))
			e.sample(name+"_sum", by, float64(sum(h.sizes[handler])))
		}
		e.family(name+"_created", "gauge", help)
		for _, handler := range handlers {
			e.sample(name+"_created", []label{{"handler", handler}}, created)
		}
	}
	size("http_request_size_bytes", "Content length of incoming requests by handler.", func(s *httpSizes) uint64 { return s.request })
	size("http_response_size_bytes", "Content length of outgoing responses by handler.", func(s *httpSizes) uint64 { return s.response })

	const highrHelp = "Latency with many buckets but no API specific labels. Made for more accurate percentile calculations."
	e.family("http_request_duration_highr_seconds", "histogram", highrHelp)
	e.histogram("http_request_duration_highr_seconds", nil, &h.highr)
	e.family("http_request_duration_highr_seconds_created", "gauge", highrHelp)
	e.sample("http_request_duration_highr_seconds_created", nil, created)
	const durationHelp = "Latency with only few buckets by handler. Made to be only used if aggregation by handler is important."
	e.family("http_request_duration_seconds", "histogram", durationHelp)
	timed := slices.SortedFunc(maps.Keys(h.duration), httpKey.compare)
	for _, k := range timed {
		e.histogram("http_request_duration_seconds", k.labels(), h.duration[k])
	}
	e.family("http_request_duration_seconds_created", "gauge", durationHelp)
	for _, k := range timed {
		e.sample("http_request_duration_seconds_created", k.labels(), created)
	}
}

func (k httpKey) labels() []label {
	l := []label{{"handler", k.handler}, {"method", k.method}}
	if k.status != "" {
		l = append(l, label{"status", k.status})
	}
	return l
}

// countHTTP enters a request that the engine answers, once: before its last byte
// is written, so that no client that has all of it can scrape without it.
func (st *stream) countHTTP(s *Server) {
	if st.httpCounted {
		return
	}
	st.httpCounted = true
	s.http.add(httpAnswer{
		path: st.path, method: "POST", status: st.status, took: seconds(s.clk.Now() - st.received),
		request: st.requestBytes, body: st.bodyBytes,
	})
}
