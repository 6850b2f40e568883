package report

import (
	"fmt"
	"strings"

	"github.com/assay-bench/assay/environ"
	"github.com/assay-bench/assay/result"
)

// environment shows under what conditions the numbers came to be, and what is
// not known of them.
func (sh *sheet) environment(l *environ.Log, check *result.InstrumentCheck) {
	if l == nil {
		return
	}
	c := &l.Client
	sh.section("ENVIRONMENT")
	cores := times(c.Cores, "core", "cores")
	if c.CPULimit > 0 {
		cores += fmt.Sprintf(", of which the cgroup allows %s", short(c.CPULimit, 2))
	}
	memory := ""
	if c.Memory > 0 {
		memory = "memory " + gibibytes(c.Memory)
		if c.MemoryLimit > 0 && c.MemoryLimit < c.Memory {
			memory += ", of which the cgroup allows " + gibibytes(c.MemoryLimit)
		}
	}
	virtual := ""
	if c.Virtual {
		virtual = "virtual machine"
	}
	sh.row("client", c.CPU, cores, memory, virtual, prefixed("governor ", strings.Join(c.Governors, ", ")),
		strings.TrimSpace(c.OS+"/"+c.Arch+" "+c.Kernel), c.Go, "load "+short(c.LoadAverage, 2))
	clock := ""
	switch s := c.Sync; {
	case s == nil:
	case s.Synchronised:
		clock = fmt.Sprintf("wall clock synchronised, error at most %s ms", number(float64(s.MaxErrorUS)/1e3))
	default:
		clock = "wall clock NOT synchronised"
	}
	sh.row("clock", prefixed("source ", c.ClockSource), clock)
	if p := c.Path; p != nil {
		to := p.Address
		if p.Proxy {
			to += " (a proxy)"
		}
		timed := ""
		if p.Connects > 0 {
			timed = fmt.Sprintf("TCP connect p50 %s ms, min %s, max %s, n %d", number(p.MedianMS), number(p.MinMS), number(p.MaxMS), p.Connects)
		}
		sh.row("path", "to "+to, timed, p.TLS, prefixed("certificate ", p.Certificate), p.Error)
	}
	var known, others []string
	for _, f := range l.Fields {
		if f.Recorded() {
			known = append(known, fmt.Sprintf("%s %s (%s)", f.Title, f.Value, f.Source))
		}
	}
	for _, f := range l.Others() {
		others = append(others, fmt.Sprintf("%s %s (%s)", f.Name, f.Value, f.Source))
	}
	sh.row("server", known...)
	sh.row("further", others...)
	sh.row("", l.Notes...)
	if len(l.NotRecorded) > 0 {
		sh.row("unknown", "not recorded: "+strings.Join(l.NotRecorded, ", "), "--env-file or --env tells")
	}
	if check != nil {
		text := "passed before the run"
		if failed := check.Failed(); len(failed) > 0 {
			text = "FAILED before the run: " + strings.Join(failed, ", ")
		}
		sh.row("check", text, fmt.Sprintf("%d requests", check.Requests))
	}
	for _, text := range l.Conflicts {
		sh.row("conflict", text)
	}
}

func gibibytes(n int64) string { return number(float64(n)/(1<<30)) + " GiB" }
