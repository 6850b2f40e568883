package dataset

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"
)

// Three ways to change the rate of a trace. They are not the same workload, so
// reports name the one that was used.
//
//   - Thinning keeps each row with a probability: what one server of several would
//     see. Lengths and the shape of the day stay, bursts get milder.
//   - Compression divides all times, the recorded delays of later turns too: bursts
//     and correlations get shorter with the gaps between them.
//   - Superposition lays copies shifted in time over each other: more of the same
//     users; the coefficient of variation falls towards that of Poisson.

// Thin keeps each row with probability p, by the seed.
func Thin(src Source, p float64, seed uint64) (Source, error) {
	if !(p > 0 && p <= 1) {
		return nil, fmt.Errorf("thinning: share %v is not within 0 and 1", p)
	}
	return &thinned{src, p, rand.New(rand.NewPCG(mix(seed), 0x7468696e))}, nil
}

type thinned struct {
	src Source
	p   float64
	rnd *rand.Rand
}

func (t *thinned) Next() (*Row, error) {
	for {
		row, err := t.src.Next()
		if err != nil || t.rnd.Float64() < t.p {
			return row, err
		}
	}
}

// Compress makes time run faster by a factor; below 1, slower.
func Compress(src Source, factor float64) (Source, error) {
	if !(factor > 0 && factor < 1e9) {
		return nil, fmt.Errorf("time compression: factor %v is not more than 0", factor)
	}
	return &compressed{src, factor}, nil
}

type compressed struct {
	src    Source
	factor float64
}

func (c *compressed) Next() (*Row, error) {
	row, err := c.src.Next()
	if err == nil {
		row.At = time.Duration(float64(row.At) / c.factor)
		row.Delay = time.Duration(float64(row.Delay) / c.factor)
	}
	return row, err
}

// Superpose lays copies of a trace over each other. The first is as recorded, the
// others begin at times drawn by the seed and go round at the end of the span:
// that of the [Summary], whose rows must all have stamps in order. Ids of the
// copies are apart, so that copies share no prefixes. Each copy is a stream of its
// own from open, which also says how it is closed.
func Superpose(open func() (src Source, done func(), err error), copies int, span time.Duration, seed uint64) (*Superposed, error) {
	if copies < 1 || copies > 1000 {
		return nil, fmt.Errorf("superposition: %d copies are not within 1 and 1000", copies)
	}
	if span <= 0 {
		return nil, fmt.Errorf("superposition: the span of the trace is %v", span)
	}
	rnd := rand.New(rand.NewPCG(mix(seed), 0x7375706572))
	s := &Superposed{}
	for i := range copies {
		c := &shifted{open: open, span: span, copy: i}
		if i > 0 {
			c.shift = time.Duration(rnd.Int64N(int64(span)))
		}
		s.copies = append(s.copies, c)
	}
	return s, nil
}

// Superposed is the source that [Superpose] makes.
type Superposed struct {
	copies []*shifted
	begun  bool
	last   *shifted // whose row the caller has
}

// shifted is one copy. It plays the part of the trace after its shift, then the
// part before.
type shifted struct {
	open  func() (Source, func(), error)
	span  time.Duration
	shift time.Duration
	copy  int

	src   Source
	done  func()
	again bool // in the part before
	row   *Row // ahead
	err   error
}

// Next is the earliest row of all copies.
func (s *Superposed) Next() (*Row, error) {
	if !s.begun {
		s.begun = true
		for _, c := range s.copies {
			c.advance()
		}
	}
	if s.last != nil {
		s.last.advance()
		s.last = nil
	}
	var best *shifted
	for _, c := range s.copies {
		if c.err != nil && !errors.Is(c.err, io.EOF) {
			return nil, c.err
		}
		if c.err == nil && (best == nil || c.row.At < best.row.At) {
			best = c
		}
	}
	if best == nil {
		s.Close()
		return nil, io.EOF
	}
	s.last = best
	return best.row, nil
}

// Close closes the streams of all copies; the end of the rows does it too.
func (s *Superposed) Close() {
	for _, c := range s.copies {
		c.close()
	}
}

func (c *shifted) close() {
	if c.src != nil {
		c.done()
		c.src = nil
	}
}

func (c *shifted) advance() {
	for c.err == nil {
		if c.src == nil {
			if c.src, c.done, c.err = c.open(); c.err != nil {
				c.src = nil
				return
			}
		}
		c.row, c.err = c.src.Next()
		if errors.Is(c.err, io.EOF) && !c.again && c.shift > 0 {
			c.close()
			c.again, c.err = true, nil
			continue
		}
		if c.err != nil {
			return
		}
		if !c.row.Timed {
			c.err = fmt.Errorf("superposition: line %d has no stamp", c.row.Line)
			return
		}
		if c.again && c.row.At >= c.shift {
			c.err = io.EOF
			return
		}
		if !c.again && c.row.At < c.shift {
			continue
		}
		c.place()
		return
	}
}

// place moves the row to where the copy plays it.
func (c *shifted) place() {
	row := c.row
	row.At -= c.shift
	if c.again {
		row.At += c.span
	}
	if c.copy == 0 {
		return
	}
	row.Copy = c.copy
	prefix := "copy " + strconv.Itoa(c.copy) + "/"
	for _, id := range []*string{&row.ID, &row.Parent, &row.SessionID} {
		if *id != "" {
			*id = prefix + *id
		}
	}
}

// Dither spreads rows whose stamps are cut to a quantum: each gets a time drawn
// uniformly within the quantum after its stamp, by the seed. Times are in order:
// the rows of one stamp keep theirs. It holds the rows of one stamp at a time.
func Dither(src Source, quantum time.Duration, seed uint64) (Source, error) {
	if quantum <= 0 {
		return nil, fmt.Errorf("dithering: quantum %v is not more than 0", quantum)
	}
	return &dithered{src: src, quantum: quantum, rnd: rand.New(rand.NewPCG(mix(seed), 0x646974686572))}, nil
}

type dithered struct {
	src     Source
	quantum time.Duration
	rnd     *rand.Rand
	rows    turnQueue // of one stamp
	offsets []time.Duration
	ahead   Row // the first of the next stamp
	has     bool
	row     Row
	bad     error // of the row behind those of this stamp
	err     error // final
}

func (d *dithered) Next() (*Row, error) {
	if d.rows.i >= len(d.rows.rows) {
		if err := d.bad; err != nil {
			d.bad = nil
			return nil, err
		}
		if err := d.group(); err != nil {
			return nil, err
		}
	}
	d.rows.pop(&d.row)
	return &d.row, nil
}

// group collects the rows of the next stamp.
func (d *dithered) group() error {
	d.rows.start()
	if d.has {
		d.rows.rows = append(d.rows.rows, d.ahead)
		d.has = false
	}
	for d.err == nil {
		row, err := d.src.Next()
		if err != nil {
			if !errors.As(err, new(*RowError)) {
				d.err = err
				break
			}
			if len(d.rows.rows) == 0 {
				return err
			}
			d.bad = err
			break
		}
		own := *row
		own.HashIDs, own.Messages, own.Extra = slices.Clone(row.HashIDs), slices.Clone(row.Messages), slices.Clone(row.Extra)
		if !row.Timed {
			own.At = 0
		}
		if g := d.rows.rows; len(g) > 0 && (own.At != g[0].At || !own.Timed || !g[0].Timed) {
			d.ahead, d.has = own, true
			break
		}
		d.rows.rows = append(d.rows.rows, own)
	}
	if len(d.rows.rows) == 0 {
		return d.err
	}
	d.spread()
	return nil
}

func (d *dithered) spread() {
	rows := d.rows.rows
	if !rows[0].Timed {
		return
	}
	d.offsets = d.offsets[:0]
	for range rows {
		d.offsets = append(d.offsets, time.Duration(d.rnd.Int64N(int64(d.quantum))))
	}
	slices.Sort(d.offsets)
	for i := range rows {
		rows[i].At += d.offsets[i]
	}
}
