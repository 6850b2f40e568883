package wire

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/assay-bench/assay/record"
)

// event200 is a chunk of 200 bytes as vLLM sends it.
func event200() string {
	ev := `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":" the"},"finish_reason":null}]}` + "\n\n"
	return strconv.FormatInt(int64(len(ev)), 16) + "\r\n" + ev + "\r\n"
}

// TestNoAllocation: an event costs no allocation, whole, cut or merged.
func TestNoAllocation(t *testing.T) {
	ev := []byte(event200())
	named := []byte("1e\r\nevent: delta\ndata: a\ndata: b\n\n\r\n")
	for name, pieces := range map[string][][]byte{
		"whole":       {ev},
		"cut":         {ev[:50], ev[50:90], ev[90:]},
		"merged":      {append(append(ev[:len(ev):len(ev)], ev...), ev[:10]...), ev[10:]},
		"named, cut":  {named[:12], named[12:]},
		"named lines": {named},
	} {
		var d Decoder
		n := 0
		d.Reset(SSE, Transfer{Chunked: true}, 0, func(Frame) { n++ })
		feed := func() {
			for _, p := range pieces {
				if err := d.Feed(p, ReadStamp{At: 1, Read: 1}); err != nil {
					t.Fatal(name, err)
				}
			}
		}
		feed()
		if n == 0 {
			t.Errorf("%s: no event", name)
		}
		if got := testing.AllocsPerRun(100, feed); got != 0 {
			t.Errorf("%s: %v allocations", name, got)
		}
	}
}

// counter is a Sink that keeps nothing.
type counter struct{ n int }

func (*counter) Head(*http.Response) (Framing, error) { return SSE, nil }
func (c *counter) Frame(f Frame) bool                 { c.n++; return string(f.Data) == "[DONE]" }
func (*counter) Terminal()                            {}

// TestNoAllocationInDo: what an exchange allocates does not grow with its events.
func TestNoAllocationInDo(t *testing.T) {
	measure := func(events int) float64 {
		reply := sseHead + strings.Repeat(event200(), events) + chunk(done)
		c := newClient(t, serve(t, nil, replies(reply)), nil)
		req := post()
		var a record.Attempt
		sink := &counter{}
		return testing.AllocsPerRun(20, func() {
			if err := c.Do(context.Background(), &a, req, sink); err != nil {
				t.Fatal(err)
			}
		})
	}
	few, many := measure(10), measure(2010)
	if many > few+100 { // the server allocates, too
		t.Errorf("%v allocations for 10 events, %v for 2010", few, many)
	}
}

func BenchmarkDecoder(b *testing.B) {
	for name, n := range map[string]int{"one event a read": 1, "20 events a read": 20} {
		b.Run(name, func(b *testing.B) {
			in := []byte(strings.Repeat(event200(), n))
			var d Decoder
			d.Reset(SSE, Transfer{Chunked: true}, 0, func(Frame) {})
			b.SetBytes(int64(len(in) / n))
			b.ReportAllocs()
			for i := 0; i < b.N; i += n {
				if err := d.Feed(in, ReadStamp{At: 1, Read: 1}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkDo is one exchange of 100 events on a kept connection.
func BenchmarkDo(b *testing.B) {
	reply := sseHead + strings.Repeat(event200(), 100) + chunk(done)
	for name, user := range map[string]bool{"kernel stamps": false, "user stamps": true} {
		b.Run(name, func(b *testing.B) {
			c := newClient(b, serve(b, nil, replies(reply)), func(c *Config) { c.UserStamps = user })
			req := post()
			var a record.Attempt
			sink := &counter{}
			b.ReportAllocs()
			for b.Loop() {
				if err := c.Do(context.Background(), &a, req, sink); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkRead is one event, written by the server when the one before was
// taken: the cost of a read with its stamp, and of two wake-ups.
func BenchmarkRead(b *testing.B) {
	ev := event200()
	for name, user := range map[string]bool{"kernel stamps": false, "user stamps": true} {
		b.Run(name, func(b *testing.B) {
			next := make(chan struct{}, 1)
			addr := serve(b, nil, func(p *peer) {
				p.request()
				p.send(sseHead)
				for range next {
					io.WriteString(p, ev)
				}
				p.send(chunk(done))
				p.silent()
			})
			c := newClient(b, addr, func(c *Config) { c.UserStamps = user })
			b.ReportAllocs()
			left := b.N
			next <- struct{}{}
			sink := &recorderFunc{func(f Frame) bool {
				left--
				if left > 0 {
					next <- struct{}{}
				} else if left == 0 {
					close(next)
				}
				return left < 0
			}}
			var a record.Attempt
			if err := c.Do(context.Background(), &a, post(), sink); err != nil {
				b.Fatal(err)
			}
		})
	}
}

type recorderFunc struct{ frame func(Frame) bool }

func (*recorderFunc) Head(*http.Response) (Framing, error) { return SSE, nil }
func (r *recorderFunc) Frame(f Frame) bool                 { return r.frame(f) }
func (*recorderFunc) Terminal()                            {}
