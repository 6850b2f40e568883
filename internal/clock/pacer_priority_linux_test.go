package clock

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// A thread that was the pacer's goes back as it came.
func TestPinIsUndone(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	thread := unix.Gettid()
	state := func() (nice, slack int) {
		nice, err := unix.Getpriority(unix.PRIO_PROCESS, thread)
		if err != nil {
			t.Fatal(err)
		}
		slack, err = unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		return nice, slack
	}
	nice, slack := state()
	unpin := NewPacer(Start()).Pin()
	if _, during := state(); during != 1 {
		t.Errorf("slack %d ns while pinned", during)
	}
	unpin()
	if n, s := state(); n != nice || s != slack {
		t.Errorf("priority %d and slack %d, %d and %d before", n, s, nice, slack)
	}
}
