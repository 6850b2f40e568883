package cli

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/assay-bench/assay/engine"
	"github.com/assay-bench/assay/simserver"
)

// engineFlags choose the simulated engine, wherever it runs. Empty and nil are not
// given.
type engineFlags struct {
	GPU                 string             `name:"gpu" placeholder:"h100" help:"GPU of the tables: a100, l40s, h100, h200, b200, rtx-4090, rtx-pro-6000."`
	SimModel            string             `name:"sim-model" placeholder:"llama-3.1-8b" help:"Model of the tables, such as llama-3.1-8b or qwen3-32b."`
	Tables              string             `name:"sim-tables" placeholder:"FILE" help:"More GPUs and models, as YAML; see docs/engine.md."`
	TP                  *int               `name:"tp" placeholder:"1" help:"Tensor-parallel GPUs."`
	MaxNumSeqs          *int               `name:"max-num-seqs" help:"Most running requests (default: vLLM's for the GPU)."`
	MaxNumBatchedTokens *int               `name:"max-num-batched-tokens" help:"Token budget of a step (default: vLLM's for the GPU)."`
	MaxModelLen         *int               `name:"max-model-len" help:"Longest prompt plus output (default: the model's, as far as memory allows)."`
	KVBlocks            *int               `name:"kv-blocks" help:"KV cache capacity in 16-token blocks (default: computed from the GPU's memory)."`
	NoChunkedPrefill    bool               `name:"no-chunked-prefill" help:"Whole prompts in steps of their own, before any decode."`
	NoPrefixCaching     bool               `name:"no-prefix-caching" help:"Keep no blocks for reuse."`
	SpecTokens          *int               `name:"spec-tokens" help:"Speculative decoding: drafts a step."`
	SpecAcceptance      *float64           `name:"spec-acceptance" placeholder:"0.7" help:"Speculative decoding: probability that a draft holds."`
	NoiseCV             *float64           `name:"noise-cv" help:"Coefficient of variation of the step time."`
	Constants           map[string]float64 `name:"constant" mapsep:"," placeholder:"NAME=VALUE,..." help:"Constants of the step time, as in eta_memory=0.92,eta_kv=0.92; see docs/engine.md."`
	SimSeed             uint64             `name:"sim-seed" default:"1" help:"Seed of the engine's own draws."`
}

// serverFlags are of the engine behind HTTP.
type serverFlags struct {
	Engines    int     `name:"engines" default:"1" help:"Data-parallel engines behind the server."`
	TruthLog   string  `name:"truth-log" placeholder:"FILE" help:"Write what the engine did, and when it wrote each event, as JSON lines."`
	TruthSteps bool    `name:"truth-steps" help:"Log every step of the engine there, too."`
	OTLPTraces string  `name:"otlp-traces-endpoint" placeholder:"URL" help:"Send vLLM's llm_request span of every request that finishes there, by OTLP/HTTP in protobuf: http://127.0.0.1:4318/v1/traces."`
	Fault      string  `name:"fault" placeholder:"SPEC" help:"Misbehave on purpose, see docs/engine.md."`
	FaultShare float64 `name:"fault-share" default:"1" help:"Share of requests that the fault befalls, chosen by their ids."`
}

// simFlags are those of assay sim and of assay run without a URL.
type simFlags struct {
	engineFlags
	serverFlags
}

// defaultSpecAcceptance is that of a good draft head (reference: EAGLE, n-gram
// reach 0.6 to 0.8 of their first position).
const defaultSpecAcceptance = 0.7

// engine makes the engine's configuration.
func (f *engineFlags) engine() (engine.Config, error) {
	t, err := f.tables()
	if err != nil {
		return engine.Config{}, err
	}
	gpu, err := t.GPU(orDefault(f.GPU, "h100"))
	if err != nil {
		return engine.Config{}, usagef("--gpu: %w", err)
	}
	model, err := t.Model(orDefault(f.SimModel, "llama-3.1-8b"))
	if err != nil {
		return engine.Config{}, usagef("--sim-model: %w", err)
	}
	tp := 1
	put(&tp, f.TP)
	c := engine.ConfigFor(gpu, model, tp)
	put(&c.MaxNumSeqs, f.MaxNumSeqs)
	put(&c.MaxNumBatchedTokens, f.MaxNumBatchedTokens)
	put(&c.MaxModelLen, f.MaxModelLen)
	put(&c.KVBlocks, f.KVBlocks)
	put(&c.NoiseCV, f.NoiseCV)
	c.Seed = f.SimSeed
	c.ChunkedPrefill = c.ChunkedPrefill && !f.NoChunkedPrefill
	c.PrefixCaching = c.PrefixCaching && !f.NoPrefixCaching
	if f.SpecTokens != nil {
		c.Spec = &engine.SpecDecode{DraftTokens: *f.SpecTokens, Acceptance: defaultSpecAcceptance}
		put(&c.Spec.Acceptance, f.SpecAcceptance)
	} else if f.SpecAcceptance != nil {
		return c, usagef("--spec-acceptance has no meaning without --spec-tokens")
	}
	for _, name := range slices.Sorted(maps.Keys(f.Constants)) {
		to, ok := constants(&c.Constants)[name]
		if !ok {
			return engine.Config{}, usagef("--constant %s: want one of %s", name, strings.Join(slices.Sorted(maps.Keys(constants(&c.Constants))), ", "))
		}
		*to = f.Constants[name]
	}
	if _, err := engine.New(c); err != nil {
		return engine.Config{}, usagef("built-in engine: %w", err)
	}
	return c, nil
}

func orDefault[T comparable](x, byDefault T) T {
	var zero T
	if x == zero {
		return byDefault
	}
	return x
}

// constants of the step time by their names on the command line.
func constants(c *engine.Constants) map[string]*float64 {
	return map[string]*float64{
		"eta_compute": &c.EtaCompute, "eta_memory": &c.EtaMemory, "eta_kv": &c.EtaKV, "eta_attention": &c.EtaAttention,
		"elementwise": &c.Elementwise, "shard_loss": &c.ShardLoss,
		"step_us": &c.StepUs, "layer_us": &c.LayerUs, "request_us": &c.RequestUs, "moe_layer_us": &c.MoELayerUs,
	}
}

func (f *engineFlags) tables() (engine.Tables, error) {
	t := engine.DefaultTables()
	if f.Tables == "" {
		return t, nil
	}
	file, err := os.Open(f.Tables)
	if err != nil {
		return t, usagef("--sim-tables: %w", err)
	}
	defer file.Close()
	more, err := engine.LoadTables(file)
	if err != nil {
		return t, usagef("--sim-tables: %s: %w", filepath.Base(f.Tables), err)
	}
	return t.With(more), nil
}

// describeEngine says in words what is simulated.
func describeEngine(c engine.Config) string {
	s := fmt.Sprintf("%s on %s, tp %d, %d requests and %d tokens a step", c.Model.Name, c.GPU.Name, c.TP, c.MaxNumSeqs, c.MaxNumBatchedTokens)
	if c.KVBlocks != 0 {
		s += fmt.Sprintf(", %d KV blocks", c.KVBlocks)
	}
	if !c.ChunkedPrefill {
		s += ", no chunked prefill"
	}
	if !c.PrefixCaching {
		s += ", no prefix caching"
	}
	if c.Spec != nil {
		s += fmt.Sprintf(", %d drafts accepted with %g", c.Spec.DraftTokens, c.Spec.Acceptance)
	}
	if c.NoiseCV != 0 {
		s += fmt.Sprintf(", noise CV %g", c.NoiseCV)
	}
	if c.Constants != engine.DefaultConstants() {
		s += ", constants changed"
	}
	return s
}

// config is that of the server.
func (f *simFlags) config() (simserver.Config, error) {
	c := simserver.DefaultConfig()
	var err error
	if c.Engine, err = f.engine(); err != nil {
		return c, err
	}
	c.ModelName = c.Engine.Model.Name
	if f.Engines < 1 {
		return c, usagef("--engines is %d: want a count from 1", f.Engines)
	}
	if !(f.FaultShare > 0 && f.FaultShare <= 1) {
		return c, usagef("--fault-share is %v: want a share above 0 and up to 1", f.FaultShare)
	}
	c.PromptTokensDetails = true // else nobody sees what a prefix cache does
	c.Engines, c.Fault, c.FaultShare, c.TruthSteps = f.Engines, f.Fault, f.FaultShare, f.TruthSteps
	c.OTLPTraces = f.OTLPTraces
	return c, nil
}

// check says what the engine would refuse, before a process is started for it.
func (f *simFlags) check() error {
	c, err := f.config()
	if err != nil {
		return err
	}
	if _, err := simserver.New(c); err != nil {
		return usagef("built-in engine: %w", err)
	}
	return nil
}

// args are the flags again, for the child process.
func (f *simFlags) args() []string {
	var out []string
	text := func(name, value string) {
		if value != "" {
			out = append(out, "--"+name+"="+value)
		}
	}
	count := func(name string, n *int) {
		if n != nil {
			out = append(out, fmt.Sprintf("--%s=%d", name, *n))
		}
	}
	number := func(name string, x *float64) {
		if x != nil {
			out = append(out, fmt.Sprintf("--%s=%v", name, *x))
		}
	}
	flag := func(name string, on bool) {
		if on {
			out = append(out, "--"+name)
		}
	}
	text("gpu", f.GPU)
	text("sim-model", f.SimModel)
	text("sim-tables", f.Tables)
	count("tp", f.TP)
	count("max-num-seqs", f.MaxNumSeqs)
	count("max-num-batched-tokens", f.MaxNumBatchedTokens)
	count("max-model-len", f.MaxModelLen)
	count("kv-blocks", f.KVBlocks)
	count("spec-tokens", f.SpecTokens)
	count("engines", &f.Engines)
	flag("no-chunked-prefill", f.NoChunkedPrefill)
	flag("no-prefix-caching", f.NoPrefixCaching)
	number("spec-acceptance", f.SpecAcceptance)
	number("noise-cv", f.NoiseCV)
	for _, name := range slices.Sorted(maps.Keys(f.Constants)) {
		text("constant", fmt.Sprintf("%s=%v", name, f.Constants[name]))
	}
	text("sim-seed", fmt.Sprint(f.SimSeed))
	text("truth-log", f.TruthLog)
	flag("truth-steps", f.TruthSteps)
	text("otlp-traces-endpoint", f.OTLPTraces)
	text("fault", f.Fault)
	number("fault-share", &f.FaultShare)
	return out
}
