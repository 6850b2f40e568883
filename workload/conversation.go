package workload

import (
	"sync"

	"github.com/assay-bench/assay/record"
)

// Conversations are the sessions of a plan while they happen: the first turns, in
// planned order, and of every reply the turn after it. It is safe for concurrent
// use; the turns of one session follow each other.
type Conversations struct {
	plan    *Plan
	content *Content // nil: no prompts are made

	mu   sync.Mutex
	open map[int64]*conversation
}

// conversation is a session in progress.
type conversation struct {
	s Session
	// said so far, in tokens: the latest prompt and its reply, as the server counted
	// them, or as planned if it does not.
	said int
	// known of what was said to a prefix cache that forgets nothing.
	known int
	// What was said: messages of a chat, else one text.
	messages []record.Message
	text     string
	chain    chain
}

// NewConversations drives the sessions of a plan. Without content its requests have
// no prompts.
func NewConversations(p *Plan, c *Content) *Conversations {
	return &Conversations{plan: p, content: c, open: make(map[int64]*conversation)}
}

// Next is the first turn of the next session, with its prompt. It is to be called
// by one goroutine.
func (c *Conversations) Next() (record.Request, bool) {
	s, ok := c.plan.NextSession()
	if !ok {
		return record.Request{}, false
	}
	talk := &conversation{s: s.clone()}
	r := c.plan.turnOf(&talk.s, 0, 0, 0)
	talk.planned(&r)
	switch {
	case c.content == nil:
	case c.plan.ReplaysBlocks():
		c.content.Fill(&r)
	default:
		talk.begin(c.content, c.plan.spec.Sessions)
		r.Prompt = talk.prompt()
		talk.ask(&r)
		c.content.salt(&r)
	}
	c.mu.Lock()
	c.open[s.Index] = talk
	c.mu.Unlock()
	return r, true
}

func (c *Conversations) talk(session int64) *conversation {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open[session]
}

// Replied tells of the usage of a turn that has completed, nil if the server told
// none: the length of what was said so far. Call it before After.
func (c *Conversations) Replied(r *record.Request, u *record.Usage) {
	talk := c.talk(r.Session)
	if talk == nil || u == nil || u.PromptTokens < 1 {
		return
	}
	talk.said = u.PromptTokens + u.CompletionTokens - u.ReasoningTokens
	talk.known = talk.said - 1
	if u.ReasoningTokens > 0 {
		talk.known = u.PromptTokens // what follows was said after other words
	}
}

// After is the turn that follows a turn that ended well, and when it is due; see
// package sched. Its prompt is not made yet: see [Conversations.Fill]. PromptTokens
// is what was said so far, and what is new.
func (c *Conversations) After(r *record.Request, first, ended record.Stamp) (next record.Request, at record.Stamp, ok bool) {
	talk := c.talk(r.Session)
	if talk == nil || r.Turn >= len(talk.s.Turns) {
		c.Over(r.Session)
		return record.Request{}, 0, false
	}
	t := &talk.s.Turns[r.Turn]
	next = c.plan.turnOf(&talk.s, r.Turn, talk.said, talk.known)
	talk.planned(&next)
	if c.content != nil && !c.plan.ReplaysBlocks() {
		talk.ask(&next)
		c.content.salt(&next)
	}
	if t.At > 0 {
		return next, first.Add(t.At), true
	}
	return next, ended.Add(t.Delay), true
}

// planned notes what will have been said after a turn, if all goes as planned. The
// last token of a reply is not computed.
func (k *conversation) planned(r *record.Request) {
	k.said = r.PromptTokens + r.MaxTokens
	k.known = k.said - 1
}

// ask takes an estimate of a text's length away: none was asked for.
func (k *conversation) ask(r *record.Request) {
	if k.s.Turns[r.Turn-1].Text != "" {
		r.PromptTokens = 0
	}
}

// Over forgets a session: its last turn has ended, or one has failed.
func (c *Conversations) Over(session int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, session)
}

// Fill makes the prompt of a turn that After gave, from the reply to the one before
// it: its text and its tool calls. The prompt is to be used before the next call for
// the session.
func (c *Conversations) Fill(r *record.Request, reply record.Message) {
	talk := c.talk(r.Session)
	if talk == nil || c.content == nil {
		return
	}
	if c.plan.ReplaysBlocks() {
		c.content.Fill(r)
		return
	}
	t := &talk.s.Turns[r.Turn-1]
	talk.add(c.content, reply, c.content.later(r.Index, t))
	r.Prompt = talk.prompt()
}

// Hashes are the chained hashes of the blocks of a turn's prompt, and of its reply
// of so many tokens: equal hashes mean equal content from the start on, in the
// manner of vLLM's prefix cache. Call it once a turn, in their order.
func (c *Conversations) Hashes(r *record.Request, output, blockSize int) []uint64 {
	talk := c.talk(r.Session)
	if talk == nil || blockSize < 1 || r.CacheSalt == SaltRequest {
		return nil
	}
	if c.plan.ReplaysBlocks() {
		return blockHashes(r, blockSize)
	}
	k := &talk.chain
	k.size = blockSize
	fresh := r.PromptTokens - k.tokens
	if r.Turn == 1 {
		spec := c.plan.spec.Sessions
		k.hash = saltOf(r)
		k.extend(systemKey, spec.SystemPromptTokens)
		k.extend(sharedKey, spec.SharedPrefixTokens)
		k.extend(poolKey+uint64(talk.s.PrefixPool), talk.s.PrefixTokens)
		k.extend(userKey+uint64(talk.s.User), talk.s.UserTokens)
		fresh -= k.tokens
	}
	k.extend(uint64(r.Index), fresh)
	k.extend(replyKey+uint64(r.Index), output)
	return k.hashes[:len(k.hashes):len(k.hashes)]
}

// Keys of what is said, apart from each other: requests are numbered from 0.
const (
	systemKey = 1 << 62
	sharedKey = systemKey + 1
	userKey   = 1 << 61
	replyKey  = 1 << 60
	poolKey   = 1 << 59
	saltKey   = 1 << 58
)

// saltOf is what the hashes of a request's blocks start from.
func saltOf(r *record.Request) uint64 {
	if r.CacheSalt == SaltSession {
		return spreadBits(saltKey + uint64(r.Session))
	}
	return 0
}

// chain is the prefix hashes of a growing sequence of tokens.
type chain struct {
	size   int // of a block
	tokens int
	hash   uint64
	hashes []uint64 // of the full blocks
}

// extend adds n tokens, named by a key and their number.
func (k *chain) extend(key uint64, n int) {
	for i := range n {
		k.hash = spreadBits(k.hash ^ spreadBits(key) + uint64(i))
		k.tokens++
		if k.tokens%k.size == 0 {
			k.hashes = append(k.hashes, k.hash)
		}
	}
}
