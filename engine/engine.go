package engine

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Engine is one simulated engine. It is not safe for concurrent use.
type Engine struct {
	cfg     Config
	cost    cost
	pool    *kvPool
	waiting queue
	running []*Request // in order of admission
	rng     *rand.Rand
	sigma   float64 // of the lognormal noise
	reserve int     // blocks that admission leaves free
	serial  uint64
	last    int64 // no step starts before this

	batch  batch
	budget int
	step   Step
	hits   []int32   // scratch of the prefix-cache look-up
	spare  [][]int32 // block lists of finished requests, for reuse
}

// New returns an idle engine with an empty cache. It refuses a configuration
// under which a real server would not start.
func New(c Config) (*Engine, error) {
	c, err := c.resolve()
	if err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	return &Engine{
		cfg:     c,
		cost:    newCost(c),
		pool:    newKVPool(c.KVBlocks),
		waiting: queue{byPriority: c.ByPriority},
		rng:     rand.New(rand.NewPCG(c.Seed, 0x656e67696e65)),
		sigma:   math.Sqrt(math.Log1p(c.NoiseCV * c.NoiseCV)),
		reserve: int(c.Watermark * float64(c.KVBlocks)),
		last:    math.MinInt64,
	}, nil
}

// Config returns the configuration as resolved: KVBlocks and MaxModelLen are
// what the engine works with.
func (e *Engine) Config() Config { return e.cfg }

// Running is the number of admitted requests, those still in prefill
// included.
func (e *Engine) Running() int { return len(e.running) }

// Waiting is the number of requests that wait for admission, preempted ones
// included.
func (e *Engine) Waiting() int { return e.waiting.len() }

// KVUsage is the share of KV blocks that requests hold, 0 to 1. Cached blocks
// that nobody holds count as free.
func (e *Engine) KVUsage() float64 {
	return 1 - float64(e.pool.free)/float64(e.pool.usable())
}

// HasWork reports whether any request is waiting or running.
func (e *Engine) HasWork() bool { return len(e.running) > 0 || e.waiting.len() > 0 }

// ResetPrefixCache forgets all cached blocks. It does nothing and returns
// false while any request holds memory, as vLLM does.
func (e *Engine) ResetPrefixCache() bool { return e.pool.reset() }

// Add makes r waiting from now on. It returns an error, and leaves r alone, if
// r could never finish; see ErrTooLong and its neighbours. A finished or
// aborted request may be added again.
func (e *Engine) Add(now int64, r *Request) error {
	switch {
	case r.state == stateWaiting || r.state == stateRunning:
		return ErrInFlight
	case r.PromptTokens < 0 || r.OutputTokens < 0:
		return fmt.Errorf("%w: prompt %d, output %d", ErrNegative, r.PromptTokens, r.OutputTokens)
	case r.PromptTokens == 0:
		return ErrEmptyPrompt
	case r.PromptTokens > e.cfg.MaxModelLen || r.OutputTokens > e.cfg.MaxModelLen-r.PromptTokens:
		return fmt.Errorf("%w: %d prompt and %d output tokens, at most %d together",
			ErrTooLong, r.PromptTokens, r.OutputTokens, e.cfg.MaxModelLen)
	}
	e.serial++
	r.serial = e.serial
	r.state = stateWaiting
	r.Queued, r.FirstScheduled, r.FirstToken, r.LastToken = now, 0, 0, 0
	r.Generated, r.CachedTokens, r.Preemptions = 0, 0, 0
	r.computed, r.sched, r.drafts, r.cached, r.blocks = 0, 0, 0, 0, nil
	e.last = max(e.last, now)
	e.waiting.push(r)
	return nil
}

// Abort takes r out because its client went away, and frees all it held. If
// the latest Step has an output for r that is not delivered yet, the driver
// drops it. Aborting a request that is not in the engine does nothing.
func (e *Engine) Abort(now int64, r *Request) {
	switch r.state {
	case stateWaiting:
		e.waiting.remove(r)
		r.blocks = nil // only remembered, not held
	case stateRunning:
		i := slices.Index(e.running, r)
		e.running = slices.Delete(e.running, i, i+1)
		e.free(r)
	default:
		return
	}
	r.state = stateDone
}

// free gives back all blocks of a running request that ends.
func (e *Engine) free(r *Request) {
	e.pool.releaseAll(r.blocks)
	e.spare = append(e.spare, r.blocks[:0])
	r.blocks = nil
}

// duration draws the time of the current batch, ns, at least 1.
func (e *Engine) duration() int64 {
	t := e.cost.seconds(e.batch)
	if s := e.cfg.Spec; s != nil && e.step.Drafts > 0 {
		drafts := float64(e.step.Drafts)
		one := e.cost.linear(drafts, drafts*e.cost.replicas) + e.cost.headRead
		t += float64(s.DraftTokens) * s.DraftCost * one
	}
	if e.sigma > 0 {
		t *= math.Exp(e.sigma*e.rng.NormFloat64() - e.sigma*e.sigma/2)
	}
	return max(1, int64(math.Round(t*1e9)))
}
