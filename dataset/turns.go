package dataset

import (
	"errors"
	"slices"
	"strconv"
)

// errNoRow is a record that no row comes of, and nothing is wrong with it.
var errNoRow = errors.New("no row")

// turnQueue holds the rows that came out of one record.
type turnQueue struct {
	cols  []columnOf // in order of turn; those of no turn first
	turns []int
	rows  []Row
	i     int
}

func newTurnQueue(cols []columnOf) *turnQueue {
	q := &turnQueue{cols: slices.Clone(cols)}
	slices.SortStableFunc(q.cols, func(a, b columnOf) int { return a.turn - b.turn })
	for _, c := range q.cols {
		if c.turn >= 0 && !slices.Contains(q.turns, c.turn) {
			q.turns = append(q.turns, c.turn)
		}
	}
	return q
}

// pop takes the next row out.
func (q *turnQueue) pop(row *Row) bool {
	if q.i >= len(q.rows) {
		return false
	}
	// Turns may share what they are made of, and the reader reuses its row: copy.
	from := &q.rows[q.i]
	ids, messages, extra := row.HashIDs[:0], row.Messages[:0], row.Extra[:0]
	*row = *from
	row.HashIDs = append(ids, from.HashIDs...)
	row.Messages = append(messages, from.Messages...)
	row.Extra = append(extra, from.Extra...)
	q.i++
	return true
}

// start empties the queue.
func (q *turnQueue) start() { q.rows, q.i = q.rows[:0], 0 }

// push makes a row of each turn that has a prompt or a length of one.
func (q *turnQueue) push(row *Row, set func(*Row, columnOf) error) error {
	q.start()
	base := *row
	base.HashIDs, base.Messages, base.Extra = nil, nil, nil
	for _, c := range q.cols {
		if c.turn < 0 {
			if err := set(&base, c); err != nil {
				return err
			}
		}
	}
	if base.SessionID == "" {
		base.SessionID = "row " + strconv.FormatInt(base.Line, 10)
	}
	for _, k := range q.turns {
		r := base
		r.Turn = len(q.rows) + 1
		if r.Turn > 1 {
			r.System = ""
		}
		for _, c := range q.cols {
			if c.turn != k {
				continue
			}
			if err := set(&r, c); err != nil {
				q.start()
				return err
			}
		}
		if r.Text != "" || r.PromptTokens > 0 {
			q.rows = append(q.rows, r)
		}
	}
	return nil
}
