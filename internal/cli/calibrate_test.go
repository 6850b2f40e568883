package cli

import (
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
		"another machine": {foreign, 1, 1, ""},
	} {
		r := &calibrate.Result{Format: 1, Host: tt.host, MaxEvents: tt.events, MaxStreams: tt.streams, Time: time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)}
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
