package virtual

import (
	"testing"
	"time"

	"github.com/assay-bench/assay/engine"
	"github.com/assay-bench/assay/load/sched"
	"github.com/assay-bench/assay/record"
)

// counting is an observer that only counts, and never stops.
type counting struct{ attempts, events int }

func (c *counting) Due(record.Stamp) {}
func (c *counting) Ended(_ *record.Attempt, events []record.Event) {
	c.attempts++
	c.events += len(events)
}
func (c *counting) Tick(record.Stamp, int, record.Stamp) (stop, abandon bool) { return false, false }

// capacityRate is the requests per second, of 512 prompt and 128 output tokens,
// that one H100 with Llama-3.1-8B completes in a closed loop that never lets it
// rest; see BenchmarkCapacity.
const capacityRate = 53.7

// BenchmarkOpenLoop is virtual load at 80 % of capacity; an op is a request.
func BenchmarkOpenLoop(b *testing.B) {
	benchmark(b, sched.Config{Gap: poisson(0.8*capacityRate, 1)})
}

// BenchmarkCapacity is a closed loop that saturates; an op is a request.
func BenchmarkCapacity(b *testing.B) {
	benchmark(b, sched.Config{Concurrency: 512})
}

func benchmark(b *testing.B, load sched.Config) {
	b.ReportAllocs()
	load.MaxRequests = int64(b.N)
	r, err := New(Config{Engine: engine.DefaultConfig(), Load: load, Requests: same(512, 128)})
	if err != nil {
		b.Fatal(err)
	}
	var c counting
	b.ResetTimer()
	if err := r.Run(b.Context(), &c); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	virtual := time.Duration(r.Now()).Seconds()
	b.ReportMetric(float64(c.attempts)/b.Elapsed().Seconds(), "requests/s")
	b.ReportMetric(float64(c.events)/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(float64(c.attempts)/virtual, "virtual-requests/s")
	b.ReportMetric(virtual/b.Elapsed().Seconds(), "x-real-time")
}
