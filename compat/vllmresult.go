package compat

import (
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/assay-bench/assay/result"
	"github.com/assay-bench/assay/stat"
)

// VLLMResult is the result of `vllm bench serve --save-result` in its schema
// (vllm/benchmarks/serve.py), by its definitions. Times of requests are in ms,
// duration in s. Keys that need the events of single seconds are left out
// (max_output_tokens_per_s, max_concurrent_requests).
type VLLMResult struct {
	Date           string   `json:"date"`
	EndpointType   string   `json:"endpoint_type"`
	Backend        string   `json:"backend"`
	Label          *string  `json:"label"`
	ModelID        string   `json:"model_id"`
	TokenizerID    string   `json:"tokenizer_id"`
	NumPrompts     int      `json:"num_prompts"`
	RequestRate    any      `json:"request_rate"` // a number or "inf"
	Burstiness     float64  `json:"burstiness"`
	MaxConcurrency *int     `json:"max_concurrency"`
	Duration       float64  `json:"duration"`
	Completed      int      `json:"completed"`
	Failed         int      `json:"failed"`
	InputTokens    int      `json:"total_input_tokens"`
	OutputTokens   int      `json:"total_output_tokens"`
	RequestTPS     float64  `json:"request_throughput"`
	Goodput        *float64 `json:"request_goodput"`
	OutputTPS      float64  `json:"output_throughput"`
	TotalTPS       float64  `json:"total_token_throughput"`

	MeanTTFT   float64 `json:"mean_ttft_ms"`
	MedianTTFT float64 `json:"median_ttft_ms"`
	StdTTFT    float64 `json:"std_ttft_ms"`
	P99TTFT    float64 `json:"p99_ttft_ms"`
	MeanTPOT   float64 `json:"mean_tpot_ms"`
	MedianTPOT float64 `json:"median_tpot_ms"`
	StdTPOT    float64 `json:"std_tpot_ms"`
	P99TPOT    float64 `json:"p99_tpot_ms"`
	MeanITL    float64 `json:"mean_itl_ms"`
	MedianITL  float64 `json:"median_itl_ms"`
	StdITL     float64 `json:"std_itl_ms"`
	P99ITL     float64 `json:"p99_itl_ms"`
	MeanE2EL   float64 `json:"mean_e2el_ms"`
	MedianE2EL float64 `json:"median_e2el_ms"`
	StdE2EL    float64 `json:"std_e2el_ms"`
	P99E2EL    float64 `json:"p99_e2el_ms"`
}

// Run is what of a run is not in its attempts.
type Run struct {
	Epoch       time.Time
	Dialect     string
	Model       string
	Rate        float64 // requests/s of an open loop, 0 of a closed one
	CV          float64 // of its gaps, 0 if not known
	Concurrency int     // of a closed loop, or the cap of an open one; 0 is none
}

// VLLM makes the result of a log. Statistics of nothing are 0, as they are there.
func VLLM(l *Log, ours *result.Stage, run Run) VLLMResult {
	v := &view{l: l, ours: ours}
	ok := func(r *request) bool { return r.http200 }
	seconds := v.span(func(r *request) bool { return r.reached }, func(r *request) float64 { return max(r.lastFrame, r.start) })
	out, completed := v.sum(ok, func(r *request) int { return max(0, r.n) })
	in, _ := v.sum(ok, func(r *request) int { return r.prompt })
	backend := "vllm"
	if run.Dialect == "openai-chat" {
		backend = "openai-chat"
	}
	res := VLLMResult{
		Date: run.Epoch.UTC().Format("20060102-150405"), EndpointType: backend, Backend: backend,
		ModelID: run.Model, TokenizerID: run.Model, NumPrompts: len(l.requests), RequestRate: "inf", Burstiness: 1,
		Completed: completed, Failed: len(l.requests) - completed, InputTokens: int(in), OutputTokens: int(out),
	}
	if run.Rate > 0 {
		res.RequestRate = run.Rate
	}
	if run.CV > 0 { // the shape of its gamma gaps
		res.Burstiness = 1 / (run.CV * run.CV)
	}
	if run.Concurrency > 0 {
		res.MaxConcurrency = &run.Concurrency
	}
	if seconds > 0 && !math.IsInf(seconds, 0) {
		res.Duration = seconds
		res.RequestTPS, res.OutputTPS, res.TotalTPS = float64(completed)/seconds, out/seconds, (in+out)/seconds
		if g := ours.Goodput; g != nil {
			res.Goodput = ptr(float64(v.vllmGood(g.SLO)) / seconds)
		}
	}
	fill := func(x []float64, mean, median, std, p99 *float64) {
		if len(x) == 0 {
			return
		}
		slices.Sort(x)
		*mean, *median, *p99 = stat.Mean(x), stat.Median(x), stat.Quantile(x, 0.99, stat.Type7)
		if n := float64(len(x)); n > 1 { // NumPy's std divides by n
			*std = math.Sqrt(stat.Variance(x) * (n - 1) / n)
		}
	}
	fill(v.of(vllmTTFT), &res.MeanTTFT, &res.MedianTTFT, &res.StdTTFT, &res.P99TTFT)
	fill(v.of(vllmTPOT), &res.MeanTPOT, &res.MedianTPOT, &res.StdTPOT, &res.P99TPOT)
	fill(slices.Clone(l.choiceGaps), &res.MeanITL, &res.MedianITL, &res.StdITL, &res.P99ITL)
	fill(v.of(vllmE2EL), &res.MeanE2EL, &res.MedianE2EL, &res.StdE2EL, &res.P99E2EL)
	return res
}

// Text writes the block that `vllm bench serve` prints.
func (r *VLLMResult) Text(w io.Writer) error {
	p := &printer{w: w}
	p.heading("=", " Serving Benchmark Result ")
	p.count("Successful requests:", r.Completed)
	p.count("Failed requests:", r.Failed)
	if r.MaxConcurrency != nil {
		p.count("Maximum request concurrency:", *r.MaxConcurrency)
	}
	if rate, ok := r.RequestRate.(float64); ok {
		p.number("Request rate configured (RPS):", rate)
	}
	p.number("Benchmark duration (s):", r.Duration)
	p.count("Total input tokens:", r.InputTokens)
	p.count("Total generated tokens:", r.OutputTokens)
	p.number("Request throughput (req/s):", r.RequestTPS)
	if r.Goodput != nil {
		p.number("Request goodput (req/s):", *r.Goodput)
	}
	p.number("Output token throughput (tok/s):", r.OutputTPS)
	p.number("Total token throughput (tok/s):", r.TotalTPS)
	for _, m := range []struct {
		heading, name     string
		mean, median, p99 float64
	}{
		{"Time to First Token", "TTFT", r.MeanTTFT, r.MedianTTFT, r.P99TTFT},
		{"Time per Output Token (excl. 1st token)", "TPOT", r.MeanTPOT, r.MedianTPOT, r.P99TPOT},
		{"Inter-token Latency", "ITL", r.MeanITL, r.MedianITL, r.P99ITL},
		{"End-to-end Latency", "E2EL", r.MeanE2EL, r.MedianE2EL, r.P99E2EL},
	} {
		p.heading("-", m.heading)
		p.number("Mean "+m.name+" (ms):", m.mean)
		p.number("Median "+m.name+" (ms):", m.median)
		p.number("P99 "+m.name+" (ms):", m.p99)
	}
	p.heading("=", "")
	return p.err
}

// printer keeps the first error.
type printer struct {
	w   io.Writer
	err error
}

// blockWidth of its headings.
const blockWidth = 50

func (p *printer) heading(fill, s string) {
	pad := blockWidth - len(s)
	line := ""
	for i := range blockWidth - len(s) {
		if i == pad/2 {
			line += s
		}
		line += fill
	}
	p.printf("%s\n", line)
}

func (p *printer) count(label string, n int)      { p.printf("%-40s %-10d\n", label, n) }
func (p *printer) number(label string, x float64) { p.printf("%-40s %-10.2f\n", label, x) }
func (p *printer) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}
