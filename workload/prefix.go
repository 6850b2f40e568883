package workload

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"

	"github.com/assay-bench/assay/record"
)

// Prefix makes prompts share their beginnings on purpose, so that a prefix cache
// has something to find. Without it no two prompts of a run share a block.
type Prefix struct {
	// Tokens of each shared prefix, drawn once a pool. It counts within
	// prompt_tokens; a shorter prompt takes as much of the prefix as it is long.
	Tokens Length `yaml:"tokens" json:"tokens"`
	// Pools is how many distinct prefixes there are; 0 is one.
	Pools int `yaml:"pools,omitempty" json:"pools,omitzero"`
	// Share of the requests that begin with a shared prefix; 0 is all.
	Share float64 `yaml:"share,omitempty" json:"share,omitzero"`
	// Pick is how a request comes by its pool: uniform (if left out) or zipf, the
	// k-th pool with a chance in proportion to k^-Exponent (1 if left out).
	Pick     string  `yaml:"pick,omitempty" json:"pick,omitzero"`
	Exponent float64 `yaml:"exponent,omitempty" json:"exponent,omitzero"`
}

// PickUniform and PickZipf are the ways to pick a pool.
const (
	PickUniform = "uniform"
	PickZipf    = "zipf"
)

// SaltRun and SaltRequest are the scopes of a cache_salt: one for all requests of
// a run, or one for each, which rules out all sharing.
const (
	SaltRun     = "run"
	SaltRequest = "request"
)

const maxPools = 1_000_000

// check passes what is wrong to field, by its name.
func (x *Prefix) check(field func(string, error)) {
	field("prefix.tokens", x.Tokens.Validate())
	if x.Tokens.Dist == FromTrace {
		field("prefix.tokens", errors.New("a trace does not have it"))
	}
	if x.Pools < 0 || x.Pools > maxPools {
		field("prefix.pools", fmt.Errorf("%d is not within 1 and %d", x.Pools, maxPools))
	}
	if !(x.Share >= 0 && x.Share <= 1) {
		field("prefix.share", fmt.Errorf("%v is not within 0 and 1", x.Share))
	}
	switch {
	case x.Pick != "" && x.Pick != PickUniform && x.Pick != PickZipf:
		field("prefix.pick", fmt.Errorf("%q is not known: want uniform or zipf", x.Pick))
	case x.Exponent != 0 && x.Pick != PickZipf:
		field("prefix.exponent", errors.New("only pick: zipf has one"))
	case !(x.Exponent >= 0 && x.Exponent <= 100):
		field("prefix.exponent", fmt.Errorf("%v is not within 0 and 100", x.Exponent))
	}
}

func (x *Prefix) describe() string {
	share := "prompts begin"
	if x.Share > 0 && x.Share < 1 {
		share = fmt.Sprintf("%.4g %% of prompts begin", 100*x.Share)
	}
	if x.Pools <= 1 {
		return fmt.Sprintf("; %s with one shared prefix, %s tokens", share, x.Tokens.describe())
	}
	pick := PickUniform
	if x.Pick == PickZipf {
		pick = fmt.Sprintf("zipf %v", x.exponent())
	}
	return fmt.Sprintf("; %s with one of %d shared prefixes, %s tokens, picked %s", share, x.Pools, x.Tokens.describe(), pick)
}

func (x *Prefix) exponent() float64 {
	if x.Exponent == 0 {
		return 1
	}
	return x.Exponent
}

// prefixDraws gives requests their prefixes. What a request gets depends on the
// seed and its index alone.
type prefixDraws struct {
	spec    *Prefix
	key     uint64
	lengths *sampler
	pools   *sampler
	pcg     rand.PCG // starts anew at every draw
	rand    *rand.Rand
}

func newPrefixDraws(spec *Prefix, seed uint64) (*prefixDraws, error) {
	if spec == nil {
		return nil, nil
	}
	lengths, err := spec.Tokens.sampler()
	if err != nil {
		return nil, fmt.Errorf("planning the workload: prefix.tokens: %w", err)
	}
	d := &prefixDraws{spec: spec, key: stream(seed, "prefixes").Uint64(), lengths: lengths}
	d.rand = rand.New(&d.pcg)
	n := max(spec.Pools, 1)
	pick := Length{Dist: Uniform, Min: 1, Max: n}
	if spec.Pick == PickZipf && n > 1 {
		pick = Length{Dist: Zipf, Exponent: spec.exponent(), Min: 1, Max: n}
	}
	if d.pools, err = pick.sampler(); err != nil {
		return nil, fmt.Errorf("planning the workload: prefix.pools: %w", err)
	}
	return d, nil
}

// give sets the pool and the length of r's prefix, cut to its prompt.
func (d *prefixDraws) give(r *record.Request) {
	if d == nil {
		return
	}
	d.pcg.Seed(d.key, uint64(r.Index))
	if share := d.spec.Share; share > 0 && d.rand.Float64() >= share {
		return
	}
	r.PrefixPool = d.pools.draw(d.rand)
	// Drawn again each time, so that a million pools take no memory.
	d.pcg.Seed(^d.key, uint64(r.PrefixPool))
	n := d.lengths.draw(d.rand)
	r.PrefixTokens = min(n, r.PromptTokens)
}

// PrefixHashes are the prefix-cache hashes of the full blocks of what r shares
// with others, its prefix or the blocks of its trace, each chained to those before;
// nil if it shares nothing. Blocks past them are r's own.
func PrefixHashes(r *record.Request, blockSize int) []uint64 {
	if blockSize < 1 || r.CacheSalt == SaltRequest {
		return nil
	}
	if len(r.Blocks) > 0 {
		return blockHashes(r, blockSize)
	}
	if r.PrefixPool == 0 {
		return nil
	}
	out := make([]uint64, r.PrefixTokens/blockSize)
	var p rand.PCG
	p.Seed(uint64(r.PrefixPool), math.MaxUint64)
	for i := range out {
		out[i] = p.Uint64()
	}
	return out
}

// blockHashes chains what lies in each block of the cache: of which recorded blocks
// it has which tokens.
func blockHashes(r *record.Request, blockSize int) []uint64 {
	tokens := min(r.PromptTokens, len(r.Blocks)*r.BlockTokens)
	out := make([]uint64, tokens/blockSize)
	h := uint64(0)
	for i := range out {
		for at, end := i*blockSize, (i+1)*blockSize; at < end; {
			k, from := at/r.BlockTokens, at%r.BlockTokens
			n := min(end-at, r.BlockTokens-from)
			h = spreadBits(spreadBits(h^r.Blocks[k]) + uint64(from)<<32 + uint64(n))
			at += n
		}
		out[i] = h
	}
	return out
}

// Sharing is what a prefix cache could save, at most.
type Sharing struct {
	// PromptTokens of all requests, and HitTokens of these that an infinite cache
	// would have found: full blocks that an earlier request began with.
	PromptTokens int64 `json:"prompt_tokens"`
	HitTokens    int64 `json:"hit_tokens"`
	BlockSize    int   `json:"block_size_tokens"`
}

// HitRate is the share of prompt tokens that are hits, 0 to 1.
func (s Sharing) HitRate() float64 {
	if s.PromptTokens == 0 {
		return 0
	}
	return float64(s.HitTokens) / float64(s.PromptTokens)
}

// SharingCounter counts the planned sharing of requests in their order. As in
// vLLM, the last token of a prompt is always computed.
type SharingCounter struct {
	mu sync.Mutex // one may ask while another draws
	s  Sharing
	// seen is how many blocks of a pool are known.
	seen map[int]int
	// tokens known of each recorded block, by all blocks up to it.
	tokens map[uint64]int
}

// mostBlocks that are remembered; those that come later are never hits.
const mostBlocks = 1 << 22

// NewSharingCounter counts in blocks of so many tokens.
func NewSharingCounter(blockSize int) *SharingCounter {
	return &SharingCounter{s: Sharing{BlockSize: blockSize}, seen: map[int]int{}, tokens: map[uint64]int{}}
}

// Add counts a request.
func (c *SharingCounter) Add(r *record.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.s.PromptTokens += int64(r.PromptTokens)
	if r.CacheSalt == SaltRequest {
		return
	}
	known := 0
	switch {
	case len(r.Blocks) > 0:
		known = c.addBlocks(r)
	case r.PrefixPool > 0:
		known = min(r.PrefixTokens, c.seen[r.PrefixPool])
		c.seen[r.PrefixPool] = max(r.PrefixTokens, c.seen[r.PrefixPool])
	}
	c.s.HitTokens += int64(min(known, r.PromptTokens-1) / c.s.BlockSize * c.s.BlockSize)
}

// addBlocks is how many tokens from the start on were in an earlier request.
func (c *SharingCounter) addBlocks(r *record.Request) (known int) {
	chain, live := uint64(0), true
	for i, b := range r.Blocks {
		chain = spreadBits(chain ^ b)
		n := min(r.BlockTokens, r.PromptTokens-i*r.BlockTokens)
		before, ok := c.tokens[chain]
		if live {
			known += min(before, n)
		}
		live = live && before >= n
		if n > before && (ok || len(c.tokens) < mostBlocks) {
			c.tokens[chain] = n
		}
	}
	return known
}

// Sharing is what was counted so far.
func (c *SharingCounter) Sharing() Sharing {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.s
}
