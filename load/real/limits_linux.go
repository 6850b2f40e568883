package real

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// ReadLimits asks the system.
func ReadLimits() Limits {
	var l Limits
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err == nil {
		l.Files = int(min(r.Cur, 1<<30))
	}
	if open, err := os.ReadDir("/proc/self/fd"); err == nil {
		l.OpenFiles = len(open)
	}
	if b, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil { // of IPv6 as well
		if n, err := fmt.Sscan(string(b), &l.PortLow, &l.PortHigh); n != 2 || err != nil {
			l.PortLow, l.PortHigh = 0, 0
		}
	}
	return l
}
