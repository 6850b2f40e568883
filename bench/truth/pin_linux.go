package main

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// canPin says whether there are two cores to give.
func canPin() bool {
	var set unix.CPUSet
	return unix.SchedGetaffinity(0, &set) == nil && set.IsSet(serverCore) && set.IsSet(clientCore)
}

// startOn calls start on a thread that is tied to that core: a child inherits it.
func startOn(core int, start func() error) error {
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
