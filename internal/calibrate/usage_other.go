//go:build !linux

package calibrate

import "time"

// usage is not known here.
type usage struct {
	at               int64
	own, server, all time.Duration
}

func readUsage(int) usage { return usage{} }

func memoryInUse() int64 { return 0 }

// MaxConnections is not known here.
func MaxConnections() int { return 0 }
