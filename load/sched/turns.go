package sched

import "github.com/assay-bench/assay/record"

// turns knows of every session in progress the request that it is at.
type turns struct {
	// at is, by slot, the request in flight, or the one that waits.
	at      []record.Request
	waiting queue // slots whose next turn waits for its time
}

// sent notes the request that is in flight in the slot, without its content.
func (t *turns) sent(slot int, r *record.Request) {
	for len(t.at) <= slot {
		t.at = append(t.at, record.Request{})
	}
	t.at[slot] = *r
	t.at[slot].Prompt = record.Prompt{}
}

// pop takes the turn that is due first.
func (t *turns) pop() record.Request { return t.at[t.waiting.pop().slot] }

// clear forgets all that wait, and says how many.
func (t *turns) clear() int {
	n := len(t.waiting)
	t.waiting = t.waiting[:0]
	return n
}

// follow makes the turn wait that follows the request which ended in the slot;
// false if there is none, or none may be sent.
func (s *Scheduler) follow(ended record.Stamp, slot int) bool {
	if s.cfg.After == nil || s.stopped {
		return false
	}
	next, delay, ok := s.cfg.After(&s.turns.at[slot])
	if !ok {
		return false
	}
	s.turns.at[slot] = next
	s.turns.waiting.push(due{at: after(ended, delay), slot: slot})
	return true
}
