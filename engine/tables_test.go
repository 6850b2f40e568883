package engine

import (
	"strings"
	"testing"
)

// Published sizes of the models, and the KV capacity at 0.9 utilisation.
func TestDefaultTables(t *testing.T) {
	tables := DefaultTables()
	for _, c := range []struct {
		model     string
		weightsGB float64
		kvKiB     float64
	}{
		{"llama-3.1-8b", 16.1, 128},
		{"qwen3-14b", 29.5, 160},
		{"qwen3-32b", 65.5, 256},
		{"llama-3.3-70b", 141, 320},
		{"qwen3-30b-a3b", 61, 96},
	} {
		m, err := tables.Model(c.model)
		if err != nil {
			t.Fatal(err)
		}
		within(t, c.model+" weights GB", m.WeightBytes()/1e9, c.weightsGB, 0.005)
		within(t, c.model+" KV KiB/token", m.KVBytesPerToken()/1024, c.kvKiB, 1e-9)
	}
	if len(tables.GPUs) != 7 || len(tables.Models) != 5 {
		t.Errorf("%d GPUs, %d models", len(tables.GPUs), len(tables.Models))
	}
}

func TestKVCapacity(t *testing.T) {
	tables := DefaultTables()
	for _, c := range []struct {
		gpu, model string
		tp         int
		kTokens    float64
		tolerance  float64
	}{
		{"a100-80", "llama-3.1-8b", 1, 404, 0.005},
		{"l40s", "llama-3.1-8b", 1, 184, 0.005},
		{"h200", "qwen3-14b", 1, 576, 0.005},
		{"b200", "llama-3.3-70b", 1, 55, 0.01},
		{"h100", "qwen3-32b", 2, 276, 0.005},
		{"l40s", "qwen3-30b-a3b", 2, 197, 0.005},
		{"h100", "llama-3.3-70b", 4, 412, 0.005},
		{"rtx-4090", "llama-3.1-8b", 1, 41.408, 0.01}, // as vLLM found
	} {
		cfg := ConfigFor(tables.GPUs[c.gpu], tables.Models[c.model], c.tp)
		within(t, c.model+" on "+c.gpu, float64(cfg.KVCapacityTokens())/1e3, c.kTokens, c.tolerance)
	}
}

func TestServerDefaults(t *testing.T) {
	tables := DefaultTables()
	for gpu, want := range map[string][2]int{
		"h100": {8192, 1024}, "h200": {8192, 1024}, "b200": {16384, 1024},
		"a100-80": {2048, 256}, "l40s": {2048, 256}, "rtx-4090": {2048, 256},
	} {
		c := ConfigFor(tables.GPUs[gpu], tables.Models["llama-3.1-8b"], 1)
		if got := [2]int{c.MaxNumBatchedTokens, c.MaxNumSeqs}; got != want {
			t.Errorf("%s: got %v, want %v", gpu, got, want)
		}
	}
	if c := DefaultConfig(); c.GPU.Name != "h100" || c.Model.Name != "llama-3.1-8b" || !c.ChunkedPrefill {
		t.Errorf("default is %s on %s", c.Model.Name, c.GPU.Name)
	}
}

func TestLookupByAlias(t *testing.T) {
	tables := DefaultTables()
	for _, name := range []string{"llama-3.1-8b", "meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-8B-Instruct", "LLAMA-3.1-8B"} {
		if m, err := tables.Model(name); err != nil || m.Name != "llama-3.1-8b" {
			t.Errorf("%s: %q, %v", name, m.Name, err)
		}
	}
	if g, err := tables.GPU("A100"); err != nil || g.Name != "a100-80" {
		t.Errorf("%q, %v", g.Name, err)
	}
	if _, err := tables.GPU("tpu"); err == nil || !strings.Contains(err.Error(), "h100") {
		t.Errorf("an unknown GPU should name the known ones: %v", err)
	}
}

const ownTables = `
gpus:
  mine: {bf16_tflops: 100, memory_gb: 24, memory_gbps: 900}
  h100: {bf16_tflops: 1, memory_gb: 80, memory_gbps: 3350}
models:
  tiny: {layers: 2, d_model: 64, d_q: 64, d_kv: 32, d_ff: 128, vocab: 1000, max_len: 512}
`

func TestLoadTablesExtends(t *testing.T) {
	own, err := LoadTables(strings.NewReader(ownTables))
	if err != nil {
		t.Fatal(err)
	}
	all := DefaultTables().With(own)
	if g, err := all.GPU("mine"); err != nil || g.BF16TFLOPS != 100 || g.Name != "mine" {
		t.Errorf("%+v, %v", g, err)
	}
	if g, _ := all.GPU("h100"); g.BF16TFLOPS != 1 {
		t.Errorf("an entry of the same name should win: %+v", g)
	}
	if len(all.GPUs) != 8 || len(all.Models) != 6 {
		t.Errorf("%d GPUs, %d models", len(all.GPUs), len(all.Models))
	}
	if _, err := New(ConfigFor(all.GPUs["mine"], all.Models["tiny"], 1)); err != nil {
		t.Error(err)
	}
}

func TestLoadTablesRefuses(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"unknown key":      {"gpus:\n  x: {tflops: 1}\n", "tflops"},
		"missing speed":    {"gpus:\n  x: {bf16_tflops: 1, memory_gb: 1}\n", "memory_gbps"},
		"negative":         {"gpus:\n  x: {bf16_tflops: -1, memory_gb: 1, memory_gbps: 1}\n", "bf16_tflops"},
		"not a number":     {"gpus:\n  x: {bf16_tflops: .nan, memory_gb: 1, memory_gbps: 1}\n", "bf16_tflops"},
		"missing layers":   {"models:\n  x: {d_model: 1}\n", "layers"},
		"too many experts": {"models:\n  x: {layers: 1, d_model: 1, d_q: 1, d_kv: 1, d_ff: 1, vocab: 1, max_len: 1, experts: 2, experts_per_token: 3}\n", "experts"},
		"odd precision":    {"models:\n  x: {layers: 1, d_model: 1, d_q: 1, d_kv: 1, d_ff: 1, vocab: 1, max_len: 1, weight_bits: 7}\n", "bits"},
		"not YAML":         {"gpus: [", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := LoadTables(strings.NewReader(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error about %q", err, c.want)
			}
		})
	}
}

func FuzzLoadTables(f *testing.F) {
	f.Add(string(embedded))
	f.Add(ownTables)
	f.Add("gpus:\n  x: {bf16_tflops: 1e308, memory_gb: 1, memory_gbps: 1}\n")
	f.Add("models: {x: {layers: 9999999999}}\n")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		tables, err := LoadTables(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, g := range tables.GPUs {
			for _, m := range tables.Models {
				cfg := ConfigFor(g, m, 1)
				cfg.KVBlocks = 100
				e, err := New(cfg)
				if err != nil {
					continue
				}
				drive(t, e, []*Request{{PromptTokens: 1}}, nil)
			}
		}
	})
}
