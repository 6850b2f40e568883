package clock

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// BenchmarkPacer measures how late a pacer returns at a steady rate of stamps.
func BenchmarkPacer(b *testing.B) {
	for _, rate := range []int{1000, 5000, 20000} {
		b.Run(fmt.Sprintf("rate=%d", rate), func(b *testing.B) {
			c := Start()
			p := NewPacer(c)
			defer p.Pin()()
			benchLateness(b, c, rate, func(stamp int64) { p.SleepUntil(stamp) })
		})
	}
}

// BenchmarkTimeSleep is the same with the runtime's timer, to compare with.
func BenchmarkTimeSleep(b *testing.B) {
	c := Start()
	benchLateness(b, c, 1000, func(stamp int64) { time.Sleep(time.Duration(stamp - c.Now())) })
}

func benchLateness(b *testing.B, c *Clock, rate int, sleep func(stamp int64)) {
	b.ReportAllocs()
	gap := int64(time.Second) / int64(rate)
	late := make([]int64, 0, 1<<20)
	stamp := c.Now()
	for b.Loop() {
		stamp += gap
		sleep(stamp)
		late = append(late, c.Now()-stamp)
	}
	slices.Sort(late)
	b.ReportMetric(float64(late[len(late)/2]), "late-p50-ns")
	b.ReportMetric(float64(late[len(late)*99/100]), "late-p99-ns")
}

// BenchmarkWake measures from a Wake to the return of a sleep that had far to go.
func BenchmarkWake(b *testing.B) {
	c := Start()
	p := NewPacer(c)
	back := make(chan int64)
	over := make(chan struct{})
	go func() {
		for p.SleepUntil(Never) {
			select {
			case back <- c.Now():
			case <-over:
				return
			}
		}
	}()
	defer p.Wake()
	defer close(over)
	var total int64
	for b.Loop() {
		c.SleepUntil(c.Now() + int64(100*time.Microsecond)) // let it fall asleep
		at := c.Now()
		p.Wake()
		total += <-back - at
	}
	b.ReportMetric(float64(total)/float64(b.N), "wake-mean-ns")
}

func BenchmarkNow(b *testing.B) {
	c := Start()
	b.ReportAllocs()
	for b.Loop() {
		c.Now()
	}
}
