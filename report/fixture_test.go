package report

import (
	"fmt"
	"time"

	"github.com/assay-bench/assay/environ"
	"github.com/assay-bench/assay/metric"
	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/result"
)

const second = record.Stamp(time.Second)

func environment() *environ.Log {
	l := &environ.Log{
		Client: environ.Client{OS: "linux", Arch: "amd64", Kernel: "6.8.0", CPU: "AMD EPYC 9354", Cores: 32, CPULimit: 8, Memory: 64 << 30, MemoryLimit: 16 << 30,
			Governors: []string{"performance"}, ClockSource: "tsc", Sync: &environ.ClockSync{Synchronised: true, MaxErrorUS: 2500}, Go: "go1.26.1", LoadAverage: 0.4,
			Path: &environ.Path{Address: "10.0.0.7:443", Connects: 7, MinMS: 0.21, MedianMS: 0.25, MaxMS: 0.9, TLS: "TLS 1.3, TLS_AES_128_GCM_SHA256", Certificate: "issued by R11, valid until 2027-01-01"}},
		Facts: []environ.Fact{{Name: "engine_version", Value: "0.32.0", Source: "its endpoints"}, {Name: "kv_block_size", Value: "16", Source: "vllm:cache_config_info"},
			{Name: "kv_block_size", Value: "32", Source: environ.Declared}, {Name: "gpu", Value: "H100", Source: environ.Declared}, {Name: "header Via", Value: "1.1 ingress", Source: "reply headers"}},
	}
	l.Settle()
	return l
}

// serverWindow is an account with each kind of number, and with hidden ones.
func serverWindow() *result.ServerWindow {
	number := func(quantity, name, unit, what string) result.ServerNumber {
		return result.ServerNumber{Quantity: quantity, Name: name, Unit: unit, Semantics: name + " (" + unit + "): " + what, Series: 1}
	}
	tpot := number("tpot_request", "vllm:request_time_per_output_token_seconds", "seconds", "one finished sequence")
	tpot.Hidden = "contaminated: it holds 3 made-up zeros of 812 samples: sequences of no or one token are observed as 0"
	queue := number("queue", "vllm:request_queue_time_seconds", "ms", "one finished sequence; taken when it finishes")
	queue.Flags = []string{"2 requests were aborted or failed in the window: sums of queue may be garbage"}
	return &result.ServerWindow{
		Start: 10_000_000_000, End: 69_900_000_000, LengthLo: 59_890 * time.Millisecond, LengthHi: 59_900 * time.Millisecond, Scrapes: 14,
		Distributions: []result.ServerDistribution{
			{ServerNumber: number("ttft", "vllm:time_to_first_token_seconds", "ms", "one sequence; taken at its first output"), N: 812, Mean: new(141.5),
				P50: &result.ServerBound{Lo: new(100.0), Hi: new(250.0), TightLo: new(100.0), TightHi: new(182.4), Share: 0.93, SumFits: true},
				P95: &result.ServerBound{Lo: new(250.0), Hi: new(500.0), TightLo: new(250.0), TightHi: new(500.0), Share: 0.06, SumFits: true, Resolved: true},
				P99: &result.ServerBound{Lo: new(2560000.0), TightLo: new(2560000.0), Share: 0.01, SumFits: true}},
			{ServerNumber: tpot},
			{ServerNumber: queue, N: 55, Mean: new(3.25),
				P50: &result.ServerBound{Lo: new(0.0), Hi: new(300.0), TightLo: new(0.0), TightHi: new(6.38), Share: 1, SumFits: true}},
		},
		Totals: []result.ServerTotal{
			{ServerNumber: number("tokens_out", "vllm:generation_tokens_total", "tokens", "one output token"), Total: 103936, PerSecond: &result.Interval{1735.16, 1735.45}},
			{ServerNumber: number("requests_finished", "vllm:request_success_total", "requests", "one finished sequence"), Total: 812,
				PerSecond: &result.Interval{13.556, 13.558}, By: map[string]float64{"length": 810, "stop": 2}},
			{ServerNumber: number("preemptions", "vllm:num_preemptions_total", "events", "one preemption"), Total: 1},
		},
		Gauges: []result.ServerGauge{
			{ServerNumber: number("running", "vllm:num_requests_running", "requests", "taken after each step"), Samples: 14, Min: 61, Mean: 63.57, Max: 64},
			{ServerNumber: number("kv_usage", "vllm:kv_cache_usage_perc", "share", "taken after each step"), Samples: 14, Min: 0.31, Mean: 0.355, Max: 0.4},
		},
		PrefixHitRate: &result.ServerShare{Part: 1024, Whole: 415744, Share: 1024.0 / 415744},
		Checks: []result.WindowCheck{
			{Name: "vllm:generation_tokens_total", Server: 103936, Client: 103921, InFlight: 64, Tolerance: 1039, Agrees: true, Possible: true, Text: "agrees: +15, and up to 1039 is allowed"},
			{Name: "vllm:prompt_tokens_total", Server: 830000, Client: 415744, Possible: true, Text: "DIFFERS: +414256, and up to 8300 is allowed: other traffic, or a second client"},
		},
	}
}

// latencies is a summary of n values about mid; the numbers are made up, but
// hang together.
func latencies(n int, mid float64) *result.Summary {
	s := &result.Summary{
		N: n, Unit: "ms", Boundary: result.Client, Weighting: result.RequestWeighted, QuantileType: 7,
		Mean: new(mid * 1.04), P50: new(mid), Min: new(mid * 0.8), Max: new(mid * 2.2), MAD: new(mid * 0.061),
	}
	if n >= 20 {
		s.P95 = new(mid * 1.35)
	}
	if n >= 100 {
		s.P99 = new(mid * 1.81)
	}
	switch {
	case n >= 500:
		s.P99CI, s.NEff = &result.Interval{mid * 1.7, mid * 2.05}, new(float64(n)*0.8)
		s.CIMethod = fmt.Sprintf("p50 order statistics at effective n, 64 batches of %d, n_eff %d; "+
			"p99 order statistics at effective n, 64 batches of %d, n_eff %d", n/64, n*4/5, n/64, n*4/5)
	case n >= 368:
		s.P99CIIID = &result.Interval{mid * 1.7, mid * 2.1}
		s.CIMethod = "none: fewer than 20 batches"
	default:
		s.CIMethod = "none: fewer than 20 batches"
	}
	return s
}

func lengths(n int, mean, p50, p95, most float64) *result.Summary {
	return &result.Summary{N: n, Unit: "tokens", QuantileType: 7, Mean: &mean, P50: &p50, P95: &p95, Min: &p50, Max: &most}
}

func fullLedger(n int) record.Ledger {
	return record.Ledger{
		Requests: n, Attempts: n, Completed: n, Rows: map[record.Outcome]int{record.Completed: n},
		StoppedEarly: 6, FinishReasons: map[string]int{"length": n - 6, "stop": 6},
	}
}

// goodRun is a complete run without a fault.
func goodRun() *result.Run {
	const n = 1024
	itl := latencies(126_000, 10.21)
	itl.Weighting, itl.P99CI, itl.NEff = result.GapWeighted, nil, nil
	itl.CIMethod = "none: the gaps of one request depend on each other"
	lag := latencies(n, 0.0412)
	connect := latencies(16, 0.2134)
	connect.Note = "connections opened outside the window: none was opened inside it"
	tpot := latencies(n, 10.23)
	strata := []result.Stratum{
		{LoTokens: 64, HiTokens: 127, N: 6, EarlyStopRate: new(1.0), TPOT: latencies(6, 10.11), E2E: latencies(6, 1012)},
		{LoTokens: 128, HiTokens: 128, N: n - 6, EarlyStopRate: new(0.0), TPOT: latencies(n-6, 10.23), E2E: latencies(n-6, 1352)},
	}
	st := result.Stage{
		Name: "concurrency 16", Load: "closed loop, concurrency 16",
		Window: record.Window{Start: 6 * second, End: 96 * second}, WindowClosed: "duration", Cooldown: 1381 * time.Millisecond,
		Warmup: result.Warmup{
			Rule: "mser5", Detected: true, Requests: 50, Duration: 5800 * time.Millisecond,
			MedianRule: "did not fire in 50 completions", CUSUM: "none in TTFT, TPOT, in flight", Text: "stationary by mser5 after 50 completions in 5.8 s",
		},
		Ledger: fullLedger(n), LedgerRun: fullLedger(n + 66),
		Metrics: result.Metrics{
			TTFT: latencies(n, 52.31), TTFTFromSchedule: latencies(n, 52.4), TTFAnswer: latencies(n, 52.31),
			Headers: latencies(n, 51.9), Connect: connect, TPOT: tpot, TPOTPaired: tpot, ITL: itl, GapMean: new(10.402),
			E2E: latencies(n, 1352), UserTPS: latencies(n, 97.75), SendLag: lag,
			OneToken: result.OneTokenCheck{Checked: n, Proven: n, Verdict: "proven"}, Strata: strata,
		},
		Workload: result.Observed{
			PromptTokens: lengths(n, 511.94, 512, 512, 513), CompletionTokens: lengths(n, 127.71, 128, 128, 128),
			PromptTokensAsked: new(512.0), EarlyStopRate: new(6.0 / n), Rate: new(11.377), CV: new(0.9832),
			Dispersion: []result.Dispersion{{WindowS: 1, Index: 0.412}}, InFlight: result.InFlight{Mean: new(15.97), Max: 16},
		},
		Throughput: []result.Throughput{
			{Name: "output_tps", Value: 1453.21, Unit: "tokens/s", Numerator: "output tokens of the events inside the window",
				Denominator: "declared window of 90 s", Phases: "warm-up and cooldown outside; requests across an edge count with their part inside"},
			{Name: "prompt_tps", Value: 5825.4, Unit: "tokens/s", Numerator: "prompt tokens of the requests completed in the window",
				Denominator: "declared window of 90 s", Phases: "warm-up and cooldown outside, but requests that began in the warm-up and completed inside count whole"},
			{Name: "rps", Value: 11.3772, Unit: "requests/s", Numerator: "requests completed in the window",
				Denominator: "declared window of 90 s", Phases: "warm-up and cooldown outside, but requests that began in the warm-up and completed inside count whole"},
			{Name: "output_tps_span", Value: 1431.9, Unit: "tokens/s", Numerator: "output tokens of the completed requests that were due in the window",
				Denominator: "T_last - T_first = 91.3307 s, from their first sent to their last text",
				Phases:      "warm-up outside; the drain of the last of them, after the window, inside"},
		},
		Goodput: &result.Goodput{
			SLO: []result.Threshold{
				{Metric: "ttft", LimitMS: 1000}, {Metric: "tpot", LimitMS: 150},
				{Metric: "e2e", LimitMS: 5000, Note: "not the seed's for 6 requests: its limit is for 128 output tokens"},
			},
			Due: n, Good: n, Percent: 100, Rate: new(11.3777),
		},
		Client: result.ClientVerdict{Verdict: result.Valid, Checks: []result.Check{
			{Name: "send lateness p99", OK: true, Text: "send lateness p99 0.0746 ms (at most 1)"},
			{Name: "coalesced text events", OK: true, Text: "coalesced text events 0.0012 share (at most 0.05)"},
			{Name: "due requests sent", OK: true, Text: "due requests sent 1 share (at least 0.98)"},
			{Name: "stale connections", OK: true, Text: "stale connections 0 share of attempts (at most 0.01)"},
			{Name: "longest GC pause", OK: true, Text: "longest GC pause 0.082 ms (at most 1)"},
			{Name: "cgroup throttling", OK: true, Text: "cgroup throttling 0 ms (at most 0)"},
		}},
		Stability: result.StabilityVerdict{Verdict: result.Stable, Checks: []result.Check{
			{Name: "completion rate trend", OK: true, Text: "completion rate trend: +0.4 requests per bin over the window about a mean of 51.2 (p = 0.71)"},
			{Name: "E2E trend", OK: true, Text: "E2E trend: -3.21 ms over the window about a mean of 1.41e+03 (p = 0.55)"},
		}},
		Server: &result.ServerAccount{
			MetricsURL: "http://127.0.0.1:41877/metrics",
			Targets: []result.ServerTarget{{URL: "http://127.0.0.1:41877/metrics", Engine: "vllm", Scrapes: 16, Failed: 1,
				FirstError: "12.03 s into the run: no reply within 5s", Longest: 8 * time.Millisecond, Skew: &result.Interval{2.1, 2.9}}},
			Window: serverWindow(),
			Counters: []result.Counter{
				{Name: "vllm:generation_tokens_total", Delta: new(139208.0), Client: 139208, Text: "equal"},
				{Name: "vllm:prompt_tokens_total", Delta: new(557995.0), Client: 557995, Text: "equal"},
			},
		},
	}
	return &result.Run{
		SchemaVersion: result.SchemaVersion, ID: "20261130T221500Z-k3f9", Dir: "runs/20261130T221500Z-k3f9", ToolVersion: "0.1.0",
		Complete: true, Epoch: time.Date(2026, 11, 30, 22, 15, 0, 0, time.UTC),
		Target: result.Target{
			URL: "http://127.0.0.1:41877/v1/chat/completions", Model: "meta-llama/Llama-3.1-8B-Instruct",
			Dialect: "openai-chat", Engine: "vllm", EngineVersion: "0.32.0", Addresses: []string{"127.0.0.1"}, BuiltIn: true,
		},
		Seed: 42, Nonce: "b1946ac9", WorkloadText: "chat, 512 prompt tokens, 128 output tokens; every prompt differs",
		Fingerprint: "9f3c2a77d0b1", PromptLength: "/tokenize", Stamps: "user space", Transport: "HTTP/1.1, one goroutine a stream",
		Environment: environment(),
		Stages:      []result.Stage{st},
	}
}

// badRun has a client that was too slow and a queue that grew.
func badRun() *result.Run {
	r := goodRun()
	r.Target = result.Target{URL: "https://llm.example.org/team-a/v1/chat/completions", Model: "qwen3-32b", Dialect: "openai-chat",
		ServerHeader: "nginx/1.28", Addresses: []string{"192.0.2.10", "192.0.2.11"}, TLS: "TLS 1.3", Proxy: "http://proxy.example.org:3128"}
	r.Warnings = []result.Warning{{Code: "buffering", Text: "Replies came in few large reads: a proxy in between seems to buffer them."}}
	st := &r.Stages[0]
	st.Name, st.Load = "rate 40/s", "open loop, Poisson arrivals at 40/s, at most 512 in flight"
	st.CappedTime = 12_400 * time.Millisecond
	st.Warmup = result.Warmup{Rule: "mser5", Capped: "duration", Requests: 400, MedianRule: "fired after 371 completions",
		Text: "not stabilised: mser5 had not fired after 400 completions when the cap of 1m0s was reached"}
	st.Client.Verdict, st.Client.Cause = result.Invalid, "send lateness p99 14.2 ms (at most 1)"
	st.Client.Checks[0] = result.Check{Name: "send lateness p99", Text: "send lateness p99 14.2 ms (at most 1)"}
	st.Client.Checks[1] = result.Check{Name: "coalesced text events", Text: "coalesced text events 0.31 share (at most 0.05)"}
	st.Client.GapsWithheld = true
	st.Client.SendProof = &result.SendProof{Asked: 260, N: 250, P50: new(1.9), P99: new(4.2), Max: new(31.0), After: 250,
		Text: "the network driver had the first bytes 1.9 us after sent (p50; p99 4.2, max 31), n 250, 0 of them before it"}
	st.Stability = result.StabilityVerdict{Verdict: result.Unstable,
		Cause: "in-flight trend: +391 requests over the window about a mean of 288 (p = 1.1e-09)",
		Checks: []result.Check{
			{Name: "in-flight trend", Text: "in-flight trend: +391 requests over the window about a mean of 288 (p = 1.1e-09)"},
			{Name: "completions against arrivals", Text: "3011 ended against 3602 arrivals in the window (ratio 0.836, allowed 1 ± 0.050)"},
			{Name: "Little's law", OK: true, Text: "mean in flight 288.10 against rate × residence 279.44 (+3.1 %, allowed ± 10 %)"},
			{Name: "drain time", OK: true, Text: "the last member ended 31.20 s after the window closed"},
		}}
	st.Metrics.ITL = nil
	st.Metrics.ChunkGap = &result.Summary{N: 126_000, Unit: "ms", Weighting: result.GapWeighted, QuantileType: 7,
		Note: "withheld: 31.0 % of the events shared a read with another (limit 5.0 %)"}
	st.Metrics.DNS, st.Metrics.TLS = latencies(32, 2.1), latencies(32, 31.8)
	st.Metrics.Connect = latencies(32, 14.2)
	st.Metrics.Strata, st.Server = nil, nil
	paired := latencies(1024, 10.31)
	st.Metrics.TPOTPaired = paired
	st.Metrics.TPOT.Excluded = map[string]int{"one token": 4, "single event": 11, "zero tokens": 2}
	st.Metrics.UserTPS.Excluded = st.Metrics.TPOT.Excluded
	st.Metrics.TTFT.Excluded = map[string]int{"zero tokens": 2}
	st.Goodput.Good, st.Goodput.Percent, st.Goodput.OneToken = 612, 59.765625, 4
	st.Goodput.Misses = map[string]int{"ttft": 391, "e2e": 10, "rejected": 9, "zero tokens": 2}
	st.Warnings = []result.Warning{
		{Code: "capped", Text: "The in-flight cap held arrivals back for 12.4 s: the loop was closed at saturation."},
		{Code: "clock-step", Text: "the wall clock of this machine was set during the run (times: 1, by up to 3 ms)"},
	}
	return r
}

// partialRun was interrupted in its window.
func partialRun() *result.Run {
	r := goodRun()
	r.Complete, r.Ended = false, "interrupted (Ctrl-C)"
	st := &r.Stages[0]
	st.WindowClosed, st.Cooldown = "interrupted", 0
	st.Ledger = record.Ledger{Requests: 400, Attempts: 400, Completed: 384,
		Rows:          map[record.Outcome]int{record.Completed: 384, record.Interrupted: 16},
		FinishReasons: map[string]int{"length": 384}}
	m := &st.Metrics
	m.TTFT, m.TTFTFromSchedule, m.TPOT, m.E2E = latencies(384, 52.31), latencies(384, 52.4), latencies(384, 10.23), latencies(384, 1352)
	m.TPOTPaired, m.Strata = nil, nil
	st.Stability = result.StabilityVerdict{Verdict: result.Undecided, Cause: "too short to tell: 40 requests became due and 24 ended in the window, 60 of each are needed"}
	return r
}

// wholeRun asked for replies in one piece.
func wholeRun() *result.Run {
	r := goodRun()
	st := &r.Stages[0]
	e2e := st.Metrics.E2E
	e2e.Note = "not streamed: end of body - sent (1024 of 1024)"
	e2e.Percentiles = map[string]*float64{"p99.9": new(2890.25), "p90": new(1701.5)}
	st.Metrics = result.Metrics{E2E: e2e, Headers: latencies(1024, 1351), Connect: st.Metrics.Connect,
		OneToken: result.OneTokenCheck{Verdict: "not checked"}}
	st.Goodput = nil
	return r
}

// chunkRun is of a server that sends several tokens in one event.
func chunkRun() *result.Run {
	r := goodRun()
	m := &r.Stages[0].Metrics
	m.ChunkGap, m.ITL = m.ITL, nil
	m.ChunkGap.N = 42_117
	m.ChunkGap.Note = "12 of 1024 requests (1.2 %) have one token an event; the distribution of gaps between tokens is unknown"
	m.OneToken = result.OneTokenCheck{Checked: 1024, Inferred: 12, Failed: 1012, Verdict: "failed"}
	m.TTFAnswer = latencies(1019, 480.2)
	m.ReadLag = latencies(42_117, 0.0121)
	return r
}

// errorRun met every kind of trouble, and a server that is hostile.
func errorRun() *result.Run {
	r := goodRun()
	r.Target.Model = "evil\x1b]0;owned\x07\u202emodel"
	st := &r.Stages[0]
	st.Ledger = record.Ledger{
		Requests: 1024, Attempts: 1027, Completed: 990,
		Rows: map[record.Outcome]int{record.Completed: 990, record.Rejected: 20, record.HTTPError: 9, record.StreamError: 4,
			record.StaleConnection: 3, record.TimeoutFirst: 1},
		HTTPStatus: map[int]int{429: 18, 503: 2, 500: 9}, ZeroToken: 2, OneToken: 4, NoUsage: 1, NoText: 2, StoppedEarly: 40, Unterminated: 3,
		FinishReasons: map[string]int{"length": 950, "stop": 37, "tool_calls": 2, "": 1},
	}
	st.Metrics.TPOT.Excluded = map[string]int{"one token": 4, "zero tokens": 2, "no usage": 1}
	st.Errors = []result.ErrorSample{
		{Outcome: record.Rejected, Status: 429, Count: 18, Error: "429 Too Many Requests", Body: `{"error":{"message":"Rate limit reached for requests","type":"rate_limit_error","param":null,"code":"rate_limit_exceeded","retry_after":2}}`},
		{Outcome: record.HTTPError, Status: 500, Count: 9, Error: "500 Internal Server Error",
			Body: "<html>\r\n<head><title>500</title></head>\r\n<body>\r\n\t<h1>\x1b[31mInternal Server Error\x1b[0m</h1>\r\n<hr>\r\n</body></html>\r\n"},
		{Outcome: record.StreamError, Count: 4, Error: "error event in the stream: EngineCore encountered an issue. See stack trace (above) for the root cause."},
		{Outcome: record.TimeoutFirst, Count: 1, Error: "no event within 60 s"},
	}
	return r
}

// tinyRun has no tails and no verdict on its stability.
func tinyRun() *result.Run {
	r := goodRun()
	st := &r.Stages[0]
	m := &st.Metrics
	st.Ledger = record.Ledger{Requests: 4, Attempts: 4, Completed: 4, Rows: map[record.Outcome]int{record.Completed: 4}, FinishReasons: map[string]int{"stop": 4}, StoppedEarly: 4}
	st.LedgerRun = st.Ledger
	m.TTFT, m.TTFTFromSchedule, m.E2E = latencies(4, 52.31), latencies(4, 52.4), latencies(4, 52.31)
	m.TPOT = &result.Summary{Unit: "ms", Weighting: result.RequestWeighted, QuantileType: 7, Excluded: map[string]int{"one token": 4}}
	m.TPOTPaired, m.ITL, m.GapMean, m.UserTPS, m.Strata = nil, nil, nil, nil, nil
	m.OneToken = result.OneTokenCheck{Verdict: "not checked"}
	st.Warmup = result.Warmup{Rule: "none", MedianRule: "did not fire in 0 completions", Text: "none, as asked: the first requests are in the sample"}
	st.WindowClosed = "requests"
	st.Stability = result.StabilityVerdict{Verdict: result.Undecided, Cause: "too short to tell: 4 requests became due and 4 ended in the window, 60 of each are needed"}
	st.Workload.CompletionTokens, st.Workload.PromptTokens = lengths(4, 1, 1, 1, 1), lengths(4, 512, 512, 512, 512)
	st.Goodput.Due, st.Goodput.Good, st.Goodput.OneToken = 4, 4, 4
	st.Goodput.SLO[2].Note = ""
	return r
}

// sweepRun has two stages.
func sweepRun() *result.Run {
	r := goodRun()
	r.Stages = append(r.Stages, badRun().Stages[0])
	return r
}

// fiveColumns is a table through the real definitions.
func fiveColumns() *result.Stage {
	t := metric.NewTable(metric.Options{SLO: metric.SeedSLO()})
	for i := range 400 {
		n := 1 + i%200
		ttft := time.Duration(100+i%37) * time.Millisecond
		err := t.AddRow(metric.Row{RequestID: fmt.Sprint("r", i), PromptTokens: 512, CompletionTokens: n,
			TTFT: ttft, E2E: ttft + time.Duration(n-1)*12*time.Millisecond})
		if err != nil {
			panic(err)
		}
	}
	st := &result.Stage{Name: "requests.csv"}
	t.Result(st)
	return st
}

// openingTrace is golden vector 1.
func openingTrace() *metric.Trace {
	var at []time.Duration
	for _, ms := range []int{120, 155, 192, 228, 265} {
		at = append(at, time.Duration(ms)*time.Millisecond)
	}
	t, err := metric.NewTrace(0, at)
	if err != nil {
		panic(err)
	}
	return &t
}
