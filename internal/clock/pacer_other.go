//go:build !linux

package clock

import (
	"runtime"
	"time"
)

// earlyWake is how long before its stamp a pacer stops trusting the runtime's
// timer, which is about 1 ms coarse.
const earlyWake = time.Millisecond

// sleeper waits on a runtime timer and a channel.
type sleeper struct {
	timer *time.Timer
	woken chan struct{}
}

func (s *sleeper) init(*Clock) {
	s.timer = time.NewTimer(0)
	s.timer.Stop()
	s.woken = make(chan struct{}, 1)
}

// wait returns after left, or when woken, or for no reason (an old wake).
func (s *sleeper) wait(_ *uint32, _ int64, left time.Duration) {
	s.timer.Reset(left)
	select {
	case <-s.timer.C:
	case <-s.woken:
		s.timer.Stop()
	}
}

func (s *sleeper) wake(*uint32) {
	select {
	case s.woken <- struct{}{}:
	default:
	}
}

// spin is one turn of waiting for a stamp that is less than earlyWake away: long
// enough for others to run meanwhile.
func spin() { runtime.Gosched() }

// Pin ties the calling goroutine to its thread; unpin undoes it.
func (p *Pacer) Pin() (unpin func()) {
	runtime.LockOSThread()
	return runtime.UnlockOSThread
}
