package dataset

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"strings"
	"time"
)

// Summary is what one pass over a trace shows.
type Summary struct {
	Format Format
	Unit   Unit
	From   UnitSource // what says the unit

	// Rows are all that were read, Failed among them; Skipped were malformed.
	Rows, Failed, Skipped int64
	// Timed rows have a stamp. Stamps is how many different ones follow each
	// other, Backwards how many are earlier than the one before.
	Timed, Stamps, Backwards int64
	// First is the earliest and Last the latest time since the first row.
	First, Last time.Duration
	// Rate is the mean rate of all timed rows, in requests/s, 0 if it is not
	// defined; FailedRate that of those that failed.
	Rate, FailedRate float64
	// Quantum is the largest time that all stamps are multiples of, counted from
	// the first row.
	Quantum time.Duration
	// Quantised says that stamps are so coarse that a replay would send bursts
	// that were none: the quantum is at least the mean gap, and stamps repeat.
	Quantised bool

	// PromptTokens and OutputTokens of the rows that did not fail.
	PromptTokens, OutputTokens Lengths
	// Sessions, at least, if SessionsCut: so many are told apart.
	Sessions    int64
	SessionsCut bool
	MaxTurn     int

	// Blocks of all rows; Fits says how their number relates to the input length.
	Blocks int64
	Fits   BlockFit
	// Hits is the share of blocks that an infinite prefix cache would have had,
	// the failed rows' too; HitsCut that there were too many blocks to remember.
	Hits    float64
	HitsCut bool
}

// BlockFit counts rows by whether their number of hash ids is the input length
// over the block size, rounded up, down, or neither; Exact is where both agree.
type BlockFit struct {
	BlockSize              int // of the first row with ids
	Up, Down, Exact, Wrong int64
	// Suggested is the block size that all rows fit, 0 if there is none or the
	// one used fits.
	Suggested int
}

// Lengths are the distribution of a count of tokens. Quantiles are exact up to
// 512 and within 1/256 above.
type Lengths struct {
	N             int64
	Mean          float64
	Min, Max      int
	P50, P95, P99 int
}

// Span of the stamps.
func (s Summary) Span() time.Duration { return s.Last - s.First }

// String says the summary in a line, as it is printed before a run.
func (s Summary) String() string {
	var b strings.Builder
	rows := "rows"
	if s.Rows == 1 {
		rows = "row"
	}
	fmt.Fprintf(&b, "%s: %d %s", s.Format.Title(), s.Rows, rows)
	if s.Rate > 0 {
		fmt.Fprintf(&b, " over %s, %.4g/s", round(s.Span()), s.Rate)
	}
	if s.Timed > 0 {
		stamps := "stamps in " + string(s.Unit)
		switch {
		case s.From == FromType:
			stamps = "stamps are times by the column's type"
		case s.Unit == Date:
			stamps = "stamps are dates"
		}
		fmt.Fprintf(&b, " (%s", stamps)
		if s.From != FromType && s.From != FromDates {
			fmt.Fprintf(&b, ", %s", s.From)
		}
		b.WriteByte(')')
		if own := shapeOf(s.Format).unit; own != "" && own != s.Unit {
			fmt.Fprintf(&b, "; the format's own are in %s", own)
		}
	}
	if s.Failed > 0 {
		fmt.Fprintf(&b, "; %d failed", s.Failed)
	}
	if s.Skipped > 0 {
		fmt.Fprintf(&b, "; %d malformed, skipped", s.Skipped)
	}
	if s.Quantised {
		fmt.Fprintf(&b, "; stamps in steps of %v, %.1f rows each: dither them", s.Quantum, float64(s.Timed)/float64(s.Stamps))
	}
	for _, l := range []struct {
		name string
		l    Lengths
	}{{"prompts", s.PromptTokens}, {"outputs", s.OutputTokens}} {
		if l.l.N > 0 {
			fmt.Fprintf(&b, "; %s mean %.0f, p50 %d, p95 %d, max %d tokens", l.name, l.l.Mean, l.l.P50, l.l.P95, l.l.Max)
		}
	}
	return b.String()
}

func round(d time.Duration) time.Duration {
	switch {
	case d > time.Hour:
		return d.Round(time.Second)
	case d > time.Second:
		return d.Round(time.Millisecond)
	}
	return d
}

// What is remembered of a trace, at most.
const (
	maxSessions = 1 << 20
	maxBlocks   = 1 << 22
)

// Scan reads the whole of a trace. The rows are used up.
func Scan(r *Reader) (Summary, error) {
	c := collector{sessions: make(map[uint64]struct{}), blocks: make(map[uint64]struct{}), fit: blockRange{lo: 1, hi: math.MaxInt}}
	for {
		row, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Summary{}, err
		}
		c.add(row)
	}
	s := c.summary()
	s.Format = r.Format()
	s.Unit, s.From = r.Unit()
	s.Skipped, _ = r.Skipped()
	return s, nil
}

// collector makes a Summary of rows.
type collector struct {
	s               Summary
	last            time.Duration
	failedTimed     int64
	gcd             uint64
	prompts, output histogram
	sessions        map[uint64]struct{}
	blocks          map[uint64]struct{}
	hits            int64
	counted         int64 // blocks that hits are of
	fit             blockRange
}

func (c *collector) add(row *Row) {
	s := &c.s
	s.Rows++
	if row.Failed {
		s.Failed++
	} else {
		c.prompts.add(row.PromptTokens)
		c.output.add(row.OutputTokens)
	}
	if row.Timed {
		c.time(row)
	}
	s.MaxTurn = max(s.MaxTurn, row.Turn)
	if row.SessionID != "" {
		h := mix(hashString(row.SessionID) + uint64(row.Copy))
		if _, ok := c.sessions[h]; !ok {
			s.SessionsCut = len(c.sessions) >= maxSessions
			if !s.SessionsCut {
				c.sessions[h] = struct{}{}
			}
		}
	}
	if len(row.HashIDs) > 0 {
		c.hashes(row)
	}
}

func (c *collector) time(row *Row) {
	s := &c.s
	s.Timed++
	if row.Failed {
		c.failedTimed++
	}
	s.First, s.Last = min(s.First, row.At), max(s.Last, row.At)
	c.gcd = gcd(c.gcd, uint64(row.At.Abs()))
	if s.Timed == 1 || row.At != c.last {
		s.Stamps++
	}
	if s.Timed > 1 && row.At < c.last {
		s.Backwards++
	}
	c.last = row.At
}

func (c *collector) hashes(row *Row) {
	s := &c.s
	s.Blocks += int64(len(row.HashIDs))
	c.fits(row)
	// A prefix cache hits until the first block that it does not know.
	hit := true
	for i := range row.HashIDs {
		key := row.BlockSeed(0, i)
		_, known := c.blocks[key]
		hit = hit && known
		if hit {
			c.hits++
		}
		if known {
			continue
		}
		if len(c.blocks) >= maxBlocks {
			s.HitsCut = true
			continue
		}
		c.blocks[key] = struct{}{}
	}
	c.counted += int64(len(row.HashIDs))
}

func (c *collector) fits(row *Row) {
	f := &c.s.Fits
	n, in, b := len(row.HashIDs), row.PromptTokens, row.BlockSize
	if f.BlockSize == 0 {
		f.BlockSize = b
	}
	if in < 0 {
		return
	}
	c.fit.add(n, in)
	if b == 0 {
		return
	}
	up, down := (in+b-1)/b == n, in/b == n
	switch {
	case up && down:
		f.Exact++
	case up:
		f.Up++
	case down:
		f.Down++
	default:
		f.Wrong++
	}
}

func (c *collector) summary() Summary {
	s := c.s
	if span := s.Span().Seconds(); span > 0 && s.Timed > 1 {
		// Over the gaps, not the rows: n stamps have n-1.
		s.Rate = float64(s.Timed-1) / span
		s.FailedRate = s.Rate * float64(c.failedTimed) / float64(s.Timed)
		s.Quantum = time.Duration(c.gcd)
		s.Quantised = s.Quantum.Seconds()*s.Rate >= 1 && s.Timed >= 2*s.Stamps
	}
	s.PromptTokens, s.OutputTokens = c.prompts.lengths(), c.output.lengths()
	s.Sessions = int64(len(c.sessions))
	if c.counted > 0 {
		s.Hits = float64(c.hits) / float64(c.counted)
	}
	if s.Fits.Wrong > 0 || s.Fits.BlockSize == 0 {
		s.Fits.Suggested = c.fit.suggest()
	}
	return s
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// blockRange is the block sizes b with ceil(in/b) = n for all rows: lo <= b < hi.
type blockRange struct{ lo, hi int }

func (r *blockRange) add(n, in int) {
	if n == 0 || in == 0 {
		return
	}
	r.lo = max(r.lo, (in+n-1)/n)
	if n > 1 {
		r.hi = min(r.hi, (in+n-2)/(n-1))
	}
}

// suggest is the power of two in the range, or its only number.
func (r *blockRange) suggest() int {
	if r.lo >= r.hi || r.hi == math.MaxInt {
		return 0
	}
	p := 1 << bits.Len(uint(r.lo-1))
	switch {
	case p < r.hi && p*2 >= r.hi:
		return p
	case r.hi-r.lo == 1:
		return r.lo
	}
	return 0
}

// histogram of counts: one bucket a number up to 512, and 256 buckets an octave
// above.
type histogram struct {
	n        int64
	sum      float64
	min, max int
	buckets  []int64
}

const octave = 256

func bucket(v int) int {
	if v < 2*octave {
		return v
	}
	shift := bits.Len(uint(v)) - 9
	return shift*octave + v>>shift
}

// value is the middle of a bucket.
func value(b int) int {
	if b < 2*octave {
		return b
	}
	shift := b/octave - 1
	low := (b - shift*octave) << shift
	return low + 1<<shift/2
}

func (h *histogram) add(v int) {
	if v < 0 {
		return
	}
	if h.n == 0 {
		h.min, h.max = v, v
	}
	h.n++
	h.sum += float64(v)
	h.min, h.max = min(h.min, v), max(h.max, v)
	b := bucket(v)
	if b >= len(h.buckets) {
		h.buckets = append(h.buckets, make([]int64, b+1-len(h.buckets))...)
	}
	h.buckets[b]++
}

func (h *histogram) lengths() Lengths {
	if h.n == 0 {
		return Lengths{}
	}
	return Lengths{
		N: h.n, Mean: h.sum / float64(h.n), Min: h.min, Max: h.max,
		P50: h.quantile(0.5), P95: h.quantile(0.95), P99: h.quantile(0.99),
	}
}

// quantile is the smallest value that a share q of all does not exceed.
func (h *histogram) quantile(q float64) int {
	rank, seen := int64(math.Ceil(q*float64(h.n))), int64(0)
	for b, n := range h.buckets {
		if seen += n; seen >= rank {
			return min(max(value(b), h.min), h.max)
		}
	}
	return h.max
}
