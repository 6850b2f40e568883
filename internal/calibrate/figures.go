package calibrate

import (
	"slices"
	"time"

	"github.com/assay-bench/assay/internal/metronome"
	"github.com/assay-bench/assay/stat"
)

// Figures are what one load showed.
type Figures struct {
	Load Load `json:"load"`
	// Events that the server wrote, and how many of them the client missed.
	Events  int `json:"events"`
	Missing int `json:"missing,omitzero"`
	// Back is how many reads had a stamp before that of the read before.
	Back int `json:"stamps_back,omitzero"`
	// Rate at which the server wrote them, events/s, and what was planned.
	Rate    float64 `json:"events_per_second"`
	Planned float64 `json:"planned_events_per_second"`
	// The errors of the client; see the package.
	Stamp Quantiles `json:"stamp_error_us"`
	TTFT  Quantiles `json:"ttft_error_us"`
	ITL   Quantiles `json:"itl_error_us"`
	// Lag of reading behind the kernel's stamp, 0 for a client without them.
	Lag Quantiles `json:"read_lag_us"`
	// Slip is the server's error: write begun - planned.
	Slip Quantiles `json:"server_slip_us"`
	// Coalesced is the share of events that shared their read with others.
	Coalesced float64 `json:"coalesced"`
	// CPU of this process and of others (neither this one nor the server) while
	// the load ran, in cores.
	CPU     float64 `json:"client_cores"`
	Server  float64 `json:"server_cores"`
	Foreign float64 `json:"foreign_cores"`
	// PerEvent is this process's CPU time for one event.
	PerEvent time.Duration `json:"cpu_per_event_ns"`
	// Memory of this process for one open stream, in bytes: resident, after a
	// collection, stored stamps not counted.
	Memory int64 `json:"memory_per_stream_bytes"`
	// Footprint of this process when that was read.
	Footprint Footprint `json:"footprint"`
}

// Footprint is the memory of a process in bytes, after a collection.
type Footprint struct {
	// Resident is that of its pages, but for those shared with others.
	Resident int64 `json:"resident"`
	// Heap and Stacks are what is in use of them, as the Go runtime counts.
	Heap   int64 `json:"heap"`
	Stacks int64 `json:"stacks"`
}

// Quantiles of a sample in microseconds.
type Quantiles struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
	N   int     `json:"n"`
}

// compare holds what was stamped against the log.
func (s *Session) compare(log []metronome.Truth) *Figures {
	f := &Figures{Load: s.Load, Planned: s.Load.Rate()}
	n := len(s.at)
	stamp, itl, lag, slip := make([]float64, 0, n), make([]float64, 0, n), make([]float64, 0, n), make([]float64, 0, n)
	var ttft []float64
	first, last, coalesced := int64(0), int64(0), 0
	for i := range log {
		t := &log[i]
		if t.ID < 0 || t.ID >= int64(len(s.seen)) {
			continue // not ours
		}
		r := &s.seen[t.ID]
		at, lags := s.at[int(t.ID)*s.Load.Events:], s.lag[int(t.ID)*s.Load.Events:]
		f.Events += len(t.Began)
		coalesced += r.coalesced
		for k, began := range t.Began {
			slip = append(slip, us(int64(t.Slip(k))))
			if first == 0 || began < first {
				first = began
			}
			last = max(last, began)
			if k >= r.events {
				f.Missing++
				continue
			}
			stamp = append(stamp, us(at[k]+s.Zero-began))
			lag = append(lag, us(int64(lags[k])))
			switch {
			case k > 0:
				d := at[k] - at[k-1] - (began - t.Began[k-1])
				itl = append(itl, us(max(d, -d)))
			case r.sent >= 0:
				ttft = append(ttft, us(at[0]-r.sent-(began-t.Arrival)))
			}
		}
	}
	f.Stamp, f.TTFT, f.ITL, f.Lag, f.Slip = quantiles(stamp), quantiles(ttft), quantiles(itl), quantiles(lag), quantiles(slip)
	if f.Events > 0 {
		f.Coalesced = float64(coalesced) / float64(f.Events)
	}
	if last > first {
		f.Rate = float64(f.Events) / (float64(last-first) / 1e9)
	}
	return f
}

func us(ns int64) float64 { return float64(ns) / 1e3 }

func quantiles(x []float64) Quantiles {
	if len(x) == 0 {
		return Quantiles{}
	}
	slices.Sort(x)
	return Quantiles{P50: stat.Quantile(x, 0.5, stat.Type7), P99: stat.Quantile(x, 0.99, stat.Type7), Max: x[len(x)-1], N: len(x)}
}

// use enters what was used between two readings.
func (f *Figures) use(from, to usage) {
	elapsed := float64(to.at-from.at) / 1e9
	if elapsed <= 0 {
		return
	}
	own, server := (to.own - from.own).Seconds(), (to.server - from.server).Seconds()
	f.CPU, f.Server = own/elapsed, server/elapsed
	f.Foreign = max(0, (to.all-from.all).Seconds()-own-server) / elapsed
	if f.Events > 0 {
		f.PerEvent = time.Duration(own * 1e9 / float64(f.Events))
	}
}
