package simserver

import (
	"slices"
	"sync"
)

// Bounds of vLLM's histograms (vllm/v1/metrics/buckets.py), without +Inf.
var (
	ttftBounds      = []float64{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560}
	tokenTimeBounds = []float64{.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}
	requestBounds   = []float64{.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}
	iterationBounds = []float64{1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}
	nBounds         = []float64{1, 2, 5, 10, 20}
	preemptBounds   = []float64{1, 2, 3, 4, 5, 10, 20}
)

// lengthBounds is the 1-2-5 series up to the context length.
func lengthBounds(maxModelLen int) []float64 {
	var out []float64
	for decade := 1; ; decade *= 10 {
		for _, m := range []int{1, 2, 5} {
			if m*decade > maxModelLen {
				return out
			}
			out = append(out, float64(m*decade))
		}
	}
}

// histogram counts observations; counts[i] are those <= bounds[i] and above the
// bound before, the last one those above all bounds.
type histogram struct {
	bounds []float64
	counts []uint64
	sum    float64
}

func newHistogram(bounds []float64) histogram {
	return histogram{bounds: bounds, counts: make([]uint64, len(bounds)+1)}
}

func (h *histogram) observe(v float64) {
	i := 0
	for i < len(h.bounds) && v > h.bounds[i] {
		i++
	}
	h.counts[i]++
	h.sum += v
}

// finishReasons are the label values of request_success_total, pre-created.
var finishReasons = []string{"stop", "length", "abort", "error", "repetition"}

// promptSources are the label values of prompt_tokens_by_source_total.
var promptSources = []string{"local_compute", "local_cache_hit", "external_kv_transfer"}

// engineMetrics are the families of one engine. Its loop writes, scrapes read.
type engineMetrics struct {
	mu      sync.Mutex
	created float64 // Unix seconds

	running, waiting int
	kvUsage          float64

	promptTokens, generationTokens         uint64
	promptBySource                         [3]uint64 // as promptSources
	promptCached                           uint64
	preemptions                            uint64
	prefixQueries, prefixHits              uint64
	finished                               [5]uint64 // as finishReasons
	ttft, interToken, perToken             histogram
	e2e, queue, prefill, decode, inference histogram
	promptLength, generationLength         histogram
	prefillComputed                        histogram
	maxTokens, paramN, maxGeneration       histogram
	iteration, numPreemptions              histogram

	// Speculative decoding; perPosition is nil without it.
	drafts, draftTokens, acceptedTokens uint64
	perPosition                         []uint64
}

// clear sets everything to a fresh start.
func (m *engineMetrics) clear(maxModelLen int, created float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.created = created
	m.running, m.waiting, m.kvUsage = 0, 0, 0
	m.promptTokens, m.generationTokens, m.promptCached, m.preemptions = 0, 0, 0, 0
	m.prefixQueries, m.prefixHits = 0, 0
	m.promptBySource, m.finished = [3]uint64{}, [5]uint64{}
	m.drafts, m.draftTokens, m.acceptedTokens = 0, 0, 0
	clear(m.perPosition)
	lengths := lengthBounds(maxModelLen)
	for _, h := range []struct {
		to     *histogram
		bounds []float64
	}{
		{&m.ttft, ttftBounds}, {&m.interToken, tokenTimeBounds}, {&m.perToken, tokenTimeBounds},
		{&m.e2e, requestBounds}, {&m.queue, requestBounds}, {&m.prefill, requestBounds},
		{&m.decode, requestBounds}, {&m.inference, requestBounds},
		{&m.promptLength, lengths}, {&m.generationLength, lengths}, {&m.prefillComputed, lengths},
		{&m.maxTokens, lengths}, {&m.paramN, nBounds}, {&m.maxGeneration, lengths},
		{&m.iteration, iterationBounds}, {&m.numPreemptions, preemptBounds},
	} {
		*h.to = newHistogram(h.bounds)
	}
}

// snapshot is a copy that no loop writes to.
func (m *engineMetrics) snapshot() *engineMetrics {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &engineMetrics{
		created: m.created, running: m.running, waiting: m.waiting, kvUsage: m.kvUsage,
		promptTokens: m.promptTokens, generationTokens: m.generationTokens,
		promptBySource: m.promptBySource, promptCached: m.promptCached, preemptions: m.preemptions,
		drafts: m.drafts, draftTokens: m.draftTokens, acceptedTokens: m.acceptedTokens, perPosition: slices.Clone(m.perPosition),
		prefixQueries: m.prefixQueries, prefixHits: m.prefixHits, finished: m.finished,
	}
	from, to := m.histograms(), c.histograms()
	for i := range from {
		*to[i] = histogram{from[i].bounds, slices.Clone(from[i].counts), from[i].sum}
	}
	return c
}

// histograms in the order of histogramFamilies.
func (m *engineMetrics) histograms() []*histogram {
	return []*histogram{&m.ttft, &m.interToken, &m.perToken, &m.e2e, &m.queue, &m.inference, &m.prefill, &m.decode,
		&m.promptLength, &m.generationLength, &m.prefillComputed, &m.maxTokens, &m.paramN, &m.maxGeneration,
		&m.iteration, &m.numPreemptions}
}

var histogramFamilies = []struct{ name, help string }{
	{"vllm:time_to_first_token_seconds", "Histogram of time to first token in seconds."},
	{"vllm:inter_token_latency_seconds", "Histogram of inter-token latency in seconds."},
	{"vllm:request_time_per_output_token_seconds", "Histogram of time_per_output_token_seconds per request."},
	{"vllm:e2e_request_latency_seconds", "Histogram of e2e request latency in seconds."},
	{"vllm:request_queue_time_seconds", "Histogram of time spent in WAITING phase for request."},
	{"vllm:request_inference_time_seconds", "Histogram of time spent in RUNNING phase for request."},
	{"vllm:request_prefill_time_seconds", "Histogram of time spent in PREFILL phase for request."},
	{"vllm:request_decode_time_seconds", "Histogram of time spent in DECODE phase for request."},
	{"vllm:request_prompt_tokens", "Number of prefill tokens processed."},
	{"vllm:request_generation_tokens", "Number of generation tokens processed."},
	{"vllm:request_prefill_kv_computed_tokens", "Histogram of new KV tokens computed during prefill (excluding cached tokens)."},
	{"vllm:request_params_max_tokens", "Histogram of the max_tokens request parameter."},
	{"vllm:request_params_n", "Histogram of the n request parameter."},
	{"vllm:request_max_num_generation_tokens", "Histogram of maximum number of requested generation tokens."},
	{"vllm:iteration_tokens_total", "Histogram of number of tokens per engine_step."},
	{"vllm:request_num_preemptions", "Histogram of the number of preemptions per request."},
}
