package scrape

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

func catalogue(t testing.TB) *Catalogue {
	t.Helper()
	c, err := LoadCatalogue()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Every entry says all that a report prints, and nothing contradicts itself.
func TestCatalogueIsComplete(t *testing.T) {
	types := []string{"counter", "gauge", "histogram"}
	units := []string{"seconds", "milliseconds", "microseconds", "tokens", "requests", "share", "events", "drafts", "steps"}
	for _, eng := range catalogue(t).Engines {
		if eng.Title == "" || eng.Endpoint == "" || eng.Source == "" || len(eng.Prefixes) == 0 {
			t.Errorf("%s: an engine without title, endpoint, source or prefix", eng.Name)
		}
		for _, e := range eng.Entries {
			where := fmt.Sprintf("%s %s", e.Quantity, e.Name)
			for what, ok := range map[string]bool{
				"engine":   e.Engine == eng.Name,
				"text":     e.Quantity != "" && e.Sample != "" && e.When != "",
				"type":     slices.Contains(types, e.Type) && (e.WireType == "" || slices.Contains(types, e.WireType)),
				"unit":     slices.Contains(units, e.Unit),
				"prefix":   slices.ContainsFunc(eng.Prefixes, func(p string) bool { return strings.HasPrefix(e.Name, p) }),
				"read":     e.Read == "" || e.Read == "sum" && e.Type == "histogram",
				"_total":   eng.Name != "vllm" || e.Type != "counter" || strings.HasSuffix(e.Name, "_total"),
				"releases": !backwards(e),
			} {
				if !ok {
					t.Errorf("%s: bad %s", where, what)
				}
			}
		}
	}
}

// backwards finds an entry that begins after it ends.
func backwards(e Entry) bool {
	since, ok1 := parseVersion(e.Since)
	until, ok2 := parseVersion(e.Until)
	return ok1 && ok2 && compareVersions(since, until) >= 0
}

// What real servers expose is in the catalogue under the right type.
func TestCatalogueAgainstRealServers(t *testing.T) {
	c := catalogue(t)
	for _, r := range []struct {
		file, engine, version string
		quantities            []Quantity
	}{
		{"vllm_0_32.txt", "vllm", "0.32.0", []Quantity{TokensOut, TokensIn, RequestsFinished, RequestsFailed, Running, Waiting, KVUsage, PrefixQueries, PrefixHits, Preemptions, PromptLength}},
		{"llamacpp.txt", "llamacpp", "", []Quantity{TokensOut, TokensInCached, Running, Waiting, SpecDrafts, "longest_sequence", "tokens_in_computed"}},
	} {
		s, err := Parse(fixture(t, r.file), vllmType)
		if err != nil {
			t.Fatal(err)
		}
		if got, evidence := c.DetectEngine(s); got != r.engine || evidence == "" {
			t.Errorf("%s: detected %q: %s", r.file, got, evidence)
		}
		for _, q := range r.quantities {
			if e, ok, note := c.Lookup(r.engine, r.version, q, s); !ok || note != "" || !s.Has(e.Name) {
				t.Errorf("%s: %s: %v %q", r.file, q, e, note)
			}
		}
	}
}

func TestDetectEngine(t *testing.T) {
	c := catalogue(t)
	for body, want := range map[string]string{
		"vllm:x 1\n":                           "vllm",
		"sglang:x 1\n":                         "sglang",
		"trtllm_x 1\n":                         "trtllm",
		"tgi_x 1\n":                            "tgi",
		"lmdeploy:x 1\n":                       "lmdeploy",
		"llamacpp:x 1\n":                       "llamacpp",
		"dynamo_frontend_x 1\n":                "dynamo",
		"nv_inference_count 1\n":               "triton",
		"dynamo_component_x 1\nvllm:x 1\n":     "vllm", // the worker, not what stands before it
		"nv_inference_count 1\nvllm:x_total 1": "vllm",
		"go_goroutines 1\n":                    "",
	} {
		got, evidence := c.DetectEngine(mustParse(t, body))
		if got != want {
			t.Errorf("%q: %q (%s), want %q", body, got, evidence, want)
		}
		if strings.Count(body, "\n") > 1 && !strings.Contains(evidence, "; ") {
			t.Errorf("%q: the evidence hides the second: %s", body, evidence)
		}
	}
}

func TestLookup(t *testing.T) {
	c := catalogue(t)
	hist := func(name string) string { return "# TYPE " + name + " histogram\n" + name + "_count 1\n" }
	itl, tpot := "vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"
	newKV, oldKV := "vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"
	for name, x := range map[string]struct {
		version  string
		q        Quantity
		wire     string // "" for no scrape
		want     string // "" for none
		noteHas  string
		noteNone bool
	}{
		"by release alone, new":         {version: "0.12.0", q: ITLStep, want: itl, noteNone: true},
		"by release alone, old":         {version: "v0.10.2", q: ITLStep, want: tpot, noteNone: true},
		"by release alone, too old":     {version: "0.10.2", q: TPOTRequest, noteHas: "has no metric of tpot_request"},
		"development build":             {version: "0.11.1.dev5+gabc", q: ITLStep, want: itl, noteNone: true},
		"patch of the newest checked":   {version: "0.33.7", q: ITLStep, wire: hist(itl), want: itl, noteNone: true},
		"newer than any checked":        {version: "0.40.0", q: ITLStep, wire: hist(itl), want: itl, noteHas: "checked up to 0.33"},
		"unknown release, old wire":     {q: KVUsage, wire: oldKV + " 0.5\n", want: oldKV, noteHas: "the release is unknown"},
		"unknown release, new wire":     {version: "main", q: KVUsage, wire: newKV + " 0.5\n", want: newKV, noteHas: `"main" is not in the catalogue`},
		"both names in the transition":  {version: "0.10.0", q: KVUsage, wire: newKV + " 0\n" + oldKV + " 0\n", want: newKV, noteNone: true},
		"wire older than the release":   {version: "0.20.0", q: KVUsage, wire: oldKV + " 0\n", want: oldKV, noteHas: "should not have"},
		"nothing on the wire":           {version: "0.20.0", q: KVUsage, wire: "x 1\n", noteHas: newKV + " is not on the wire; " + oldKV},
		"another type on the wire":      {version: "0.32.0", q: TTFT, wire: "# TYPE vllm:time_to_first_token_seconds gauge\nvllm:time_to_first_token_seconds 1\n", noteHas: "is a gauge on the wire, not a histogram"},
		"a quantity that it has not":    {version: "0.32.0", q: "moonlight", wire: "x 1\n", noteHas: "no metric of moonlight"},
		"a histogram is no token total": {version: "0.32.0", q: TokensOut, wire: hist("vllm:generation_tokens_total"), noteHas: "is a histogram on the wire"},
	} {
		t.Run(name, func(t *testing.T) {
			var s *Scrape
			if x.wire != "" {
				s = mustParse(t, x.wire)
			}
			e, ok, note := c.Lookup("vllm", x.version, x.q, s)
			if e.Name != x.want || ok != (x.want != "") || !strings.Contains(note, x.noteHas) || x.noteNone && note != "" {
				t.Errorf("%q %v, note %q", e.Name, ok, note)
			}
		})
	}
	if _, ok, note := c.Lookup("abacus", "1", TTFT, nil); ok || !strings.Contains(note, "abacus") {
		t.Errorf("an unknown engine: %q", note)
	}
}

// TestCatalogueAgainstRealVLLM holds the entries of the release against the page of
// a vLLM 0.32 that had served requests (CPU build, prefix caching on, no speculative
// decoding, per-request metrics on).
func TestCatalogueAgainstRealVLLM(t *testing.T) {
	body, err := os.ReadFile("testdata/vllm_0_32_after.txt")
	if err != nil {
		t.Fatal(err)
	}
	page, err := Parse(body, "text/plain; version=1.0.0; charset=utf-8")
	if err != nil {
		t.Fatal(err)
	}
	c, err := LoadCatalogue()
	if err != nil {
		t.Fatal(err)
	}
	engine, _ := c.Engine("vllm")
	seen := make(map[Quantity]bool)
	var missing []string
	for _, e := range engine.Entries {
		if seen[e.Quantity] {
			continue
		}
		seen[e.Quantity] = true
		found, ok, note := c.Lookup("vllm", "0.32.0", e.Quantity, page)
		if !ok || !page.Has(found.Name) {
			missing = append(missing, string(e.Quantity))
			continue
		}
		if note != "" {
			t.Errorf("%s: %s is not of this release by the catalogue: %s", e.Quantity, found.Name, note)
		}
		declared := page.Families[found.Name].GetType().String()
		if want := cmp.Or(found.WireType, found.Type); !strings.EqualFold(declared, want) {
			t.Errorf("%s is a %s on the wire, the catalogue says %s", found.Name, declared, want)
		}
	}
	slices.Sort(missing)
	// Only a server that speculates has these.
	want := []string{"spec_accepted_tokens", "spec_draft_tokens", "spec_drafts"}
	if !slices.Equal(missing, want) {
		t.Errorf("not on the page: %v, want %v", missing, want)
	}
}
