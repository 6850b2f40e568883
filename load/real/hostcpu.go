package real

import (
	"os"
	"path"
	"strconv"
	"strings"
	"time"
)

// What Linux says of the CPU that this process may use, and gets. Where a file is
// not there, as on other systems, nothing is known.

// cgroupFiles are the places of a file of this process's cgroup and of all above
// it, whose limits bind as well: in cgroup v2, and of the controller cpu in v1. In
// a container the root is its own group.
func cgroupFiles(cgroup, name string) (files []string) {
	for line := range strings.Lines(cgroup) {
		id, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, dir, _ := strings.Cut(rest, ":")
		root := ""
		switch {
		case id == "0" && controllers == "":
			root = "/sys/fs/cgroup"
		case has(controllers, "cpu"):
			root = "/sys/fs/cgroup/cpu"
		default:
			continue
		}
		for ; dir != "" && dir != "/" && dir != "."; dir = path.Dir(dir) {
			files = append(files, path.Join(root, dir, name))
		}
		files = append(files, path.Join(root, name))
	}
	return files
}

// ownCgroup is what says of which cgroups this process is; empty where there are
// none.
func ownCgroup() string {
	b, _ := os.ReadFile("/proc/self/cgroup")
	return string(b)
}

func has(list, word string) bool {
	for w := range strings.SplitSeq(list, ",") {
		if w == word {
			return true
		}
	}
	return false
}

// throttledTime is how long this process was stopped by the CPU limits of its
// cgroup and those above it so far; ok is false where there is none to read.
func throttledTime() (total time.Duration, ok bool) {
	for _, file := range cgroupFiles(ownCgroup(), "cpu.stat") {
		b, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		if d, here := parseThrottled(string(b)); here {
			total, ok = total+d, true
		}
	}
	return total, ok
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

// cpuQuota is the tightest CPU limit of this process's cgroup and those above it,
// in cores; 0 is none.
func cpuQuota() (tightest float64) {
	limit := func(quota, period string) {
		if n := cores(strings.TrimSpace(quota), strings.TrimSpace(period)); n > 0 && (tightest == 0 || n < tightest) {
			tightest = n
		}
	}
	for _, file := range cgroupFiles(ownCgroup(), "cpu.max") {
		if b, err := os.ReadFile(file); err == nil {
			quota, period, _ := strings.Cut(strings.TrimSpace(string(b)), " ")
			limit(quota, period)
		}
	}
	for _, file := range cgroupFiles(ownCgroup(), "cpu.cfs_quota_us") {
		quota, err := os.ReadFile(file)
		period, perr := os.ReadFile(strings.TrimSuffix(file, "cpu.cfs_quota_us") + "cpu.cfs_period_us")
		if err == nil && perr == nil {
			limit(string(quota), string(period))
		}
	}
	return tightest
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
