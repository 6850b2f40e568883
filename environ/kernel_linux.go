package environ

import "golang.org/x/sys/unix"

// kernel tells the release, and whether the wall clock is kept in time.
func kernel() (release string, sync *ClockSync) {
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		release = unix.ByteSliceToString(u.Release[:])
	}
	var t unix.Timex // reads only, with no mode set
	if _, err := unix.Adjtimex(&t); err == nil {
		sync = &ClockSync{Synchronised: t.Status&unix.STA_UNSYNC == 0, MaxErrorUS: int64(t.Maxerror)}
	}
	return release, sync
}
