package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// BenchmarkStep is one decode step of a full batch, finished requests
// replaced; allocations must not grow with the batch.
func BenchmarkStep(b *testing.B) {
	for _, running := range []int{64, 256} {
		b.Run(fmt.Sprint(running), func(b *testing.B) {
			cfg := DefaultConfig()
			cfg.MaxNumSeqs = running
			e, err := New(cfg)
			if err != nil {
				b.Fatal(err)
			}
			requests := make([]Request, running)
			for i := range requests {
				requests[i] = Request{PromptTokens: 500, OutputTokens: 100 + i}
				if err := e.Add(0, &requests[i]); err != nil {
					b.Fatal(err)
				}
			}
			now := int64(0)
			b.ReportAllocs()
			for b.Loop() {
				s := e.Step(now)
				now = s.End
				for _, o := range s.Outputs {
					if o.Finished {
						if err := e.Add(now, o.Request); err != nil {
							b.Fatal(err)
						}
					}
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "steps/s")
			b.ReportMetric(float64(now)/1e9/b.Elapsed().Seconds(), "x-real-time")
		})
	}
}

// BenchmarkPoisson serves Poisson arrivals of 512 prompt and 256 output
// tokens at about 80 % of what the engine can do.
func BenchmarkPoisson(b *testing.B) {
	simulated := int64(0)
	for b.Loop() {
		simulated += poisson(b, 5000, 24)
	}
	b.ReportMetric(float64(simulated)/1e9/b.Elapsed().Seconds(), "x-real-time")
}

func poisson(b *testing.B, n int, rate float64) int64 {
	e, err := New(DefaultConfig())
	if err != nil {
		b.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	requests := make([]*Request, n)
	at, end := 0.0, int64(0)
	for i := range requests {
		at += rng.ExpFloat64() / rate * 1e9
		requests[i] = &Request{Queued: int64(at), PromptTokens: 1 + int(512*rng.ExpFloat64()), OutputTokens: 1 + int(256*rng.ExpFloat64())}
	}
	drive(b, e, requests, func(s *Step) { end = s.End })
	return end
}
