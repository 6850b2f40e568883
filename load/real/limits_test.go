package real

import (
	"runtime"
	"strings"
	"testing"
)

func TestLimits(t *testing.T) {
	linux := Limits{Files: 20000, OpenFiles: 20, PortLow: 32768, PortHigh: 60999}
	for _, tc := range []struct {
		name     string
		l        Limits
		n, pairs int
		want     []string
	}{
		{"fits", linux, 10000, 1, nil},
		{"the most files", linux, 18933, 1, nil},
		{"too many files", linux, 18944, 1, []string{"20011 open", "may have 20000", "to 18933"}},
		{"few files", Limits{Files: 50, OpenFiles: 20}, 1, 1, []string{"may have 50: raise the hard limit", "of a container)"}},
		{"few files, no bound", Limits{Files: 64, OpenFiles: 20}, 0, 1, []string{"a run needs 120 open files"}},
		{"files not known", Limits{PortLow: 1, PortHigh: 100}, 90, 1, nil},
		{"too few ports", Limits{Files: 1 << 20, PortLow: 32768, PortHigh: 60999}, 60000, 1,
			[]string{"63000 local ports", "there are 28232", "32768 60999", "give 3 local addresses with --source-addr", "to 26887"}},
		{"more local addresses", Limits{Files: 1 << 20, PortLow: 32768, PortHigh: 60999}, 60000, 3, nil},
		{"no pair said", Limits{PortLow: 1, PortHigh: 100}, 90, 0, nil},
		{"nothing known", Limits{}, 1 << 30, 1, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := tc.l.Check(tc.n, tc.pairs)
			if (err != nil) != (tc.want != nil) {
				t.Fatal(err)
			}
			for _, w := range tc.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%v\nhas no %q", err, w)
				}
			}
		})
	}
	// What is advised fits.
	for _, l := range []Limits{linux, {PortLow: 32768, PortHigh: 60999}} {
		most := 0
		for n := 1; n < 30000; n++ {
			if l.Check(n, 1) == nil {
				most = n
			}
		}
		if most < 18000 || l.Room(1) > most || l.Room(1) < most-1 || !strings.Contains(l.Check(most+100, 1).Error(), "lower the concurrency to ") {
			t.Errorf("%+v: at most %d", l, most)
		}
	}
}

func TestRoom(t *testing.T) {
	for _, tc := range []struct {
		name  string
		l     Limits
		pairs int
		want  int
	}{
		{"nothing known", Limits{}, 1, 0},
		{"files", Limits{Files: 20000, OpenFiles: 20, PortLow: 32768, PortHigh: 60999}, 1, 18933},
		{"ports", Limits{Files: 1 << 20, PortLow: 32768, PortHigh: 60999}, 1, 26887},
		{"ports of two addresses", Limits{Files: 1 << 20, PortLow: 32768, PortHigh: 60999}, 2, 53775},
		{"files alone", Limits{Files: 20000, OpenFiles: 20}, 1, 18933},
		{"hardly any", Limits{Files: 64, OpenFiles: 20}, 1, 1},
		{"ports alone", Limits{PortLow: 32768, PortHigh: 60999}, 0, 26887},
	} {
		if got := tc.l.Room(tc.pairs); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
}

func TestReadLimits(t *testing.T) {
	l := ReadLimits()
	if runtime.GOOS != "linux" {
		return
	}
	if l.Files < 3 || l.OpenFiles < 3 || l.PortLow < 1 || l.PortHigh <= l.PortLow {
		t.Errorf("%+v", l)
	}
}
