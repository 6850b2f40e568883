package wire

import "github.com/assay-bench/assay/record"

// timed is what a deadline belongs to. The zero value has none.
type timed struct {
	deadline record.Stamp // 0: never
	place    int          // in the heap, from 1; 0: not there
}

func (t *timed) timing() *timed { return t }

// deadlines is a binary heap: the earliest one is on top. An entry is moved when
// its stage changes, not with every read.
type deadlines[T interface{ timing() *timed }] []T

// set moves x to a deadline; 0 takes it out.
func (h *deadlines[T]) set(x T, at record.Stamp) {
	t := x.timing()
	t.deadline = at
	switch {
	case t.place == 0 && at == 0:
	case t.place == 0:
		*h = append(*h, x)
		t.place = len(*h)
		h.up(t.place)
	case at == 0:
		h.remove(t.place)
		t.place = 0
	default:
		h.down(t.place)
		h.up(t.place)
	}
}

// first is the entry with the earliest deadline.
func (h deadlines[T]) first() (x T, ok bool) {
	if len(h) == 0 {
		return x, false
	}
	return h[0], true
}

func (h *deadlines[T]) remove(place int) {
	last := len(*h)
	h.swap(place, last)
	var none T
	(*h)[last-1] = none
	*h = (*h)[:last-1]
	if place < last {
		h.down(place)
		h.up(place)
	}
}

func (h deadlines[T]) up(place int) {
	for place > 1 && h.before(place, place/2) {
		h.swap(place, place/2)
		place /= 2
	}
}

func (h deadlines[T]) down(place int) {
	for {
		child := 2 * place
		if child > len(h) {
			return
		}
		if child < len(h) && h.before(child+1, child) {
			child++
		}
		if !h.before(child, place) {
			return
		}
		h.swap(child, place)
		place = child
	}
}

func (h deadlines[T]) before(i, j int) bool {
	return h[i-1].timing().deadline < h[j-1].timing().deadline
}

func (h deadlines[T]) swap(i, j int) {
	h[i-1], h[j-1] = h[j-1], h[i-1]
	h[i-1].timing().place, h[j-1].timing().place = i, j
}
