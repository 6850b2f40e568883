package rundir

import (
	"strings"
	"testing"
	"time"
)

const (
	vllmFile = `{"backend": "openai-chat", "total_token_throughput": 5.5, "input_lens": [10, 20, 30, 5], "output_lens": [3, 1, 0, 4],
 "ttfts": [0.1, 0.2, 0.0, 0.3], "itls": [[0.01, 0.02], [], [], [0.0, 0.03, 0.01]], "start_times": [100.0, 100.5, 101.0, 101.5],
 "errors": ["", "", "boom", ""], "generated_texts": ["a", "b", "", "d"]}`
	aiperfFile = `{"metadata":{"x_request_id":"a","request_start_ns":1759813207532900363,"benchmark_phase":"profiling","was_cancelled":false},"metrics":{"input_sequence_length":{"value":550,"unit":"tokens"},"time_to_first_token":{"value":255.5,"unit":"ms"},"request_latency":{"value":297.5,"unit":"ms"},"output_sequence_length":{"value":9,"unit":"tokens"},"inter_chunk_latency":{"value":[4.9,5.3],"unit":"ms"}},"error":null}
{"metadata":{"x_request_id":"w","benchmark_phase":"warmup"},"metrics":{},"error":null}

{"metadata":{"x_request_id":"b","request_start_ns":1759813207632900363,"benchmark_phase":"profiling","was_cancelled":true},"metrics":{},"error":{"code":499,"type":"RequestCancellationError","message":"x"}}
`
	guidellmFile = `{"benchmarks":[{"requests":{"successful":[
 {"request_id":"a","prompt_tokens":10,"output_tokens":5,"request_start_time":1000.5,"time_to_first_token_ms":120,"inter_token_latency_ms":36.25,"request_latency":0.3},
 {"request_id":"b","prompt_tokens":10,"output_tokens":5,"request_start_time":1001.5,"time_to_first_token_ms":null,"inter_token_latency_ms":null,"request_latency":0.4}],
 "incomplete":[{}],"errored":[{},{}]}},{"requests":{"successful":[{"request_id":"c","prompt_tokens":1,"output_tokens":1,"time_to_first_token_ms":5,"request_latency":0.01}]}}]}`
	inferencePerfFile = `[{"start_time":10.0,"end_time":11.0,"request":"x","response":"y","info":{"input_tokens":7,"output_tokens":4,"output_token_times":[10.2,10.3,10.3,10.5]},"error":null},
 {"start_time":12.0,"end_time":12.1,"info":null,"error":{"error_type":"T"}}]`
	llmperfFile = `[{"error_code":null,"ttft_s":0.5,"end_to_end_latency_s":1.5,"inter_token_latency_s":0.1,"number_input_tokens":20,"number_output_tokens":11},
 {"error_code":429,"error_msg":"x"}]`
)

func TestReadPeer(t *testing.T) {
	ms := time.Millisecond
	type row struct {
		id             string
		prompt, output int
		ttft, e2e      time.Duration
	}
	tests := []struct {
		name, file, tool string
		part             int
		failed           int
		rows             []row
		notes            []string
	}{
		{"vllm", vllmFile, "vllm bench serve", 0, 1, []row{{"0", 10, 3, 100 * ms, 130 * ms}, {"1", 20, 1, 200 * ms, 200 * ms}, {"3", 5, 4, 300 * ms, 340 * ms}},
			[]string{"1 replies of at most one token", "1 of 5 gaps (20.0 %)", "adds prompt and output tokens up"}},
		{"aiperf", aiperfFile, "AIPerf", 0, 1, []row{{"a", 550, 9, 255*ms + 500*time.Microsecond, 297*ms + 500*time.Microsecond}}, []string{"1 rows have no usage"}},
		{"guidellm", guidellmFile, "GuideLLM", 0, 3, []row{{"a", 10, 5, 120 * ms, 265 * ms}, {"b", 10, 5, 0, 400 * ms}}, []string{"1 rows have no TTFT"}},
		{"guidellm, second", guidellmFile, "GuideLLM", 1, 0, []row{{"c", 1, 1, 5 * ms, 10 * ms}}, nil},
		{"inference-perf", inferencePerfFile, "inference-perf", 0, 1, []row{{"0", 7, 4, 200 * ms, 500 * ms}}, []string{"1 of 3 gaps (33.3 %) are exactly 0"}},
		{"llmperf", llmperfFile, "llmperf", 0, 1, []row{{"0", 20, 11, 500 * ms, 1500 * ms}}, []string{"contains TTFT"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			files, err := ReadPeer(strings.NewReader(tt.file), "f.json")
			if err != nil {
				t.Fatal(err)
			}
			f := files[tt.part]
			if f.Tool != tt.tool || f.Failed != tt.failed || len(f.Rows) != len(tt.rows) {
				t.Fatalf("%s: %d failed, %d rows: %+v", f.Tool, f.Failed, len(f.Rows), f.Rows)
			}
			for i, want := range tt.rows {
				r := f.Rows[i]
				if got := (row{r.ID, r.PromptTokens, r.CompletionTokens, r.TTFT.Round(time.Microsecond), r.E2E.Round(time.Microsecond)}); got != want {
					t.Errorf("row %d is %+v, want %+v", i, got, want)
				}
			}
			for _, want := range tt.notes {
				if !strings.Contains(strings.Join(f.Notes, "\n"), want) {
					t.Errorf("no note %q in %q", want, f.Notes)
				}
			}
		})
	}
}

func TestReadPeerErrors(t *testing.T) {
	for name, tt := range map[string]struct{ file, want string }{
		"aggregates":    {`{"mean_ttft_ms": 1, "total_output_tokens": 5}`, "saved without --save-detailed"},
		"unknown":       {`{"a": 1}`, "neither a CSV with a known header nor"},
		"unknown list":  {`[{"a": 1}]`, "neither a CSV"},
		"empty list":    {`[]`, "an empty list"},
		"cut":           {`{"ttfts": [1, 2`, "line 1, column"},
		"lists differ":  {`{"ttfts": [1], "itls": [], "input_lens": [1], "output_lens": [1]}`, "lists differ in length"},
		"bad line":      {aiperfFile + "{\"metadata\":7}\n", "line 5:"},
		"unit":          {strings.Replace(aiperfFile, `"unit":"ms"`, `"unit":"weeks"`, 1), `line 1: unit "weeks"`},
		"nothing in it": {`[{"error_code":429,"ttft_s":0}]`, "no completed request is in it (1 failed)"},
		"type":          {`[{"ttft_s":"soon"}]`, "line 1, column"},
	} {
		_, err := ReadPeer(strings.NewReader(tt.file), "f.json")
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "f.json: ") {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

func FuzzReadPeer(f *testing.F) {
	for _, s := range []string{vllmFile, aiperfFile, guidellmFile, inferencePerfFile, llmperfFile, `{}`, `[`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		files, err := ReadPeer(strings.NewReader(string(b)), "f")
		if err != nil {
			return
		}
		for _, file := range files {
			for _, r := range file.Rows {
				if r.TTFT < 0 || r.E2E < r.TTFT || r.CompletionTokens < 0 || r.PromptTokens < 0 {
					t.Errorf("row %+v", r)
				}
			}
		}
	})
}
