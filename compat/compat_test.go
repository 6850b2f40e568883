package compat

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/result"
)

func ms(x float64) record.Stamp { return record.Stamp(x * float64(time.Millisecond)) }

// chatReply is the opening trace of MEASUREMENT.md section 8 as a chat stream: it
// waits 10 ms for a connection, names the role early, and ends with an empty
// finish, a usage frame and the terminal marker.
func chatReply() (*record.Attempt, []record.Event) {
	a := &record.Attempt{
		Streamed: true, Outcome: record.Completed, Status: 200, Phase: record.Measured,
		Scheduled: ms(1000), Dispatched: ms(1000), ConnReady: ms(1010), Sent: ms(1010), SentLast: ms(1010),
		Usage: &record.Usage{PromptTokens: 100, CompletionTokens: 5}, FinishReason: "length",
	}
	events := []record.Event{{At: ms(1100), Flags: record.FlagRole, Tokens: 0}}
	for _, at := range []float64{1120, 1155, 1192, 1228, 1265} {
		events = append(events, record.Event{At: ms(at), Tokens: 1, TextBytes: 4, AnswerBytes: 4, Flags: record.FlagText | record.FlagAnswer})
	}
	events = append(events,
		record.Event{At: ms(1266), Flags: record.FlagFinish},
		record.Event{At: ms(1270), Flags: record.FlagUsage},
		record.Event{At: ms(1271), Flags: record.FlagDone})
	for i := range events {
		a.Observe(events[i])
	}
	a.EOF, a.Ended = ms(1272), ms(1271)
	return a, events
}

func views(t *testing.T, attempts ...func() (*record.Attempt, []record.Event)) map[string]result.PeerFigure {
	t.Helper()
	l := NewLog(record.Window{Start: ms(500), End: ms(2000)}, false)
	for _, f := range attempts {
		l.Add(f())
	}
	ours := &result.Stage{Goodput: &result.Goodput{SLO: []result.Threshold{{Metric: "ttft", LimitMS: 110}, {Metric: "tpot", LimitMS: 40}}}}
	out := map[string]result.PeerFigure{}
	for _, v := range Views(l, ours) {
		if v.Tool == "" || v.Read == "" {
			t.Errorf("a view without its tool or source: %+v", v)
		}
		for _, f := range v.Figures {
			if f.Why == "" {
				t.Errorf("%s %s: no word on why it differs", v.Tool, f.Name)
			}
			out[v.Tool+": "+f.Name] = f
		}
	}
	return out
}

func TestViewsOfOneReply(t *testing.T) {
	got := views(t, chatReply)
	for name, want := range map[string]float64{
		"vllm bench serve: TTFT":                    100, // the role, from before the pool
		"vllm bench serve: TPOT (excl. 1st token)":  41.5,
		"vllm bench serve: ITL":                     (266. - 100) / 6,
		"vllm bench serve: E2EL":                    266,
		"vllm bench serve: E2EL until 2026-09":      270,
		"vllm bench serve: request throughput":      1 / 0.270,
		"vllm bench serve: output token throughput": 5 / 0.270,
		"vllm bench serve: total token throughput":  105 / 0.270,
		"vllm bench serve: request goodput":         0, // TPOT 41.5 is above 40
		"AIPerf: TTFT":                              120,
		"AIPerf: Request Latency":                   265,
		"AIPerf: Inter Token Latency":               36.25,
		"AIPerf: Output Token Throughput Per User":  1000 / 36.25,
		"AIPerf: Output Token Throughput":           5 / 0.265,
		"GuideLLM: TPOT":                            53,
		"GuideLLM: ITL":                             36.25,
		"GuideLLM: request latency":                 272,
		"GuideLLM: tokens per second":               105 / 0.272,
		"inference-perf: ITL":                       36.25,
		"inference-perf: normalized TPOT":           272. / 5,
		"genai-perf: Inter Token Latency":           36.25,
		"llmperf (Anyscale): inter_token_latency_s": 53,
		"llmperf (Anyscale): end_to_end_latency_s":  272,
		// From sent: 255 ms exactly, and one TPOT above it.
		"Databricks formula: latency = TTFT + TPOT × n": 255 + 36.25,
	} {
		f, ok := got[name]
		if !ok || f.Mean == nil {
			t.Errorf("%s: missing", name)
			continue
		}
		if math.Abs(*f.Mean-want) > 1e-9 {
			t.Errorf("%s = %v, want %v", name, *f.Mean, want)
		}
	}
	if f := got["vllm bench serve: ITL"]; f.N != 6 || *f.P50 != 35.5 {
		t.Errorf("gaps %+v: the role and the finish make six of them", f)
	}
}

func TestSeveralTokensAChunkInventZeros(t *testing.T) {
	two := func() (*record.Attempt, []record.Event) {
		a, ev := chatReply()
		for i := range ev {
			if ev[i].Tokens == 1 {
				ev[i].Tokens = 2
			}
		}
		a.Usage.CompletionTokens = 10
		return a, ev
	}
	f := views(t, two)["inference-perf: ITL"]
	if f.N != 9 || math.Abs(*f.Mean-145./9) > 1e-9 || *f.P50 != 0 {
		t.Errorf("%+v: four gaps and five zeros", f)
	}
}

func TestWhoIsCounted(t *testing.T) {
	with := func(change func(a *record.Attempt)) func() (*record.Attempt, []record.Event) {
		return func() (*record.Attempt, []record.Event) {
			a, ev := chatReply()
			change(a)
			return a, ev
		}
	}
	broken := with(func(a *record.Attempt) { a.Outcome = record.StreamError })
	refused := func() (*record.Attempt, []record.Event) {
		a, _ := chatReply()
		a.Outcome, a.Status, a.Usage = record.Rejected, 503, nil
		return a, nil
	}
	warmup := with(func(a *record.Attempt) { a.Phase, a.Scheduled = record.Warmup, ms(100) })
	one := with(func(a *record.Attempt) { a.Usage.CompletionTokens = 1 })
	noUsage := with(func(a *record.Attempt) { a.Usage = nil })
	got := views(t, chatReply, broken, refused, warmup, one, noUsage)
	for name, want := range map[string]int{
		"vllm bench serve: TTFT":                   4, // a broken stream is a success there
		"vllm bench serve: TPOT (excl. 1st token)": 2,
		"vllm bench serve: request goodput":        4,
		"AIPerf: TTFT":                             3,
		"AIPerf: Inter Token Latency":              1,
		"GuideLLM: TPOT":                           2,
		"inference-perf: TTFT":                     1, // a one-token reply has none
	} {
		if got[name].N != want {
			t.Errorf("%s: n = %d, want %d", name, got[name].N, want)
		}
	}
	// One token passes any TPOT; of the others TPOT is 41.5 or unknown.
	if g := got["vllm bench serve: request goodput"]; math.Abs(*g.Mean-2/0.270) > 1e-9 {
		t.Errorf("goodput %v", *g.Mean)
	}
}

func TestNothing(t *testing.T) {
	for name, f := range views(t) {
		if f.N != 0 || f.Mean != nil && !math.IsNaN(*f.Mean) && *f.Mean != 0 {
			t.Errorf("%s of nothing: %+v", name, f)
		}
	}
}

func ExampleViews() {
	l := NewLog(record.Window{Start: 0, End: ms(2000)}, false)
	l.Add(chatReply())
	for _, v := range Views(l, new(result.Stage))[:2] {
		fmt.Printf("%s: TTFT %.0f ms\n", v.Tool, *v.Figures[0].Mean)
	}
	// Output:
	// vllm bench serve: TTFT 100 ms
	// AIPerf: TTFT 120 ms
}

func TestVLLMResult(t *testing.T) {
	l := NewLog(record.Window{Start: ms(500), End: ms(2000)}, false)
	l.Add(chatReply())
	r := VLLM(l, new(result.Stage), Run{Dialect: "openai-chat", Model: "m", Concurrency: 16, Epoch: time.Unix(0, 0)})
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]any{
		"date": "19700101-000000", "backend": "openai-chat", "num_prompts": 1., "request_rate": "inf", "max_concurrency": 16.,
		"completed": 1., "failed": 0., "total_input_tokens": 100., "total_output_tokens": 5., "mean_ttft_ms": 100.,
		"median_tpot_ms": 41.5, "p99_e2el_ms": 266., "request_goodput": nil, "std_ttft_ms": 0.,
	} {
		if got[key] != want {
			t.Errorf("%s = %v, want %v", key, got[key], want)
		}
	}
	var text strings.Builder
	if err := r.Text(&text); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"============ Serving Benchmark Result ============\n",
		"Maximum request concurrency:             16        \n",
		"---------------Time to First Token----------------\nMean TTFT (ms):                          100.00    \n",
		"-----Time per Output Token (excl. 1st token)------\n",
		"==================================================\n",
	} {
		if !strings.Contains(text.String(), line) {
			t.Errorf("no line %q in\n%s", line, text.String())
		}
	}
	empty := VLLM(NewLog(record.Window{}, false), new(result.Stage), Run{})
	if _, err := json.Marshal(empty); err != nil || empty.Duration != 0 || empty.MeanTTFT != 0 {
		t.Errorf("nothing: %+v, %v", empty, err)
	}
}
