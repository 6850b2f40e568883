package rundir

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// vllmDetailed is `vllm bench serve --save-result --save-detailed`: lists of equal
// length, times in seconds (vllm/benchmarks/serve.py).
func vllmDetailed(b []byte) (PeerFile, error) {
	var v struct {
		InputLens  []int       `json:"input_lens"`
		OutputLens []int       `json:"output_lens"`
		TTFTs      []float64   `json:"ttfts"`
		ITLs       [][]float64 `json:"itls"`
		StartTimes []float64   `json:"start_times"`
		Errors     []string    `json:"errors"`
		Backend    string      `json:"backend"`
		Total      *float64    `json:"total_token_throughput"`
	}
	if err := json.Unmarshal(b, &v); err != nil {
		return PeerFile{}, jsonError(b, err)
	}
	n := len(v.TTFTs)
	if len(v.InputLens) != n || len(v.OutputLens) != n || len(v.ITLs) != n || len(v.StartTimes) != n && len(v.StartTimes) != 0 || len(v.Errors) != n && len(v.Errors) != 0 {
		return PeerFile{}, fmt.Errorf("vllm bench serve: its lists differ in length: ttfts %d, itls %d, input_lens %d, output_lens %d", n, len(v.ITLs), len(v.InputLens), len(v.OutputLens))
	}
	f := PeerFile{Tool: "vllm bench serve", Notes: []string{
		"TTFT starts before the connection pool and, for chat, ends at the first event with choices, which may only name the role",
		"E2E is not in the file: it is TTFT plus its gaps, to the last event with choices",
		"output_lens come from usage, but are tokenized again where usage was missing, untold",
	}}
	if v.Total != nil {
		f.Notes = append(f.Notes, "total_token_throughput adds prompt and output tokens up, and is not shown")
	}
	var zero, gaps, short, odd int
	for i := range n {
		if len(v.Errors) > 0 && v.Errors[i] != "" {
			f.Failed++
			continue
		}
		sum := v.TTFTs[i]
		for _, gap := range v.ITLs[i] {
			sum += gap
			gaps++
			if gap < 1e-5 {
				zero++
			}
		}
		if v.OutputLens[i] <= 1 {
			short++
		}
		r := PeerRow{RequestRow: RequestRow{
			ID: fmt.Sprint(i), PromptTokens: v.InputLens[i], CompletionTokens: v.OutputLens[i], TTFT: seconds(v.TTFTs[i]), E2E: seconds(sum),
		}}
		if len(v.StartTimes) > 0 {
			r.Start = seconds(v.StartTimes[i])
		}
		f.add(r, &odd)
	}
	f.note(short, "%d replies of at most one token: their TPOT counts as 0 ms in its goodput, and always passes; here they have none")
	if gaps > 0 && zero > 0 {
		f.Notes = append(f.Notes, fmt.Sprintf("%d of %d gaps (%.1f %%) are below 0.01 ms: several events of one read, or the role before the first token; its ITL counts them as gaps of tokens",
			zero, gaps, 100*float64(zero)/float64(gaps)))
	}
	f.note(odd, oddRows)
	return f, nil
}

// aiperf is profile_export.jsonl: one record a line (docs/tutorials/
// working-with-profile-exports.md).
func aiperf(b []byte) (PeerFile, error) {
	f := PeerFile{Tool: "AIPerf", Notes: []string{
		"TTFT starts before the connection pool; its E2E (request latency) ends at the last content, as ours",
		"its \"inter token latency\" is a mean per request: our TPOT, which is computed here from its E2E, TTFT and n",
	}}
	retokenized, odd := 0, 0
	lines := bufio.NewScanner(bytes.NewReader(b))
	lines.Buffer(nil, 64<<20)
	for n := 1; lines.Scan(); n++ {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		var v struct {
			Metadata struct {
				ID        string `json:"x_request_id"`
				Start     int64  `json:"request_start_ns"`
				Cancelled bool   `json:"was_cancelled"`
				Phase     string `json:"benchmark_phase"`
			} `json:"metadata"`
			Metrics map[string]aiperfValue `json:"metrics"`
			Error   json.RawMessage        `json:"error"`
		}
		if err := json.Unmarshal(line, &v); err != nil {
			return f, fmt.Errorf("line %d: %w", n, err)
		}
		if v.Metadata.Phase != "" && v.Metadata.Phase != "profiling" {
			continue
		}
		if len(v.Error) > 0 && !bytes.Equal(v.Error, []byte("null")) || v.Metadata.Cancelled {
			f.Failed++
			continue
		}
		r := PeerRow{Start: time.Duration(v.Metadata.Start), RequestRow: RequestRow{ID: v.Metadata.ID}}
		var err error
		get := func(name string) float64 {
			x, gerr := v.Metrics[name].in()
			err = errors.Join(err, gerr)
			return x
		}
		r.TTFT, r.E2E = time.Duration(get("time_to_first_token")), time.Duration(get("request_latency"))
		r.PromptTokens, r.CompletionTokens = int(get("input_sequence_length")), int(get("output_sequence_length"))
		if _, ok := v.Metrics["usage_completion_tokens"]; ok {
			r.CompletionTokens = int(get("usage_completion_tokens"))
		} else {
			retokenized++
		}
		if _, ok := v.Metrics["usage_prompt_tokens"]; ok {
			r.PromptTokens = int(get("usage_prompt_tokens"))
		}
		if err != nil {
			return f, fmt.Errorf("line %d: %w", n, err)
		}
		f.add(r, &odd)
	}
	if err := lines.Err(); err != nil {
		return f, err
	}
	f.note(retokenized, "%d rows have no usage: n is what its own tokenizer counted, unless it ran with --use-server-token-count")
	f.note(odd, oddRows)
	return f, nil
}

// aiperfValue is a metric with its unit; of lists nothing is taken.
type aiperfValue struct {
	Value json.RawMessage `json:"value"`
	Unit  string          `json:"unit"`
}

// in nanoseconds for times, as it is for counts; 0 for what is absent.
func (v aiperfValue) in() (float64, error) {
	var x float64
	if len(v.Value) == 0 || bytes.Equal(v.Value, []byte("null")) {
		return 0, nil
	}
	if err := json.Unmarshal(v.Value, &x); err != nil {
		return 0, err
	}
	switch v.Unit {
	case "ms":
		return x * 1e6, nil
	case "us", "µs":
		return x * 1e3, nil
	case "s", "sec":
		return x * 1e9, nil
	case "ns", "tokens", "":
		return x, nil
	}
	return 0, fmt.Errorf("unit %q is not known", v.Unit)
}

// guidellm is benchmarks.json, with the computed fields of GenerativeRequestStats
// (src/guidellm/schemas/request_stats.py): one part a benchmark.
func guidellm(b []byte) ([]PeerFile, error) {
	type request struct {
		ID     string   `json:"request_id"`
		Prompt *float64 `json:"prompt_tokens"`
		Output *float64 `json:"output_tokens"`
		Start  *float64 `json:"request_start_time"`
		TTFT   *float64 `json:"time_to_first_token_ms"`
		ITL    *float64 `json:"inter_token_latency_ms"`
		E2E    *float64 `json:"request_latency"`
	}
	var v struct {
		Benchmarks []struct {
			Requests struct {
				Successful []request         `json:"successful"`
				Incomplete []json.RawMessage `json:"incomplete"`
				Errored    []json.RawMessage `json:"errored"`
			} `json:"requests"`
		} `json:"benchmarks"`
	}
	if err := json.Unmarshal(b, &v); err != nil {
		return nil, jsonError(b, err)
	}
	if len(v.Benchmarks) == 0 {
		return nil, errors.New("GuideLLM: no benchmark is in it")
	}
	value := func(x *float64) float64 {
		if x == nil {
			return 0
		}
		return *x
	}
	var files []PeerFile
	for i, mark := range v.Benchmarks {
		f := PeerFile{Tool: "GuideLLM", Part: fmt.Sprintf("benchmark %d of %d", i+1, len(v.Benchmarks)), Notes: []string{
			"its clock is the wall clock, and TTFT starts before the connection pool",
			"its \"time per output token\" contains TTFT and is not taken; E2E here is TTFT plus its mean gap times n - 1, where both are told, else to the end of the body",
			"n falls back to the number of chunks where usage was missing, untold",
		}}
		f.Failed = len(mark.Requests.Incomplete) + len(mark.Requests.Errored)
		noTTFT, odd := 0, 0
		for _, q := range mark.Requests.Successful {
			r := PeerRow{Start: seconds(value(q.Start)), RequestRow: RequestRow{
				ID: q.ID, PromptTokens: int(value(q.Prompt)), CompletionTokens: int(value(q.Output)), TTFT: seconds(value(q.TTFT) / 1000), E2E: seconds(value(q.E2E)),
			}}
			switch {
			case value(q.TTFT) == 0:
				noTTFT++
			case q.ITL != nil && r.CompletionTokens > 1:
				r.E2E = r.TTFT + seconds(*q.ITL*float64(r.CompletionTokens-1)/1000)
			}
			f.add(r, &odd)
		}
		f.note(noTTFT, "%d rows have no TTFT; its own distributions count them as 0 ms")
		f.note(odd, oddRows)
		files = append(files, f)
	}
	return files, nil
}

// inferencePerf is per_request_lifecycle_metrics.json: a list, times in seconds
// of a monotonic clock.
func inferencePerf(b []byte) (PeerFile, error) {
	var list []struct {
		Start float64 `json:"start_time"`
		End   float64 `json:"end_time"`
		Info  *struct {
			Input  int       `json:"input_tokens"`
			Output int       `json:"output_tokens"`
			Times  []float64 `json:"output_token_times"`
			Chunks []float64 `json:"chunk_times"`
		} `json:"info"`
		Error json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(b, &list); err != nil {
		return PeerFile{}, jsonError(b, err)
	}
	f := PeerFile{Tool: "inference-perf", Notes: []string{
		"TTFT starts before the connection pool and ends at the first answer text: of a reasoning model, after the reasoning",
		"E2E here ends at the last token time; its own ends after it has tokenized the reply on the event loop",
		"n is counted by its own tokenizer, unless it was told to use the server's",
	}}
	var zero, gaps, lost, odd int
	for i, v := range list {
		if len(v.Error) > 0 && !bytes.Equal(v.Error, []byte("null")) || v.Info == nil {
			f.Failed++
			continue
		}
		times := v.Info.Times
		if len(times) == 0 {
			times = v.Info.Chunks
		}
		r := PeerRow{Start: seconds(v.Start), RequestRow: RequestRow{ID: fmt.Sprint(i), PromptTokens: v.Info.Input, CompletionTokens: v.Info.Output, E2E: seconds(v.End - v.Start)}}
		if len(times) > 0 {
			r.TTFT, r.E2E = seconds(times[0]-v.Start), seconds(times[len(times)-1]-v.Start)
			for j := 1; j < len(times); j++ {
				gaps++
				if times[j] == times[j-1] {
					zero++
				}
			}
		} else if v.Info.Output > 0 {
			lost++
		}
		f.add(r, &odd)
	}
	if zero > 0 {
		f.Notes = append(f.Notes, fmt.Sprintf("%d of %d gaps (%.1f %%) are exactly 0: all tokens of a chunk got its time; its ITL contains them", zero, gaps, 100*float64(zero)/float64(gaps)))
	}
	f.note(lost, "%d replies have tokens but no token times: no TTFT, E2E to the end of the body")
	f.note(odd, oddRows)
	return f, nil
}

// llmperf is the individual responses of ray-project/llmperf: a list, times in
// seconds.
func llmperf(b []byte) (PeerFile, error) {
	var list []struct {
		TTFT   float64         `json:"ttft_s"`
		E2E    float64         `json:"end_to_end_latency_s"`
		Input  float64         `json:"number_input_tokens"`
		Output float64         `json:"number_output_tokens"`
		Code   json.RawMessage `json:"error_code"`
	}
	if err := json.Unmarshal(b, &list); err != nil {
		return PeerFile{}, jsonError(b, err)
	}
	f := PeerFile{Tool: "llmperf", Notes: []string{
		"TTFT starts before the connection pool; E2E ends with the body, after usage and terminal marker",
		"its inter_token_latency_s contains TTFT: it is E2E / n, and is not taken",
		"n is counted by the Llama tokenizer, whatever the model",
	}}
	odd := 0
	for i, v := range list {
		if len(v.Code) > 0 && !bytes.Equal(v.Code, []byte("null")) {
			f.Failed++
			continue
		}
		f.add(PeerRow{RequestRow: RequestRow{ID: fmt.Sprint(i), PromptTokens: int(v.Input), CompletionTokens: int(v.Output), TTFT: seconds(v.TTFT), E2E: seconds(v.E2E)}}, &odd)
	}
	f.note(odd, oddRows)
	return f, nil
}
