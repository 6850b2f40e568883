package arrival

import (
	"fmt"
	"time"
)

// Burst sends many at once: at the start, and again at every period if there is
// one.
type Burst struct {
	size  int
	every time.Duration
	sent  int // of this burst
}

// NewBurst makes bursts of size arrivals; one alone if every is 0.
func NewBurst(size int, every time.Duration) (*Burst, error) {
	if size < 1 {
		return nil, fmt.Errorf("burst arrivals: size %d is not above 0", size)
	}
	if every < 0 {
		return nil, fmt.Errorf("burst arrivals: the time between bursts, %v, is negative", every)
	}
	return &Burst{size: size, every: every}, nil
}

// Next gap.
func (b *Burst) Next() time.Duration {
	if b.sent < b.size {
		b.sent++
		return 0
	}
	if b.every == 0 {
		return Never
	}
	b.sent = 1
	return b.every
}

func (b *Burst) String() string {
	if b.every == 0 {
		return fmt.Sprintf("one burst of %d", b.size)
	}
	return fmt.Sprintf("bursts of %d every %v", b.size, b.every)
}

// Exact rescales the gaps of another process, block by block, so that every n
// arrivals take exactly n/rate. It hides how a random process varies from run to
// run, so comparisons look surer than they are; it is there to reproduce tools
// that do so.
type Exact struct {
	p     Process
	rate  float64
	gaps  []time.Duration // of the block; those already given are cut off
	block []time.Duration
	done  int64 // arrivals of the blocks before
	at    time.Duration
}

// NewExact wraps p, whose mean rate is rate, in blocks of n arrivals.
func NewExact(p Process, rate float64, n int) (*Exact, error) {
	if err := CheckRate(rate); err != nil {
		return nil, fmt.Errorf("exact count: %w", err)
	}
	if n < 1 || n > 10_000_000 {
		return nil, fmt.Errorf("exact count: %d arrivals a block are not within 1 and 10000000", n)
	}
	return &Exact{p: p, rate: rate, block: make([]time.Duration, n)}, nil
}

// Next gap.
func (e *Exact) Next() time.Duration {
	if len(e.gaps) == 0 {
		e.fill()
	}
	gap := e.gaps[0]
	e.gaps = e.gaps[1:]
	return gap
}

// fill draws a block and stretches it from where the last one ended to where
// this one is to end.
func (e *Exact) fill() {
	sum := 0.0
	for i := range e.block {
		e.block[i] = e.p.Next()
		sum += float64(e.block[i])
	}
	e.done += int64(len(e.block))
	end := constantAt(e.done, e.rate)
	span := float64(end - e.at)
	start, at, passed := e.at, e.at, 0.0
	for i, g := range e.block {
		passed += float64(g)
		next := end
		if i < len(e.block)-1 && sum > 0 {
			next = start + time.Duration(span*passed/sum)
		}
		e.block[i] = next - at
		at = next
	}
	e.at, e.gaps = end, e.block
}

func (e *Exact) String() string {
	return fmt.Sprintf("%v, gaps rescaled so that every %d arrivals take exactly %v", e.p, len(e.block), constantAt(int64(len(e.block)), e.rate))
}
