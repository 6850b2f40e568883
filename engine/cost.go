package engine

import "math"

// Constants are the fitted part of the step-time model. The defaults are
// generic: one set for every GPU and model, from published kernel profiles
// (GEMM efficiency 0.65 to 0.77, effective memory bandwidth 0.75 to 0.89 on
// A100, H100 and A40 alike). Against two recorded vLLM 0.19 runs they are
// within 3 % without fitting (RTX PRO 6000) and 20 % (RTX 4090); setting
// EtaMemory = EtaKV = 0.92 and Elementwise = 0.05 once brings the latter
// within 5 %.
type Constants struct {
	EtaCompute   float64 // share of peak FLOP/s that linear layers reach
	EtaMemory    float64 // share of peak bandwidth that weight reads reach
	EtaKV        float64 // share of peak bandwidth that KV reads reach
	EtaAttention float64 // share of peak FLOP/s that prefill attention reaches
	Elementwise  float64 // elementwise kernels, as a share of linear compute
	// ShardLoss lowers EtaMemory for each doubling of tensor parallelism,
	// whose smaller shards read less efficiently.
	ShardLoss float64
	// Fixed costs in microseconds: of a step, per layer, per request in the
	// batch, per layer with experts.
	StepUs, LayerUs, RequestUs, MoELayerUs float64
}

// DefaultConstants returns the generic set.
func DefaultConstants() Constants {
	return Constants{
		EtaCompute: 0.72, EtaMemory: 0.80, EtaKV: 0.75, EtaAttention: 0.45,
		Elementwise: 0.09, ShardLoss: 0.06,
		StepUs: 600, LayerUs: 10, RequestUs: 4, MoELayerUs: 60,
	}
}

// batch is what a step computes. Integer sums, so that taking a preempted
// request out again leaves exactly what would have been there without it.
type batch struct {
	requests int
	tokens   int
	rows     int   // sampled rows of the output head
	context  int64 // sum of cached context read by attention, tokens
	// everywhere is tokens with those of the other replicas that share the
	// experts; 0 takes the others to be as loaded as this one.
	everywhere int
	square     int64 // sum of q(2c+q) over rows with q > 1: twice the attention area
}

func (b *batch) add(q, c, rows int)    { b.change(1, q, c, rows) }
func (b *batch) remove(q, c, rows int) { b.change(-1, q, c, rows) }

func (b *batch) change(sign, q, c, rows int) {
	b.requests += sign
	b.tokens += sign * q
	b.rows += sign * rows
	b.context += int64(sign * c)
	if q > 1 {
		b.square += int64(sign) * int64(q) * int64(2*c+q)
	}
}

// cost turns a batch into seconds; all factors are worked out beforehand.
//
//	T_lin  = (T_c^3 + T_m^3)^(1/3)   compute and weight reads, blended
//	T_head = max(compute, read of the output head)
//	T_attn = prefill attention FLOPs + KV reads
//	T_comm = two all-reduces a layer (and dispatch and combine of experts)
//	T_ov   = fixed costs of step, layers and requests
//
// A hard max instead of the blend is wrong by up to 40 % near the ridge.
type cost struct {
	replicas     float64 // that share the experts
	perToken     float64 // T_c of the weights that all tokens use
	perExpert    float64 // T_c of the experts, per token
	readShared   float64 // T_m of the weights that all tokens use
	readExperts  float64 // T_m of all experts
	missShare    float64 // probability that a token misses an expert, (1-k/E)
	headCompute  float64 // per row
	headRead     float64
	attention    float64 // per unit of batch.square
	kvRead       float64 // per token of context
	commFixed    float64
	commPerToken float64
	fixed        float64
	perRequest   float64
}

func newCost(cfg Config) cost {
	g, m, k := cfg.GPU, cfg.Model, cfg.Constants
	n, ep := float64(cfg.TP), float64(cfg.EP)
	peak := g.flops(m.WeightBits) * n
	bf16 := g.BF16TFLOPS * 1e12 * n
	bandwidth := g.MemoryGBps * 1e9 * n
	etaMemory := k.EtaMemory * (1 - k.ShardLoss*math.Log2(n))
	layers := float64(m.Layers)

	replicas := max(1, ep/n)
	share, moeFixed := 0.0, 0.0
	if m.Experts > 0 {
		share = float64(m.ExpertsPerToken) / float64(m.Experts)
		moeFixed = layers * k.MoELayerUs * 1e-6
	}
	compute := 2 * (1 + k.Elementwise) / (k.EtaCompute * peak)
	c := cost{
		replicas:    replicas,
		perToken:    m.sharedParams() * compute,
		perExpert:   m.expertParams() * share * compute,
		readShared:  m.sharedParams() * bytesOf(m.WeightBits) / (etaMemory * bandwidth),
		readExperts: m.expertParams() * cfg.expertShare() * bytesOf(m.WeightBits) / (etaMemory * bandwidth),
		missShare:   1 - share,
		headCompute: 2 * m.headParams() / (k.EtaCompute * bf16),
		headRead:    2 * m.headParams() / (etaMemory * bandwidth),
		attention:   2 * layers * float64(m.DQ) / (k.EtaAttention * bf16),
		kvRead:      m.KVBytesPerToken() / (k.EtaKV * bandwidth),
		fixed:       (k.StepUs+k.LayerUs*layers)*1e-6 + moeFixed,
		perRequest:  k.RequestUs * 1e-6,
	}
	tokenTime := float64(m.DModel) * 2 / (g.BusGBps * 1e9) // one activation, 16 bit
	if cfg.TP > 1 {
		c.commFixed = 2 * layers * g.AllReduceUs * 1e-6
		c.commPerToken = 2 * layers * 2 * (n - 1) / n * tokenTime
	}
	if cfg.EP > cfg.TP {
		// Dispatch and combine: each replica's tokens to and from all others.
		c.commFixed += 2 * layers * g.AllReduceUs * 1e-6
		c.commPerToken += 2 * layers * (replicas - 1) * tokenTime
	}
	return c
}

// flops is the peak for weights of that precision; weights in a format that
// the GPU cannot multiply are expanded to BF16.
func (g GPU) flops(bits int) float64 {
	switch {
	case bits == 8 && g.FP8TFLOPS > 0:
		return g.FP8TFLOPS * 1e12
	case bits == 4 && g.FP4TFLOPS > 0:
		return g.FP4TFLOPS * 1e12
	}
	return g.BF16TFLOPS * 1e12
}

// linear is T_lin for n tokens here and that many in all replicas. The local
// experts serve the tokens of all, evenly.
func (c *cost) linear(n, everywhere float64) float64 {
	compute := c.perToken*n + c.perExpert*everywhere/c.replicas
	read := c.readShared
	if c.readExperts > 0 {
		read += c.readExperts * (1 - math.Pow(c.missShare, everywhere))
	}
	return math.Cbrt(compute*compute*compute + read*read*read)
}

// seconds is the time of one step.
func (c *cost) seconds(b batch) float64 {
	if b.tokens == 0 {
		return c.fixed
	}
	n, everywhere := float64(b.tokens), float64(b.everywhere)
	if b.everywhere == 0 {
		everywhere = n * c.replicas
	}
	head := 0.0
	if b.rows > 0 {
		head = max(c.headCompute*float64(b.rows), c.headRead)
	}
	return c.fixed + c.perRequest*float64(b.requests) +
		c.linear(n, everywhere) + head +
		c.attention*float64(b.square) + c.kvRead*float64(b.context) +
		c.commFixed + c.commPerToken*n
}
