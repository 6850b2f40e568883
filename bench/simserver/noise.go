//go:build linux

package main

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-bench/assay/internal/clock"
)

// control is a bare timer thread on the server's core while the server rests: how
// late the machine wakes a thread that wants nothing else, at the same priority.
// Slip cannot be better than this.
type control struct{ late []int64 }

// sample adds a second of wakes.
func (c *control) sample(core int) error {
	failed := make(chan error, 1)
	go func() {
		clk := clock.Start()
		p := clock.NewPacer(clk)
		p.Pin() // for good: the thread ends with the goroutine
		var its unix.CPUSet
		its.Set(core)
		if err := unix.SchedSetaffinity(0, &its); err != nil {
			failed <- err
			return
		}
		from := clk.Now()
		for i := range int64(1000) {
			at := from + i*int64(time.Millisecond)
			p.SleepUntil(at)
			c.late = append(c.late, clk.Now()-at)
		}
		failed <- nil
		runtime.Goexit()
	}()
	return <-failed
}

func (c *control) String() string {
	slices.Sort(c.late)
	at := func(p float64) float64 { return float64(c.late[int(p*float64(len(c.late)-1))]) / 1e3 }
	return fmt.Sprintf("control: a bare timer thread on that core, before and after: late p50 %.0f us, p99 %.0f us, max %.0f us", at(.5), at(.99), at(1))
}

// usage is CPU time in ticks of 10 ms: of a core, what the hypervisor took of it,
// and of one process.
type usage struct{ all, busy, stolen, own int64 }

func readUsage(core, pid int) (usage, error) {
	var u usage
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return u, err
	}
	for line := range strings.Lines(string(stat)) {
		f := strings.Fields(line)
		if len(f) < 9 || f[0] != fmt.Sprint("cpu", core) {
			continue
		}
		for i, text := range f[1:9] { // user nice system idle iowait irq softirq steal
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return u, fmt.Errorf("/proc/stat: %w", err)
			}
			u.all += n
			switch i {
			case 3, 4:
			case 7:
				u.stolen = n
			default:
				u.busy += n
			}
		}
	}
	stat, err = os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return u, err
	}
	// Fields 14 and 15, counted after the name, which ends in the last ")".
	f := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	for _, text := range f[11:13] {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return u, fmt.Errorf("/proc/%d/stat: %w", pid, err)
		}
		u.own += n
	}
	return u, nil
}

// since describes the time between two readings.
func (u usage) since(v usage) string {
	all := float64(max(u.all-v.all, 1))
	percent := func(ticks int64) float64 { return 100 * float64(max(ticks, 0)) / all }
	own := u.own - v.own
	return fmt.Sprintf("of its core the server used %.0f %%, other processes %.0f %%, the hypervisor %.0f %%",
		percent(own), percent(u.busy-v.busy-own), percent(u.stolen-v.stolen))
}
