//go:build !linux

package calibrate

import (
	"context"
	"errors"
)

// Bare needs epoll.
func Bare(context.Context, *Session) error {
	return errors.New("the bare loop needs epoll, which this system lacks")
}

// NullSyscall is not measured here.
func NullSyscall(func() int64) int64 { return 0 }
