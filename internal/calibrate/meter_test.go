package calibrate

import (
	"testing"
	"time"

	"github.com/assay-bench/assay/record"
)

func TestMeter(t *testing.T) {
	var m Meter
	if e, s := m.Peak(); e != 0 || s != 0 {
		t.Errorf("nothing happened: %v, %v", e, s)
	}
	at := func(s ...float64) (all []record.Event) {
		for _, x := range s {
			all = append(all, record.Event{At: record.Stamp(x * float64(time.Second))})
		}
		return all
	}
	m.Events(at(0.1, 0.9, 1.0, 5.5))
	m.Events(at(0.5, 1.9))
	m.Events(at(-1, 1e9))
	m.InFlight(3)
	m.InFlight(2)
	if e, s := m.Peak(); e != 3 || s != 3 {
		t.Errorf("%v events/s, %v streams; want 3 and 3", e, s)
	}
}
