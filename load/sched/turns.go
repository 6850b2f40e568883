package sched

import "github.com/assay-bench/assay/record"

// turns knows of every session in progress the request that it is at.
type turns struct {
	// at is, by slot, the request in flight, or the one that waits.
	at []record.Request
	// first is, by slot, when the session's first turn was scheduled.
	first   []record.Stamp
	waiting queue // slots whose next turn waits for its time
}

// sent notes the request that is in flight, without its content; later is false
// for the first of a session.
func (t *turns) sent(a *Action, later bool) {
	for len(t.at) <= a.Slot {
		t.at, t.first = append(t.at, record.Request{}), append(t.first, 0)
	}
	t.at[a.Slot] = a.Request
	t.at[a.Slot].Prompt = record.Prompt{}
	if !later {
		t.first[a.Slot] = a.Scheduled
	}
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
	next, at, ok := s.cfg.After(&s.turns.at[slot], s.turns.first[slot], ended)
	if !ok {
		return false
	}
	s.turns.at[slot] = next
	s.turns.waiting.push(due{at: max(at, ended), slot: slot})
	return true
}
