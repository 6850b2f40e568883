package metronome

// queue is a binary heap of what is due, the earliest first; of equal ones the
// order is any.
type queue []entry

type entry struct {
	at int64
	s  *stream
}

func (q *queue) push(e entry) {
	*q = append(*q, e)
	h := *q
	i := len(h) - 1
	for i > 0 && h[(i-1)/2].at > e.at {
		h[i] = h[(i-1)/2]
		i = (i - 1) / 2
	}
	h[i] = e
}

// replace puts e in the place of the earliest: half the work of pop and push.
func (q queue) replace(e entry) {
	i := 0
	for {
		child := 2*i + 1
		if child >= len(q) {
			break
		}
		if child+1 < len(q) && q[child+1].at < q[child].at {
			child++
		}
		if q[child].at >= e.at {
			break
		}
		q[i] = q[child]
		i = child
	}
	q[i] = e
}

// pop drops the earliest.
func (q *queue) pop() {
	h := *q
	last := len(h) - 1
	e := h[last]
	h[last] = entry{}
	*q = h[:last]
	if last > 0 {
		q.replace(e)
	}
}
