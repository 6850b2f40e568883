package cli

import "syscall"

// childAttr makes the child die with us even if we are killed, and keeps the
// terminal's Ctrl-C from it: the run ends first, in order.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
