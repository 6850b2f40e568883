package simserver

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
)

// BenchmarkStreams serves 200 streams of 50 tokens/s from four engines and
// reports how late writes are: slip is from the step's planned end to just
// before the write call, excess is what a step's last write is late beyond 7 us
// a stream. The readers share the machine, so a run on a busy one shows them.
func BenchmarkStreams(b *testing.B) {
	const engines, streams, tokens = 4, 200, 50
	sink := newTruthSink()
	cfg := fastConfig()
	cfg.Engines = engines
	cfg.Engine.Constants.StepUs = 19900
	cfg.TruthLog, cfg.TruthSteps = sink, true
	srv, err := New(cfg)
	if err != nil {
		b.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(b.Context(), ln) }()
	for b.Loop() {
		var wg sync.WaitGroup
		for i := range streams {
			wg.Go(func() {
				conn, err := net.Dial("tcp", ln.Addr().String())
				if err != nil {
					b.Error(err)
					return
				}
				defer conn.Close()
				body := fmt.Sprintf(`{"prompt":[%d],"max_tokens":%d,"ignore_eos":true,"stream":true}`, i, tokens)
				fmt.Fprintf(conn, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
				if _, err := io.Copy(io.Discard, struct{ io.Reader }{conn}); err != nil {
					b.Error(err)
				}
			})
		}
		wg.Wait()
	}
	if err := srv.Close(); err != nil {
		b.Fatal(err)
	}
	<-served
	var slip, excess []int64
	err = ReadTruth(bytes.NewReader(sink.buf.Bytes()), func(l TruthLine) error {
		switch {
		case l.Request != nil:
			for _, e := range l.Request.Events {
				if e.Kind == EventToken {
					slip = append(slip, e.Before-e.Planned)
				}
			}
		case l.Step != nil:
			excess = append(excess, l.Step.Written-l.Step.End-7000*int64(l.Step.Outputs))
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	slices.Sort(slip)
	slices.Sort(excess)
	at := func(x []int64, p float64) float64 { return float64(x[int(p*float64(len(x)-1))]) / 1e3 }
	b.ReportMetric(at(slip, 0.5), "slip-p50-us")
	b.ReportMetric(at(slip, 0.99), "slip-p99-us")
	b.ReportMetric(at(excess, 0.99), "excess-p99-us")
}

// BenchmarkEncodeEvent is one token's event, as the loop makes it.
func BenchmarkEncodeEvent(b *testing.B) {
	srv, err := New(fastConfig())
	if err != nil {
		b.Fatal(err)
	}
	st := &stream{core: srv.cores[0], fault: &srv.well, gen: &generation{id: "chatcmpl-x", continuousUsage: true, n: 1, prompts: [][]int{{1}}, maxTokens: 1000, ignoreEOS: true, logprobs: -1}, chunked: true}
	st.makeHead(srv.cfg.ModelName)
	st.makeSequences()
	q, c := st.seqs[0], st.core
	b.ReportAllocs()
	j := 0
	for b.Loop() {
		c.buf, c.frames = c.buf[:0], c.frames[:0]
		c.event = st.appendToken(c.event[:0], q, j%999, j%999+1, false)
		c.put(st, "data: ", c.event, frame{kind: EventToken, tokens: 1})
		j++
	}
}

func BenchmarkExposition(b *testing.B) {
	srv, err := New(fastConfig())
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		srv.exposition()
	}
}

func BenchmarkTokenize(b *testing.B) {
	text := ""
	for i := range 1000 {
		text += string(appendWord(nil, i*97%firstSpecial))
	}
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		tokenize(nil, text)
	}
}
