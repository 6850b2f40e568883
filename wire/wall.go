package wire

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/assay-bench/assay/internal/clock"
	"github.com/assay-bench/assay/record"
)

const (
	// wallEvery is how long an estimate of the wall offset is used.
	wallEvery = time.Second
	// wallStep is the change between two estimates, beyond what their own errors
	// explain, that counts as a step.
	wallStep = 10 * time.Microsecond
	// maxEstimates bounds the estimates that are kept until somebody takes them:
	// an hour of them.
	maxEstimates = 3600
)

// wallOffset turns wall time, which the kernel stamps with, into stamps. It is
// estimated anew every second by whoever needs it first then, after his read
// was stamped (some 20 us).
type wallOffset struct {
	read   func() clock.Offset
	offset atomic.Int64 // wall ns - stamp
	next   atomic.Int64 // stamp at which to estimate again

	mu      sync.Mutex
	latest  record.ClockOffset
	untaken []record.ClockOffset
	steps   int64
	largest time.Duration
}

// newWallOffset makes the first estimate, as read tells it.
func newWallOffset(read func() clock.Offset) *wallOffset {
	w := &wallOffset{read: read}
	w.estimate()
	return w
}

// estimate reads both clocks.
func (w *wallOffset) estimate() {
	w.mu.Lock()
	defer w.mu.Unlock()
	o := w.read()
	is := record.ClockOffset{At: record.Stamp(o.Stamp), Wall: o.Wall.UnixNano(), Window: o.Window}
	was := w.latest
	step := time.Duration(is.Wall - int64(is.At) - (was.Wall - int64(was.At)))
	if was.Wall != 0 && step.Abs() > wallStep+(is.Window+was.Window)/2 {
		w.steps++
		if step.Abs() > w.largest.Abs() {
			w.largest = step
		}
	}
	w.latest = is
	if len(w.untaken) < maxEstimates {
		w.untaken = append(w.untaken, is)
	}
	w.offset.Store(is.Wall - int64(is.At))
	w.next.Store(int64(is.At) + int64(wallEvery))
}

// refresh estimates again if it is time; now is the current moment.
func (w *wallOffset) refresh(now record.Stamp) {
	next := w.next.Load()
	if int64(now) >= next && w.next.CompareAndSwap(next, int64(now)+int64(wallEvery)) {
		w.estimate()
	}
}

// stamp converts wall nanoseconds; now is the current moment.
func (w *wallOffset) stamp(wall int64, now record.Stamp) record.Stamp {
	w.refresh(now)
	return record.Stamp(wall - w.offset.Load())
}

// take returns the estimates since the last call.
func (w *wallOffset) take() []record.ClockOffset {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.untaken
	w.untaken = nil
	return out
}

// stepped returns how often the clock has stepped, and the largest step.
func (w *wallOffset) stepped() (int64, time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.steps, w.largest
}
