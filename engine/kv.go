package engine

// nilBlock ends a list of blocks. Block 0 is never handed out, as in vLLM,
// which keeps it as the null block; it serves as the head of the free list.
const nilBlock int32 = 0

// What identifies the content of a block, by kvBlock.pos.
const (
	keyNone   int32 = -1 // not full, or never cached
	keyShared int32 = -2 // key is a hash given by the caller
	// pos >= 0: private, block pos of the request with serial key
)

// kvBlock is the bookkeeping of one block of KV memory.
type kvBlock struct {
	key              uint64
	pos              int32
	ref              int32 // requests that hold it
	prev, next       int32 // free list, while ref is 0
	dupPrev, dupNext int32 // blocks with the same shared key, oldest first
}

// kvPool hands out blocks. Freed blocks keep their content at the end of the
// free list and can be hit again until they come to its front and are needed.
type kvPool struct {
	blocks []kvBlock // [0] is the null block
	free   int
	index  map[uint64]int32 // shared key to its oldest block
}

func newKVPool(n int) *kvPool {
	p := &kvPool{blocks: make([]kvBlock, n), index: map[uint64]int32{}}
	for id := int32(1); id < int32(n); id++ {
		p.blocks[id].pos = keyNone
		p.pushFree(id)
	}
	return p
}

// usable is the number of blocks that can be handed out.
func (p *kvPool) usable() int { return len(p.blocks) - 1 }

func (p *kvPool) pushFree(id int32) {
	last := p.blocks[nilBlock].prev
	p.blocks[id].prev, p.blocks[id].next = last, nilBlock
	p.blocks[last].next = id
	p.blocks[nilBlock].prev = id
	p.free++
}

func (p *kvPool) unlinkFree(id int32) {
	b := &p.blocks[id]
	p.blocks[b.prev].next = b.next
	p.blocks[b.next].prev = b.prev
	p.free--
}

// alloc takes the block that has been free the longest and forgets its
// content. The caller has checked that free > 0.
func (p *kvPool) alloc() int32 {
	id := p.blocks[nilBlock].next
	if id == nilBlock {
		panic("engine: allocation from an empty KV pool")
	}
	p.unlinkFree(id)
	p.forget(id)
	p.blocks[id].ref = 1
	return id
}

// hold adds a holder to a cached block.
func (p *kvPool) hold(id int32) {
	if p.blocks[id].ref == 0 {
		p.unlinkFree(id)
	}
	p.blocks[id].ref++
}

// release drops one holder.
func (p *kvPool) release(id int32) {
	b := &p.blocks[id]
	if b.ref <= 0 {
		panic("engine: KV block released twice")
	}
	b.ref--
	if b.ref == 0 {
		p.pushFree(id)
	}
}

// releaseAll drops one holder of each, the last block first, so that the
// beginning of a sequence outlives its end in the cache.
func (p *kvPool) releaseAll(ids []int32) {
	for i := len(ids) - 1; i >= 0; i-- {
		p.release(ids[i])
	}
}

// shared finds the block with this hash.
func (p *kvPool) shared(hash uint64) (int32, bool) {
	id, ok := p.index[hash]
	return id, ok
}

// isPrivate reports whether block id still has block pos of that request.
func (p *kvPool) isPrivate(id int32, serial uint64, pos int) bool {
	return p.blocks[id].key == serial && p.blocks[id].pos == int32(pos)
}

// publishPrivate names the content of a full block for its own request.
func (p *kvPool) publishPrivate(id int32, serial uint64, pos int) {
	p.blocks[id].key, p.blocks[id].pos = serial, int32(pos)
}

// publishShared names the content of a full block for everyone.
func (p *kvPool) publishShared(id int32, hash uint64) {
	b := &p.blocks[id]
	b.key, b.pos = hash, keyShared
	first, ok := p.index[hash]
	if !ok {
		b.dupPrev, b.dupNext = nilBlock, nilBlock
		p.index[hash] = id
		return
	}
	// A second copy goes behind the oldest.
	b.dupPrev, b.dupNext = first, p.blocks[first].dupNext
	if b.dupNext != nilBlock {
		p.blocks[b.dupNext].dupPrev = id
	}
	p.blocks[first].dupNext = id
}

// forget drops the content of a block.
func (p *kvPool) forget(id int32) {
	b := &p.blocks[id]
	if b.pos == keyShared {
		p.unpublish(b)
	}
	b.key, b.pos = 0, keyNone
}

func (p *kvPool) unpublish(b *kvBlock) {
	switch {
	case b.dupPrev != nilBlock:
		p.blocks[b.dupPrev].dupNext = b.dupNext
	case b.dupNext != nilBlock:
		p.index[b.key] = b.dupNext
	default:
		delete(p.index, b.key)
	}
	if b.dupNext != nilBlock {
		p.blocks[b.dupNext].dupPrev = b.dupPrev
	}
	b.dupPrev, b.dupNext = nilBlock, nilBlock
}

// reset forgets all content. It refuses while any block is held.
func (p *kvPool) reset() bool {
	if p.free != p.usable() {
		return false
	}
	for id := range p.blocks[1:] {
		b := &p.blocks[id+1]
		b.key, b.pos, b.dupPrev, b.dupNext = 0, keyNone, nilBlock, nilBlock
	}
	clear(p.index)
	return true
}
