package engine

import (
	"math"
	"testing"
)

func within(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.Abs(got/want-1) > tolerance {
		t.Errorf("%s: got %.4g, want %.4g within %.0f%%", what, got, want, 100*tolerance)
	}
}

// The values are those of the generic constants for Llama-3.1-8B on an H100.
func TestDecodeStepTimeGrowsWithBatch(t *testing.T) {
	c := newCost(DefaultConfig())
	for _, want := range []struct {
		requests int
		ms       float64
	}{{1, 6.6}, {8, 7.0}, {32, 8.3}, {64, 10.2}, {128, 14.0}, {256, 22.4}} {
		var b batch
		for range want.requests {
			b.add(1, 1000, 1)
		}
		within(t, "step", c.seconds(b)*1e3, want.ms, 0.01)
	}
}

func TestPrefillFillsTheBudget(t *testing.T) {
	c := newCost(DefaultConfig())
	for _, want := range []struct {
		budget int
		ms     float64
	}{{256, 11}, {512, 17}, {1024, 31}, {2048, 59}, {4096, 120}, {8192, 256}} {
		var b batch
		for range 32 {
			b.add(1, 1000, 1)
		}
		b.add(want.budget-32, 4096, 0)
		within(t, "step", c.seconds(b)*1e3, want.ms, 0.035)
	}
}

func TestStepTimeIsMonotonic(t *testing.T) {
	tables := DefaultTables()
	for _, g := range tables.GPUs {
		for _, m := range tables.Models {
			c := newCost(ConfigFor(g, m, 4))
			last := 0.0
			for n := 1; n <= 16384; n *= 2 {
				var b batch
				b.add(n, 1000, 1)
				now := c.seconds(b)
				if !(now > last) || math.IsInf(now, 0) {
					t.Errorf("%s on %s: %d tokens take %v s, half as many %v s", m.Name, g.Name, n, now, last)
				}
				last = now
			}
		}
	}
}

// A batch must not remember a request that was taken out again.
func TestBatchRemoveUndoesAdd(t *testing.T) {
	var b batch
	b.add(1, 777, 1)
	before := b
	b.add(513, 4097, 0)
	b.remove(513, 4097, 0)
	if b != before {
		t.Errorf("got %+v, want %+v", b, before)
	}
}

// One expert layer reads few experts for one token and nearly all for 128.
func TestExpertsTouchedGrowWithBatch(t *testing.T) {
	tables := DefaultTables()
	c := newCost(ConfigFor(tables.GPUs["h100"], tables.Models["qwen3-30b-a3b"], 1))
	for n, share := range map[int]float64{1: 0.0625, 8: 0.40, 32: 0.87, 128: 1.0} {
		within(t, "experts touched", 1-math.Pow(c.missShare, float64(n)), share, 0.02)
	}
}

func TestTensorParallelismIsFasterButNotFree(t *testing.T) {
	tables := DefaultTables()
	step := func(gpu string, tp int) float64 {
		c := newCost(ConfigFor(tables.GPUs[gpu], tables.Models["qwen3-32b"], tp))
		var b batch
		for range 32 {
			b.add(1, 1000, 1)
		}
		return c.seconds(b)
	}
	one, two := step("h200", 1), step("h200", 2)
	if speedup := one / two; speedup < 1.3 || speedup > 1.95 {
		t.Errorf("two H200 are %.2f times as fast as one", speedup)
	}
	// Over PCIe the all-reduce of a large prefill dominates.
	pcie := newCost(ConfigFor(tables.GPUs["rtx-pro-6000"], tables.Models["qwen3-32b"], 2))
	if ratio := pcie.commPerToken / pcie.perToken; ratio < 0.5 {
		t.Errorf("all-reduce over PCIe is %.2f of compute", ratio)
	}
}

// Spreading experts over replicas lowers what one GPU reads and holds, and
// adds an exchange.
func TestExpertParallelism(t *testing.T) {
	tables := DefaultTables()
	alone := ConfigFor(tables.GPUs["rtx-pro-6000"], tables.Models["qwen3-30b-a3b"], 1)
	spread := alone
	spread.EP = 2
	a, s := newCost(alone), newCost(spread)
	within(t, "experts read", s.readExperts, a.readExperts/2, 1e-9)
	if a.commPerToken != 0 || s.commPerToken <= 0 || s.commFixed <= 0 {
		t.Errorf("exchange: alone %v, spread %v", a.commPerToken, s.commPerToken)
	}
	if extra := float64(spread.KVCapacityTokens() - alone.KVCapacityTokens()); extra*spread.Model.KVBytesPerToken() < 25e9 {
		t.Errorf("only %.0f more tokens of KV", extra)
	}
}

func TestFP8HalvesWeightsAndCompute(t *testing.T) {
	cfg := DefaultConfig()
	eight := cfg
	eight.Model.WeightBits, eight.Model.KVBits = 8, 8
	a, b := newCost(cfg), newCost(eight)
	within(t, "compute", b.perToken, a.perToken/2, 1e-9)
	within(t, "weights read", b.readShared, a.readShared/2, 1e-9)
	within(t, "KV read", b.kvRead, a.kvRead/2, 1e-9)
	eight.GPU = DefaultTables().GPUs["a100-80"] // has no FP8
	cfg.GPU = eight.GPU
	within(t, "compute without FP8", newCost(eight).perToken, newCost(cfg).perToken, 1e-9)
}

// The floor of a decode step, ms, and prefill, thousand tokens a second, of
// every model on the least number of GPUs that hold it: what weights,
// bandwidth and arithmetic alone allow.
func TestFloorsAndPrefillSpeed(t *testing.T) {
	tables := DefaultTables()
	for _, c := range []struct {
		gpu, model   string
		tp           int
		floor, speed float64
	}{
		{"a100-80", "llama-3.1-8b", 1, 9.2, 15},
		{"l40s", "llama-3.1-8b", 1, 21.7, 17},
		{"h100", "llama-3.1-8b", 1, 5.6, 47},
		{"h200", "llama-3.1-8b", 1, 3.9, 47},
		{"b200", "llama-3.1-8b", 1, 2.4, 106},
		{"a100-80", "qwen3-14b", 1, 17.2, 7.8},
		{"l40s", "qwen3-14b", 1, 40.5, 9.1},
		{"h100", "qwen3-32b", 2, 11.9, 21},
		{"b200", "qwen3-32b", 1, 10.4, 24},
		{"a100-80", "llama-3.3-70b", 4, 21.3, 6.0},
		{"h200", "llama-3.3-70b", 2, 18.1, 9.5},
		{"h100", "qwen3-30b-a3b", 1, 2.3, 120},
		{"b200", "qwen3-30b-a3b", 1, 1.0, 273},
	} {
		cfg := ConfigFor(tables.GPUs[c.gpu], tables.Models[c.model], c.tp)
		cfg.Constants.ShardLoss = 0
		k := newCost(cfg)
		floor := k.readShared + k.readExperts*(1-k.missShare) + k.headRead
		within(t, c.model+" on "+c.gpu+": floor", floor*1e3, c.floor, 0.05)
		within(t, c.model+" on "+c.gpu+": prefill", 1e-3/(k.perToken+k.perExpert), c.speed, 0.05)
	}
}
