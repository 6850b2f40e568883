package clock

import (
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// earlyWake is how long before its stamp a pacer leaves the kernel: about the
// time that a sleeping thread takes to run again.
const earlyWake = 60 * time.Microsecond

// The futex operations of linux/futex.h that x/sys/unix does not name.
const (
	futexWake       = 1
	futexWaitBitset = 9
	futexPrivate    = 128
	futexMatchAny   = 0xffffffff
)

// sleeper waits in a futex: like clock_nanosleep with TIMER_ABSTIME it takes an
// absolute time on CLOCK_MONOTONIC (no drift between reading the clock and
// falling asleep) and obeys the thread's timer slack; unlike it, another thread
// can end it.
type sleeper struct {
	// epoch is CLOCK_MONOTONIC at stamp 0.
	epoch int64
}

func (s *sleeper) init(c *Clock) {
	// The narrowest of a few sandwiches, since a preemption in one would
	// misplace all later wakes. An error below a microsecond is left.
	narrowest := Never
	for range 8 {
		var ts unix.Timespec
		before := c.Now()
		err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
		after := c.Now()
		if err == nil && after-before < narrowest {
			narrowest = after - before
			s.epoch = ts.Nano() - (before + narrowest/2)
		}
	}
}

// wait returns at the stamp, or when word is 1, or for no reason.
func (s *sleeper) wait(word *uint32, stamp int64, left time.Duration) {
	if stamp > Never-s.epoch {
		stamp = Never - s.epoch
	}
	ts := unix.NsecToTimespec(s.epoch + stamp)
	// Not RawSyscall: the sleep must give its P to other goroutines.
	_, _, errno := unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)),
		futexWaitBitset|futexPrivate, 0, uintptr(unsafe.Pointer(&ts)), 0, futexMatchAny)
	switch errno {
	case 0, unix.ETIMEDOUT, unix.EAGAIN, unix.EINTR:
	default:
		// A sandbox without this futex: coarse, but neither late nor a busy loop.
		time.Sleep(min(left, time.Millisecond))
	}
}

func (s *sleeper) wake(word *uint32) {
	// It can fail only on a bad address, and then the spin sees the word.
	_, _, _ = unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)),
		futexWake|futexPrivate, 1, 0, 0, 0)
}

// spin is one turn of waiting for a stamp that is less than earlyWake away.
func spin() {}

// pacerNice is the pacer's priority where the system allows one above the usual
// (CAP_SYS_NICE, or RLIMIT_NICE): a thread that sends when it wakes must not wait
// for those that read. It sleeps but for the last 60 us before each send.
const pacerNice = -15

// Pin ties the calling goroutine to its thread, sets the thread's timer slack from
// the usual 50 us to 1 ns, and raises its priority if it may. Unpin undoes all of
// it, on the same goroutine. Where slack or priority cannot be set, sleeps end that
// much later: it shows in the lateness of sends, which every run measures.
func (p *Pacer) Pin() (unpin func()) {
	runtime.LockOSThread()
	thread := unix.Gettid()
	usual, err := unix.Getpriority(unix.PRIO_PROCESS, thread)
	raised := err == nil && unix.Setpriority(unix.PRIO_PROCESS, thread, pacerNice) == nil
	slack, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	slackSet := err == nil && unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) == nil
	return func() {
		if slackSet {
			_ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(slack), 0, 0, 0)
		}
		if raised {
			// The system call returns 20 - nice, so that no priority is an error.
			_ = unix.Setpriority(unix.PRIO_PROCESS, thread, 20-usual)
		}
		runtime.UnlockOSThread()
	}
}
