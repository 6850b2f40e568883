package engine

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

//go:embed tables.yaml
var embedded []byte

// GPU is what one accelerator can do, from its data sheet.
type GPU struct {
	Name    string   `yaml:"-"`
	Aliases []string `yaml:"aliases"`
	// Peak dense arithmetic, TFLOP/s. 0 for a format that it lacks.
	BF16TFLOPS float64 `yaml:"bf16_tflops"`
	FP8TFLOPS  float64 `yaml:"fp8_tflops"`
	FP4TFLOPS  float64 `yaml:"fp4_tflops"`
	// MemoryGB is its memory, in 1e9 bytes.
	MemoryGB float64 `yaml:"memory_gb"`
	// MemoryGBps is its memory bandwidth, in 1e9 bytes a second.
	MemoryGBps float64 `yaml:"memory_gbps"`
	// BusGBps is the effective all-reduce bandwidth between several of them.
	BusGBps float64 `yaml:"bus_gbps"`
	// AllReduceUs is the latency floor of one all-reduce, microseconds.
	AllReduceUs float64 `yaml:"allreduce_us"`
	// ReserveGB is memory that is neither weights nor KV cache.
	ReserveGB float64 `yaml:"reserve_gb"`
}

// Model is the shape of a decoder-only transformer.
type Model struct {
	Name            string   `yaml:"-"`
	Aliases         []string `yaml:"aliases"`
	Layers          int      `yaml:"layers"`
	DModel          int      `yaml:"d_model"`
	DQ              int      `yaml:"d_q"`  // heads x head size
	DKV             int      `yaml:"d_kv"` // KV heads x head size
	DFF             int      `yaml:"d_ff"` // of one expert, where there are experts
	Experts         int      `yaml:"experts"`
	ExpertsPerToken int      `yaml:"experts_per_token"`
	Vocab           int      `yaml:"vocab"`
	MaxLen          int      `yaml:"max_len"` // longest sequence
	// WeightBits and KVBits are the stored precision; 0 means 16.
	WeightBits int `yaml:"weight_bits"`
	KVBits     int `yaml:"kv_bits"`
}

// Tables are named GPUs and models.
type Tables struct {
	GPUs   map[string]GPU   `yaml:"gpus"`
	Models map[string]Model `yaml:"models"`
}

// DefaultTables returns the tables that come with the package.
func DefaultTables() Tables {
	t, err := LoadTables(bytes.NewReader(embedded))
	if err != nil {
		panic("engine: embedded tables: " + err.Error()) // a test loads them
	}
	return t
}

// LoadTables reads a YAML file of the form of tables.yaml in this package.
// Unknown keys and values that no machine can have are errors.
func LoadTables(r io.Reader) (Tables, error) {
	var t Tables
	err := yaml.NewDecoder(r, yaml.Strict()).Decode(&t)
	if err != nil && !errors.Is(err, io.EOF) {
		return Tables{}, fmt.Errorf("read GPU and model tables: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(t.GPUs)) {
		g := t.GPUs[name]
		g.Name = name
		if err := g.validate(); err != nil {
			return Tables{}, err
		}
		t.GPUs[name] = g
	}
	for _, name := range slices.Sorted(maps.Keys(t.Models)) {
		m := t.Models[name]
		m.Name = name
		if err := m.validate(); err != nil {
			return Tables{}, err
		}
		t.Models[name] = m
	}
	return t, nil
}

// With returns t with the entries of more added; they win over those of t.
func (t Tables) With(more Tables) Tables {
	out := Tables{GPUs: map[string]GPU{}, Models: map[string]Model{}}
	maps.Copy(out.GPUs, t.GPUs)
	maps.Copy(out.GPUs, more.GPUs)
	maps.Copy(out.Models, t.Models)
	maps.Copy(out.Models, more.Models)
	return out
}

// GPU finds a GPU by name or alias, in any case.
func (t Tables) GPU(name string) (GPU, error) {
	for _, key := range slices.Sorted(maps.Keys(t.GPUs)) {
		if matches(name, key, t.GPUs[key].Aliases) {
			return t.GPUs[key], nil
		}
	}
	return GPU{}, fmt.Errorf("unknown GPU %q (known: %s)", name, known(t.GPUs))
}

// Model finds a model by name or alias, in any case, with or without the
// organisation in front ("meta-llama/Llama-3.1-8B-Instruct").
func (t Tables) Model(name string) (Model, error) {
	short := name[strings.LastIndex(name, "/")+1:]
	for _, key := range slices.Sorted(maps.Keys(t.Models)) {
		m := t.Models[key]
		if matches(name, key, m.Aliases) || matches(short, key, m.Aliases) {
			return m, nil
		}
	}
	return Model{}, fmt.Errorf("unknown model %q (known: %s)", name, known(t.Models))
}

func matches(name, key string, aliases []string) bool {
	return strings.EqualFold(name, key) ||
		slices.ContainsFunc(aliases, func(a string) bool { return strings.EqualFold(a, name) })
}

func known[V any](m map[string]V) string {
	return strings.Join(slices.Sorted(maps.Keys(m)), ", ")
}

func (g GPU) validate() error {
	for _, f := range []struct {
		what     string
		value    float64
		positive bool
	}{
		{"bf16_tflops", g.BF16TFLOPS, true},
		{"fp8_tflops", g.FP8TFLOPS, false},
		{"fp4_tflops", g.FP4TFLOPS, false},
		{"memory_gb", g.MemoryGB, true},
		{"memory_gbps", g.MemoryGBps, true},
		{"bus_gbps", g.BusGBps, false},
		{"allreduce_us", g.AllReduceUs, false},
		{"reserve_gb", g.ReserveGB, false},
	} {
		if !(f.value >= 0) || f.value > 1e9 || f.positive && f.value < 1e-3 {
			return fmt.Errorf("GPU %q: %s is %v", g.Name, f.what, f.value)
		}
	}
	return nil
}

func (m Model) validate() error {
	for _, f := range []struct {
		what     string
		value    int
		positive bool
	}{
		{"layers", m.Layers, true},
		{"d_model", m.DModel, true},
		{"d_q", m.DQ, true},
		{"d_kv", m.DKV, true},
		{"d_ff", m.DFF, true},
		{"vocab", m.Vocab, true},
		{"max_len", m.MaxLen, true},
		{"experts", m.Experts, false},
		{"experts_per_token", m.ExpertsPerToken, false},
	} {
		if f.value < 0 || f.value > math.MaxInt32 || f.positive && f.value == 0 {
			return fmt.Errorf("model %q: %s is %d", m.Name, f.what, f.value)
		}
	}
	if m.ExpertsPerToken > m.Experts || m.Experts > 0 && m.ExpertsPerToken == 0 {
		return fmt.Errorf("model %q: %d of %d experts per token", m.Name, m.ExpertsPerToken, m.Experts)
	}
	for _, bits := range []int{m.WeightBits, m.KVBits} {
		if !slices.Contains([]int{0, 4, 8, 16}, bits) {
			return fmt.Errorf("model %q: %d bits (4, 8 or 16)", m.Name, bits)
		}
	}
	return nil
}

func bytesOf(bits int) float64 {
	if bits == 0 {
		bits = 16
	}
	return float64(bits) / 8
}

// sharedParams are the linear weights that every token uses; expertParams
// those of all experts together. Embedding and head are apart.
func (m Model) sharedParams() float64 {
	p := 2*float64(m.DModel)*float64(m.DQ) + 2*float64(m.DModel)*float64(m.DKV)
	if m.Experts == 0 {
		p += 3 * float64(m.DModel) * float64(m.DFF)
	}
	return p * float64(m.Layers)
}

func (m Model) expertParams() float64 {
	return float64(m.Layers) * 3 * float64(m.DModel) * float64(m.DFF) * float64(m.Experts)
}

func (m Model) headParams() float64 { return float64(m.Vocab) * float64(m.DModel) }

// WeightBytes is the memory that the weights take, embedding and output head
// included; those two stay at 16 bits.
func (m Model) WeightBytes() float64 {
	return (m.sharedParams()+m.expertParams())*bytesOf(m.WeightBits) + 2*2*m.headParams()
}

// KVBytesPerToken is the KV memory that one token of context takes.
func (m Model) KVBytesPerToken() float64 {
	return 2 * float64(m.Layers) * float64(m.DKV) * bytesOf(m.KVBits)
}
