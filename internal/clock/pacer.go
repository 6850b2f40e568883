package clock

import (
	"sync/atomic"
	"time"
)

// Never is a stamp to sleep until when only Wake is to end the sleep.
const Never = int64(1<<63 - 1)

// Pacer sleeps until stamps of a Clock, far more exactly than the runtime's
// timers, which are 1 ms coarse on an idle process.
//
// It sleeps in the kernel until a little before the stamp and spins for the
// rest: a sleeping thread wakes some 60 us late, a spinning one does not. One
// goroutine sleeps; any may wake it. For full precision that goroutine holds its
// thread by [Pacer.Pin], and the process has more Ps than runnable goroutines
// (after its sleep the thread needs one).
type Pacer struct {
	clock *Clock
	// woken is 1 from a Wake until a SleepUntil has seen it. Atomic access; the
	// system's own wait is on its address.
	woken  uint32
	system sleeper
}

// NewPacer makes a pacer on the stamps of c.
func NewPacer(c *Clock) *Pacer {
	p := &Pacer{clock: c}
	p.system.init(c)
	return p
}

// SleepUntil returns at the stamp, or at once if that has passed, or early, with
// interrupted true, because of a Wake during the sleep or since the last
// interrupted one. It does not allocate.
func (p *Pacer) SleepUntil(stamp int64) (interrupted bool) {
	for {
		// The plain load first: a swap would bounce the cache line in the spin.
		if atomic.LoadUint32(&p.woken) != 0 && atomic.SwapUint32(&p.woken, 0) != 0 {
			return true
		}
		left := stamp - p.clock.Now()
		switch {
		case left <= 0:
			return false
		case left > int64(earlyWake):
			p.system.wait(&p.woken, stamp-int64(earlyWake), time.Duration(left)-earlyWake)
		default:
			spin()
		}
	}
}

// Wake ends the sleep of the other goroutine at once, or its next one if it is
// not asleep. Several wakes before that count as one.
func (p *Pacer) Wake() {
	if atomic.SwapUint32(&p.woken, 1) == 0 {
		p.system.wake(&p.woken)
	}
}

// SleepUntil sleeps until the stamp with the precision of a [Pacer], for callers
// that nobody wakes. A loop that sleeps often makes a Pacer of its own.
func (c *Clock) SleepUntil(stamp int64) {
	NewPacer(c).SleepUntil(stamp)
}
