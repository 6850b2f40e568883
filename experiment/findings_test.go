package experiment

import (
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/result"
)

// TestReconnects: a new connection for most requests is a finding, unless that
// is what was asked for.
func TestReconnects(t *testing.T) {
	for name, tc := range map[string]struct {
		health result.ClientHealth
		want   bool
	}{
		"closed by the server": {result.ClientHealth{ConnOpened: 10, ConnReconnects: 9}, true},
		"a pool that grew":     {result.ClientHealth{ConnOpened: 10, ConnReconnects: 3}, false},
		"one for each request": {result.ClientHealth{ConnOpened: 10}, false},
		"not known":            {result.ClientHealth{}, true},
	} {
		f := findings{info: result.StageInfo{Health: tc.health, Window: record.Window{Start: 0, End: 100}}}
		for i := range 10 {
			f.add(&record.Attempt{Outcome: record.Completed, Scheduled: record.Stamp(i), Sent: record.Stamp(i + 1)})
		}
		if got := len(f.warnings(&result.Target{})) == 1; got != tc.want {
			t.Errorf("%s: named %v, want %v", name, got, tc.want)
		}
	}
}

// TestLost: a target that went away is named; one that came back, and single
// connections that failed, are not.
func TestLost(t *testing.T) {
	at := func(s float64) record.Stamp { return record.Stamp(s * float64(time.Second)) }
	for name, tc := range map[string]struct {
		completed, unreached []float64
		want                 string
	}{
		"never":       {[]float64{1, 2, 3, 9}, nil, ""},
		"gone":        {[]float64{1, 2, 3}, []float64{3.5, 4, 4.5, 5, 6, 7}, "from 2.50 s into the window of 9.00 s on, no connection could be opened (6 attempts)"},
		"gone before": {nil, []float64{1, 2, 3, 4, 5}, "from 0.00 s into the window of 9.00 s"},
		"came back":   {[]float64{1, 2, 8}, []float64{3.5, 4, 4.5, 5, 6, 7}, ""},
		"few":         {[]float64{1, 2, 3}, []float64{8, 8.5, 9, 9.5}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := findings{info: result.StageInfo{Window: record.Window{Start: at(1), End: at(10)}}}
			for _, s := range tc.completed {
				f.add(&record.Attempt{Outcome: record.Completed, Scheduled: at(s), Ended: at(s) + 1})
			}
			for _, s := range tc.unreached {
				f.add(&record.Attempt{Outcome: record.ConnectTCP, Scheduled: at(s)})
			}
			w, ok := f.lost()
			if ok != (tc.want != "") || !strings.Contains(w.Text, tc.want) {
				t.Errorf("%v %q", ok, w.Text)
			}
		})
	}
}
