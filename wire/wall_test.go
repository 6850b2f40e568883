package wire

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-bench/assay/internal/clock"
	"github.com/assay-bench/assay/record"
)

// fakeWall is a wall clock beside a monotonic one, both of which are set by hand.
type fakeWall struct {
	now, ahead int64 // stamp; wall - stamp
	window     time.Duration
	reads      int
}

func (f *fakeWall) offset() clock.Offset {
	f.reads++
	return clock.Offset{Stamp: f.now, Wall: time.Unix(0, f.now+f.ahead), Window: f.window}
}

func TestWallOffset(t *testing.T) {
	const second, start = int64(time.Second), int64(1e18)
	for _, tc := range []struct {
		name    string
		steps   []time.Duration // of the wall clock, before each second
		window  time.Duration
		want    int64
		largest time.Duration
	}{
		{"steady", []time.Duration{0, 0, 0}, 70, 0, 0},
		{"noise", []time.Duration{9 * time.Microsecond, -9 * time.Microsecond, 0}, 70, 0, 0},
		{"set forward", []time.Duration{0, time.Millisecond, 0}, 70, 1, time.Millisecond},
		{"set back, and forward by less", []time.Duration{-time.Hour, 0, time.Minute}, 70, 2, time.Hour},
		{"no more than the estimates may be wrong", []time.Duration{50 * time.Microsecond}, 50 * time.Microsecond, 0, 0},
		{"more than that", []time.Duration{70 * time.Microsecond}, 50 * time.Microsecond, 1, 70 * time.Microsecond},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := &fakeWall{now: 1, ahead: start, window: tc.window}
			w := newWallOffset(f.offset)
			want := []record.ClockOffset{{At: 1, Wall: start + 1, Window: tc.window}}
			for _, step := range tc.steps {
				f.now += second - 1
				f.ahead += int64(step)
				w.refresh(record.Stamp(f.now)) // not yet
				f.now++
				at := record.Stamp(f.now)
				if got := w.stamp(f.now+f.ahead, at); got != at {
					t.Errorf("the wall's now is %v off", time.Duration(got-at))
				}
				want = append(want, record.ClockOffset{At: at, Wall: f.now + f.ahead, Window: tc.window})
			}
			steps, largest := w.stepped()
			if steps != tc.want || largest.Abs() != tc.largest {
				t.Errorf("%d steps, the largest %v; want %d, %v", steps, largest, tc.want, tc.largest)
			}
			if diff := cmp.Diff(want, w.take()); diff != "" {
				t.Error(diff)
			}
			if again := w.take(); again != nil {
				t.Error("taken twice:", again)
			}
			if f.reads != 1+len(tc.steps) {
				t.Errorf("the clocks were read %d times in %d s", f.reads, len(tc.steps))
			}
		})
	}
}

// TestTakeClock: estimates are made every second whether anything is read or not,
// and what nobody takes does not grow for ever.
func TestTakeClock(t *testing.T) {
	c := newClient(t, "127.0.0.1:1", nil)
	if first := c.TakeClock(); len(first) != 1 || first[0].At <= 0 || first[0].Wall < 1e18 || first[0].Window <= 0 {
		t.Fatalf("first estimates: %+v", first)
	}
	c.wall.next.Store(0) // as if a second had passed
	if second := c.TakeClock(); len(second) != 1 {
		t.Errorf("after a second: %+v", second)
	}
	if none := c.TakeClock(); none != nil {
		t.Errorf("at once: %+v", none)
	}
	c.wall.mu.Lock()
	c.wall.untaken = make([]record.ClockOffset, maxEstimates)
	c.wall.mu.Unlock()
	c.wall.next.Store(0)
	if got := len(c.TakeClock()); got != maxEstimates {
		t.Errorf("%d estimates are kept", got)
	}
}
