package workload

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/assay-bench/assay/dataset"
	"github.com/assay-bench/assay/record"
)

// blockTrace has rows that share beginnings at random, in blocks of 512 tokens, as
// Mooncake's have: a conversation goes on from any earlier one, and ids count up.
func blockTrace(t *testing.T, n int) string {
	t.Helper()
	rng := rand.New(rand.NewPCG(5, 6))
	var b strings.Builder
	var before [][]int
	fresh := 0
	for i := range n {
		var ids []int
		if len(before) > 0 && rng.IntN(3) > 0 {
			from := before[rng.IntN(len(before))]
			ids = slices.Clone(from[:rng.IntN(len(from)+1)])
		}
		for range rng.IntN(5) {
			fresh++
			ids = append(ids, fresh)
		}
		if len(ids) == 0 {
			fresh++
			ids = append(ids, fresh)
		}
		// The last block is in part, but for one row of four.
		tokens := len(ids)*512 - (rng.IntN(4)+3)/4*rng.IntN(512)
		if i%7 == 3 {
			tokens = len(ids) * 512
		}
		before = append(before, ids)
		fmt.Fprintf(&b, `{"timestamp": %d, "input_length": %d, "output_length": 4, "hash_ids": %s}`+"\n", i*100, tokens, strings.ReplaceAll(fmt.Sprint(ids), " ", ","))
	}
	file := filepath.Join(t.TempDir(), "blocks.jsonl")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func blockSpec(file string) Spec {
	return with(func(s *Spec) {
		s.Arrival, s.Trace = Arrival{Process: ByTrace}, &Trace{File: file}
		s.PromptTokens, s.OutputTokens = Length{Dist: FromTrace}, Length{Dist: FromTrace}
	})
}

func tracePlan(t *testing.T, s Spec, seed uint64) *Plan {
	t.Helper()
	f, err := OpenTrace(s, seed)
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewTracePlan(s, seed, f.Rows)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// infiniteCache is the dumb oracle of a prefix cache: a tree of the blocks of every
// prompt that came by, each by its tokens and the one before it.
type infiniteCache struct {
	block int
	nodes map[string]int
}

// hit is how many tokens of the prompt are known, and learns it.
func (c *infiniteCache) hit(ids []int32) int {
	hit, live, at := 0, true, 0
	for end := c.block; end <= len(ids); end += c.block {
		key := fmt.Sprint(at, ids[end-c.block:end])
		next, known := c.nodes[key]
		if live = live && known && end < len(ids); live {
			hit = end
		}
		if !known {
			next = len(c.nodes) + 1
			c.nodes[key] = next
		}
		at = next
	}
	return hit
}

// TestBlocks: prompts of a trace with hash ids share exactly what was recorded. The
// token ids themselves, the hashes for the engine and the ids of the trace give one
// and the same hits, for blocks of the cache that divide the recorded ones and for
// such that do not.
func TestBlocks(t *testing.T) {
	file := blockTrace(t, 300)
	for _, block := range []int{16, 48, 512} {
		t.Run(fmt.Sprint(block), func(t *testing.T) {
			p := tracePlan(t, blockSpec(file), 3)
			if !p.Shares() {
				t.Fatal("the plan shares nothing")
			}
			content := Uncalibrated(CalibrateOptions{Nonce: "n"})
			content.ids = make([]int32, 200)
			for i := range content.ids {
				content.ids[i] = int32(1000 + i)
			}
			cache := infiniteCache{block, map[string]int{}}
			known := map[uint64]bool{}
			hits, hashed := 0, 0
			for {
				r, ok := p.Next()
				if !ok {
					break
				}
				p.Due(&r)
				for i, h := range PrefixHashes(&r, block) {
					if !known[h] || (i+1)*block >= r.PromptTokens {
						break
					}
					hashed += block
				}
				for _, h := range PrefixHashes(&r, block) {
					known[h] = true
				}
				content.Fill(&r)
				if len(r.Prompt.TokenIDs) != r.PromptTokens {
					t.Fatalf("request %d has %d tokens, want %d", r.Index, len(r.Prompt.TokenIDs), r.PromptTokens)
				}
				hits += cache.hit(r.Prompt.TokenIDs)
			}
			if s := p.Sharing(); block == s.BlockSize && s.HitTokens != int64(hits) {
				t.Errorf("%d tokens of the prompts are hits, the plan counted %+v", hits, *s)
			}
			if hits == 0 || hits != hashed {
				t.Errorf("%d tokens of the prompts are hits, %d by their hashes", hits, hashed)
			}
		})
	}
}

// TestBlockTexts: as texts of words too, prompts begin alike exactly where their
// blocks do, and otherwise under another nonce.
func TestBlockTexts(t *testing.T) {
	for _, words := range []bool{true, false} {
		text := func(nonce string, r record.Request) string {
			c := Uncalibrated(CalibrateOptions{Nonce: nonce})
			c.additive = words
			c.Fill(&r)
			return r.Prompt.Text
		}
		of := func(index int64, tokens int, blocks ...uint64) record.Request {
			return record.Request{Index: index, PromptTokens: tokens, Blocks: blocks, BlockTokens: 32}
		}
		common := func(a, b string) int {
			x, y := strings.Fields(a), strings.Fields(b)
			n := 0
			for n < len(x) && n < len(y) && x[n] == y[n] {
				n++
			}
			return n - 1 // the lead
		}
		a := text("n", of(0, 96, 7, 8, 9))
		for _, test := range []struct {
			name        string
			b           string
			least, most int
		}{
			{"the same blocks", text("n", of(1, 96, 7, 8, 9)), 96, 96},
			{"one block of three", text("n", of(1, 96, 7, 5, 9)), 32, 44},
			{"a shorter last block", text("n", of(1, 80, 7, 8, 9)), 80, 80},
			{"blocks rounded down", text("n", of(1, 96, 7, 8)), 64, 76},
			{"the same block elsewhere", text("n", of(1, 96, 8, 7, 9)), 0, 11},
			{"another nonce", text("m", of(0, 96, 7, 8, 9)), 0, 11},
		} {
			if n := common(a, test.b); n < test.least || n > test.most {
				t.Errorf("additive %v: %s: %d words in common, want %d to %d", words, test.name, n, test.least, test.most)
			}
		}
	}
}

// TestBlocksRefused: what does not fit is refused, and the error says what may be
// done.
func TestBlocksRefused(t *testing.T) {
	write := func(text string) string {
		file := filepath.Join(t.TempDir(), "m.jsonl")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	small := write(`{"timestamp": 0, "input_length": 100, "output_length": 4, "hash_ids": [1,2,3,4,5,6,7]}
{"timestamp": 9, "input_length": 33, "output_length": 4, "hash_ids": [1,2,3]}
`)
	spec := blockSpec(small)
	_, err := OpenTrace(spec, 1)
	if !errors.Is(err, dataset.ErrBlocks) || !strings.Contains(err.Error(), "m.jsonl:1") ||
		!strings.HasSuffix(err.Error(), "so it is with 2 rows of 2; trace.hash_ids: ignore leaves blocks out, trace.skip_bad such rows; trace.block_size_tokens: 16 would fit all") {
		t.Errorf("blocks of 512: %v", err)
	}
	spec.Trace.BlockSize = 16
	if r, _ := tracePlan(t, spec, 1).Next(); r.BlockTokens != 16 || len(r.Blocks) != 7 {
		t.Errorf("blocks of 16: %+v", r)
	}
	spec.Trace.BlockSize, spec.Trace.HashIDs = 0, IgnoreBlocks
	if r, _ := tracePlan(t, spec, 1).Next(); r.Blocks != nil {
		t.Errorf("ignored: %+v", r)
	}
	for name, change := range map[string]func(*Spec){
		"trace.hash_ids: \"all\" is none of replay, sessions, ignore": func(s *Spec) { s.Trace.HashIDs = "all" },
		"trace.hash_ids: prompts are of another length":               func(s *Spec) { s.Trace.HashIDs = ReplayBlocks; s.PromptTokens = FixedLength(9) },
		"prefix: the trace says by its hash_ids":                      func(s *Spec) { s.Trace.BlockSize = 16; s.Prefix = &Prefix{Tokens: FixedLength(9)} },
		"trace.block_size_tokens: -1":                                 func(s *Spec) { s.Trace.BlockSize = -1 },
		"trace.hash_ids: no row has any": func(s *Spec) {
			s.Trace.File, s.Trace.HashIDs = write(`{"timestamp": 0, "input_length": 100, "output_length": 4}`+"\n"), ReplayBlocks
		},
	} {
		s := blockSpec(small)
		change(&s)
		if _, err := OpenTrace(s, 1); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want %q", err, name)
		}
	}
}

// TestBailianBlocks: rows that are turns of sessions are single requests with their
// own blocks where that is asked for.
func TestBailianBlocks(t *testing.T) {
	spec := blockSpec(filepath.Join("..", "dataset", "testdata", "bailian.jsonl"))
	f, err := OpenTrace(spec, 1)
	if err != nil {
		t.Fatal(err)
	}
	if f.ReplaysBlocks() != !f.HasSessions() {
		t.Errorf("blocks %v, sessions %v", f.ReplaysBlocks(), f.HasSessions())
	}
	spec.Trace.HashIDs = ReplayBlocks
	r, ok := tracePlan(t, spec, 1).Next()
	if !ok || r.BlockTokens != 16 || len(r.Blocks) != (r.PromptTokens+15)/16 {
		t.Errorf("%+v", r)
	}
}
