//go:build unix

package cli

import "golang.org/x/sys/unix"

// raiseFiles raises the soft limit of open files to the hard one. Go does that
// as well, but gives the old limit back to its children, of which the built-in
// engine has as many connections as we have. Where it is refused, a run that
// needs more says so before it starts.
func raiseFiles() {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err == nil {
		r.Cur = r.Max
		_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &r)
	}
}
