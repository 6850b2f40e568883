package simserver

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// writeProcess writes what prometheus_client tells of its process on Linux, but
// for the start time.
func writeProcess(e *expo) {
	gauge := func(name, kind, help string, value float64) {
		e.family(name, kind, help)
		e.sample(name, nil, value)
	}
	if memory, err := os.ReadFile("/proc/self/statm"); err == nil {
		fields := bytes.Fields(memory)
		for i, f := range []struct{ name, help string }{
			{"process_virtual_memory_bytes", "Virtual memory size in bytes."},
			{"process_resident_memory_bytes", "Resident memory size in bytes."},
		} {
			if pages, err := strconv.ParseFloat(string(fields[i]), 64); err == nil {
				gauge(f.name, "gauge", f.help, pages*float64(os.Getpagesize()))
			}
		}
	}
	var used unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &used) == nil {
		gauge("process_cpu_seconds_total", "counter", "Total user and system CPU time spent in seconds.",
			seconds(used.Utime.Nano()+used.Stime.Nano()))
	}
	if open, err := os.ReadDir("/proc/self/fd"); err == nil {
		gauge("process_open_fds", "gauge", "Number of open file descriptors.", float64(len(open)))
	}
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil {
		gauge("process_max_fds", "gauge", "Maximum number of open file descriptors.", float64(limit.Cur))
	}
}
