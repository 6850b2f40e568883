package cli

import "time"

// until polls for something that another process does, for up to ten seconds.
func until(done func() bool) bool {
	for range 1000 {
		if done() {
			return true
		}
		time.Sleep(10 * time.Millisecond)
	}
	return false
}
