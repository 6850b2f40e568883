package real

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// What Linux says of the CPU that this process may use, and gets. Where a file is
// not there, as on other systems, nothing is known.

// cgroupFiles are the places of a file of this process's cgroup: its own group of
// cgroup v2, that of the controller cpu of v1, and the roots, which are what a
// container sees of its own group.
func cgroupFiles(name string) []string {
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil
	}
	var files []string
	for line := range strings.Lines(string(b)) {
		id, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, path, _ := strings.Cut(rest, ":")
		switch {
		case id == "0" && controllers == "":
			files = append(files, "/sys/fs/cgroup"+path+"/"+name, "/sys/fs/cgroup/"+name)
		case has(controllers, "cpu"):
			files = append(files, "/sys/fs/cgroup/cpu"+path+"/"+name, "/sys/fs/cgroup/cpu/"+name)
		}
	}
	return files
}

func has(list, word string) bool {
	for w := range strings.SplitSeq(list, ",") {
		if w == word {
			return true
		}
	}
	return false
}

// throttledTime is how long this process's cgroup was stopped by its CPU limit so
// far; ok is false where there is none to read.
func throttledTime() (time.Duration, bool) {
	for _, file := range cgroupFiles("cpu.stat") {
		if b, err := os.ReadFile(file); err == nil {
			if d, ok := parseThrottled(string(b)); ok {
				return d, true
			}
		}
	}
	return 0, false
}

// parseThrottled reads a cpu.stat: throttled_usec of cgroup v2, throttled_time in
// nanoseconds of v1.
func parseThrottled(stat string) (time.Duration, bool) {
	for line := range strings.Lines(stat) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			continue
		}
		switch key {
		case "throttled_usec":
			return time.Duration(n) * time.Microsecond, true
		case "throttled_time":
			return time.Duration(n), true
		}
	}
	return 0, false
}

// cpuQuota is the CPU limit of this process's cgroup in cores; 0 is none.
func cpuQuota() float64 {
	for _, file := range cgroupFiles("cpu.max") {
		if b, err := os.ReadFile(file); err == nil {
			quota, period, _ := strings.Cut(strings.TrimSpace(string(b)), " ")
			return cores(quota, period)
		}
	}
	for _, file := range cgroupFiles("cpu.cfs_quota_us") {
		quota, err := os.ReadFile(file)
		period, perr := os.ReadFile(strings.TrimSuffix(file, "cpu.cfs_quota_us") + "cpu.cfs_period_us")
		if err == nil && perr == nil {
			return cores(strings.TrimSpace(string(quota)), strings.TrimSpace(string(period)))
		}
	}
	return 0
}

// cores is quota over period; 0 for "max", -1 and what cannot be read.
func cores(quota, period string) float64 {
	q, err := strconv.ParseFloat(quota, 64)
	p, perr := strconv.ParseFloat(period, 64)
	if err != nil || perr != nil || q <= 0 || p <= 0 {
		return 0
	}
	return q / p
}

// hostCPU is the CPU time of the cores that this process may run on, so far, in
// ticks.
type hostCPU struct {
	total, steal uint64
	known        bool
}

func readHostCPU() hostCPU {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return hostCPU{}
	}
	status, _ := os.ReadFile("/proc/self/status") // without it, all cores
	return parseHostCPU(string(stat), allowedCPUs(string(status)))
}

// allowedCPUs are the names, as in /proc/stat, of the cores in Cpus_allowed_list
// of a /proc/self/status, such as "0-3,8"; nil if it does not say.
func allowedCPUs(status string) map[string]bool {
	_, list, ok := strings.Cut(status, "\nCpus_allowed_list:")
	if !ok {
		return nil
	}
	list, _, _ = strings.Cut(list, "\n")
	cpus := make(map[string]bool)
	for part := range strings.SplitSeq(strings.TrimSpace(list), ",") {
		low, high, isRange := strings.Cut(part, "-")
		if !isRange {
			high = low
		}
		from, err := strconv.Atoi(low)
		to, terr := strconv.Atoi(high)
		if err != nil || terr != nil || to-from > 1<<16 {
			return nil
		}
		for n := from; n <= to; n++ {
			cpus["cpu"+strconv.Itoa(n)] = true
		}
	}
	return cpus
}

// parseHostCPU sums the lines of a /proc/stat (proc(5)) for these cores, or takes
// the line of all if it is not known which: user, nice, system, idle, iowait, irq,
// softirq, steal; guest times are in user.
func parseHostCPU(stat string, cpus map[string]bool) (h hostCPU) {
	if len(cpus) == 0 {
		cpus = map[string]bool{"cpu": true}
	}
	for line := range strings.Lines(stat) {
		fields := strings.Fields(line)
		if len(fields) < 9 || !cpus[fields[0]] {
			continue
		}
		for i, f := range fields[1:9] {
			n, err := strconv.ParseUint(f, 10, 64)
			if err != nil {
				return hostCPU{}
			}
			h.total += n
			if i == 7 {
				h.steal += n
			}
		}
		h.known = true
	}
	return h
}

// stolenSince is the share of the time of these cores that the hypervisor gave to
// others; nil where it is not known.
func (h hostCPU) stolenSince(from hostCPU) *float64 {
	if !h.known || !from.known || h.total <= from.total || h.steal < from.steal {
		return nil
	}
	return new(float64(h.steal-from.steal) / float64(h.total-from.total))
}
