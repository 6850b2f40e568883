package simserver

import (
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// collector keeps the spans that it is sent, by the request id that they name.
type collector struct {
	mu       sync.Mutex
	status   int
	service  string
	requests map[string][]*tracepb.Span
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	c.mu.Lock()
	defer c.mu.Unlock()
	var data tracepb.TracesData
	if r.Header.Get("Content-Type") != "application/x-protobuf" || proto.Unmarshal(body, &data) != nil {
		w.WriteHeader(http.StatusUnsupportedMediaType)
		return
	}
	for _, rs := range data.ResourceSpans {
		c.service = attribute(rs.Resource.Attributes, "service.name").GetStringValue()
		for _, ss := range rs.ScopeSpans {
			for _, s := range ss.Spans {
				id := attribute(s.Attributes, "gen_ai.request.id").GetStringValue()
				c.requests[id] = append(c.requests[id], s)
			}
		}
	}
	w.WriteHeader(c.status)
}

func attribute(list []*commonpb.KeyValue, key string) *commonpb.AnyValue {
	for _, kv := range list {
		if kv.Key == key {
			return kv.Value
		}
	}
	return nil
}

func TestSpans(t *testing.T) {
	c := &collector{status: http.StatusOK, requests: make(map[string][]*tracepb.Span)}
	far := httptest.NewServer(c)
	defer far.Close()
	t.Setenv("OTEL_SERVICE_NAME", "engine-7")
	sink := newTruthSink()
	cfg := fastConfig()
	cfg.OTLPTraces, cfg.TruthLog = far.URL+"/v1/traces", sink
	r := start(t, cfg)

	const trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	r.post(200, "/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}],"max_tokens":9,"ignore_eos":true,"temperature":0}`,
		"X-Request-Id", "chat", "traceparent", "00-"+trace+"-"+parent+"-01")
	r.post(200, "/v1/completions", `{"prompt":["a","b c"],"n":2,"max_tokens":3,"ignore_eos":true,"top_p":0.5}`, "X-Request-Id", "two")
	r.post(200, "/v1/completions", `{"prompt":"a","max_tokens":3,"ignore_eos":true}`, "X-Request-Id", "unsampled",
		"traceparent", "00-"+trace+"-"+parent+"-00")
	r.post(400, "/v1/completions", `{"prompt":"a","max_tokens":-3}`, "X-Request-Id", "refused")
	truth := make(map[string]TruthRequest)
	for _, q := range sink.await(t, 3) {
		truth[q.XRequestID] = q
	}
	if err := r.srv.Close(); err != nil {
		t.Fatal(err)
	}

	if c.service != "engine-7" || len(c.requests) != 3 || len(c.requests["cmpl-two-0"]) != 2 || len(c.requests["cmpl-two-1"]) != 2 {
		t.Fatalf("service %q, spans of %v", c.service, c.requests)
	}
	spans := c.requests["chatcmpl-chat"]
	if len(spans) != 1 {
		t.Fatalf("%d spans of the chat", len(spans))
	}
	s, q := spans[0], truth["chat"]
	if s.Name != "llm_request" || s.Kind != tracepb.Span_SPAN_KIND_SERVER ||
		hex.EncodeToString(s.TraceId) != trace || hex.EncodeToString(s.ParentSpanId) != parent || len(s.SpanId) != 8 {
		t.Errorf("%v", s)
	}
	if got, want := int64(s.StartTimeUnixNano), q.Arrival+q.WallOffset; got != want {
		t.Errorf("start %d, arrival %d", got, want)
	}
	seq := q.Sequences[0]
	for key, want := range map[string]int64{
		"gen_ai.latency.time_in_queue":           seq.Scheduled - seq.Queued,
		"gen_ai.latency.time_in_model_prefill":   seq.FirstToken - seq.Scheduled,
		"gen_ai.latency.time_in_model_decode":    seq.LastToken - seq.FirstToken,
		"gen_ai.latency.time_in_model_inference": seq.LastToken - seq.Scheduled,
		"gen_ai.latency.e2e":                     int64(s.EndTimeUnixNano - s.StartTimeUnixNano),
	} {
		if got := attribute(s.Attributes, key).GetDoubleValue(); math.Abs(got-float64(want)/1e9) > 1e-9 {
			t.Errorf("%s %v s, by the truth log %d ns", key, got, want)
		}
	}
	if ttft := attribute(s.Attributes, "gen_ai.latency.time_to_first_token").GetDoubleValue(); ttft < float64(seq.FirstToken-q.Arrival)/1e9 {
		t.Errorf("first token after %v s, but it was made %d ns after the arrival", ttft, seq.FirstToken-q.Arrival)
	}
	for key, want := range map[string]int64{
		"gen_ai.usage.prompt_tokens": int64(seq.PromptTokens), "gen_ai.usage.completion_tokens": 9,
		"gen_ai.request.max_tokens": 9, "gen_ai.request.n": 1,
	} {
		if got := attribute(s.Attributes, key).GetIntValue(); got != want {
			t.Errorf("%s %d instead of %d", key, got, want)
		}
	}
	if a := attribute(s.Attributes, "gen_ai.request.temperature"); a != nil {
		t.Errorf("a temperature of 0 is named: %v", a)
	}
	two := c.requests["cmpl-two-1"]
	if n := attribute(two[0].Attributes, "gen_ai.request.n").GetIntValue(); n != 1 {
		t.Errorf("n of one choice of two is %d", n)
	}
	if p := attribute(two[0].Attributes, "gen_ai.request.top_p").GetDoubleValue(); p != 0.5 || len(two[0].ParentSpanId) != 0 ||
		string(two[0].TraceId) != string(c.requests["cmpl-two-0"][0].TraceId) || string(two[0].SpanId) == string(two[1].SpanId) {
		t.Errorf("%v", two)
	}
}

func TestSpansNotTaken(t *testing.T) {
	c := &collector{status: http.StatusServiceUnavailable, requests: make(map[string][]*tracepb.Span)}
	far := httptest.NewServer(c)
	defer far.Close()
	sink := newTruthSink()
	cfg := fastConfig()
	cfg.OTLPTraces, cfg.TruthLog = far.URL, sink
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	go s.spans.run()
	s.spans.add(finishedSpan{parent: newSpanParent("", new(genBody))})
	if err := s.spans.close(); err == nil || err.Error() != "simserver: 1 spans were not taken, first: sending spans: 503 Service Unavailable" {
		t.Error(err)
	}
	cfg.OTLPTraces = "127.0.0.1:4317"
	if _, err := New(cfg); err == nil {
		t.Error("an endpoint that is no URL")
	}
}

// A collector that takes requests and never answers holds up neither answers nor, for
// longer than the grace, the end; every span that it cost is counted.
func TestSpansDeadCollector(t *testing.T) {
	dead := make(chan struct{})
	far := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-dead }))
	defer far.Close()
	defer close(dead)
	cfg := fastConfig()
	cfg.OTLPTraces = far.URL
	srv, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	srv.spans.grace = 10 * time.Millisecond
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(t.Context(), ln) }()
	const direct, asked = 2*spanQueue + spanBatch, 20
	parent := newSpanParent("", new(genBody))
	for range direct {
		srv.spans.add(finishedSpan{parent: parent})
	}
	client := http.Client{Transport: new(http.Transport)}
	for range asked {
		resp, err := client.Post("http://"+ln.Addr().String()+"/v1/completions", "application/json", strings.NewReader(`{"prompt":"x","max_tokens":2}`))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != 200 {
			t.Errorf("status %d, %v", resp.StatusCode, err)
		}
		resp.Body.Close()
	}
	client.CloseIdleConnections()
	if err := srv.Close(); err != nil {
		t.Fatal(err)
	}
	err = <-served
	full, lost := srv.spans.full.Load(), srv.spans.lost
	if err == nil || full == 0 || full+lost != direct+asked {
		t.Fatalf("%d found no room and %d were not taken, of %d; %v", full, lost, direct+asked, err)
	}
	for _, n := range []uint64{full, lost} {
		if !strings.Contains(err.Error(), fmt.Sprintf(": %d spans were ", n)) {
			t.Errorf("%q does not say %d", err, n)
		}
	}
}

func TestSpanParent(t *testing.T) {
	const trace, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	for header, want := range map[string]struct{ known, suppressed bool }{
		"00-" + trace + "-" + span + "-01":                    {true, false},
		"00-" + trace + "-" + span + "-00":                    {true, true},
		"01-" + trace + "-" + span + "-03-later":              {true, false},
		"ff-" + trace + "-" + span + "-01":                    {},
		"00-" + trace + "-" + span:                            {},
		"00-" + trace + "-" + span + "-01-later":              {},
		"00-" + strings.ToUpper(trace) + "-" + span + "-01":   {},
		"00-" + trace[1:] + "-" + span + "-01":                {},
		"00-00000000000000000000000000000000-" + span + "-01": {},
		"": {},
	} {
		p := newSpanParent(header, new(genBody))
		if (p.span != nil) != want.known || p.suppressed != want.suppressed || len(p.trace) != 16 || want.known != (hex.EncodeToString(p.trace) == trace) {
			t.Errorf("%q: %+v", header, p)
		}
	}
}
