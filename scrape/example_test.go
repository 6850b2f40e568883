package scrape_test

import (
	"fmt"

	"github.com/assay-bench/assay/scrape"
)

// Two scrapes of a vLLM, a minute apart, and what may be said of the time
// between them.
func Example() {
	page := func(tokens, steps int, sum float64) string {
		return fmt.Sprintf(`# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0"} %d
# TYPE vllm:inter_token_latency_seconds histogram
vllm:inter_token_latency_seconds_bucket{engine="0",le="0.01"} %[2]d
vllm:inter_token_latency_seconds_bucket{engine="0",le="0.025"} %[2]d
vllm:inter_token_latency_seconds_bucket{engine="0",le="+Inf"} %[2]d
vllm:inter_token_latency_seconds_sum{engine="0"} %[3]g
vllm:inter_token_latency_seconds_count{engine="0"} %[2]d
`, tokens, steps, sum)
	}
	const contentType = "text/plain; version=0.0.4"
	a, err := scrape.Parse([]byte(page(500, 400, 3.6)), contentType)
	if err != nil {
		fmt.Println(err)
		return
	}
	b, err := scrape.Parse([]byte(page(6500, 6400, 51.6)), contentType)
	if err != nil {
		fmt.Println(err)
		return
	}
	b.At = scrape.At{Before: 60e9, After: 60e9}

	catalogue, err := scrape.LoadCatalogue()
	if err != nil {
		fmt.Println(err)
		return
	}
	engine, _ := catalogue.DetectEngine(b)
	w := scrape.Between(a, b)

	out := catalogue.Read(w, engine, "0.32.0", scrape.TokensOut, nil)
	rate, _, _ := out.PerSecond(w)
	fmt.Printf("%s: %g tokens/s\n", engine, rate)

	itl := catalogue.Read(w, engine, "0.32.0", scrape.ITLStep, nil)
	mean, _ := itl.Histogram.Mean()
	p50, _ := itl.Histogram.Quantile(0.5)
	fmt.Printf("a step takes %.1f ms on average\n", mean*1e3)
	fmt.Printf("its median lies in (%g, %g] ms, by the sum in [%.1f, %.1f] ms\n", p50.Lo*1e3, p50.Hi*1e3, p50.TightLo*1e3, p50.TightHi*1e3)
	fmt.Println(itl.Entry.Sample)
	// Output:
	// vllm: 100 tokens/s
	// a step takes 8.0 ms on average
	// its median lies in (0, 10] ms, by the sum in [6.0, 10.0] ms
	// one engine step that gave a sequence at least one token, after its first; engine clock
}
