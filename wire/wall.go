package wire

import (
	"sync/atomic"
	"time"

	"github.com/assay-bench/assay/internal/clock"
	"github.com/assay-bench/assay/record"
)

const (
	// wallEvery is how long an estimate of the wall offset is used.
	wallEvery = time.Second
	// wallStep is the change between two estimates that counts as a step.
	wallStep = 10 * time.Microsecond
)

// wallOffset turns wall time, which the kernel stamps with, into stamps. It is
// estimated anew every second by whoever needs it first then, after his read
// was stamped (some 20 us).
type wallOffset struct {
	clock  *clock.Clock
	offset atomic.Int64 // wall ns - stamp
	next   atomic.Int64 // stamp at which to estimate again
	steps  atomic.Int64
}

func newWallOffset(c *clock.Clock) *wallOffset {
	w := &wallOffset{clock: c}
	w.offset.Store(w.estimate())
	w.next.Store(c.Now() + int64(wallEvery))
	return w
}

func (w *wallOffset) estimate() int64 {
	o := w.clock.Offset()
	return o.Wall.UnixNano() - o.Stamp
}

// stamp converts wall nanoseconds; now is the current moment.
func (w *wallOffset) stamp(wall int64, now record.Stamp) record.Stamp {
	next := w.next.Load()
	if int64(now) >= next && w.next.CompareAndSwap(next, int64(now)+int64(wallEvery)) {
		fresh := w.estimate()
		if d := time.Duration(fresh - w.offset.Swap(fresh)); d.Abs() > wallStep {
			w.steps.Add(1)
		}
	}
	return record.Stamp(wall - w.offset.Load())
}
