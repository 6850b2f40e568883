package engine

import (
	"fmt"
	"math"
	"strings"
)

// Config says what is served on what, and how. Start from DefaultConfig or
// ConfigFor: the zero value has chunked prefill and prefix caching off.
type Config struct {
	GPU   GPU
	Model Model
	TP    int // tensor-parallel GPUs, at least 1
	// EP spreads the experts of a mixture over this many GPUs, those of other
	// data-parallel replicas included. An engine alone takes the others to be
	// as loaded as itself; a Group knows. 0 keeps them with the TP group.
	EP int

	// MaxNumSeqs limits running requests, MaxNumBatchedTokens the tokens of
	// one step.
	MaxNumSeqs, MaxNumBatchedTokens int
	// MaxModelLen limits prompt plus output. 0 is the model's own; New lowers
	// it to what the KV cache can hold.
	MaxModelLen int
	// BlockSize is tokens per KV block.
	BlockSize int
	// KVBlocks is the KV capacity in blocks, one of which is never used, as
	// vLLM's num_gpu_blocks. 0 is computed from the memory of the GPUs. For a
	// twin of a real server give what that server reports: capacity is where
	// simulations go wrong first.
	KVBlocks int
	// MemoryUtilization is the share of GPU memory that the engine may use.
	MemoryUtilization float64

	// ChunkedPrefill lets a prompt be computed in pieces beside the decodes.
	// Without it whole prompts run in steps of their own, before any decode:
	// the scheduling that Sarathi-Serve (OSDI 2024) was written against.
	ChunkedPrefill bool
	// LongPrefillTokens limits one request's share of a step; 0 is no limit.
	LongPrefillTokens int
	// PrefixCaching keeps full blocks for reuse.
	PrefixCaching bool
	// ReserveFullPrompt admits a request only if its whole prompt has room,
	// not only its first chunk.
	ReserveFullPrompt bool
	// Watermark is the share of KV blocks that an admission must leave free
	// while anything is running; it saves preemptions.
	Watermark float64
	// ByPriority serves by Request.Priority instead of first come, first
	// served.
	ByPriority bool
	// Spec turns on speculative decoding.
	Spec *SpecDecode

	// Constants of the step-time model.
	Constants Constants
	// NoiseCV is the coefficient of variation of a lognormal factor, mean 1,
	// on every step; real engines have 0.01 to 0.03. 0 is none.
	NoiseCV float64
	// Seed of all draws.
	Seed uint64

	// LogBatch fills Step.Batch.
	LogBatch bool
}

// SpecDecode is speculative decoding: DraftTokens guesses are verified in one
// step, and each is accepted with probability Acceptance while all before it
// were.
type SpecDecode struct {
	DraftTokens int
	Acceptance  float64
	// DraftCost is the time to draft one position, as a share of the linear
	// and head time of the target for one token per request. 0 is n-gram
	// look-up; an EAGLE head is about 1/layers, plus the output head.
	DraftCost float64
}

// DefaultConfig is Llama-3.1-8B on one H100 with the defaults of a vLLM
// server.
func DefaultConfig() Config {
	t := DefaultTables()
	return ConfigFor(t.GPUs["h100"], t.Models["llama-3.1-8b"], 1)
}

// ConfigFor has the defaults that a vLLM server chooses for this hardware:
// 16384 tokens and 1024 requests a step from 160 GB on, 8192 and 1024 from 70
// GB on except A100, else 2048 and 256.
func ConfigFor(g GPU, m Model, tp int) Config {
	c := Config{
		GPU: g, Model: m, TP: tp,
		MaxNumSeqs: 256, MaxNumBatchedTokens: 2048, MaxModelLen: m.MaxLen,
		BlockSize: 16, MemoryUtilization: 0.9,
		ChunkedPrefill: true, PrefixCaching: true, ReserveFullPrompt: true,
		Constants: DefaultConstants(),
	}
	switch {
	case g.MemoryGB >= 160:
		c.MaxNumSeqs, c.MaxNumBatchedTokens = 1024, 16384
	case g.MemoryGB >= 70 && !strings.HasPrefix(g.Name, "a100"):
		c.MaxNumSeqs, c.MaxNumBatchedTokens = 1024, 8192
	}
	return c
}

// KVCapacityTokens is how many tokens of KV cache fit beside the weights:
// utilization x memory - reserve - weights, over all GPUs. It is negative if
// not even the weights fit.
func (c Config) KVCapacityTokens() int {
	perGPU := (c.MemoryUtilization*c.GPU.MemoryGB - c.GPU.ReserveGB) * 1e9
	experts := c.Model.expertParams() * bytesOf(c.Model.WeightBits)
	held := c.Model.WeightBytes() - experts + experts*c.expertShare()
	free := perGPU*float64(c.TP) - held
	return int(math.Floor(free / c.Model.KVBytesPerToken()))
}

// expertShare is the part of all experts that the TP group holds.
func (c Config) expertShare() float64 {
	if c.EP == 0 {
		return 1
	}
	return float64(c.TP) / float64(c.EP)
}

// maxComputedBlocks bounds the bookkeeping (40 bytes a block) where a toy model
// meets a large GPU; real ones stay below.
const maxComputedBlocks = 1 << 20

// resolve fills what is computed and refuses what cannot work.
func (c Config) resolve() (Config, error) {
	if err := c.GPU.validate(); err != nil {
		return c, err
	}
	if err := c.Model.validate(); err != nil {
		return c, err
	}
	for _, f := range []struct {
		what  string
		value int
		least int
	}{
		{"TP", c.TP, 1},
		{"MaxNumSeqs", c.MaxNumSeqs, 1},
		{"MaxNumBatchedTokens", c.MaxNumBatchedTokens, 1},
		{"BlockSize", c.BlockSize, 1},
		{"MaxModelLen", c.MaxModelLen, 0},
		{"KVBlocks", c.KVBlocks, 0},
		{"LongPrefillTokens", c.LongPrefillTokens, 0},
	} {
		if f.value < f.least || f.value > math.MaxInt32 {
			return c, fmt.Errorf("%s is %d (at least %d)", f.what, f.value, f.least)
		}
	}
	if c.TP > 1 && c.GPU.BusGBps == 0 {
		return c, fmt.Errorf("GPU %q has no bus_gbps, needed for TP %d", c.GPU.Name, c.TP)
	}
	if c.EP != 0 && (c.Model.Experts == 0 || c.EP < c.TP || c.EP > c.Model.Experts || c.GPU.BusGBps == 0) {
		return c, fmt.Errorf("EP is %d, with TP %d, %d experts and a bus of %v GB/s", c.EP, c.TP, c.Model.Experts, c.GPU.BusGBps)
	}
	if c.MaxNumBatchedTokens < c.MaxNumSeqs {
		return c, fmt.Errorf("token budget MaxNumBatchedTokens %d is below MaxNumSeqs %d: not every request could decode in a step",
			c.MaxNumBatchedTokens, c.MaxNumSeqs)
	}
	if !(c.Watermark >= 0) || c.Watermark >= 1 {
		return c, fmt.Errorf("watermark is %v (0 to below 1)", c.Watermark)
	}
	if !(c.NoiseCV >= 0) || c.NoiseCV > 1 {
		return c, fmt.Errorf("NoiseCV is %v (0 to 1)", c.NoiseCV)
	}
	if s := c.Spec; s != nil && (s.DraftTokens < 1 || !(s.Acceptance >= 0) || s.Acceptance > 1 || !(s.DraftCost >= 0)) {
		return c, fmt.Errorf("speculative decoding with %d drafts, acceptance %v, cost %v", s.DraftTokens, s.Acceptance, s.DraftCost)
	}
	if err := c.Constants.validate(); err != nil {
		return c, err
	}
	return c.resolveMemory()
}

func (c Config) resolveMemory() (Config, error) {
	if c.KVBlocks == 0 {
		if !(c.MemoryUtilization > 0) || c.MemoryUtilization > 1 {
			return c, fmt.Errorf("MemoryUtilization is %v (above 0, at most 1)", c.MemoryUtilization)
		}
		tokens := c.KVCapacityTokens()
		c.KVBlocks = min(max(tokens, 0)/c.BlockSize, maxComputedBlocks)
		if c.KVBlocks < 2 {
			return c, fmt.Errorf("%s needs %.1f GB for its weights and does not fit on %d x %s (%.0f GB each)",
				c.Model.Name, c.Model.WeightBytes()/1e9, c.TP, c.GPU.Name, c.GPU.MemoryGB)
		}
	}
	if c.KVBlocks < 2 {
		return c, fmt.Errorf("KVBlocks is %d: one is reserved, so at least 2", c.KVBlocks)
	}
	if c.MaxModelLen == 0 {
		c.MaxModelLen = c.Model.MaxLen
	}
	c.MaxModelLen = min(c.MaxModelLen, (c.KVBlocks-1)*c.BlockSize)
	if !c.ChunkedPrefill && c.MaxNumBatchedTokens < c.MaxModelLen {
		return c, fmt.Errorf("without chunked prefill a whole prompt must fit in a step: MaxNumBatchedTokens %d is below MaxModelLen %d",
			c.MaxNumBatchedTokens, c.MaxModelLen)
	}
	return c, nil
}

func (k Constants) validate() error {
	for _, f := range []struct {
		what  string
		value float64
	}{
		{"EtaCompute", k.EtaCompute}, {"EtaMemory", k.EtaMemory},
		{"EtaKV", k.EtaKV}, {"EtaAttention", k.EtaAttention},
	} {
		if !(f.value > 0) || f.value > 1 {
			return fmt.Errorf("%s is %v (above 0, at most 1)", f.what, f.value)
		}
	}
	for _, v := range []float64{k.Elementwise, k.StepUs, k.LayerUs, k.RequestUs, k.MoELayerUs, k.ShardLoss} {
		if !(v >= 0) || math.IsInf(v, 0) {
			return fmt.Errorf("a constant of the step time is %v", v)
		}
	}
	return nil
}
