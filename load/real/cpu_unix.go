//go:build unix

package real

import (
	"time"

	"golang.org/x/sys/unix"
)

// processCPU is the user and system time that this process used so far.
func processCPU() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
