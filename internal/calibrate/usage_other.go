//go:build !linux

package calibrate

import (
	"time"

	"github.com/assay-bench/assay/internal/clock"
)

// usage is not known here.
type usage struct {
	at               int64
	own, server, all time.Duration
}

func readUsage(int) usage { return usage{} }

// BusyCores is not known here.
func BusyCores(*clock.Clock, time.Duration) float64 { return 0 }

func footprint() Footprint { return Footprint{} }

// MaxConnections is not known here.
func MaxConnections() int { return 0 }
