package dataset

import (
	"container/heap"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// SortWindow is how many rows are held for [Sort] in all: some 100 MB with their garbage.
const SortWindow = 1 << 16

// Sort puts rows in the order of their stamps; those of one stamp, and rows without,
// stay as they are. Times count from first, the earliest of the [Summary]. It holds
// window rows, without their texts: a row that stands further behind one of a later
// stamp is an error, of the named file.
func Sort(src Source, name string, first time.Duration, window int) Source {
	return &sorted{src: src, name: name, first: first, last: -1 << 63, window: window}
}

type sorted struct {
	src    Source
	name   string
	first  time.Duration
	last   time.Duration // of what was delivered
	window int
	seq    int64
	rows   rowHeap
	free   *heldRow // delivered: its memory is used again
	err    error    // of the source
}

// heldRow is a row that waits.
type heldRow struct {
	row Row
	seq int64
}

type rowHeap []*heldRow

func (h rowHeap) Len() int      { return len(h) }
func (h rowHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h rowHeap) Less(i, j int) bool {
	if a, b := h[i].row.At, h[j].row.At; a != b {
		return a < b
	}
	return h[i].seq < h[j].seq
}
func (h *rowHeap) Push(x any) { *h = append(*h, x.(*heldRow)) }
func (h *rowHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

func (s *sorted) Next() (*Row, error) {
	for s.err == nil && len(s.rows) < s.window {
		if err := s.take(); err != nil {
			return nil, err
		}
	}
	if len(s.rows) == 0 {
		return nil, s.err
	}
	held := heap.Pop(&s.rows).(*heldRow)
	s.free = held
	if held.row.At < s.last {
		s.rows, s.err = nil, &RowError{File: s.name, Line: held.row.Line, Err: fmt.Errorf("stands more than %d rows behind a row with a later stamp: sort the file by its stamps", s.window)}
		return nil, s.err
	}
	s.last = held.row.At
	return &held.row, nil
}

// take holds one more row.
func (s *sorted) take() error {
	row, err := s.src.Next()
	if err != nil {
		if errors.As(err, new(*RowError)) {
			return err
		}
		if s.err = err; !errors.Is(err, io.EOF) {
			s.rows = nil
			return err
		}
		return nil
	}
	held := s.free
	if held == nil {
		held = new(heldRow)
	}
	s.free = nil
	ids := append(held.row.HashIDs[:0], row.HashIDs...)
	held.row, held.seq = *row, s.seq
	s.seq++
	r := &held.row
	r.HashIDs, r.Extra = ids, slices.Clone(row.Extra)
	r.System, r.Text, r.Reply, r.Messages, r.Body = "", "", "", nil, nil
	if r.Timed {
		r.At -= s.first
	} else {
		r.At = max(s.last, 0)
	}
	heap.Push(&s.rows, held)
	return nil
}
