//go:build !unix

package real

import "time"

// processCPU is not known here.
func processCPU() time.Duration { return 0 }
