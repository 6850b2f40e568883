package simserver

import (
	"bytes"
	"context"
	crand "crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// The bounds of the batch processor of the OpenTelemetry SDK, which vLLM leaves at
// their defaults. vLLM loses what does not fit into the queue without a word; here it
// is counted.
const (
	spanQueue = 2048
	spanBatch = 512
	spanDelay = 5 * time.Second
	// spanGrace is how long the end may wait for the collector, in all.
	spanGrace = 5 * time.Second
)

// spanParent is where the spans of a request belong.
type spanParent struct {
	trace, span []byte // span is nil in a trace of its own
	suppressed  bool   // the caller's flags say that it is not sampled

	temperature, topP float64
}

// newSpanParent reads a traceparent header (W3C Trace Context, section 3.2); without
// a valid one the spans are roots.
func newSpanParent(header string, b *genBody) *spanParent {
	p := &spanParent{temperature: 1, topP: 1}
	if b.Temperature != nil {
		p.temperature = *b.Temperature
	}
	if b.TopP != nil {
		p.topP = *b.TopP
	}
	// Hex digits are lower-case; version 00 has four fields, later ones may have more.
	f := strings.Split(header, "-")
	if len(f) >= 4 && len(f[0]) == 2 && f[0] != "ff" && (f[0] != "00" || len(f) == 4) && header == strings.ToLower(header) {
		trace, terr := hex.DecodeString(f[1])
		span, serr := hex.DecodeString(f[2])
		flags, ferr := hex.DecodeString(f[3])
		if terr == nil && serr == nil && ferr == nil && len(trace) == 16 && len(span) == 8 && len(flags) == 1 &&
			!zero(trace) && !zero(span) {
			p.trace, p.span, p.suppressed = trace, span, flags[0]&1 == 0
			return p
		}
	}
	p.trace = randomID(16)
	return p
}

func zero(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }

func randomID(n int) []byte {
	id := make([]byte, n)
	_, _ = crand.Read(id) // never fails
	return id
}

// finishedSpan is what a span is made of, taken when its sequence ended.
type finishedSpan struct {
	parent                                       *spanParent
	id                                           string
	start, end                                   int64 // Unix ns
	ttft, e2e, queue, prefill, decode, inference float64
	prompt, completion, maxTokens                int
}

// spanExporter sends the llm_request span of every finished sequence to an OTLP/HTTP
// endpoint (opentelemetry-proto, protobuf), on a goroutine of its own.
type spanExporter struct {
	url      string
	resource *resourcepb.Resource
	client   http.Client
	queue    chan finishedSpan
	done     chan struct{}
	ctx      context.Context // of all posts
	cancel   context.CancelFunc
	grace    time.Duration

	full atomic.Uint64 // lost because the queue was full
	lost uint64        // of posts that failed; of run alone
	err  error         // the first of those
}

func newSpanExporter(endpoint string) (*spanExporter, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("OTLPTraces %q: want an OTLP/HTTP endpoint such as http://127.0.0.1:4318/v1/traces", endpoint)
	}
	service := os.Getenv("OTEL_SERVICE_NAME")
	if service == "" {
		service = "unknown_service"
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &spanExporter{
		url: endpoint, ctx: ctx, cancel: cancel, grace: spanGrace,
		resource: &resourcepb.Resource{Attributes: []*commonpb.KeyValue{
			text("service.name", service),
			text("vllm.instrumenting_module_name", "vllm.llm_engine"),
			text("vllm.process_id", strconv.Itoa(os.Getpid())),
		}},
		client: http.Client{Timeout: 10 * time.Second},
		queue:  make(chan finishedSpan, spanQueue),
		done:   make(chan struct{}),
	}, nil
}

// add never waits: a span that finds no room is lost and counted.
func (x *spanExporter) add(s finishedSpan) {
	select {
	case x.queue <- s:
	default:
		x.full.Add(1)
	}
}

func (x *spanExporter) run() {
	defer close(x.done)
	defer x.client.CloseIdleConnections()
	tick := time.NewTicker(spanDelay)
	defer tick.Stop()
	var batch []*tracepb.Span
	flush := func() {
		if len(batch) == 0 {
			return
		}
		if err := x.post(batch); err != nil {
			x.lost += uint64(len(batch))
			if x.err == nil {
				x.err = err
			}
		}
		batch = nil
	}
	for {
		select {
		case s, ok := <-x.queue:
			if !ok {
				flush()
				return
			}
			if batch = append(batch, s.span()); len(batch) == spanBatch {
				flush()
			}
		case <-tick.C:
			flush()
		}
	}
}

// close sends what waits, for as long as the grace; nothing may be added after it. It
// says what was lost.
func (x *spanExporter) close() error {
	close(x.queue)
	defer x.cancel()
	late := time.AfterFunc(x.grace, x.cancel)
	defer late.Stop()
	<-x.done
	var err error
	if n := x.full.Load(); n > 0 {
		err = fmt.Errorf("simserver: %d spans were lost: %d waited already", n, spanQueue)
	}
	if x.err != nil {
		err = errors.Join(err, fmt.Errorf("simserver: %d spans were not taken, first: %w", x.lost, x.err))
	}
	return err
}

func (x *spanExporter) post(spans []*tracepb.Span) error {
	// TracesData is ExportTraceServiceRequest on the wire.
	b, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: []*tracepb.ResourceSpans{{
		Resource:   x.resource,
		ScopeSpans: []*tracepb.ScopeSpans{{Scope: &commonpb.InstrumentationScope{Name: "vllm.tracing.otel"}, Spans: spans}},
	}}})
	if err != nil {
		return fmt.Errorf("encoding spans: %w", err)
	}
	req, err := http.NewRequestWithContext(x.ctx, http.MethodPost, x.url, bytes.NewReader(b))
	if err != nil {
		return fmt.Errorf("sending spans: %w", err)
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	resp, err := x.client.Do(req)
	if err != nil {
		return fmt.Errorf("sending spans: %w", err)
	}
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20))
	err = errors.Join(err, resp.Body.Close())
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return fmt.Errorf("sending spans: %s", resp.Status)
	}
	return err
}

func (s *finishedSpan) span() *tracepb.Span {
	span := &tracepb.Span{
		TraceId: s.parent.trace, SpanId: randomID(8), ParentSpanId: s.parent.span,
		Name: "llm_request", Kind: tracepb.Span_SPAN_KIND_SERVER,
		StartTimeUnixNano: uint64(s.start), EndTimeUnixNano: uint64(s.end),
		Attributes: []*commonpb.KeyValue{
			float("gen_ai.latency.time_to_first_token", s.ttft),
			float("gen_ai.latency.e2e", s.e2e),
			float("gen_ai.latency.time_in_queue", s.queue),
			float("gen_ai.latency.time_in_model_prefill", s.prefill),
			float("gen_ai.latency.time_in_model_decode", s.decode),
			float("gen_ai.latency.time_in_model_inference", s.inference),
			whole("gen_ai.usage.prompt_tokens", s.prompt),
			whole("gen_ai.usage.completion_tokens", s.completion),
			text("gen_ai.request.id", s.id),
		},
	}
	// These only if they are not zero.
	if s.parent.topP != 0 {
		span.Attributes = append(span.Attributes, float("gen_ai.request.top_p", s.parent.topP))
	}
	if s.maxTokens != 0 {
		span.Attributes = append(span.Attributes, whole("gen_ai.request.max_tokens", s.maxTokens))
	}
	if s.parent.temperature != 0 {
		span.Attributes = append(span.Attributes, float("gen_ai.request.temperature", s.parent.temperature))
	}
	// Of the sequence: vLLM's engine has each choice of a request as one of its own.
	span.Attributes = append(span.Attributes, whole("gen_ai.request.n", 1))
	return span
}

func text(key, value string) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: value}}}
}

func float(key string, value float64) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: value}}}
}

func whole(key string, value int) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: int64(value)}}}
}

// traced hands the span of a sequence that has finished to the exporter; woken is
// when its last output reached the frontend.
func (c *core) traced(q *sequence, woken int64) {
	x, st := c.srv.spans, q.st
	if x == nil || st.parent.suppressed {
		return
	}
	r := &q.req
	id := st.gen.id
	if st.gen.api == apiCompletions {
		id += "-" + strconv.Itoa(q.index/st.gen.n) // of the prompt
	}
	x.add(finishedSpan{
		parent: st.parent, id: id, start: c.srv.unix(st.arrival), end: c.srv.unix(woken),
		ttft: seconds(q.first - st.arrival), e2e: seconds(woken - st.arrival),
		queue: seconds(r.FirstScheduled - r.Queued), prefill: seconds(r.FirstToken - r.FirstScheduled),
		decode: seconds(r.LastToken - r.FirstToken), inference: seconds(r.LastToken - r.FirstScheduled),
		prompt: r.PromptTokens, completion: r.Generated, maxTokens: st.gen.maxTokens,
	})
}
