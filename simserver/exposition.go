package simserver

import (
	"strconv"
	"strings"
)

// expositionType is the content type of the text format that prometheus_client
// serves to a scraper that asks for nothing else.
const expositionType = "text/plain; version=0.0.4; charset=utf-8"

// label is one label pair. Lists of them are sorted by name, as prometheus_client writes them.
type label struct{ name, value string }

// expo writes the text exposition format 0.0.4.
type expo struct{ b []byte }

func (e *expo) family(name, kind, help string) {
	e.b = append(e.b, "# HELP "...)
	e.b = append(e.b, name...)
	e.b = append(e.b, ' ')
	e.b = append(e.b, helpEscaper.Replace(help)...)
	e.b = append(e.b, "\n# TYPE "...)
	e.b = append(e.b, name...)
	e.b = append(e.b, ' ')
	e.b = append(e.b, kind...)
	e.b = append(e.b, '\n')
}

var (
	helpEscaper  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	labelEscaper = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
)

func (e *expo) sample(name string, labels []label, value float64) {
	e.b = append(e.b, name...)
	for i, l := range labels {
		if i == 0 {
			e.b = append(e.b, '{')
		} else {
			e.b = append(e.b, ',')
		}
		e.b = append(e.b, l.name...)
		e.b = append(e.b, `="`...)
		e.b = append(e.b, labelEscaper.Replace(l.value)...)
		e.b = append(e.b, '"')
	}
	if len(labels) > 0 {
		e.b = append(e.b, '}')
	}
	e.b = append(e.b, ' ')
	e.b = appendFloat(e.b, value)
	e.b = append(e.b, '\n')
}

// appendFloat writes as prometheus_client's floatToGoString does: a decimal
// point always, an exponent from seven digits before the point on.
func appendFloat(dst []byte, v float64) []byte {
	from := len(dst)
	dst = strconv.AppendFloat(dst, v, 'f', -1, 64)
	s := string(dst[from:])
	dot := strings.IndexByte(s, '.')
	if dot < 0 {
		dot = len(s)
		s += ".0"
	}
	if v > 0 && dot > 6 {
		mantissa := strings.TrimRight(s[:1]+"."+s[1:dot]+s[dot+1:], "0.")
		s = mantissa + "e+0" + strconv.Itoa(dot-1)
		if dot > 10 {
			s = mantissa + "e+" + strconv.Itoa(dot-1)
		}
	}
	return append(dst[:from], s...)
}

// histogram writes the buckets, count and sum of one child. The labels have no
// "le"; it stands where its name sorts.
func (e *expo) histogram(name string, labels []label, h *histogram) {
	at := 0
	for at < len(labels) && labels[at].name < "le" {
		at++
	}
	with := make([]label, 0, len(labels)+1)
	with = append(with, labels[:at]...)
	with = append(with, label{"le", ""})
	with = append(with, labels[at:]...)
	var total uint64
	for i, n := range h.counts {
		total += n
		with[at].value = "+Inf"
		if i < len(h.bounds) {
			with[at].value = string(appendFloat(nil, h.bounds[i]))
		}
		e.sample(name+"_bucket", with, float64(total))
	}
	e.sample(name+"_count", labels, float64(total))
	e.sample(name+"_sum", labels, h.sum)
}

// exposition is what GET /metrics answers.
func (s *Server) exposition() []byte {
	engines := make([]*engineMetrics, len(s.cores))
	labels := make([][]label, len(s.cores))
	for i, c := range s.cores {
		engines[i] = c.met.snapshot()
		labels[i] = []label{{"engine", strconv.Itoa(i)}, {"model_name", s.cfg.ModelName}}
	}
	// with puts more labels where their names sort: all of ours come after "engine".
	with := func(i int, name, value string) []label {
		if name < "model_name" {
			return []label{labels[i][0], {name, value}, labels[i][1]}
		}
		return append(labels[i][:2:2], label{name, value})
	}
	e := &expo{b: make([]byte, 0, 64<<10)}
	gauge := func(name, help string, value func(*engineMetrics) float64) {
		e.family(name, "gauge", help)
		for i, m := range engines {
			e.sample(name, labels[i], value(m))
		}
	}
	created := func(name, help string) {
		e.family(name+"_created", "gauge", help)
		for i, m := range engines {
			e.sample(name+"_created", labels[i], m.created)
		}
	}
	// A counter's name has _total, its _created series has not.
	counter := func(name, help string, value func(*engineMetrics) uint64) {
		e.family(name+"_total", "counter", help)
		for i, m := range engines {
			e.sample(name+"_total", labels[i], float64(value(m)))
		}
		created(name, help)
	}
	labelled := func(name, help, key string, values []string, value func(m *engineMetrics, k int) uint64) {
		e.family(name+"_total", "counter", help)
		for i, m := range engines {
			for k, v := range values {
				e.sample(name+"_total", with(i, key, v), float64(value(m, k)))
			}
		}
		e.family(name+"_created", "gauge", help)
		for i, m := range engines {
			for _, v := range values {
				e.sample(name+"_created", with(i, key, v), m.created)
			}
		}
	}

	s.http.write(e, engines[0].created)
	e.family("process_start_time_seconds", "gauge", "Start time of the process since unix epoch in seconds.")
	e.sample("process_start_time_seconds", nil, engines[0].created)
	writeProcess(e)

	gauge("vllm:num_requests_running", "Number of requests in model execution batches.",
		func(m *engineMetrics) float64 { return float64(m.running) })
	gauge("vllm:num_requests_waiting", "Number of requests waiting to be processed.",
		func(m *engineMetrics) float64 { return float64(m.waiting) })
	e.family("vllm:num_requests_waiting_by_reason", "gauge", "Number of requests waiting to be processed, by reason.")
	for i, m := range engines {
		e.sample("vllm:num_requests_waiting_by_reason", with(i, "reason", "capacity"), float64(m.waiting))
		e.sample("vllm:num_requests_waiting_by_reason", with(i, "reason", "deferred"), 0)
	}
	e.family("vllm:engine_sleep_state", "gauge", "Engine sleep state; awake = 0 means engine is sleeping; awake = 1 means engine is awake; weights_offloaded = 1 means sleep level 1; discard_all = 1 means sleep level 2.")
	for i := range engines {
		e.sample("vllm:engine_sleep_state", with(i, "sleep_state", "awake"), 1)
		e.sample("vllm:engine_sleep_state", with(i, "sleep_state", "weights_offloaded"), 0)
		e.sample("vllm:engine_sleep_state", with(i, "sleep_state", "discard_all"), 0)
	}
	gauge("vllm:kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.",
		func(m *engineMetrics) float64 { return m.kvUsage })
	counter("vllm:prefix_cache_queries", "Prefix cache queries, in terms of number of queried tokens.",
		func(m *engineMetrics) uint64 { return m.prefixQueries })
	counter("vllm:prefix_cache_hits", "Prefix cache hits, in terms of number of cached tokens.",
		func(m *engineMetrics) uint64 { return m.prefixHits })
	counter("vllm:num_preemptions", "Cumulative number of preemption from the engine.",
		func(m *engineMetrics) uint64 { return m.preemptions })
	counter("vllm:prompt_tokens", "Number of prefill tokens processed.",
		func(m *engineMetrics) uint64 { return m.promptTokens })
	labelled("vllm:prompt_tokens_by_source", "Number of prompt tokens by source.", "source", promptSources,
		func(m *engineMetrics, k int) uint64 { return m.promptBySource[k] })
	counter("vllm:prompt_tokens_cached", "Number of cached prompt tokens (local + external).",
		func(m *engineMetrics) uint64 { return m.promptCached })
	counter("vllm:generation_tokens", "Number of generation tokens processed.",
		func(m *engineMetrics) uint64 { return m.generationTokens })
	labelled("vllm:request_success", "Count of successfully processed requests.", "finished_reason", finishReasons,
		func(m *engineMetrics, k int) uint64 { return m.finished[k] })
	if positions := len(engines[0].perPosition); positions > 0 {
		counter("vllm:spec_decode_num_drafts", "Number of spec decoding drafts.",
			func(m *engineMetrics) uint64 { return m.drafts })
		counter("vllm:spec_decode_num_draft_tokens", "Number of draft tokens.",
			func(m *engineMetrics) uint64 { return m.draftTokens })
		counter("vllm:spec_decode_num_accepted_tokens", "Number of accepted tokens.",
			func(m *engineMetrics) uint64 { return m.acceptedTokens })
		names := make([]string, positions)
		for k := range names {
			names[k] = strconv.Itoa(k)
		}
		labelled("vllm:spec_decode_num_accepted_tokens_per_pos", "Accepted tokens per draft position.", "position", names,
			func(m *engineMetrics, k int) uint64 { return m.perPosition[k] })
	}
	for k, f := range histogramFamilies {
		e.family(f.name, "histogram", f.help)
		for i, m := range engines {
			e.histogram(f.name, labels[i], m.histograms()[k])
		}
		created(f.name, f.help)
	}
	e.family("vllm:cache_config_info", "gauge", "Information of the LLMEngine CacheConfig")
	for i := range s.cores {
		e.sample("vllm:cache_config_info", s.cacheConfig(i), 1)
	}
	return e.b
}
