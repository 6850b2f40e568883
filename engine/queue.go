package engine

// queue holds the waiting requests: a list in order of arrival, or a heap by
// priority. Both are intrusive, so an abort in the middle costs no search.
type queue struct {
	byPriority bool
	n          int
	head, tail *Request   // first come, first served
	heap       []*Request // by priority
}

func (q *queue) len() int { return q.n }

// peek returns the next request to admit, nil if there is none.
func (q *queue) peek() *Request {
	if !q.byPriority {
		return q.head
	}
	if len(q.heap) == 0 {
		return nil
	}
	return q.heap[0]
}

// push adds at the tail.
func (q *queue) push(r *Request) {
	q.n++
	if q.byPriority {
		q.heapPush(r)
		return
	}
	r.prev, r.next = q.tail, nil
	if q.tail == nil {
		q.head = r
	} else {
		q.tail.next = r
	}
	q.tail = r
}

// pushFront adds at the head; under priorities the order is the heap's.
func (q *queue) pushFront(r *Request) {
	q.n++
	if q.byPriority {
		q.heapPush(r)
		return
	}
	r.prev, r.next = nil, q.head
	if q.head == nil {
		q.tail = r
	} else {
		q.head.prev = r
	}
	q.head = r
}

// remove takes r out, wherever it stands.
func (q *queue) remove(r *Request) {
	q.n--
	if q.byPriority {
		q.heapRemove(r.heapIndex)
		return
	}
	if r.prev == nil {
		q.head = r.next
	} else {
		r.prev.next = r.next
	}
	if r.next == nil {
		q.tail = r.prev
	} else {
		r.next.prev = r.prev
	}
	r.prev, r.next = nil, nil
}

func (q *queue) heapPush(r *Request) {
	r.heapIndex = len(q.heap)
	q.heap = append(q.heap, r)
	q.up(r.heapIndex)
}

func (q *queue) heapRemove(i int) {
	last := len(q.heap) - 1
	q.swap(i, last)
	q.heap[last] = nil
	q.heap = q.heap[:last]
	if i < last {
		q.down(i)
		q.up(i)
	}
}

func (q *queue) swap(i, j int) {
	q.heap[i], q.heap[j] = q.heap[j], q.heap[i]
	q.heap[i].heapIndex, q.heap[j].heapIndex = i, j
}

func (q *queue) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !q.heap[i].urgentThan(q.heap[parent]) {
			return
		}
		q.swap(i, parent)
		i = parent
	}
}

func (q *queue) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(q.heap); child++ {
			if q.heap[child].urgentThan(q.heap[least]) {
				least = child
			}
		}
		if least == i {
			return
		}
		q.swap(i, least)
		i = least
	}
}
