package pin

import (
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// Possible reports whether there are two cores to give.
func Possible() bool {
	var set unix.CPUSet
	return unix.SchedGetaffinity(0, &set) == nil && set.IsSet(ServerCore) && set.IsSet(ClientCore)
}

// StartOn calls start on a thread that is tied to that core: a child inherits it.
func StartOn(core int, start func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return err
	}
	one.Set(core)
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return err
	}
	defer func() { _ = unix.SchedSetaffinity(0, &before) }()
	return start()
}

// Self ties the threads of this process, and all that it starts, to a core.
func Self(core int) error {
	var one unix.CPUSet
	one.Set(core)
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, t := range tasks {
		id, err := strconv.Atoi(t.Name())
		if err == nil {
			_ = unix.SchedSetaffinity(id, &one) // it may have ended
		}
	}
	return unix.SchedSetaffinity(0, &one)
}
