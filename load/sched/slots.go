package sched

import (
	"fmt"

	"github.com/assay-bench/assay/record"
)

// slots knows which slots are busy and since which scheduled time.
type slots struct {
	scheduled []record.Stamp // of the request in each slot; valid where busy
	busy      []bool
	vacant    []int // open loop: slots to use again, last freed first
	inFlight  int
}

func makeSlots(n int) slots {
	return slots{scheduled: make([]record.Stamp, n), busy: make([]bool, n)}
}

// free picks a slot that is not busy, making one if all are.
func (s *slots) free() int {
	if n := len(s.vacant); n > 0 {
		slot := s.vacant[n-1]
		s.vacant = s.vacant[:n-1]
		return slot
	}
	s.scheduled = append(s.scheduled, 0)
	s.busy = append(s.busy, false)
	return len(s.busy) - 1
}

func (s *slots) recycle(slot int) { s.vacant = append(s.vacant, slot) }

func (s *slots) occupy(slot int, scheduled record.Stamp) {
	s.busy[slot] = true
	s.scheduled[slot] = scheduled
	s.inFlight++
}

// vacate returns the scheduled time of the request that was in the slot.
func (s *slots) vacate(slot int) record.Stamp {
	if slot < 0 || slot >= len(s.busy) || !s.busy[slot] {
		panic(fmt.Sprintf("sched: the end of slot %d, which is not busy", slot))
	}
	s.busy[slot] = false
	s.inFlight--
	return s.scheduled[slot]
}

func (s *slots) oldest() (at record.Stamp, ok bool) {
	for i, busy := range s.busy {
		if busy && (!ok || s.scheduled[i] < at) {
			at, ok = s.scheduled[i], true
		}
	}
	return at, ok
}
