package environ

import (
	"cmp"
	"io/fs"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// Client is the machine that measures. Empty fields are not known.
type Client struct {
	OS     string `json:"os"`
	Arch   string `json:"arch"`
	Kernel string `json:"kernel,omitempty"`
	CPU    string `json:"cpu,omitempty"`
	// Cores that the system has online for this process.
	Cores int `json:"cores"`
	// Virtual: the CPU says that a hypervisor runs it.
	Virtual bool `json:"virtual_machine,omitempty"`
	// Governors of the cores' frequencies, each once.
	Governors []string `json:"governors,omitempty"`
	// CPULimit and MemoryLimit of the cgroup, in cores and bytes; 0 is none.
	CPULimit    float64 `json:"cpu_limit_cores,omitzero"`
	MemoryLimit int64   `json:"memory_limit_bytes,omitzero"`
	Memory      int64   `json:"memory_bytes,omitzero"`
	// LoadAverage of the last minute when the log was written.
	LoadAverage float64 `json:"load_average,omitzero"`
	ClockSource string  `json:"clock_source,omitempty"`
	// Sync of the wall clock; nil where the kernel does not tell.
	Sync *ClockSync `json:"clock_sync,omitempty"`
	Go   string     `json:"go"`
	// Path to the target; nil if it was not measured.
	Path *Path `json:"network_path,omitempty"`
}

// ClockSync is what the kernel knows of the wall clock (adjtimex).
type ClockSync struct {
	Synchronised bool `json:"synchronised"`
	// MaxErrorUS bounds the error as far as the time daemon keeps the kernel told.
	MaxErrorUS int64 `json:"max_error_us"`
}

// Path is what it takes to reach the target.
type Path struct {
	// Address that was connected to; Proxy says that it is a proxy's.
	Address string `json:"address"`
	Proxy   bool   `json:"proxy,omitempty"`
	// Connects by TCP that were timed: one round trip each.
	Connects int     `json:"connects"`
	MinMS    float64 `json:"connect_min_ms"`
	MedianMS float64 `json:"connect_p50_ms"`
	MaxMS    float64 `json:"connect_max_ms"`
	// TLS says version and cipher, Certificate its issuer and end.
	TLS         string `json:"tls,omitempty"`
	Certificate string `json:"certificate,omitempty"`
	Error       string `json:"error,omitempty"`
}

// ReadClient describes this machine. Root is its file system, without a slash at
// the beginning of names: os.DirFS("/").
func ReadClient(root fs.FS) Client {
	c := Client{OS: runtime.GOOS, Arch: runtime.GOARCH, Go: runtime.Version(), Cores: runtime.NumCPU()}
	c.Kernel, c.Sync = kernel()
	f := files{root}
	c.cpu(f)
	c.limits(f)
	c.ClockSource = f.line("sys/devices/system/clocksource/clocksource0/current_clocksource")
	if first, _, ok := strings.Cut(f.line("proc/loadavg"), " "); ok {
		c.LoadAverage, _ = strconv.ParseFloat(first, 64)
	}
	for line := range strings.Lines(f.text("proc/meminfo")) {
		if kb, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			n, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(kb), " kB"), 10, 64)
			c.Memory = n << 10
		}
	}
	return c
}

// files reads small files; what is not there is empty.
type files struct{ root fs.FS }

func (f files) text(name string) string {
	b, err := fs.ReadFile(f.root, name)
	if err != nil {
		return ""
	}
	return string(b)
}

func (f files) line(name string) string {
	first, _, _ := strings.Cut(f.text(name), "\n")
	return strings.TrimSpace(first)
}

func (c *Client) cpu(f files) {
	for line := range strings.Lines(f.text("proc/cpuinfo")) {
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(key) {
		case "model name":
			c.CPU = cmp.Or(c.CPU, value)
		case "flags", "Features":
			c.Virtual = c.Virtual || slices.Contains(strings.Fields(value), "hypervisor")
		}
	}
	names, _ := fs.Glob(f.root, "sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor")
	for _, name := range names {
		if g := f.line(name); g != "" && !slices.Contains(c.Governors, g) {
			c.Governors = append(c.Governors, g)
		}
	}
	slices.Sort(c.Governors)
}

// limits are those of the process's cgroup and of all above it: the tightest.
func (c *Client) limits(f files) {
	dir := ""
	for line := range strings.Lines(f.text("proc/self/cgroup")) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "0::/"); ok {
			dir = rest
		}
	}
	for {
		base := path.Join("sys/fs/cgroup", dir)
		if cores := cpuMax(f.line(path.Join(base, "cpu.max"))); cores > 0 && (c.CPULimit == 0 || cores < c.CPULimit) {
			c.CPULimit = cores
		}
		if n, err := strconv.ParseInt(f.line(path.Join(base, "memory.max")), 10, 64); err == nil && (c.MemoryLimit == 0 || n < c.MemoryLimit) {
			c.MemoryLimit = n
		}
		if dir == "" || dir == "." {
			break
		}
		dir = path.Dir(dir)
	}
	if c.CPULimit > 0 {
		return
	}
	// Version 1 of cgroups.
	quota, err1 := strconv.ParseFloat(f.line("sys/fs/cgroup/cpu/cpu.cfs_quota_us"), 64)
	period, err2 := strconv.ParseFloat(f.line("sys/fs/cgroup/cpu/cpu.cfs_period_us"), 64)
	if err1 == nil && err2 == nil && quota > 0 && period > 0 {
		c.CPULimit = quota / period
	}
}

// cpuMax reads "200000 100000": microseconds of CPU in a period.
func cpuMax(line string) float64 {
	quota, period, _ := strings.Cut(line, " ")
	q, err1 := strconv.ParseFloat(quota, 64)
	p, err2 := strconv.ParseFloat(period, 64)
	if err1 != nil || err2 != nil || p <= 0 {
		return 0
	}
	return q / p
}
