package environ

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// canon gives the field of a log for a name that engines use: vLLM's
// /server_info and cache_config_info, SGLang's /server_info, llama.cpp's /props.
// What is not in it is not taken, since such pages hold anything.
var canon = map[string]string{
	// versions and devices
	"vllm_version": "engine_version", "sglang_version": "engine_version", "build_info": "engine_version",
	"torch_version": "pytorch", "python_version": "python", "nvidia_driver_version": "driver",
	"cuda_runtime_version": "cuda",
	"nvidia_gpu_models":    "gpu",
	// model
	"dtype": "precision", "quantization": "quantization", "model_ftype": "precision", "ftype": "precision",
	"max_model_len": "max_model_len", "context_length": "max_model_len", "n_ctx": "max_model_len", "root": "model_root",
	"n_params": "model_parameters", "n_ctx_train": "model_context",
	// scheduler
	"max_num_seqs": "max_num_seqs", "max_running_requests": "max_num_seqs", "total_slots": "max_num_seqs",
	"max_num_batched_tokens": "max_num_batched_tokens", "max_prefill_tokens": "max_prefill_tokens",
	"chunked_prefill_size": "chunked_prefill_size", "enable_chunked_prefill": "chunked_prefill",
	"tensor_parallel_size": "tensor_parallel", "tp_size": "tensor_parallel", "pipeline_parallel_size": "pipeline_parallel",
	"data_parallel_size": "data_parallel", "dp_size": "data_parallel", "attention_backend": "attention_backend",
	"enforce_eager": "enforce_eager", "scheduling_policy": "scheduling_policy",
	// KV cache
	"cache_dtype": "kv_cache_dtype", "kv_cache_dtype": "kv_cache_dtype",
	"block_size": "kv_block_size", "page_size": "kv_block_size",
	"enable_prefix_caching": "prefix_caching", "disable_radix_cache": "prefix_caching",
	"num_gpu_blocks": "kv_blocks", "kv_cache_size_tokens": "kv_cache_tokens", "max_total_num_tokens": "kv_cache_tokens",
	"gpu_memory_utilization": "gpu_memory_utilization", "mem_fraction_static": "gpu_memory_utilization",
	"prefix_caching_hash_algo": "prefix_caching_hash",
}

// add appends a named value of an engine, if its name is one that is taken.
func add(facts []Fact, key, value string, source Source) []Fact {
	to := canon[key]
	value = strings.TrimSpace(value)
	if to == "" || value == "" || value == "None" || value == "null" {
		return facts
	}
	if key == "disable_radix_cache" {
		value = map[string]string{"true": "off", "false": "on"}[strings.ToLower(value)]
	}
	if len(value) > maxValue {
		value = strings.ToValidUTF8(value[:maxValue], "")
	}
	f := Fact{to, value, source}
	if value == "" || slices.Contains(facts, f) {
		return facts
	}
	return append(facts, f)
}

// FromLabels takes the labels of an info metric, such as
// vllm:cache_config_info.
func FromLabels(labels map[string]string, source Source) []Fact {
	var out []Fact
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		out = add(out, key, labels[key], source)
	}
	return out
}

// assignment is one of "max_num_seqs=256, dtype=torch.bfloat16" in the text form
// of older vLLM.
var assignment = regexp.MustCompile(`(?:^|[\s,(])([a-z_]+)=([^\s,()]+)`)

// maxDepth bounds how deep a page is searched.
const maxDepth = 6

// FromServerInfo takes the known fields of a JSON page such as /server_info or
// /props, at whatever depth they stand. A page that is no JSON gives none.
func FromServerInfo(body []byte, source Source) []Fact {
	var v any
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return nil
	}
	return search(nil, "", v, source, 0)
}

func search(facts []Fact, key string, v any, source Source, depth int) []Fact {
	if depth > maxDepth {
		return facts
	}
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			facts = search(facts, k, v[k], source, depth+1)
		}
	case []any:
		for _, each := range v {
			facts = search(facts, "", each, source, depth+1)
		}
	case bool:
		facts = add(facts, key, strconv.FormatBool(v), source)
	case json.Number:
		facts = add(facts, key, v.String(), source)
	case string:
		if key != "vllm_config" {
			return add(facts, key, v, source)
		}
		for _, m := range assignment.FindAllStringSubmatch(v, -1) {
			facts = add(facts, m[1], strings.Trim(m[2], `'"`), source)
		}
	}
	return facts
}

// proxies are headers that name what stands between, with what they are taken
// to show.
var proxies = []string{
	"Via", "X-Served-By", "X-Cache", "Cf-Ray", "X-Envoy-Upstream-Service-Time", "X-Envoy-Decorator-Operation", "X-Amz-Cf-Id",
	"X-Amzn-Requestid", "X-Kong-Proxy-Latency", "X-Kong-Upstream-Latency", "X-Azure-Ref", "X-Vercel-Id", "X-Litellm-Version",
	"X-Accel-Buffering", "X-Powered-By", "Apim-Request-Id",
}

// FromHeaders takes the headers that name the server or a proxy before it.
func FromHeaders(h http.Header) []Fact {
	var out []Fact
	for _, n := range append([]string{"Server"}, proxies...) {
		v := h.Get(n)
		if v == "" {
			continue
		}
		out = append(out, Fact{"header " + n, fmt.Sprintf("%.80s", v), "reply headers"})
	}
	return out
}
