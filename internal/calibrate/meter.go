package calibrate

import (
	"time"

	"github.com/assay-bench/assay/record"
)

// Meter finds the most load of a run: events/s over whole seconds, and streams
// at once. The zero value is ready. It is for one goroutine.
type Meter struct {
	seconds []int32
	streams int
}

// horizon bounds the memory for stamps that make no sense: a week of seconds.
const horizon = 7 * 24 * 3600

// Events counts those of an attempt.
func (m *Meter) Events(events []record.Event) {
	for i := range events {
		s := int(events[i].At / record.Stamp(time.Second))
		if s < 0 || s >= horizon {
			continue
		}
		if s >= len(m.seconds) {
			m.seconds = append(m.seconds, make([]int32, s+1-len(m.seconds))...)
		}
		m.seconds[s]++
	}
}

// InFlight takes how many streams there are now.
func (m *Meter) InFlight(n int) { m.streams = max(m.streams, n) }

// Peak is the most of both.
func (m *Meter) Peak() (eventsPerSecond float64, streams int) {
	var most int32
	for _, n := range m.seconds {
		most = max(most, n)
	}
	return float64(most), m.streams
}
