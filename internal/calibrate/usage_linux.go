package calibrate

import (
	"bytes"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-bench/assay/internal/clock"
)

// usage is CPU time so far: of this process, of the server's, and of all.
type usage struct {
	at               int64
	own, server, all time.Duration
}

func readUsage(pid int) usage {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now)
	u := usage{at: now.Nano(), server: processTime(pid), all: machineTime()}
	var r unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &r) == nil {
		u.own = time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	return u
}

// userHz is the unit of /proc (USER_HZ), the same on every Linux that we know.
const userHz = 100

func ticks(fields ...[]byte) time.Duration {
	var sum time.Duration
	for _, f := range fields {
		n, _ := strconv.ParseInt(string(f), 10, 64)
		sum += time.Duration(n) * time.Second / userHz
	}
	return sum
}

// processTime is the user and system time of a process (proc_pid_stat(5)).
func processTime(pid int) time.Duration {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	_, after, ok := bytes.Cut(b, []byte(") ")) // the name may have blanks
	f := bytes.Fields(after)
	if err != nil || !ok || len(f) < 13 {
		return 0
	}
	return ticks(f[11], f[12])
}

// machineTime is user, nice and system time of all processes, and what the
// hypervisor took (proc_stat(5)). Interrupts are left out: those of loopback
// belong to nobody.
func machineTime() time.Duration {
	b, err := os.ReadFile("/proc/stat")
	f := bytes.Fields(b)
	if err != nil || len(f) < 9 || string(f[0]) != "cpu" {
		return 0
	}
	return ticks(f[1], f[2], f[3], f[8])
}

// BusyCores is how many cores of the machine were busy for the next d.
func BusyCores(c *clock.Clock, d time.Duration) float64 {
	before, begin := machineTime(), c.Now()
	c.SleepUntil(begin + int64(d))
	return float64(machineTime()-before) / float64(c.Now()-begin)
}

// footprint is the memory of this process after a collection. The first one
// leaves what pools keep to the second.
func footprint() Footprint {
	runtime.GC()
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	out := Footprint{Heap: int64(m.HeapAlloc), Stacks: int64(m.StackInuse)}
	b, err := os.ReadFile("/proc/self/statm")
	f := bytes.Fields(b)
	if err != nil || len(f) < 3 {
		return out
	}
	resident, _ := strconv.ParseInt(string(f[1]), 10, 64)
	shared, _ := strconv.ParseInt(string(f[2]), 10, 64)
	out.Resident = (resident - shared) * int64(os.Getpagesize())
	return out
}

// spareFiles are left for what is no connection.
const spareFiles = 64

// MaxConnections is how many this process may have open; 0 if that is not known.
func MaxConnections() int {
	var r unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &r) != nil || r.Cur > 1<<30 {
		return 0
	}
	return max(1, int(r.Cur)-spareFiles)
}
