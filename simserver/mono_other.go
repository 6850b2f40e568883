//go:build !linux

package simserver

import "github.com/assay-bench/assay/internal/clock"

// monotonicOffset is 0 where processes share no monotonic clock that Go can
// read: compare wall times there.
func monotonicOffset(*clock.Clock) int64 { return 0 }
