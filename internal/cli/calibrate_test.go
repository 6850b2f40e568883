package cli

import (
	"fmt"
	"testing"
	"time"

	"github.com/assay-bench/assay/internal/calibrate"
	"github.com/assay-bench/assay/record"
)

// A run is held against the stored calibration of this machine, and of no other.
func TestBeyondCalibration(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	path, err := calibrate.Path()
	if err != nil {
		t.Fatal(err)
	}
	var m calibrate.Meter
	m.InFlight(4)
	m.Events(make([]record.Event, 60))
	if w := beyondCalibration(&m); w != nil {
		t.Errorf("without a calibration: %v", w)
	}
	foreign := thisHost()
	foreign.CPUs++
	for name, tt := range map[string]struct {
		host    calibrate.Host
		events  float64
		streams int
		want    string
	}{
		"within":          {thisHost(), 100, 10, ""},
		"events":          {thisHost(), 80, 10, "60 events/s are more than 70 % of the 80 that this client handles on this machine by the calibration of 2026-01-02"},
		"streams":         {thisHost(), 100, 5, "4 streams at once are more than 70 % of the 5 that this client handles on this machine by the calibration of 2026-01-02"},
		"another machine": {foreign, 1, 1, fmt.Sprintf("the calibration of 2026-01-02 does not hold any more: CPUs was %d and is %d; make one by assay calibrate", foreign.CPUs, foreign.CPUs-1)},
	} {
		r := &calibrate.Result{Format: 2, Tool: version(), Host: tt.host, MaxEvents: tt.events, MaxStreams: tt.streams, Time: time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)}
		if err := r.Save(path); err != nil {
			t.Fatal(err)
		}
		got := ""
		if w := beyondCalibration(&m); len(w) > 0 {
			got = w[0].Code + ": " + w[0].Text
			tt.want = "calibration: " + tt.want
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// TestEndedBy: what ends a calibration is said, and whether it was the client.
func TestEndedBy(t *testing.T) {
	at := func(verdict string, foreign float64) *calibrate.Step {
		return &calibrate.Step{Verdict: verdict, Figures: calibrate.Figures{Load: calibrate.Load{Streams: 100}, Planned: 4900, Foreign: foreign}}
	}
	for _, tt := range []struct {
		step *calibrate.Step
		want string
	}{
		{at(calibrate.OK, 1), ""},
		{at("stamp error", 0), "At 100 streams, 4900 events/s: stamp error beyond the limit, in each of its tries."},
		{at("stamp error", 0.62), "At 100 streams, 4900 events/s: stamp error, while other processes took 0.6 cores: no limit of this client. Repeat it on a quiet machine."},
		{at(calibrate.Server, 0), "At 100 streams, 4900 events/s: the truth server could write no more, and shares these cores: the client takes at least what is above."},
	} {
		if got := endedBy(tt.step); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}
