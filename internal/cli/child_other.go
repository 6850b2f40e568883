//go:build !linux

package cli

import "syscall"

// childAttr has nothing to add here: the child ends when its input closes.
func childAttr() *syscall.SysProcAttr { return nil }
