package clock

import (
	"runtime"
	"testing"
	"time"
)

// Two clocks that were started apart put one moment at one monotonic time.
func TestMonotonic(t *testing.T) {
	if runtime.GOOS != "linux" {
		if _, ok := Start().Monotonic(); ok {
			t.Error("a monotonic clock on an unknown system")
		}
		return
	}
	a, b := Start(), Start()
	atA, ok := a.Monotonic()
	atB, okB := b.Monotonic()
	if !ok || !okB {
		t.Fatal("no monotonic clock")
	}
	moment := time.Now()
	if d := a.Stamp(moment) + atA - b.Stamp(moment) - atB; d < -50_000 || d > 50_000 {
		t.Errorf("the same moment by two clocks: %d ns apart", d)
	}
}
