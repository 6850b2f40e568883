package environ

import (
	"fmt"
	"slices"
	"strings"
)

// Source says where a fact is from.
type Source string

// The sources of facts.
const (
	Declared Source = "declared" // by the user
)

// Fact is one thing that is known of the target.
type Fact struct {
	// Name is one of [Required], or any other.
	Name   string `json:"name"`
	Value  string `json:"value"`
	Source Source `json:"source"`
}

// Field is something that must be known of a serving endpoint.
type Field struct {
	Name string `json:"name"`
	// Title for people.
	Title string `json:"title"`
	// Value and where it is from; empty if it is not recorded.
	Value  string `json:"value,omitempty"`
	Source Source `json:"source,omitempty"`
}

// Recorded reports whether the field has a value.
func (f Field) Recorded() bool { return f.Value != "" }

// Required lists what must be known, in the order of a report.
func Required() []Field {
	return []Field{
		{Name: "gpu", Title: "GPU type"}, {Name: "gpu_count", Title: "GPUs"}, {Name: "driver", Title: "driver"}, {Name: "cuda", Title: "CUDA or ROCm"},
		{Name: "engine_version", Title: "engine version"}, {Name: "pytorch", Title: "PyTorch"}, {Name: "python", Title: "Python"},
		{Name: "model", Title: "model"}, {Name: "precision", Title: "precision"},
		{Name: "max_num_seqs", Title: "max_num_seqs"}, {Name: "max_num_batched_tokens", Title: "max_num_batched_tokens"},
		{Name: "kv_cache_dtype", Title: "KV cache dtype"}, {Name: "kv_block_size", Title: "KV block size"}, {Name: "prefix_caching", Title: "prefix caching"},
	}
}

// Log is the environment of a run.
type Log struct {
	Client Client `json:"client"`
	// Facts of the target in the order in which they were found.
	Facts []Fact `json:"facts,omitempty"`
	// Fields are those of [Required].
	Fields []Field `json:"fields,omitempty"`
	// NotRecorded are the titles of the fields without a value.
	NotRecorded []string `json:"not_recorded,omitempty"`
	// Conflicts are values that contradict each other, in words.
	Conflicts []string `json:"conflicts,omitempty"`
	// Notes on what was not applicable, or could not be read.
	Notes []string `json:"notes,omitempty"`
}

// Settle fills in Fields, NotRecorded and Conflicts from the facts. What was
// observed comes before what was declared.
func (l *Log) Settle() {
	l.Fields, l.NotRecorded, l.Conflicts = nil, nil, nil
	for _, f := range Required() {
		for _, declared := range []bool{false, true} {
			for _, fact := range l.Facts {
				if fact.Name == f.Name && (fact.Source == Declared) == declared {
					l.take(&f, fact)
				}
			}
		}
		if !f.Recorded() {
			l.NotRecorded = append(l.NotRecorded, f.Title)
		}
		l.Fields = append(l.Fields, f)
	}
}

// take gives a field its value, or notes that a second source says otherwise.
func (l *Log) take(f *Field, fact Fact) {
	switch {
	case fact.Value == "":
	case !f.Recorded():
		f.Value, f.Source = fact.Value, fact.Source
	case !same(f.Value, fact.Value):
		text := fmt.Sprintf("%s: %s says %q, %s says %q", f.Title, f.Source, f.Value, fact.Source, fact.Value)
		if !slices.Contains(l.Conflicts, text) {
			l.Conflicts = append(l.Conflicts, text)
		}
	}
}

// same compares values as people write them: True and on, BF16 and torch.bfloat16.
// One that is a part of the other, as a release of its build, does not contradict it.
func same(a, b string) bool {
	a, b = plain(a), plain(b)
	return a == b || strings.Contains(a, b) || strings.Contains(b, a)
}

// spellings that mean the same.
var spellings = map[string]string{
	"true": "on", "yes": "on", "1": "on", "enabled": "on", "false": "off", "no": "off", "0": "off", "disabled": "off",
	"bf16": "bfloat16", "fp16": "float16", "half": "float16", "fp32": "float32",
}

func plain(s string) string {
	s = strings.TrimPrefix(strings.ToLower(strings.TrimSpace(s)), "torch.")
	s = strings.TrimPrefix(s, "nvidia ")
	if t, ok := spellings[s]; ok {
		return t
	}
	return s
}

// Others are the facts of the target that no field is about, each once.
func (l *Log) Others() []Fact {
	required := Required()
	var out []Fact
	for _, fact := range l.Facts {
		needed := slices.ContainsFunc(required, func(f Field) bool { return f.Name == fact.Name })
		if !needed && !slices.Contains(out, fact) {
			out = append(out, fact)
		}
	}
	return out
}
