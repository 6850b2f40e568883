package compat

import (
	"math"
	"slices"

	"github.com/assay-bench/assay/result"
	"github.com/assay-bench/assay/stat"
)

// vllm is `vllm bench serve`. vllm/benchmarks/lib/endpoint_request_func.py and
// serve.py.
func vllm(l *Log, ours *result.Stage) result.PeerView {
	v := &view{l: l, ours: ours, out: result.PeerView{
		Tool: "vllm bench serve", Read: "vllm/benchmarks @28be48f, end of chat as of #55508 (2026-09)",
		NotImitated: []string{
			"one Python process parses JSON inside the timed path: under load its own lag is in every number",
			"without usage it tokenizes the text again; such requests are left out here",
		},
	}}
	v.add("TTFT", "ttft_ms", "ms", "first event with a choices array, even one that only names the role; "+beforePool, v.of(vllmTTFT))
	v.add("TPOT (excl. 1st token)", "tpot_ms", "ms", "from the first to the last event with choices, with or without text; streams that broke off with an error count as successes", v.of(vllmTPOT))
	v.add("ITL", "itl_ms", "ms", "a gap between any two events with choices: the one after the role is near 0, and an event of several tokens counts once", l.choiceGaps)
	v.add("E2EL", "e2e_ms", "ms", "to the last event with choices (the finish, after the last text)", v.of(vllmE2EL))
	v.add("E2EL until 2026-09", "e2e_ms", "ms", "in chat the usage frame moved the end", v.of(func(r *request) (float64, bool) {
		return r.lastFrame - r.start, r.http200 && r.lastFrame > 0
	}))
	seconds := v.span(func(r *request) bool { return r.reached }, func(r *request) float64 { return max(r.lastFrame, r.start) })
	ok := func(r *request) bool { return r.http200 }
	out, n := v.sum(ok, func(r *request) int { return max(0, r.n) })
	in, _ := v.sum(ok, func(r *request) int { return r.prompt })
	const whole = "over first send to last response of these requests: ramp and drain are inside; failures leave the numerator only"
	v.rate("request throughput", "rps", "requests/s", whole, float64(n)/seconds, n)
	v.rate("output token throughput", "output_tps", "tokens/s", whole, out/seconds, n)
	v.rate("total token throughput", "", "tokens/s", "prompt and output tokens added up: mostly the prompts' length", (in+out)/seconds, n)
	if g := ours.Goodput; g != nil {
		v.rate("request goodput", "", "requests/s", "a rate over successes, and a one-token reply passes TPOT as 0 ms; ours is a percentage of all due requests",
			float64(v.vllmGood(g.SLO))/seconds, n)
	}
	return v.out
}

func vllmTTFT(r *request) (float64, bool) {
	return r.firstChoice - r.start, r.http200 && r.firstChoice > 0
}

func vllmTPOT(r *request) (float64, bool) {
	return (r.lastChoice - r.firstChoice) / float64(r.n-1), r.http200 && r.firstChoice > 0 && r.n > 1
}

func vllmE2EL(r *request) (float64, bool) {
	return r.lastChoice - r.start, r.http200 && r.firstChoice > 0
}

// vllmGood counts successes within the limits by its own rule.
func (v *view) vllmGood(slo []result.Threshold) (good int) {
	for i := range v.l.requests {
		r := &v.l.requests[i]
		if !r.http200 || r.firstChoice == 0 {
			continue
		}
		value := map[string]float64{"ttft": r.firstChoice - r.start, "e2e": r.lastChoice - r.start}
		if r.n > 1 {
			value["tpot"] = (r.lastChoice - r.firstChoice) / float64(r.n-1)
		}
		if !slices.ContainsFunc(slo, func(t result.Threshold) bool { return value[t.Metric] > t.LimitMS }) {
			good++
		}
	}
	return good
}

// aiperf is AIPerf with --use-server-token-count.
func aiperf(l *Log, ours *result.Stage) result.PeerView {
	v := &view{l: l, ours: ours, out: result.PeerView{
		Tool: "AIPerf", Read: "src/aiperf @422e5d71 (0.7.0), with --use-server-token-count",
		NotImitated: []string{
			"by default it counts output tokens by its own tokenizer, not by usage",
			"it stamps once a network read: events of one read share a time",
			"a reply that is a tool call alone is an error there",
		},
	}}
	has := func(r *request) bool { return r.success && r.firstContent > 0 }
	perToken := func(r *request) (float64, bool) {
		return (r.lastContent - r.firstContent) / float64(r.n-1), has(r) && r.n > 1
	}
	v.add("TTFT", "ttft_ms", "ms", beforePool, v.of(func(r *request) (float64, bool) { return r.firstContent - r.start, has(r) }))
	v.add("Request Latency", "e2e_ms", "ms", "to the last content, as ours; "+beforePool, v.of(func(r *request) (float64, bool) { return r.lastContent - r.start, has(r) }))
	v.add("Inter Token Latency", "tpot_ms", "ms", "a mean per request, (latency - TTFT) / (n - 1), under the name of a gap: it is our TPOT", v.of(perToken))
	v.add("Output Token Throughput Per User", "user_tps", "tokens/s", "1 / the above for each request, as ours", v.of(func(r *request) (float64, bool) {
		x, ok := perToken(r)
		return 1000 / x, ok && x > 0
	}))
	seconds := v.span(has, func(r *request) float64 { return r.lastContent })
	out, n := v.sum(has, func(r *request) int { return max(0, r.n) })
	const window = "over first start to last content of these requests: ramp and drain are inside"
	v.rate("Output Token Throughput", "output_tps", "tokens/s", window, out/seconds, n)
	v.rate("Request Throughput", "rps", "requests/s", window, float64(n)/seconds, n)
	return v.out
}

// guidellm is GuideLLM.
func guidellm(l *Log, ours *result.Stage) result.PeerView {
	v := &view{l: l, ours: ours, out: result.PeerView{
		Tool: "GuideLLM", Read: "src/guidellm @ee7a7745 (0.7.3)",
		NotImitated: []string{
			"its clock is the wall clock: a step of it is in the numbers",
			"without usage the number of chunks stands in for tokens, untold",
			"values that do not exist enter its distributions as 0.0",
		},
	}}
	has := func(r *request) bool { return r.success && r.firstText > 0 }
	weighted := func() (mean float64) {
		var sum, weight float64
		for i := range l.requests {
			if r := &l.requests[i]; has(r) && r.n > 1 {
				sum += r.lastText - r.firstText
				weight += float64(r.n - 1)
			}
		}
		return sum / weight
	}
	v.addBy("TTFT", "ttft_ms", "ms", beforePool+"; percentiles by nearest rank", v.of(func(r *request) (float64, bool) { return r.firstText - r.start, has(r) }),
		stat.Mean(v.of(func(r *request) (float64, bool) { return r.firstText - r.start, has(r) })), stat.Type1)
	tpot := v.of(func(r *request) (float64, bool) { return (r.lastText - r.start) / float64(r.n), has(r) && r.n > 0 })
	v.addBy("TPOT", "tpot_ms", "ms", "(last token - request start) / n: TTFT is spread over the tokens", tpot, stat.Mean(tpot), stat.Type1)
	itl := v.of(func(r *request) (float64, bool) {
		return (r.lastText - r.firstText) / float64(r.n-1), has(r) && r.n > 1
	})
	v.addBy("ITL", "tpot_ms", "ms", "our TPOT; its mean is weighted by n - 1, while its percentiles are of the requests' means", itl, weighted(), stat.Type1)
	latency := v.of(func(r *request) (float64, bool) { return r.end - r.start, has(r) })
	v.addBy("request latency", "e2e_ms", "ms", "to the end of the body, after usage and terminal marker", latency, stat.Mean(latency), stat.Type1)
	seconds := v.span(has, func(r *request) float64 { return r.end })
	out, n := v.sum(has, func(r *request) int { return max(0, r.n) })
	in, _ := v.sum(has, func(r *request) int { return r.prompt })
	v.rate("tokens per second", "", "tokens/s", "prompt and output tokens added up", (in+out)/seconds, n)
	v.rate("output tokens per second", "output_tps", "tokens/s", "over first start to last end of these requests", out/seconds, n)
	return v.out
}

// inferencePerf is kubernetes-sigs/inference-perf.
func inferencePerf(l *Log, ours *result.Stage) result.PeerView {
	v := &view{l: l, ours: ours, out: result.PeerView{
		Tool: "inference-perf", Read: "@7de5ef2 (0.6.1)",
		NotImitated: []string{
			"it tokenizes replies on the event loop: its E2E contains that, and other streams stall meanwhile",
			"it counts output tokens by its own tokenizer; usage stands in here",
		},
	}}
	has := func(r *request) bool { return r.success && r.firstAnswer > 0 && r.n > 1 }
	v.add("TTFT", "ttft_ms", "ms", "answer text alone: of a reasoning model it is the first answer token; one-token replies have none; "+beforePool,
		v.of(func(r *request) (float64, bool) { return r.firstAnswer - r.start, has(r) }))
	v.add("TPOT", "tpot_ms", "ms", "over answer text", v.of(func(r *request) (float64, bool) { return (r.lastAnswer - r.firstAnswer) / float64(r.n-1), has(r) }))
	v.add("ITL", "itl_ms", "ms", "all tokens of a chunk get its time: 0 ms between them are invented (where the server tells the deltas; else chunks count as tokens here)", l.zeroFilledGaps)
	v.add("normalized TPOT", "tpot_ms", "ms", "E2E / n: contains TTFT, and zero-token replies enter as 0", v.of(func(r *request) (float64, bool) {
		if r.n == 0 {
			return 0, r.success
		}
		return (r.end - r.start) / float64(r.n), r.success && r.n > 0
	}))
	v.add("request latency", "e2e_ms", "ms", "to the end of the body", v.of(func(r *request) (float64, bool) { return r.end - r.start, r.success }))
	seconds := v.span(func(r *request) bool { return r.success }, func(r *request) float64 { return r.end })
	out, n := v.sum(func(r *request) bool { return r.success }, func(r *request) int { return max(0, r.n) })
	in, _ := v.sum(func(r *request) bool { return r.success }, func(r *request) int { return r.prompt })
	v.rate("output tokens per second", "output_tps", "tokens/s", "over first start to last end of these requests", out/seconds, n)
	v.rate("total tokens per second", "", "tokens/s", "prompt and output tokens added up", (in+out)/seconds, n)
	return v.out
}

// genaiPerf is genai-perf, which AIPerf replaced.
func genaiPerf(l *Log, ours *result.Stage) result.PeerView {
	v := &view{l: l, ours: ours, out: result.PeerView{
		Tool: "genai-perf", Read: "llm_profile_data_parser.py",
		NotImitated: []string{"it counts output tokens by its own tokenizer; usage stands in here"},
	}}
	has := func(r *request) bool { return r.success && r.firstText > 0 }
	v.add("Time To First Token", "ttft_ms", "ms", beforePool, v.of(func(r *request) (float64, bool) { return r.firstText - r.start, has(r) }))
	v.add("Request Latency", "e2e_ms", "ms", "to the last response that is not empty", v.of(func(r *request) (float64, bool) { return r.lastText - r.start, has(r) }))
	v.add("Inter Token Latency", "tpot_ms", "ms", "(latency - TTFT) / (n - 1) of a request, rounded to ns, under the name of a gap: our TPOT",
		v.of(func(r *request) (float64, bool) {
			return math.Round((r.lastText-r.firstText)*1e6/float64(r.n-1)) / 1e6, has(r) && r.n > 1
		}))
	seconds := v.span(has, func(r *request) float64 { return r.lastText })
	out, n := v.sum(has, func(r *request) int { return max(0, r.n) })
	v.rate("Output Token Throughput", "output_tps", "tokens/s", "over first start to last response of these requests", out/seconds, n)
	return v.out
}

// llmperf is ray-project/llmperf, of Anyscale.
func llmperf(l *Log, ours *result.Stage) result.PeerView {
	v := &view{l: l, ours: ours, out: result.PeerView{
		Tool: "llmperf (Anyscale)", Read: "ray_clients/openai_chat_completions_client.py @f1d6bed",
		NotImitated: []string{"it counts tokens by the Llama tokenizer whatever the model; usage stands in here"},
	}}
	has := func(r *request) bool { return r.success && r.firstAnswer > 0 }
	v.add("ttft_s", "ttft_ms", "ms", beforePool, v.of(func(r *request) (float64, bool) { return r.firstAnswer - r.start, has(r) }))
	v.add("inter_token_latency_s", "itl_ms", "ms", "the sum of all times, TTFT with them, over the tokens: no gap and no TPOT",
		v.of(func(r *request) (float64, bool) { return (r.lastAnswer - r.start) / float64(r.n), has(r) && r.n > 0 }))
	v.add("end_to_end_latency_s", "e2e_ms", "ms", "to the end of the body", v.of(func(r *request) (float64, bool) { return r.end - r.start, has(r) }))
	v.add("request_output_throughput", "user_tps", "tokens/s", "n / E2E of a request: TTFT is inside, ours leaves it out",
		v.of(func(r *request) (float64, bool) {
			return 1000 * float64(r.n) / (r.end - r.start), has(r) && r.n > 0 && r.end > r.start
		}))
	return v.out
}

// databricks is the formula TTFT + TPOT × n for the latency of a reply.
func databricks(l *Log, ours *result.Stage) result.PeerView {
	v := &view{l: l, ours: ours, out: result.PeerView{Tool: "Databricks formula", Read: "LLM Inference Performance Engineering: Best Practices (2023)"}}
	v.add("latency = TTFT + TPOT × n", "e2e_ms", "ms", "exceeds the exact E2E of each request by exactly one TPOT, since n tokens have n - 1 gaps",
		v.of(func(r *request) (float64, bool) {
			return r.firstText - r.sent + (r.lastText-r.firstText)/float64(r.n-1)*float64(r.n), r.success && r.firstText > 0 && r.n > 1
		}))
	return v.out
}
