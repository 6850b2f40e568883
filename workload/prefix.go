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
	// prompt_tokens; a shorter prompt takes as much of the prefix as it is long. In
	// sessions the first prompts have it, on top of their length.
	Tokens Length `yaml:"tokens" json:"tokens"`
	// Pools is how many distinct prefixes there are; 0 is one.
	Pools int `yaml:"pools,omitempty" json:"pools,omitzero"`
	// Share of the requests, or sessions, that begin with a shared prefix; 0 is all.
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

// The scopes of a cache_salt: one for all requests of a run; one for each session,
// whose turns then share their history and nothing with other sessions; or one for
// each request, which rules out all sharing.
const (
	SaltRun     = "run"
	SaltSession = "session"
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

// describe says what begins with a prefix: prompts, first prompts.
func (x *Prefix) describe(what string) string {
	share := what + " begin"
	if x.Share > 0 && x.Share < 1 {
		share = fmt.Sprintf("%.4g %% of %s begin", 100*x.Share, what)
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

// prefixDraws gives requests, or sessions, their prefixes. What one gets depends on
// the seed and its index alone.
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

// draw is the pool of an index, from 1, and how long its prefix is; 0 for none.
func (d *prefixDraws) draw(index int64) (pool, tokens int) {
	if d == nil {
		return 0, 0
	}
	d.pcg.Seed(d.key, uint64(index))
	if share := d.spec.Share; share > 0 && d.rand.Float64() >= share {
		return 0, 0
	}
	pool = d.pools.draw(d.rand)
	// Drawn again each time, so that a million pools take no memory.
	d.pcg.Seed(^d.key, uint64(pool))
	return pool, d.lengths.draw(d.rand)
}

// bounds are the shortest and longest that there may be.
func (d *prefixDraws) bounds() (shortest, longest int) {
	if d == nil {
		return 0, 0
	}
	shortest, longest = d.spec.Tokens.Bounds()
	if s := d.spec.Share; s > 0 && s < 1 {
		shortest = 0
	}
	return shortest, longest
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
	h := saltOf(r)
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

// SharingCounter sums up what requests share as planned. As in vLLM, the last token
// of a prompt is always computed.
type SharingCounter struct {
	mu sync.Mutex // one may ask while another counts
	s  Sharing
}

// NewSharingCounter counts in blocks of so many tokens.
func NewSharingCounter(blockSize int) *SharingCounter {
	return &SharingCounter{s: Sharing{BlockSize: blockSize}}
}

// Add counts a request.
func (c *SharingCounter) Add(r *record.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.s.PromptTokens += int64(r.PromptTokens)
	c.s.HitTokens += int64(max(0, min(r.KnownTokens, r.PromptTokens-1)) / c.s.BlockSize * c.s.BlockSize)
}

// Sharing is what was counted so far.
func (c *SharingCounter) Sharing() Sharing {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.s
}

// knownTokens remembers what requests began with, in planned order.
type knownTokens struct {
	// prefixes are the tokens known of each pool's.
	prefixes map[int]int
	// blocks are the tokens known of each recorded block, by all blocks up to it.
	blocks map[uint64]int
	// users whose prefix was behind that of a pool; and whether a session began.
	users    map[userBehind]bool
	sessions bool
}

// userBehind is a user's prefix behind that of a pool (0 for none).
type userBehind struct {
	pool int
	user int64
}

// mostKnown entries are remembered of each; what comes later is never known.
const mostKnown = 1 << 22

func newKnownTokens() *knownTokens {
	return &knownTokens{prefixes: map[int]int{}, blocks: map[uint64]int{}, users: map[userBehind]bool{}}
}

// request is how many tokens of the start of r are known, and learns them.
func (k *knownTokens) request(r *record.Request) int {
	switch {
	case r.CacheSalt == SaltRequest:
		return 0
	case len(r.Blocks) > 0:
		return k.recorded(0, r.Blocks, r.BlockTokens, r.PromptTokens)
	case r.PrefixPool > 0:
		return k.prefix(r.PrefixPool, r.PrefixTokens)
	}
	return 0
}

func (k *knownTokens) prefix(pool, tokens int) int {
	known := min(tokens, k.prefixes[pool])
	k.prefixes[pool] = max(tokens, k.prefixes[pool])
	return known
}

// recorded is how many tokens of a prompt of recorded blocks are known. The chain
// starts from a number of the salt.
func (k *knownTokens) recorded(chain uint64, blocks []uint64, size, prompt int) (known int) {
	live := true
	for i, b := range blocks {
		chain = spreadBits(chain ^ b)
		n := min(size, prompt-i*size)
		before, ok := k.blocks[chain]
		if live {
			known += min(before, n)
		}
		live = live && before >= n
		if n > before && (ok || len(k.blocks) < mostKnown) {
			k.blocks[chain] = n
		}
	}
	return known
}

// opening is how many tokens of the start of a session are known: of what all
// sessions have, of the pool's prefix and of the user's, each behind the others.
func (k *knownTokens) opening(s *Session, all int, again bool) (known int) {
	if k.sessions {
		known = all
	}
	k.sessions = true
	if s.PrefixPool > 0 {
		known += k.prefix(s.PrefixPool, s.PrefixTokens)
	}
	if !again || s.UserTokens == 0 {
		return known
	}
	u := userBehind{s.PrefixPool, s.User}
	switch {
	case k.users[u]:
		known += s.UserTokens
	case len(k.users) < mostKnown:
		k.users[u] = true
	}
	return known
}
