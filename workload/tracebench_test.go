package workload

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// traceOf writes a trace of n rows, in the shape of Mooncake or of Qwen-Bailian.
func traceOf(b *testing.B, n int, sessions bool) string {
	b.Helper()
	file := filepath.Join(b.TempDir(), "trace.jsonl")
	out, err := os.Create(file)
	if err != nil {
		b.Fatal(err)
	}
	w := bufio.NewWriter(out)
	rnd := rand.New(rand.NewPCG(1, 1))
	type tip struct{ id, turn, said int }
	var tips []tip
	for i := range n {
		if !sessions {
			fmt.Fprintf(w, `{"timestamp": %d, "input_length": %d, "output_length": %d, "hash_ids": [%d, %d, %d, %d]}`+"\n",
				i*50, 1537+rnd.IntN(512), rnd.IntN(500)+1, rnd.IntN(5000), rnd.IntN(5000), rnd.IntN(5000), i)
			continue
		}
		t, parent := tip{i, 1, 0}, -1
		in, reply := rnd.IntN(2000)+1, rnd.IntN(200)+1
		k := len(tips)
		if k > 0 && rnd.Float64() < 0.6 {
			k -= rnd.IntN(min(k, 5000)) + 1
			parent, t.turn, in = tips[k].id, tips[k].turn+1, tips[k].said+in
		} else {
			tips = append(tips, t)
		}
		t.said = in + reply
		tips[k] = t
		fmt.Fprintf(w, `{"chat_id":%d,"parent_chat_id":%d,"timestamp":%.3f,"input_length":%d,"output_length":%d,"turn":%d}`+"\n", i, parent, float64(i)*0.05, in, reply, t.turn)
	}
	if err := w.Flush(); err != nil {
		b.Fatal(err)
	}
	if err := out.Close(); err != nil {
		b.Fatal(err)
	}
	return file
}

// BenchmarkTraceSchedule reads a trace of a million rows through, and draws them with
// their times: single requests of recorded blocks, and turns of sessions that are mixed
// with each other.
func BenchmarkTraceSchedule(b *testing.B) {
	for _, sessions := range []bool{false, true} {
		name := "blocks"
		if sessions {
			name = "sessions"
		}
		b.Run(name, func(b *testing.B) {
			spec := with(func(s *Spec) {
				s.Arrival, s.Trace = Arrival{Process: ByTrace}, &Trace{File: traceOf(b, 1_000_000, sessions)}
				s.PromptTokens, s.OutputTokens = Length{Dist: FromTrace}, Length{Dist: FromTrace}
				if sessions {
					s.Sessions = &Sessions{Turns: Length{Dist: FromTrace}}
				}
			})
			b.ReportAllocs()
			for b.Loop() {
				f, err := OpenTrace(spec, 1)
				if err != nil {
					b.Fatal(err)
				}
				n := 0
				if !sessions {
					p, err := NewTracePlan(spec, 1, f.Rows)
					if err != nil {
						b.Fatal(err)
					}
					a := p.Arrivals()
					for _, ok := p.Next(); ok; _, ok = p.Next() {
						a.Next()
						n++
					}
				} else {
					p, err := NewSessionPlan(spec, 1, f)
					if err != nil {
						b.Fatal(err)
					}
					for s, ok := p.NextSession(); ok; s, ok = p.NextSession() {
						n += len(s.Turns)
					}
				}
				if n != 1_000_000 {
					b.Fatalf("%d requests", n)
				}
			}
		})
	}
}

// BenchmarkPairs draws a million requests of observed pairs of lengths.
func BenchmarkPairs(b *testing.B) {
	spec := with(func(s *Spec) {
		s.Arrival.Rate = 50
		for i := range 10_000 {
			s.LengthPairs = append(s.LengthPairs, [2]int{i + 1, 10_000 - i})
		}
	})
	b.ReportAllocs()
	for b.Loop() {
		p, err := NewPlan(spec, 1)
		if err != nil {
			b.Fatal(err)
		}
		for range 1_000_000 {
			p.Next()
		}
	}
}
