package engine

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

type fataler interface {
	Helper()
	Fatalf(string, ...any)
}

// checkInvariants recounts everything the engine keeps incrementally.
func checkInvariants(t fataler, e *Engine) {
	t.Helper()
	holders := make([]int32, len(e.pool.blocks))
	for _, r := range e.running {
		if r.state != stateRunning {
			t.Fatalf("request %d is in the running list in state %d", r.ID, r.state)
		}
		if r.sched != 0 || r.drafts != 0 {
			t.Fatalf("request %d is still in a batch", r.ID)
		}
		if need := (r.computed + e.cfg.BlockSize - 1) / e.cfg.BlockSize; len(r.blocks) < need {
			t.Fatalf("request %d has %d blocks for %d tokens", r.ID, len(r.blocks), r.computed)
		}
		if r.computed >= r.tokens() {
			t.Fatalf("request %d has computed %d of %d tokens", r.ID, r.computed, r.tokens())
		}
		for _, id := range r.blocks {
			holders[id]++
		}
	}
	free := 0
	for id := e.pool.blocks[nilBlock].next; id != nilBlock; id = e.pool.blocks[id].next {
		free++
		if e.pool.blocks[id].ref != 0 || free > len(holders) {
			t.Fatalf("block %d is in the free list with %d holders", id, e.pool.blocks[id].ref)
		}
	}
	unheld, shared := 0, 0
	for id := 1; id < len(holders); id++ {
		b := e.pool.blocks[id]
		if b.ref != holders[id] {
			t.Fatalf("block %d counts %d holders and has %d", id, b.ref, holders[id])
		}
		if b.ref == 0 {
			unheld++
		}
		if b.pos == keyShared {
			shared++
		}
	}
	if free != e.pool.free || free != unheld {
		t.Fatalf("%d blocks counted free, %d listed, %d without a holder", e.pool.free, free, unheld)
	}
	if holders[nilBlock] != 0 {
		t.Fatalf("the null block was handed out")
	}
	indexed := 0
	for key, id := range e.pool.index {
		for prev := nilBlock; id != nilBlock; prev, id = id, e.pool.blocks[id].dupNext {
			b := e.pool.blocks[id]
			if b.key != key || b.pos != keyShared || b.dupPrev != prev {
				t.Fatalf("block %d under hash %d: %+v", id, key, b)
			}
			indexed++
		}
	}
	if indexed != shared {
		t.Fatalf("%d blocks can be found by hash, %d have one", indexed, shared)
	}
	waiting := 0
	for r := e.waiting.head; r != nil; r = r.next {
		waiting++
	}
	waiting += len(e.waiting.heap)
	if waiting != e.waiting.len() {
		t.Fatalf("%d waiting, %d counted", waiting, e.waiting.len())
	}
}

func drawConfig(t *rapid.T) Config {
	cfg := DefaultConfig()
	cfg.BlockSize = rapid.SampledFrom([]int{1, 4, 16}).Draw(t, "block size")
	cfg.KVBlocks = rapid.IntRange(2, 40).Draw(t, "blocks")
	cfg.MaxNumSeqs = rapid.IntRange(1, 12).Draw(t, "seqs")
	cfg.MaxNumBatchedTokens = cfg.MaxNumSeqs + rapid.IntRange(0, 100).Draw(t, "more tokens")
	cfg.ChunkedPrefill = rapid.Bool().Draw(t, "chunked")
	if !cfg.ChunkedPrefill {
		cfg.MaxModelLen = cfg.MaxNumBatchedTokens
	}
	cfg.PrefixCaching = rapid.Bool().Draw(t, "caching")
	cfg.ByPriority = rapid.Bool().Draw(t, "priority")
	cfg.ReserveFullPrompt = rapid.Bool().Draw(t, "reserve")
	cfg.LongPrefillTokens = rapid.SampledFrom([]int{0, 0, 7}).Draw(t, "long prefill")
	cfg.Watermark = rapid.SampledFrom([]float64{0, 0, 0.1, 0.99}).Draw(t, "watermark")
	if rapid.Bool().Draw(t, "spec") {
		cfg.Spec = &SpecDecode{DraftTokens: rapid.IntRange(1, 4).Draw(t, "k"), Acceptance: 0.6}
	}
	cfg.Seed = rapid.Uint64().Draw(t, "seed")
	cfg.LogBatch = true
	return cfg
}

// drawRequest uses a few prompt families, so that prefixes repeat.
func drawRequest(t *rapid.T, id, maxLen int) *Request {
	r := &Request{
		ID:           uint64(id),
		PromptTokens: rapid.IntRange(1, max(1, min(maxLen, 120))).Draw(t, "prompt"),
		Priority:     rapid.IntRange(0, 2).Draw(t, "priority"),
	}
	r.OutputTokens = rapid.IntRange(0, min(30, maxLen-r.PromptTokens)).Draw(t, "output")
	family := rapid.Uint64Range(0, 3).Draw(t, "family")
	for i := range rapid.IntRange(0, 40).Draw(t, "hashes") {
		r.BlockHashes = append(r.BlockHashes, family<<32|uint64(i))
	}
	if family == 0 {
		r.BlockHashes = nil
	}
	return r
}

// Whatever is configured and whatever arrives, every request finishes with
// all its tokens, each step computes something within its limits, and no
// memory is lost.
func TestEveryRequestFinishes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e, err := New(drawConfig(t))
		if err != nil {
			t.Fatal(err)
		}
		cfg := e.Config()
		total := rapid.IntRange(1, 30).Draw(t, "requests")
		outputs := map[*Request]int{}
		finished := map[*Request]bool{}
		aborted := map[*Request]bool{}
		computed := map[uint64]bool{} // hashes of blocks that were computed
		added := 0
		for now := int64(0); e.HasWork() || added < total; {
			for added < total && (!e.HasWork() || rapid.IntRange(0, 2).Draw(t, "more") > 0) {
				r := drawRequest(t, added, cfg.MaxModelLen)
				if err := e.Add(now, r); err != nil {
					t.Fatalf("add %+v: %v", r, err)
				}
				outputs[r] = 0
				added++
			}
			s := e.Step(now)
			checkStep(t, e, s, now)
			for _, b := range s.Batch {
				full := (b.Context + b.Tokens) / cfg.BlockSize
				for _, hash := range b.Request.BlockHashes[:min(full, len(b.Request.BlockHashes))] {
					computed[hash] = true
				}
			}
			for hash := range e.pool.index {
				if !computed[hash] {
					t.Fatalf("block %d is in the cache and was never computed", hash)
				}
			}
			for _, o := range s.Outputs {
				if finished[o.Request] || aborted[o.Request] {
					t.Fatalf("output of request %d after its end", o.Request.ID)
				}
				if o.First != (outputs[o.Request] == 0) {
					t.Fatalf("request %d: first is %v after %d tokens", o.Request.ID, o.First, outputs[o.Request])
				}
				outputs[o.Request] += o.NewTokens
				finished[o.Request] = o.Finished
			}
			checkInvariants(t, e)
			now = s.End
			if len(e.running) > 0 && rapid.IntRange(0, 19).Draw(t, "abort") == 0 {
				r := e.running[0]
				if w := e.waiting.peek(); w != nil {
					r = w
				}
				e.Abort(now, r)
				aborted[r] = true
				checkInvariants(t, e)
			}
		}
		for r, n := range outputs {
			if aborted[r] {
				continue
			}
			if !finished[r] || n != r.OutputTokens || r.Generated != n {
				t.Fatalf("request %d: finished %v with %d of %d tokens", r.ID, finished[r], n, r.OutputTokens)
			}
			if r.FirstScheduled < r.Queued || r.FirstToken <= r.FirstScheduled || r.LastToken < r.FirstToken {
				t.Fatalf("request %d: queued %d, scheduled %d, first %d, last %d", r.ID, r.Queued, r.FirstScheduled, r.FirstToken, r.LastToken)
			}
		}
		if e.pool.free != e.pool.usable() || e.KVUsage() != 0 {
			t.Fatalf("%d of %d blocks are free at the end", e.pool.free, e.pool.usable())
		}
		if !e.ResetPrefixCache() {
			t.Fatal("an idle engine can forget its cache")
		}
		checkInvariants(t, e)
	})
}

func checkStep(t *rapid.T, e *Engine, s *Step, now int64) {
	t.Helper()
	cfg := e.Config()
	if s.ScheduledTokens == 0 || s.End <= s.Start {
		t.Fatalf("a step at %d computed %d tokens in %d ns", now, s.ScheduledTokens, s.End-s.Start)
	}
	if s.Start != now {
		t.Fatalf("a step at %d started at %d", now, s.Start)
	}
	if s.ScheduledTokens > cfg.MaxNumBatchedTokens {
		t.Fatalf("%d tokens scheduled", s.ScheduledTokens)
	}
	if s.Scheduled > cfg.MaxNumSeqs || s.Running > cfg.MaxNumSeqs {
		t.Fatalf("%d requests scheduled, %d running", s.Scheduled, s.Running)
	}
	if s.PrefillTokens < 0 || s.DecodeTokens < 0 || s.PrefixHits > s.PrefixQueries {
		t.Fatalf("%+v", *s)
	}
	if s.AcceptedTokens > s.DraftTokens || s.Drafts > s.DraftTokens {
		t.Fatalf("%+v", *s)
	}
	tokens := 0
	for _, b := range s.Batch {
		tokens += b.Tokens
	}
	if tokens != s.ScheduledTokens || len(s.Batch) != s.Scheduled {
		t.Fatalf("the batch has %d tokens of %d requests, the step says %d of %d", tokens, len(s.Batch), s.ScheduledTokens, s.Scheduled)
	}
	if u := s.KVUsage; u < 0 || u > 1 {
		t.Fatalf("KV usage is %v", u)
	}
}

// naive is the scheduler again, without prefix cache, without block ids and
// without any cleverness.
type naive struct {
	cfg     Config
	waiting []*naiveRequest
	running []*naiveRequest
}

type naiveRequest struct{ id, priority, prompt, output, generated, computed, blocks int }

func (n *naive) free() int {
	f := n.cfg.KVBlocks - 1
	for _, r := range n.running {
		f -= r.blocks
	}
	return f
}

// victim is the last running request, or the least urgent under priorities.
func (n *naive) victim() *naiveRequest {
	sorted := slices.Clone(n.running)
	if n.cfg.ByPriority {
		slices.SortFunc(sorted, byPriority)
	}
	return sorted[len(sorted)-1]
}

func (n *naive) sort() {
	if n.cfg.ByPriority {
		slices.SortFunc(n.waiting, byPriority)
	}
}

func byPriority(a, b *naiveRequest) int {
	return cmp.Or(cmp.Compare(a.priority, b.priority), cmp.Compare(a.id, b.id))
}

// step returns "id:tokens" for the batch, then "id!" for what finished.
func (n *naive) step() string {
	budget, preempted := n.cfg.MaxNumBatchedTokens, false
	chosen := map[*naiveRequest]int{}
	blocks := func(tokens int) int { return (tokens + n.cfg.BlockSize - 1) / n.cfg.BlockSize }
running:
	for i := 0; i < len(n.running) && budget > 0; i++ {
		r := n.running[i]
		want := min(r.prompt+r.generated-r.computed, budget)
		for blocks(r.computed+want)-r.blocks > n.free() {
			victim := n.victim()
			at := slices.Index(n.running, victim)
			n.running = slices.Delete(n.running, at, at+1)
			if at < i {
				i--
			}
			budget += chosen[victim]
			delete(chosen, victim)
			victim.computed, victim.blocks, preempted = 0, 0, true
			n.waiting = slices.Insert(n.waiting, 0, victim)
			if victim == r {
				break running
			}
		}
		r.blocks = blocks(r.computed + want)
		chosen[r] = want
		budget -= want
	}
	for !preempted && budget > 0 && len(n.waiting) > 0 && len(n.running) < n.cfg.MaxNumSeqs {
		n.sort()
		r := n.waiting[0]
		want := min(r.prompt+r.generated, budget)
		must := want
		if n.cfg.ReserveFullPrompt {
			must = r.prompt + r.generated
		}
		if blocks(must) > n.free() {
			break
		}
		n.waiting = n.waiting[1:]
		n.running = append(n.running, r)
		r.blocks = blocks(want)
		chosen[r] = want
		budget -= want
	}
	if len(chosen) == 0 {
		return n.step() // the only one to run preempted itself
	}
	text, done := "", ""
	for _, r := range slices.Clone(n.running) {
		if chosen[r] == 0 {
			continue
		}
		text += fmt.Sprintf("%d:%d ", r.id, chosen[r])
		r.computed += chosen[r]
		if r.computed == r.prompt+r.generated {
			r.generated++
		}
		if r.generated == r.output {
			done += fmt.Sprintf("%d! ", r.id)
			n.running = slices.DeleteFunc(n.running, func(x *naiveRequest) bool { return x == r })
		}
	}
	return text + done
}

func TestSchedulerAgreesWithNaiveOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := DefaultConfig()
		cfg.PrefixCaching, cfg.LogBatch = false, true
		cfg.ByPriority = rapid.Bool().Draw(t, "priority")
		cfg.ReserveFullPrompt = rapid.Bool().Draw(t, "reserve")
		cfg.BlockSize = rapid.SampledFrom([]int{1, 4, 16}).Draw(t, "block size")
		cfg.KVBlocks = rapid.IntRange(8, 60).Draw(t, "blocks")
		cfg.MaxNumSeqs = rapid.IntRange(1, 12).Draw(t, "seqs")
		cfg.MaxNumBatchedTokens = cfg.MaxNumSeqs + rapid.IntRange(0, 60).Draw(t, "more tokens")
		e, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		oracle := &naive{cfg: e.Config()}
		total, added := rapid.IntRange(1, 30).Draw(t, "requests"), 0
		now := int64(0)
		for added < total || e.HasWork() {
			for added < total && (!e.HasWork() || rapid.Bool().Draw(t, "more")) {
				most := e.Config().MaxModelLen
				p := rapid.IntRange(1, most-1).Draw(t, "prompt")
				r := &Request{ID: uint64(added), PromptTokens: p, Priority: rapid.IntRange(0, 2).Draw(t, "of")}
				r.OutputTokens = rapid.IntRange(1, min(20, most-p)).Draw(t, "output")
				if err := e.Add(now, r); err != nil {
					t.Fatal(err)
				}
				oracle.waiting = append(oracle.waiting, &naiveRequest{id: added, priority: r.Priority, prompt: p, output: r.OutputTokens})
				added++
			}
			s := e.Step(now)
			now = s.End
			got := ""
			for _, b := range s.Batch {
				got += fmt.Sprintf("%d:%d ", b.Request.ID, b.Tokens)
			}
			for _, o := range s.Outputs {
				if o.Finished {
					got += fmt.Sprintf("%d! ", o.Request.ID)
				}
			}
			if want := oracle.step(); got != want {
				t.Fatalf("step: got %q, want %q", got, want)
			}
			checkInvariants(t, e)
		}
	})
}

// While nothing is evicted, a set of hashes says what must be found.
func TestPrefixCacheFindsAllThatWasComputed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := DefaultConfig()
		cfg.LogBatch = true
		cfg.BlockSize = rapid.SampledFrom([]int{4, 16}).Draw(t, "block size")
		cfg.KVBlocks = 1300 // 30 requests of 150 tokens
		cfg.MaxNumSeqs = rapid.IntRange(1, 12).Draw(t, "seqs")
		cfg.MaxNumBatchedTokens = cfg.MaxNumSeqs + rapid.IntRange(0, 100).Draw(t, "more tokens")
		e, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		computed, seen := map[uint64]bool{}, map[*Request]bool{}
		total, added := rapid.IntRange(1, 30).Draw(t, "requests"), 0
		for now := int64(0); e.HasWork() || added < total; {
			for added < total && (!e.HasWork() || rapid.Bool().Draw(t, "more")) {
				if err := e.Add(now, drawRequest(t, added, 200)); err != nil {
					t.Fatal(err)
				}
				added++
			}
			s := e.Step(now)
			queries, hits := 0, 0
			for _, b := range s.Batch {
				r := b.Request
				if !seen[r] {
					seen[r] = true
					blocks := 0
					for blocks < min(len(r.BlockHashes), (r.PromptTokens-1)/cfg.BlockSize) && computed[r.BlockHashes[blocks]] {
						blocks++
					}
					queries, hits = queries+r.PromptTokens, hits+blocks*cfg.BlockSize
					if r.CachedTokens != blocks*cfg.BlockSize || b.Context != r.CachedTokens {
						t.Fatalf("request %d found %d tokens of %d", r.ID, r.CachedTokens, blocks*cfg.BlockSize)
					}
				}
				full := (b.Context + b.Tokens) / cfg.BlockSize
				for _, hash := range r.BlockHashes[:min(full, len(r.BlockHashes))] {
					computed[hash] = true
				}
			}
			if s.PrefixQueries != queries || s.PrefixHits != hits {
				t.Fatalf("step counts %d of %d tokens cached, want %d of %d", s.PrefixHits, s.PrefixQueries, hits, queries)
			}
			now = s.End
		}
		checkInvariants(t, e)
	})
}

// The priority queue is a heap; a sorted slice says what it should be.
func TestQueueOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := queue{byPriority: rapid.Bool().Draw(t, "priority")}
		var want []*Request
		for i := range rapid.IntRange(1, 60).Draw(t, "operations") {
			switch op := rapid.IntRange(0, 3).Draw(t, "operation"); {
			case op <= 1 || len(want) == 0:
				r := &Request{serial: uint64(i), Priority: rapid.IntRange(0, 3).Draw(t, "of")}
				if op == 0 {
					q.pushFront(r)
					want = slices.Insert(want, 0, r)
				} else {
					q.push(r)
					want = append(want, r)
				}
			default:
				at := rapid.IntRange(0, len(want)-1).Draw(t, "remove")
				q.remove(want[at])
				want = slices.Delete(want, at, at+1)
			}
			if q.byPriority {
				slices.SortStableFunc(want, func(a, b *Request) int {
					if a.urgentThan(b) {
						return -1
					}
					return 1
				})
			}
			var first *Request
			if len(want) > 0 {
				first = want[0]
			}
			if q.peek() != first || q.len() != len(want) {
				t.Fatalf("after %d operations: %v of %d, want %v of %d", i, q.peek(), q.len(), first, len(want))
			}
		}
	})
}
