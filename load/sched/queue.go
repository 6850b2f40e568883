package sched

import "github.com/assay-bench/assay/record"

// due is a free slot and when it may send again.
type due struct {
	at   record.Stamp
	slot int
}

// before orders by time, then by slot, so that equal times have one order.
func (d due) before(e due) bool {
	return d.at < e.at || d.at == e.at && d.slot < e.slot
}

// queue is a binary heap with the earliest due slot first. container/heap would
// box each element into an interface: an allocation a step.
type queue []due

func (q *queue) push(d due) {
	h := append(*q, d)
	i := len(h) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !h[i].before(h[parent]) {
			break
		}
		h[i], h[parent] = h[parent], h[i]
		i = parent
	}
	*q = h
}

// pop removes the earliest; the queue must not be empty.
func (q *queue) pop() due {
	h := *q
	first, last := h[0], len(h)-1
	h[0] = h[last]
	h = h[:last]
	i := 0
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if right := child + 1; right < len(h) && h[right].before(h[child]) {
			child = right
		}
		if !h[child].before(h[i]) {
			break
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
	*q = h
	return first
}
