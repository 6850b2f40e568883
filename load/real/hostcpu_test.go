package real

import (
	"strings"
	"testing"
	"time"
)

func TestParseThrottled(t *testing.T) {
	for _, tt := range []struct {
		name, stat string
		want       time.Duration
		ok         bool
	}{
		{"v2", "usage_usec 12\nnr_periods 3\nnr_throttled 2\nthrottled_usec 1500\n", 1500 * time.Microsecond, true},
		{"v1", "nr_periods 3\nnr_throttled 2\nthrottled_time 2500\n", 2500, true},
		{"no limit", "usage_usec 12\n", 0, false},
		{"garbage", "throttled_usec soon\n", 0, false},
	} {
		if got, ok := parseThrottled(tt.stat); got != tt.want || ok != tt.ok {
			t.Errorf("%s: %v %v", tt.name, got, ok)
		}
	}
}

func TestCgroupFiles(t *testing.T) {
	for _, tt := range []struct{ name, cgroup, want string }{
		{"v2 in a container", "0::/\n", "/sys/fs/cgroup/cpu.stat"},
		{"v2, nested", "0::/user.slice/a.scope\n", "/sys/fs/cgroup/user.slice/a.scope/cpu.stat /sys/fs/cgroup/user.slice/cpu.stat /sys/fs/cgroup/cpu.stat"},
		{"v1", "9:name=systemd:/x\n4:memory:/x\n2:cpu,cpuacct:/docker/1\n", "/sys/fs/cgroup/cpu/docker/1/cpu.stat /sys/fs/cgroup/cpu/docker/cpu.stat /sys/fs/cgroup/cpu/cpu.stat"},
		{"cpuacct is not cpu", "2:cpuacct:/\n", ""},
		{"nothing", "", ""},
		{"garbage", "0::\nx", "/sys/fs/cgroup/cpu.stat"},
	} {
		if got := strings.Join(cgroupFiles(tt.cgroup, "cpu.stat"), " "); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestCores(t *testing.T) {
	for _, tt := range []struct {
		quota, period string
		want          float64
	}{{"max", "100000", 0}, {"-1", "100000", 0}, {"150000", "100000", 1.5}, {"x", "1", 0}, {"1", "0", 0}} {
		if got := cores(tt.quota, tt.period); got != tt.want {
			t.Errorf("%s %s: %v, want %v", tt.quota, tt.period, got, tt.want)
		}
	}
}

func TestStolen(t *testing.T) {
	const (
		before = "cpu  100 0 100 700 50 0 40 10 0 0\ncpu0 10 0 10 70 5 0 4 1 0 0\ncpu12 90 0 90 630 45 0 36 9 0 0\nintr 9 8 7 6 5 4 3 2 1\n"
		after  = "cpu  150 0 120 740 50 0 40 100 9 9\ncpu0 10 0 10 70 5 0 4 101 0 0\ncpu12 90 0 90 730 45 0 36 9 0 0\nintr 9 8 7 6 5 4 3 2 1\n"
	)
	for _, tt := range []struct {
		name, status string
		want         float64
	}{
		{"all cores", "", 0.45}, // 90 of 200 ticks
		{"one core", "Name:\tx\nCpus_allowed_list:\t0\nMems:\t0\n", 1},
		{"the other", "Name:\tx\nCpus_allowed_list:\t8-15\n", 0},
		{"both", "Name:\tx\nCpus_allowed_list:\t0,8-15\n", 0.5},
		{"a list that is none", "Name:\tx\nCpus_allowed_list:\tf-\n", 0.45},
		{"a list without end", "Name:\tx\nCpus_allowed_list:\t0-99999999999\n", 0.45},
	} {
		cpus := allowedCPUs(tt.status)
		got := parseHostCPU(after, cpus).stolenSince(parseHostCPU(before, cpus))
		if got == nil || *got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
	from, to := parseHostCPU(before, nil), parseHostCPU(after, nil)
	if from.stolenSince(to) != nil || parseHostCPU("cpu x", nil).stolenSince(from) != nil || to.stolenSince(hostCPU{}) != nil {
		t.Error("a share of nothing that is known")
	}
}
