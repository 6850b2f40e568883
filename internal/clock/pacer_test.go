package clock

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSleepUntilIsNeverEarly(t *testing.T) {
	c := Start()
	p := NewPacer(c)
	defer p.Pin()()
	// Around earlyWake, where the sleep changes from spinning to the kernel.
	for _, ahead := range []time.Duration{-time.Hour, 0, 1, time.Microsecond, earlyWake - 1, earlyWake, earlyWake + 1, 2 * earlyWake, 3 * time.Millisecond} {
		stamp := c.Now() + int64(ahead)
		if p.SleepUntil(stamp) {
			t.Errorf("%v ahead: interrupted, but nobody woke it", ahead)
		}
		if now := c.Now(); now < stamp {
			t.Errorf("%v ahead: returned %d ns early", ahead, stamp-now)
		}
	}
}

func TestClockSleepUntilIsNeverEarly(t *testing.T) {
	c := Start()
	stamp := c.Now() + int64(2*time.Millisecond)
	c.SleepUntil(stamp)
	if now := c.Now(); now < stamp {
		t.Errorf("returned %d ns early", stamp-now)
	}
}

func TestWakeBeforeSleep(t *testing.T) {
	c := Start()
	p := NewPacer(c)
	p.Wake()
	p.Wake()
	if !p.SleepUntil(Never) {
		t.Error("the first sleep is not interrupted by the wakes before it")
	}
	if p.SleepUntil(0) {
		t.Error("two wakes interrupted two sleeps; they count as one")
	}
}

// TestWakeIsNeverLost would hang if a wake between the pacer's look at the word
// and its sleep were lost.
func TestWakeIsNeverLost(t *testing.T) {
	c := Start()
	p := NewPacer(c)
	back := make(chan struct{})
	const rounds = 2000
	go func() {
		defer close(back)
		for range rounds {
			p.SleepUntil(Never)
			back <- struct{}{}
		}
	}()
	for i := range rounds {
		if i%8 == 0 { // now and then let it fall asleep first
			c.SleepUntil(c.Now() + int64(50*time.Microsecond))
		}
		p.Wake()
		<-back
	}
	if _, more := <-back; more {
		t.Error("more sleeps ended than were woken")
	}
}

func TestWakeDuringTimedSleep(t *testing.T) {
	c := Start()
	p := NewPacer(c)
	interrupted := make(chan bool)
	go func() { interrupted <- p.SleepUntil(c.Now() + int64(time.Hour)) }()
	p.Wake()
	if !<-interrupted {
		t.Error("a woken sleep of an hour says that it was not interrupted")
	}
}

func TestSleepDoesNotAllocate(t *testing.T) {
	c := Start()
	p := NewPacer(c)
	if n := testing.AllocsPerRun(20, func() { p.SleepUntil(c.Now() + int64(2*earlyWake)) }); n != 0 {
		t.Errorf("%v allocations a sleep", n)
	}
}

func TestOffset(t *testing.T) {
	c := Start()
	before := c.Now()
	o := c.Offset()
	after := c.Now()
	if o.Stamp < before || o.Stamp > after {
		t.Errorf("stamp %d is outside [%d, %d]", o.Stamp, before, after)
	}
	if o.Window < 0 || o.Window > time.Duration(after-before) {
		t.Errorf("window %v is not within %v", o.Window, time.Duration(after-before))
	}
	if d := o.Wall.Sub(c.Epoch().Round(0).Add(time.Duration(o.Stamp))); d.Abs() > time.Minute {
		t.Errorf("wall time is %v off the epoch plus the stamp", d)
	}
}

func TestStampsAndTimes(t *testing.T) {
	c := Start()
	now := c.Now()
	if now <= 0 {
		t.Fatalf("the first stamp is %d; zero means never", now)
	}
	if got := c.Stamp(c.Time(now)); got != now {
		t.Errorf("Stamp(Time(%d)) = %d", now, got)
	}
	if got := c.Stamp(c.Epoch()); got != 0 {
		t.Errorf("the epoch's stamp is %d", got)
	}
}

func TestVirtualNeverGoesBack(t *testing.T) {
	var v Virtual
	for _, step := range []struct{ to, want int64 }{{5, 5}, {3, 5}, {5, 5}, {6, 6}} {
		v.AdvanceTo(step.to)
		if v.Now() != step.want {
			t.Errorf("after AdvanceTo(%d): now %d, want %d", step.to, v.Now(), step.want)
		}
	}
}
