package simserver

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/assay-bench/assay/engine"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// scraped are families as the official parser reads them.
type scraped map[string]*dto.MetricFamily

func (r *rig) scrape() scraped {
	r.t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(r.get("/metrics")))
	if err != nil {
		r.t.Fatalf("the official parser refuses /metrics: %v", err)
	}
	return families
}

// sum adds a counter, gauge, or sum of a histogram over the children that have
// all the label values given as name, value, ...
func (s scraped) sum(t *testing.T, family string, labels ...string) float64 {
	t.Helper()
	return s.add(t, family, labels, func(m *dto.Metric) float64 {
		switch {
		case m.Counter != nil:
			return m.Counter.GetValue()
		case m.Gauge != nil:
			return m.Gauge.GetValue()
		}
		return m.Histogram.GetSampleSum()
	})
}

func (s scraped) count(t *testing.T, family string) float64 {
	t.Helper()
	return s.add(t, family, nil, func(m *dto.Metric) float64 { return float64(m.Histogram.GetSampleCount()) })
}

func (s scraped) add(t *testing.T, family string, labels []string, value func(*dto.Metric) float64) float64 {
	t.Helper()
	f := s[family]
	if f == nil {
		t.Fatalf("/metrics has no family %s", family)
	}
	total, children := 0.0, 0
	for _, m := range f.Metric {
		have := map[string]string{}
		for _, l := range m.Label {
			have[l.GetName()] = l.GetValue()
		}
		match := true
		for i := 0; i+1 < len(labels); i += 2 {
			match = match && have[labels[i]] == labels[i+1]
		}
		if match {
			total += value(m)
			children++
		}
	}
	if children == 0 {
		t.Fatalf("%s has no child with %v", family, labels)
	}
	return total
}

func TestMetricIdentities(t *testing.T) {
	for _, engines := range []int{1, 3} {
		t.Run(fmt.Sprintf("engines=%d", engines), func(t *testing.T) { testMetricIdentities(t, engines) })
	}
}

func testMetricIdentities(t *testing.T, engines int) {
	cfg := fastConfig()
	cfg.Engines = engines
	r := start(t, cfg)
	var mu sync.Mutex
	var prompt, completion, sequences, gaps, stops, requests int
	var wg sync.WaitGroup
	for worker := range 6 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(worker)))
			for range 12 {
				n := 1 + rng.IntN(2)
				words := strings.Repeat("word ", 1+rng.IntN(200))
				body := fmt.Sprintf(`{"prompt":%q,"max_tokens":%d,"ignore_eos":%t,"n":%d,"stream":true,"return_token_ids":true,"stream_options":{"include_usage":true}}`,
					words, 1+rng.IntN(40), rng.IntN(2) == 0, n)
				resp, text, err := r.do(r.request("POST", "/v1/completions", body))
				if err != nil || resp.StatusCode != 200 {
					t.Errorf("%v %v", resp, err)
					return
				}
				sum := read(t, text)
				mu.Lock()
				requests++
				prompt += n * sum.prompt // metrics count the prompt of every sequence
				completion += sum.completion
				if sum.tokens != sum.completion {
					t.Errorf("%d token ids and a usage of %d", sum.tokens, sum.completion)
				}
				sequences += n
				gaps += sum.completion - n
				for _, reason := range sum.finish {
					if reason == "stop" {
						stops++
					}
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	m := r.scrape()
	for what, c := range map[string]struct {
		got  float64
		want int
	}{
		"generation tokens":        {m.sum(t, "vllm:generation_tokens_total"), completion},
		"prompt tokens":            {m.sum(t, "vllm:prompt_tokens_total"), prompt},
		"prompt tokens by source":  {m.sum(t, "vllm:prompt_tokens_by_source_total"), prompt},
		"prefix queries":           {m.sum(t, "vllm:prefix_cache_queries_total"), prompt},
		"finished":                 {m.sum(t, "vllm:request_success_total"), sequences},
		"stopped":                  {m.sum(t, "vllm:request_success_total", "finished_reason", "stop"), stops},
		"TTFT samples":             {m.count(t, "vllm:time_to_first_token_seconds"), sequences},
		"ITL samples":              {m.count(t, "vllm:inter_token_latency_seconds"), gaps},
		"TPOT samples":             {m.count(t, "vllm:request_time_per_output_token_seconds"), sequences},
		"E2E samples":              {m.count(t, "vllm:e2e_request_latency_seconds"), sequences},
		"request prompts":          {m.sum(t, "vllm:request_prompt_tokens"), prompt},
		"request generation":       {m.sum(t, "vllm:request_generation_tokens"), completion},
		"requests":                 {m.count(t, "vllm:request_params_n"), requests},
		"sum of n":                 {m.sum(t, "vllm:request_params_n"), sequences},
		"running":                  {m.sum(t, "vllm:num_requests_running"), 0},
		"waiting":                  {m.sum(t, "vllm:num_requests_waiting"), 0},
		"KV usage":                 {m.sum(t, "vllm:kv_cache_usage_perc"), 0},
		"max_tokens samples":       {m.count(t, "vllm:request_params_max_tokens"), sequences},
		"prompt tokens from cache": {m.sum(t, "vllm:prompt_tokens_cached_total"), int(m.sum(t, "vllm:prefix_cache_hits_total"))},
		"iteration tokens": {m.sum(t, "vllm:iteration_tokens_total"),
			int(m.sum(t, "vllm:prompt_tokens_by_source_total", "source", "local_compute")) + completion},
	} {
		if c.got != float64(c.want) {
			t.Errorf("%s: %v instead of %d", what, c.got, c.want)
		}
	}
	if stops == 0 || m.sum(t, "vllm:prefix_cache_hits_total") == 0 {
		t.Errorf("the workload had %d stops and no prefix hits: it shows nothing", stops)
	}
	// Times add up: inference = prefill + decode, decode = sum of gaps.
	inference := m.sum(t, "vllm:request_inference_time_seconds")
	if parts := m.sum(t, "vllm:request_prefill_time_seconds") + m.sum(t, "vllm:request_decode_time_seconds"); math.Abs(inference-parts) > 1e-9*float64(sequences) {
		t.Errorf("inference %v s is not prefill + decode %v s", inference, parts)
	}
	if decode, gaps := m.sum(t, "vllm:request_decode_time_seconds"), m.sum(t, "vllm:inter_token_latency_seconds"); math.Abs(decode-gaps) > 1e-9*float64(completion) {
		t.Errorf("decode %v s is not the sum of the gaps %v s", decode, gaps)
	}
}

// A one-token answer has no gap, and its TPOT of 0 is observed.
func TestOneTokenMetrics(t *testing.T) {
	r := start(t, fastConfig())
	r.post(200, "/v1/completions", `{"prompt":"x","max_tokens":1,"ignore_eos":true}`)
	m := r.scrape()
	if n := m.count(t, "vllm:inter_token_latency_seconds"); n != 0 {
		t.Errorf("%v gaps", n)
	}
	if n, sum := m.count(t, "vllm:request_time_per_output_token_seconds"), m.sum(t, "vllm:request_time_per_output_token_seconds"); n != 1 || sum != 0 {
		t.Errorf("TPOT: %v samples with sum %v instead of one 0", n, sum)
	}
}

// With speculative decoding a step yields several tokens of a sequence: one gap
// and one event for them, and exact counts.
func TestSpeculativeDecoding(t *testing.T) {
	cfg := fastConfig()
	cfg.Engine.Spec = &engine.SpecDecode{DraftTokens: 3, Acceptance: 0.7}
	r := start(t, cfg)
	tokens, events := 0, 0
	for i := range 10 {
		sum := read(t, r.post(200, "/v1/completions", fmt.Sprintf(`{"prompt":"%d","max_tokens":50,"ignore_eos":true,"stream":true,"return_token_ids":true}`, i)))
		tokens += sum.tokens
		events += sum.events - 1 // [DONE]
	}
	m := r.scrape()
	if tokens != 500 || m.sum(t, "vllm:generation_tokens_total") != 500 || events >= 400 {
		t.Errorf("%d tokens in %d events, %v counted", tokens, events, m.sum(t, "vllm:generation_tokens_total"))
	}
	if gaps := m.count(t, "vllm:inter_token_latency_seconds"); int(gaps) != events-10 {
		t.Errorf("%v gaps between %d events of 10 requests", gaps, events)
	}
	accepted := m.sum(t, "vllm:spec_decode_num_accepted_tokens_total")
	if perPos := m.sum(t, "vllm:spec_decode_num_accepted_tokens_per_pos_total"); accepted == 0 || perPos != accepted {
		t.Errorf("%v accepted, %v over all positions", accepted, perPos)
	}
	if drafts, tokens := m.sum(t, "vllm:spec_decode_num_drafts_total"), m.sum(t, "vllm:spec_decode_num_draft_tokens_total"); drafts == 0 || tokens <= accepted {
		t.Errorf("%v drafts of %v tokens, %v accepted", drafts, tokens, accepted)
	}
}

func TestHTTPCounts(t *testing.T) {
	r := start(t, fastConfig())
	r.post(200, "/v1/completions", `{"prompt":"x","max_tokens":1,"stream":true}`)
	r.post(400, "/v1/completions", `{}`)
	r.post(404, "/nowhere", `{}`)
	r.get("/health")
	m := r.scrape()
	for _, labels := range [][]string{
		{"handler", "/v1/completions", "method", "POST", "status", "2xx"},
		{"handler", "/v1/completions", "method", "POST", "status", "4xx"},
		{"handler", "none", "method", "POST", "status", "4xx"},
	} {
		if n := m.sum(t, "http_requests_total", labels...); n != 1 {
			t.Errorf("%v: %v", labels, n)
		}
	}
	if n := m.sum(t, "http_requests_total"); n != 3 {
		t.Errorf("%v in all", n)
	}
	if n := m.count(t, "http_request_duration_highr_seconds"); n != 3 || m.count(t, "http_request_duration_seconds") != 3 {
		t.Errorf("%v durations", n)
	}
	if s := m.sum(t, "http_request_duration_seconds", "handler", "/v1/completions", "method", "POST"); s <= 0 || s > 60 {
		t.Errorf("all took %v s", s)
	}
	for _, metric := range m["http_request_size_bytes"].Metric {
		if n := metric.Summary.GetSampleCount(); metric.Label[0].GetValue() == "/v1/completions" && (n != 2 || metric.Summary.GetSampleSum() < 40) {
			t.Errorf("request sizes: %v", metric)
		}
	}
}

func TestExpositionShape(t *testing.T) {
	cfg := fastConfig()
	cfg.ModelName = "a \"quoted\\ model\n"
	r := start(t, cfg)
	m := r.scrape()
	if got := m["vllm:request_success_total"].Metric[0].Label[2].GetValue(); got != cfg.ModelName {
		t.Errorf("model label %q", got)
	}
	ttft := m["vllm:time_to_first_token_seconds"].Metric[0].Histogram
	if len(ttft.Bucket) != len(ttftBounds)+1 || ttft.Bucket[0].GetUpperBound() != 0.001 || !math.IsInf(ttft.Bucket[len(ttftBounds)].GetUpperBound(), 1) {
		t.Errorf("TTFT buckets: %v", ttft.Bucket)
	}
	lengths := m["vllm:request_prompt_tokens"].Metric[0].Histogram.Bucket
	if last := lengths[len(lengths)-2].GetUpperBound(); last != 5000 { // of 8192
		t.Errorf("the last length bound is %v", last)
	}
	for _, f := range []string{"vllm:generation_tokens_created", "vllm:time_to_first_token_seconds_created", "process_start_time_seconds", "http_request_duration_highr_seconds_created"} {
		if v := m.sum(t, f); v < 1.6e9 {
			t.Errorf("%s is %v", f, v)
		}
	}
	if runtime.GOOS == "linux" {
		for _, f := range []string{"process_cpu_seconds_total", "process_resident_memory_bytes", "process_virtual_memory_bytes", "process_open_fds", "process_max_fds"} {
			if v := m.sum(t, f); v <= 0 {
				t.Errorf("%s is %v", f, v)
			}
		}
	}
	if got := m.sum(t, "vllm:cache_config_info", "block_size", "16", "engine", "0"); got != 1 {
		t.Errorf("cache_config_info is %v", got)
	}
	for _, f := range m {
		if f.GetHelp() == "" {
			t.Errorf("%s has no help", f.GetName())
		}
	}
}

func TestAppendFloat(t *testing.T) {
	// As prometheus_client's floatToGoString writes them.
	for v, want := range map[float64]string{
		0: "0.0", 1: "1.0", 0.001: "0.001", 123456: "123456.0", 1234567: "1.234567e+06",
		1e6: "1e+06", 2560: "2560.0", 1796078012.5: "1.7960780125e+09", 0.5: "0.5", 1234567.25: "1.23456725e+06",
	} {
		if got := string(appendFloat(nil, v)); got != want {
			t.Errorf("%v is written %s instead of %s", v, got, want)
		}
	}
}

func TestRestart(t *testing.T) {
	r := start(t, fastConfig())
	r.post(200, "/v1/completions", `{"prompt":"x","max_tokens":3}`)
	before := r.scrape()
	if _, _, err := r.do(r.request("POST", "/v1/completions", `{"prompt":"x"}`, FaultHeader, "restart")); err == nil {
		t.Error("the connection survived a restart")
	}
	after := r.scrape()
	if n := after.sum(t, "vllm:generation_tokens_total"); n != 0 {
		t.Errorf("%v generation tokens after a restart", n)
	}
	if a, b := before.sum(t, "process_start_time_seconds"), after.sum(t, "process_start_time_seconds"); b <= a {
		t.Errorf("start time went from %v to %v", a, b)
	}
	r.post(200, "/v1/completions", `{"prompt":"x","max_tokens":3}`)
}
