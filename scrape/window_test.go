package scrape

import (
	"strings"
	"testing"
	"time"
)

// page is an exposition in vLLM's shape. Lines may be added to it.
const page = `# TYPE process_start_time_seconds gauge
process_start_time_seconds 1.79607747822e+09
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0",model_name="m"} 100
vllm:generation_tokens_total{engine="1",model_name="m"} 50
# TYPE vllm:generation_tokens_created gauge
vllm:generation_tokens_created{engine="0",model_name="m"} 1.7960775e+09
vllm:generation_tokens_created{engine="1",model_name="m"} 1.7960775e+09
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.5
# TYPE vllm:iteration_tokens_total histogram
vllm:iteration_tokens_total_bucket{engine="0",model_name="m",le="+Inf"} 5
vllm:iteration_tokens_total_sum{engine="0",model_name="m"} 900
vllm:iteration_tokens_total_count{engine="0",model_name="m"} 5
`

// edit replaces pairs of old and new text, each of which must be there.
func edit(t testing.TB, s string, pairs ...string) string {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(s, pairs[i]) {
			t.Fatalf("no %q to replace", pairs[i])
		}
		s = strings.Replace(s, pairs[i], pairs[i+1], 1)
	}
	return s
}

func TestCounter(t *testing.T) {
	const tokens = "vllm:generation_tokens_total"
	engine0 := tokens + `{engine="0",model_name="m"} 100`
	engine1 := tokens + `{engine="1",model_name="m"} 50`
	born := "\n" + tokens + `{engine="1",kind="x",model_name="m"} 7`
	alien := "\n" + tokens + `{engine="2",model_name="m"} 7`
	start := "process_start_time_seconds 1.79607747822e+09\n"
	created := `vllm:generation_tokens_created{engine="0",model_name="m"} 1.7960775e+09`
	for name, c := range map[string]struct {
		name   string
		match  Match
		a, b   []string // edits of page
		want   float64
		series int
		kind   Kind
		hint   string
	}{
		"engines are summed": {b: []string{engine0, tokens + `{engine="0",model_name="m"} 130`, "} 50", "} 55"}, want: 35, series: 2},
		"one is selected":    {match: Match{"engine": {"1"}}, b: []string{"} 100", "} 130", "} 50", "} 55"}, want: 5, series: 1},
		"either is selected": {match: Match{"engine": {"1", "0"}}, want: 0, series: 2},
		"none is selected":   {match: Match{"engine": {"7"}}, kind: Missing, hint: "labels asked for"},
		"an absent label is the empty value": {
			match: Match{"kind": {""}}, b: []string{engine1, engine1 + born}, want: 0, series: 2},
		"restarted":                {b: []string{"1.79607747822e+09", "1.79607747900e+09"}, kind: Restarted, hint: "restarted"},
		"process gone":             {b: []string{start, ""}, kind: Restarted},
		"process named later":      {a: []string{start, ""}, kind: Restarted},
		"created anew":             {b: []string{created, `vllm:generation_tokens_created{engine="0",model_name="m"} 1.7960799e+09`}, kind: Restarted, hint: "_created"},
		"went down":                {b: []string{"} 100", "} 99"}, kind: Decreased},
		"went down, others up":     {b: []string{"} 100", "} 99", "} 50", "} 500"}, kind: Decreased},
		"vanished":                 {b: []string{engine1 + "\n", ""}, kind: Vanished},
		"second engine appeared":   {b: []string{engine1, engine1 + alien}, kind: Appeared, hint: `engine "2"`},
		"first use of a label":     {b: []string{engine1, engine1 + born}, want: 7, series: 3, kind: Born},
		"same, process not proven": {a: []string{start, ""}, b: []string{start, "", engine1, engine1 + born}, kind: Appeared},
		"twice in one scrape":      {b: []string{engine1, engine1 + "\n" + engine1}, kind: Duplicate},
		"not a number":             {b: []string{"} 50", "} NaN"}, kind: NotFinite},
		"infinite":                 {b: []string{"} 50", "} +Inf"}, kind: NotFinite},
		"the seed's name":          {name: "vllm:generation_tokens", kind: Missing, hint: "ask for vllm:generation_tokens_total"},
		"steps are no throughput":  {name: "vllm:iteration_tokens_total", kind: WrongType, hint: "is a histogram"},
		"nor is their sum":         {name: "vllm:iteration_tokens_total_sum", kind: Missing, hint: "part of the histogram"},
		"not there":                {name: "vllm:nothing", kind: Missing, hint: "not on the wire"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.name == "" {
				c.name = tokens
			}
			w := Between(mustParse(t, edit(t, page, c.a...)), mustParse(t, edit(t, page, c.b...)))
			delta, series, problem := w.Counter(c.name, c.match)
			if delta != c.want || series != c.series {
				t.Errorf("delta %g of %d series, want %g of %d (%v)", delta, series, c.want, c.series, problem)
			}
			switch {
			case c.kind == "" && problem != nil:
				t.Errorf("problem: %v", problem)
			case c.kind != "" && (problem == nil || problem.Kind != c.kind || !strings.Contains(problem.String(), c.hint)):
				t.Errorf("problem: %v, want %s with %q", problem, c.kind, c.hint)
			case problem.Voids() != (c.kind != "" && c.kind != Born):
				t.Errorf("voids: %v", problem.Voids())
			}
		})
	}
}

func TestWindowOfScrapesThatFailed(t *testing.T) {
	s := mustParse(t, page)
	for name, w := range map[string]*Window{"start": Between(nil, s), "end": Between(s, nil), "both": Between(nil, nil)} {
		t.Run(name, func(t *testing.T) {
			_, _, problem := w.Counter("x", nil)
			_, alsoGauge := w.Histogram("x", nil)
			_, _, andHistogram := w.Gauge("x", nil)
			for _, p := range []*Problem{problem, alsoGauge, andHistogram, w.Problem()} {
				if p == nil || p.Kind != NoScrape {
					t.Errorf("problem: %v", p)
				}
			}
		})
	}
}

func TestWindowLength(t *testing.T) {
	a, b := mustParse(t, page), mustParse(t, page)
	a.At = At{Before: 1e9, After: 2e9}
	b.At = At{Before: 11e9, After: 13e9}
	if lo, hi := Between(a, b).Length(); lo != 9*time.Second || hi != 12*time.Second {
		t.Errorf("length in [%v, %v], want [9s, 12s]", lo, hi)
	}
	b.At.Before = 1.5e9
	if p := Between(a, b).Problem(); p == nil || p.Kind != Overlap {
		t.Errorf("problem: %v, want overlap", p)
	}
}

func TestProcessNamedByHeader(t *testing.T) {
	a, b := mustParse(t, page), mustParse(t, page)
	a.Process, b.Process = "1158830740", "1158839999"
	if p := Between(a, b).Problem(); p == nil || p.Kind != Restarted {
		t.Errorf("problem: %v, want restarted", p)
	}
}

func TestGaugeEnds(t *testing.T) {
	w := Between(mustParse(t, page), mustParse(t, edit(t, page, "} 0.25", "} 0.75")))
	start, end, problem := w.Gauge("vllm:kv_cache_usage_perc", nil)
	if problem != nil || start != (GaugeStat{Sum: 0.75, Min: 0.25, Max: 0.5, Series: 2}) ||
		end != (GaugeStat{Sum: 1.25, Min: 0.5, Max: 0.75, Series: 2}) {
		t.Errorf("%+v, %+v, %v", start, end, problem)
	}
	if _, _, problem := w.Gauge("vllm:iteration_tokens_total", nil); problem == nil || problem.Kind != WrongType {
		t.Errorf("problem: %v", problem)
	}
}

func TestHistogramProblems(t *testing.T) {
	h := "process_start_time_seconds 5\n" + classic("h", `engine="0",`, []float64{1, 2}, []float64{0.5, 1.5, 3})
	for name, c := range map[string]struct {
		b    []string
		kind Kind
	}{
		"a bucket went down":     {[]string{`le="1"} 1`, `le="1"} 0`}, Decreased},
		"the count went down":    {[]string{`h_count{engine="0"} 3`, `h_count{engine="0"} 2`}, Decreased},
		"the sum went down":      {[]string{`h_sum{engine="0"} 5`, `h_sum{engine="0"} -99`}, Decreased},
		"another bound":          {[]string{`le="1"`, `le="1.5"`}, Bounds},
		"a bound more":           {[]string{`h_bucket{engine="0",le="2"} 2`, `h_bucket{engine="0",le="2"} 2` + "\n" + `h_bucket{engine="0",le="2.5"} 2`}, Bounds},
		"buckets against count":  {[]string{`h_count{engine="0"} 3`, `h_count{engine="0"} 4`}, Inconsistent},
		"bucket above the next":  {[]string{`le="1"} 1`, `le="1"} 9`}, Inconsistent},
		"half a sample":          {[]string{`h_count{engine="0"} 3`, `h_count{engine="0"} 3.5`}, NotFinite},
		"a sum of NaN":           {[]string{`h_sum{engine="0"} 5`, `h_sum{engine="0"} NaN`}, NotFinite},
		"a bucket of NaN":        {[]string{`le="1"} 1`, `le="1"} NaN`}, NotFinite},
		"a counter of that name": {[]string{h, "process_start_time_seconds 5\n# TYPE h counter\nh{engine=\"0\"} 9\n"}, WrongType},
	} {
		t.Run(name, func(t *testing.T) {
			d, problem := Between(mustParse(t, h), mustParse(t, edit(t, h, c.b...))).Histogram("h", nil)
			if problem == nil || problem.Kind != c.kind || !problem.Void || d.Count != 0 {
				t.Errorf("%+v, %v, want %s", d, problem, c.kind)
			}
		})
	}
}

func TestHistogramBornInWindow(t *testing.T) {
	before := "process_start_time_seconds 5\nx{engine=\"0\"} 1\n"
	after := before + classic("h", `engine="0",`, []float64{1, 2}, []float64{0.5, 1.5, 3})
	d, problem := Between(mustParse(t, before), mustParse(t, after)).Histogram("h", nil)
	if problem == nil || problem.Kind != Born || problem.Void || d.Count != 3 || d.Sum != 5 {
		t.Errorf("%+v, %v", d, problem)
	}
}
