package scrape

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// sequence is what one finished sequence leaves in vLLM's metrics.
type sequence struct {
	tokens int
	tpot   float64 // 0 for no or one token, as vLLM observes it
	reason string
}

// vllmPage is the page of a vLLM that has served these sequences.
func vllmPage(t testing.TB, lengths []float64, served ...sequence) *Scrape {
	t.Helper()
	var b strings.Builder
	const labels = `engine="0",model_name="m",`
	b.WriteString("# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds 1.79607747822e+09\n")
	var tpots, tokens []float64
	total, reasons := 0, map[string]int{}
	for _, s := range served {
		tpots, tokens = append(tpots, s.tpot), append(tokens, float64(s.tokens))
		total += s.tokens
		reasons[s.reason]++
	}
	b.WriteString(classic("vllm:request_time_per_output_token_seconds", labels, itlBounds, tpots))
	b.WriteString(classic("vllm:request_queue_time_seconds", labels, []float64{.3, .5, 1}, tpots))
	b.WriteString(classic("vllm:iteration_tokens_total", labels, []float64{1, 8}, tokens))
	if lengths != nil {
		b.WriteString(classic("vllm:request_generation_tokens", labels, lengths, tokens))
	}
	fmt.Fprintf(&b, "# TYPE vllm:generation_tokens_total counter\nvllm:generation_tokens_total{engine=\"0\",model_name=\"m\"} %d\n", total)
	b.WriteString("# TYPE vllm:request_success_total counter\n")
	for _, r := range []string{"stop", "length", "abort", "error", "repetition"} {
		fmt.Fprintf(&b, "vllm:request_success_total{engine=\"0\",finished_reason=%q,model_name=\"m\"} %d\n", r, reasons[r])
	}
	return mustParse(t, b.String())
}

func TestTPOTIsHiddenWhenContaminated(t *testing.T) {
	c := catalogue(t)
	long := sequence{32, 0.02, "length"}
	one := sequence{1, 0, "stop"}
	oneTwoFive := []float64{1, 2, 5, 10, 20, 50}
	for name, x := range map[string]struct {
		bounds []float64
		old    []sequence
		in     []sequence
		hidden string
	}{
		"only long ones":                     {bounds: oneTwoFive, in: []sequence{long, long}},
		"a short one before the window":      {bounds: oneTwoFive, old: []sequence{one}, in: []sequence{long}},
		"one of one token":                   {bounds: oneTwoFive, in: []sequence{long, one}, hidden: "1 made-up zeros of 2"},
		"one of none":                        {bounds: oneTwoFive, in: []sequence{long, {0, 0, "abort"}}, hidden: "made-up zeros"},
		"no histogram of lengths":            {in: []sequence{long}, hidden: "is unknown"},
		"bounds that cannot tell":            {bounds: []float64{10, 20}, in: []sequence{{5, 0.02, "stop"}}, hidden: "no bound at 1"},
		"such bounds, but nothing was there": {bounds: []float64{10, 20}, in: []sequence{long}},
	} {
		t.Run(name, func(t *testing.T) {
			w := Between(vllmPage(t, x.bounds, x.old...), vllmPage(t, x.bounds, append(x.old, x.in...)...))
			r := c.Read(w, "vllm", "0.32.0", TPOTRequest, nil)
			if x.hidden != "" {
				if !r.Problem.Voids() || r.Problem.Kind != Contaminated || !strings.Contains(r.Problem.String(), x.hidden) || r.Histogram.Count != 0 {
					t.Errorf("%+v", r)
				}
				return
			}
			if mean, _ := r.Histogram.Mean(); r.Problem != nil || math.Abs(mean-0.02) > 1e-9 || len(r.Flags) == 0 {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestFailuresFlagWhatTheySpoil(t *testing.T) {
	c := catalogue(t)
	ok := sequence{32, 0.02, "stop"}
	for reason, want := range map[string]bool{"stop": false, "repetition": false, "abort": true, "error": true} {
		w := Between(vllmPage(t, []float64{1}, ok), vllmPage(t, []float64{1}, ok, ok, sequence{32, 0.02, reason}))
		for q, spoiled := range map[Quantity]bool{Queue: want, TokensOut: false} {
			r := c.Read(w, "vllm", "0.32.0", q, nil)
			if r.Problem != nil || (len(r.Flags) > 0) != spoiled {
				t.Errorf("%s, %s: %v, flags %q", reason, q, r.Problem, r.Flags)
			}
		}
	}
}

func TestPerSecond(t *testing.T) {
	c := catalogue(t)
	a := vllmPage(t, nil, sequence{32, 0.02, "stop"})
	b := vllmPage(t, nil, sequence{32, 0.02, "stop"}, sequence{100, 0.02, "stop"})
	b.At = At{Before: 9e9, After: 10e9}
	w := Between(a, b)
	out := c.Read(w, "vllm", "0.32.0", TokensOut, Match{"engine": {"0"}})
	if lo, hi, problem := out.PerSecond(w); problem != nil || lo != 10 || hi != 100/9.0 || out.Series != 1 {
		t.Errorf("[%g, %g] tokens/s, %v", lo, hi, problem)
	}
	steps := c.Read(w, "vllm", "0.32.0", TokensPerStep, nil)
	if steps.Problem != nil || steps.Histogram.Sum != 100 {
		t.Errorf("%+v", steps)
	}
	if _, _, problem := steps.PerSecond(w); problem == nil || problem.Kind != NotMeant {
		t.Errorf("tokens per step became throughput: %v", problem)
	}
	if _, _, problem := out.PerSecond(Between(a, a)); problem == nil || problem.Kind != Overlap {
		t.Errorf("a rate over no time: %v", problem)
	}
	missing := c.Read(w, "vllm", "0.32.0", Preemptions, nil)
	if _, _, problem := missing.PerSecond(w); problem == nil || problem.Kind != Missing {
		t.Errorf("a rate of nothing: %v", problem)
	}
}

func TestReadOtherEngines(t *testing.T) {
	c := catalogue(t)
	start := "process_start_time_seconds 5\n"
	t.Run("TGI totals are sums of a histogram", func(t *testing.T) {
		page := func(samples ...float64) *Scrape {
			return mustParse(t, start+classic("tgi_request_generated_tokens", "", []float64{10}, samples))
		}
		r := c.Read(Between(page(1), page(1, 30, 12)), "tgi", "3.0", TokensOut, nil)
		if r.Problem != nil || r.Total != 42 || len(r.Flags) != 1 || !strings.Contains(r.Flags[0], "drained") {
			t.Errorf("%+v", r)
		}
	})
	t.Run("LMDeploy totals are gauges", func(t *testing.T) {
		page := func(n int) *Scrape {
			return mustParse(t, fmt.Sprintf("# TYPE lmdeploy:num_requests_succeeded gauge\nlmdeploy:num_requests_succeeded %d\n", n))
		}
		if r := c.Read(Between(page(3), page(10)), "lmdeploy", "", RequestsFinished, nil); r.Problem != nil || r.Total != 7 {
			t.Errorf("%+v", r)
		}
	})
	t.Run("llama.cpp prints six digits", func(t *testing.T) {
		page := func(v string) *Scrape {
			return mustParse(t, "# TYPE llamacpp:tokens_predicted_total counter\nllamacpp:tokens_predicted_total "+v+"\n")
		}
		for _, tc := range []struct {
			from, to          string
			total, resolution float64
		}{
			{"52", "999999", 999947, 0},
			{"999999", "1.05458e+06", 54581, 5}, // 1054575 to 1054585
			{"1.01934e+06", "1.05458e+06", 35240, 10},
			{"9.99999e+06", "1e+07", 10, 55},
		} {
			r := c.Read(Between(page(tc.from), page(tc.to)), "llamacpp", "", TokensOut, nil)
			if r.Problem != nil || r.Total != tc.total || r.Resolution != tc.resolution {
				t.Errorf("%s to %s: %+v", tc.from, tc.to, r)
			}
		}
	})
	t.Run("llama.cpp's high-water mark is a gauge", func(t *testing.T) {
		s, err := Parse(fixture(t, "llamacpp.txt"), "text/plain")
		if err != nil {
			t.Fatal(err)
		}
		if r := c.Read(Between(s, s), "llamacpp", "", "longest_sequence", nil); r.Problem != nil || r.End.Max != 35 {
			t.Errorf("%+v", r)
		}
	})
	t.Run("a scrape that failed", func(t *testing.T) {
		if r := c.Read(Between(nil, nil), "vllm", "0.32.0", TTFT, nil); r.Problem == nil || r.Problem.Kind != NoScrape {
			t.Errorf("%+v", r)
		}
	})
}
