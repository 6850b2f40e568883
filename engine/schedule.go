package engine

// schedule forms the batch: running requests first, then waiting ones, as
// vLLM's scheduler does. A pass can end with nothing scheduled only if it
// preempted (under priorities the victim may be the request that asked), so
// passes repeat until one schedules; each leaves fewer running.
func (e *Engine) schedule() {
	for {
		before := e.step.Preempted
		e.budget = e.cfg.MaxNumBatchedTokens
		if e.cfg.ChunkedPrefill {
			e.scheduleRunning()
			// Who has just taken memory away does not admit.
			if e.step.Preempted == before {
				e.scheduleWaiting()
			}
		} else {
			// Prefill first: whole prompts now, decodes only when none can go.
			e.scheduleWaiting()
			if e.batch.tokens == 0 {
				e.scheduleRunning()
			}
		}
		if e.batch.tokens > 0 || e.step.Preempted == before {
			return
		}
	}
}

func (e *Engine) scheduleRunning() {
	for i := 0; i < len(e.running) && e.budget > 0; i++ {
		r := e.running[i]
		n, drafts := e.demand(r)
		for !e.hasRoom(r, r.computed+n) {
			victim := e.preempt(&i)
			if victim == r {
				return
			}
		}
		e.place(r, n, drafts)
	}
}

// demand is how many tokens r wants in this step, and how many of these are
// drafts.
func (e *Engine) demand(r *Request) (n, drafts int) {
	n = r.tokens() - r.computed
	if e.cfg.Spec != nil && r.decoding() {
		drafts = min(e.cfg.Spec.DraftTokens, e.cfg.MaxModelLen-r.computed-1, e.budget-1)
		return 1 + drafts, drafts
	}
	if e.cfg.LongPrefillTokens > 0 {
		n = min(n, e.cfg.LongPrefillTokens)
	}
	return min(n, e.budget), 0
}

// hasRoom reports whether that many tokens of r fit in its blocks and the free
// ones. Most decodes need no block, and then it takes no division.
func (e *Engine) hasRoom(r *Request, tokens int) bool {
	return tokens <= len(r.blocks)*e.cfg.BlockSize ||
		e.blocksFor(tokens)-len(r.blocks) <= e.pool.free
}

// blocksFor is how many blocks hold that many tokens.
func (e *Engine) blocksFor(tokens int) int {
	return (tokens + e.cfg.BlockSize - 1) / e.cfg.BlockSize
}

// place puts n tokens of r into the batch; the memory is there.
func (e *Engine) place(r *Request, n, drafts int) {
	for len(r.blocks)*e.cfg.BlockSize < r.computed+n {
		r.blocks = append(r.blocks, e.pool.alloc())
	}
	if r.decoding() {
		e.step.DecodeTokens += n
	}
	r.sched, r.drafts = n, drafts
	e.budget -= n
	e.batch.add(n, r.computed, e.rows(r))
	if drafts > 0 {
		e.step.Drafts++
		e.step.DraftTokens += drafts
	}
	if e.cfg.PrefixCaching {
		e.publish(r, r.computed+n-drafts)
	}
}

// unplace takes r out of the batch again.
func (e *Engine) unplace(r *Request) {
	if r.sched == 0 {
		return
	}
	if r.decoding() {
		e.step.DecodeTokens -= r.sched
	}
	e.budget += r.sched
	e.batch.remove(r.sched, r.computed, e.rows(r))
	if r.drafts > 0 {
		e.step.Drafts--
		e.step.DraftTokens -= r.drafts
	}
	// What it entered into the cache in this step will not be computed.
	for ; r.cached > r.computed/e.cfg.BlockSize; r.cached-- {
		e.pool.forget(r.blocks[r.cached-1])
	}
	r.sched, r.drafts = 0, 0
}

// rows is how many rows of the output head r needs in this step.
func (e *Engine) rows(r *Request) int {
	if r.computed+r.sched-r.drafts < r.tokens() {
		return 0
	}
	return 1 + r.drafts
}

// preempt takes all memory from the last running request, or the least urgent
// one under priorities, and puts it at the head of the queue. i is the index
// of the request being scheduled, kept right if the victim stood before it.
func (e *Engine) preempt(i *int) *Request {
	at := len(e.running) - 1
	if e.cfg.ByPriority {
		for j, r := range e.running {
			if e.running[at].urgentThan(r) {
				at = j
			}
		}
	}
	r := e.running[at]
	copy(e.running[at:], e.running[at+1:])
	e.running[len(e.running)-1] = nil
	e.running = e.running[:len(e.running)-1]
	if at < *i {
		*i--
	}
	e.unplace(r)
	e.pool.releaseAll(r.blocks)
	if !e.cfg.PrefixCaching {
		r.blocks = r.blocks[:0]
	}
	r.computed = 0
	r.Preemptions++
	r.state = stateWaiting
	e.step.Preempted++
	e.waiting.pushFront(r)
	return r
}

func (e *Engine) scheduleWaiting() {
	for e.budget > 0 && len(e.running) < e.cfg.MaxNumSeqs {
		r := e.waiting.peek()
		if r == nil || !e.admit(r) {
			return
		}
	}
}

// admit moves the head of the queue into the batch if budget and memory
// allow it.
func (e *Engine) admit(r *Request) bool {
	hits := e.lookup(r)
	computed := len(hits) * e.cfg.BlockSize
	n := r.tokens() - computed
	if e.cfg.LongPrefillTokens > 0 && e.cfg.ChunkedPrefill {
		n = min(n, e.cfg.LongPrefillTokens)
	}
	if !e.cfg.ChunkedPrefill && n > e.budget {
		return false
	}
	n = min(n, e.budget)

	must := computed + n
	if e.cfg.ReserveFullPrompt {
		must = r.tokens()
	}
	short := e.blocksFor(must) - len(hits)
	for _, id := range hits {
		if e.pool.blocks[id].ref == 0 {
			short++ // cached, but counted as free
		}
	}
	if len(e.running) > 0 {
		short += e.reserve
	}
	if short > e.pool.free {
		return false
	}

	e.waiting.remove(r)
	r.state = stateRunning
	if r.Preemptions == 0 {
		r.FirstScheduled = e.step.Start
		r.CachedTokens = computed
		if e.cfg.PrefixCaching {
			e.step.PrefixQueries += r.tokens()
			e.step.PrefixHits += computed
		}
	}
	for _, id := range hits {
		e.pool.hold(id)
	}
	r.blocks = append(e.list(r), hits...)
	r.computed, r.cached = computed, len(hits)
	e.running = append(e.running, r)
	e.place(r, n, 0)
	return true
}

// list returns an empty block list for r, its old one if it has one.
func (e *Engine) list(r *Request) []int32 {
	if r.blocks != nil || len(e.spare) == 0 {
		return r.blocks[:0]
	}
	l := e.spare[len(e.spare)-1]
	e.spare = e.spare[:len(e.spare)-1]
	return l
}

// lookup finds the longest cached beginning of r, in whole blocks. The last
// token is always computed, since its logits are needed.
func (e *Engine) lookup(r *Request) []int32 {
	e.hits = e.hits[:0]
	if !e.cfg.PrefixCaching {
		return e.hits
	}
	for pos := range (r.tokens() - 1) / e.cfg.BlockSize {
		id, ok := e.find(r, pos)
		if !ok {
			break
		}
		e.hits = append(e.hits, id)
	}
	return e.hits
}

func (e *Engine) find(r *Request, pos int) (int32, bool) {
	if pos < len(r.BlockHashes) {
		return e.pool.shared(r.BlockHashes[pos])
	}
	// After a preemption r.blocks are those it once held.
	if pos < len(r.blocks) && e.pool.isPrivate(r.blocks[pos], r.serial, pos) {
		return r.blocks[pos], true
	}
	return 0, false
}

// publish enters the full blocks of r into the cache, up to that many tokens.
// As in vLLM this is done when they are scheduled, so that requests admitted
// later in the same step already hit them.
func (e *Engine) publish(r *Request, tokens int) {
	for ; (r.cached+1)*e.cfg.BlockSize <= tokens; r.cached++ {
		if r.cached < len(r.BlockHashes) {
			e.pool.publishShared(r.blocks[r.cached], r.BlockHashes[r.cached])
		} else {
			e.pool.publishPrivate(r.blocks[r.cached], r.serial, r.cached)
		}
	}
}
