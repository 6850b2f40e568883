package real

import (
	"math"
	"runtime"
	"runtime/metrics"
	"time"

	"github.com/assay-bench/assay/result"
)

// The runtime metrics behind result.ClientHealth.
const (
	metricGCs      = "/gc/cycles/total:gc-cycles"
	metricGCPauses = "/sched/pauses/total/gc:seconds"
	metricSched    = "/sched/latencies:seconds"
)

// Health watches our own process from Watch to [Health.Read].
type Health struct {
	target    *Target
	at        int64
	samples   []metrics.Sample
	throttled time.Duration
	hasLimit  bool
	host      hostCPU
	cpu       time.Duration
	stats     connCounts
}

type connCounts struct {
	opened, reused, stale, reconnects int
	clockSteps, asked                 int
	clockStep                         time.Duration
}

// Watch begins to watch the process, and the connections to t.
func Watch(t *Target) *Health {
	h := &Health{target: t, at: t.clock.Now(), samples: readRuntime(), cpu: processCPU(), stats: t.conns()}
	h.throttled, h.hasLimit = throttledTime()
	h.host = readHostCPU()
	return h
}

// Read returns what happened since [Watch].
func (h *Health) Read() result.ClientHealth {
	now, conns := readRuntime(), h.target.conns()
	out := result.ClientHealth{
		Cores: runtime.NumCPU(), CPULimit: cpuQuota(), Steal: readHostCPU().stolenSince(h.host), GOMAXPROCS: runtime.GOMAXPROCS(0),
		CPU: processCPU() - h.cpu, Elapsed: time.Duration(h.target.clock.Now() - h.at),
		GCs:             int(now[0].Value.Uint64() - h.samples[0].Value.Uint64()),
		GCPauseMax:      largest(h.samples[1], now[1]),
		SchedLatencyP99: quantileBound(h.samples[2], now[2], 0.99),
		ConnOpened:      conns.opened - h.stats.opened,
		ConnReused:      conns.reused - h.stats.reused,
		ConnStale:       conns.stale - h.stats.stale,
		ConnReconnects:  conns.reconnects - h.stats.reconnects,
		ClockSteps:      conns.clockSteps - h.stats.clockSteps,
	}
	if out.ClockSteps > 0 {
		out.ClockStep = conns.clockStep
	}
	if h.target.client.VerifiesSends() {
		out.SendsAsked = new(conns.asked - h.stats.asked)
	}
	if t, ok := throttledTime(); ok && h.hasLimit {
		out.Throttled = new(t - h.throttled)
	}
	return out
}

func (t *Target) conns() connCounts {
	s := t.client.Stats()
	return connCounts{
		opened: int(s.Opened), reused: int(s.Reused), stale: int(s.Stale), reconnects: int(s.Reconnects),
		clockSteps: int(s.ClockSteps), clockStep: s.ClockStep, asked: int(s.SendsAsked),
	}
}

func readRuntime() []metrics.Sample {
	s := []metrics.Sample{{Name: metricGCs}, {Name: metricGCPauses}, {Name: metricSched}}
	metrics.Read(s)
	return s
}

// delta is the counts of a runtime histogram between two reads; nil if this
// runtime does not have it.
func delta(from, to metrics.Sample) (counts []uint64, buckets []float64) {
	if from.Value.Kind() != metrics.KindFloat64Histogram || to.Value.Kind() != metrics.KindFloat64Histogram {
		return nil, nil
	}
	a, b := from.Value.Float64Histogram(), to.Value.Float64Histogram()
	counts = make([]uint64, len(b.Counts))
	for i := range counts {
		counts[i] = b.Counts[i] - a.Counts[i]
	}
	return counts, b.Buckets
}

// largest is the upper bound of the highest bucket that grew.
func largest(from, to metrics.Sample) time.Duration {
	counts, buckets := delta(from, to)
	for i := len(counts) - 1; i >= 0; i-- {
		if counts[i] > 0 {
			return bucketTop(buckets, i)
		}
	}
	return 0
}

// quantileBound is the upper bound of the bucket in which the p quantile lies.
func quantileBound(from, to metrics.Sample, p float64) time.Duration {
	counts, buckets := delta(from, to)
	var total, seen uint64
	for _, c := range counts {
		total += c
	}
	for i, c := range counts {
		seen += c
		if total > 0 && float64(seen) >= p*float64(total) {
			return bucketTop(buckets, i)
		}
	}
	return 0
}

// bucketTop is the upper bound of bucket i, or its lower one if it is open.
func bucketTop(buckets []float64, i int) time.Duration {
	top := buckets[i+1]
	if math.IsInf(top, 1) {
		top = buckets[i]
	}
	return time.Duration(top * float64(time.Second))
}
