package metric

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/assay-bench/assay/record"
)

// TestSeries counts a few attempts by hand.
func TestSeries(t *testing.T) {
	const ms = record.Stamp(time.Millisecond)
	const start = 10_000 * ms
	at := func(s float64) record.Stamp { return start + record.Stamp(s*1e9) }
	s := NewSeries(record.Window{Start: start, End: at(2)})
	// In flight from -0.5 s to 2.25 s; first text after 100 ms, tokens in three seconds.
	s.Add(&record.Attempt{
		Streamed: true, Scheduled: at(-0.5), Sent: at(-0.5), FirstText: at(-0.4), LastText: at(2.25), Ended: at(2.25), Outcome: record.Completed,
	}, []record.Event{{At: at(-0.4), Tokens: 1}, {At: at(0.5), Tokens: 2}, {At: at(0.6), Tokens: 3}, {At: at(2.25), Tokens: 4}})
	// Within one second, and failed.
	s.Add(&record.Attempt{Scheduled: at(0), Sent: at(0.25), Ended: at(0.75), Outcome: record.HTTPError}, nil)
	// Never sent.
	s.Add(&record.Attempt{Scheduled: at(1.5), Ended: at(1.5), Outcome: record.NeverSent}, nil)
	nan := math.NaN()
	want := []Second{
		{At: -1, Phase: record.Warmup, Due: 1, InFlight: 0.5, OutputTokens: 1, TTFTMean: 100, TTFTp50: 100},
		{At: 0, Phase: record.Measured, Due: 1, Failed: 1, InFlight: 1.5, OutputTokens: 5, TTFTMean: nan, TTFTp50: nan},
		{At: 1, Phase: record.Measured, Due: 1, Failed: 1, InFlight: 1, TTFTMean: nan, TTFTp50: nan},
		{At: 2, Phase: record.Cooldown, Completed: 1, InFlight: 0.25, OutputTokens: 4, TTFTMean: nan, TTFTp50: nan},
	}
	got := s.Seconds()
	if len(got) != len(want) {
		t.Fatalf("%d seconds, want %d: %+v", len(got), len(want), got)
	}
	same := func(a, b float64) bool { return math.Abs(a-b) < 1e-6 || math.IsNaN(a) && math.IsNaN(b) }
	for i, w := range want {
		g := got[i]
		if !same(g.InFlight, w.InFlight) || !same(g.TTFTMean, w.TTFTMean) || !same(g.TTFTp50, w.TTFTp50) {
			t.Errorf("second %d: %+v, want %+v", w.At, g, w)
		}
		g.InFlight, g.TTFTMean, g.TTFTp50, w.InFlight, w.TTFTMean, w.TTFTp50 = 0, 0, 0, 0, 0, 0
		if g != w {
			t.Errorf("second %d: %+v, want %+v", w.At, g, w)
		}
	}
	if NewSeries(record.Window{}).Seconds() != nil {
		t.Error("an empty series has seconds")
	}
}

// TestSeriesInFlight: the seconds in flight add up to the residence of all.
func TestSeriesInFlight(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	s := NewSeries(record.Window{Start: 1e12, End: 1.02e12})
	total := 0.
	for range 1000 {
		from := record.Stamp(0.99e12 + r.Float64()*3e10)
		to := from + record.Stamp(r.ExpFloat64()*3e9)
		total += float64(to-from) / 1e9
		s.Add(&record.Attempt{Scheduled: from, Sent: from, Ended: to, Outcome: record.Completed}, nil)
	}
	sum := 0.
	for _, x := range s.Seconds() {
		if x.InFlight < -1e-9 {
			t.Fatalf("%+v", x)
		}
		sum += x.InFlight
	}
	if math.Abs(sum-total) > 1e-6*total {
		t.Errorf("%v seconds in flight, want %v", sum, total)
	}
}
