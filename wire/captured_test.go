package wire

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-bench/assay/record"
)

// captured are bodies that real servers sent (see their README), by file.
func captured(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../dialect/testdata/*.sse")
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	out := make(map[string]string)
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		out[filepath.Base(f)] = string(b)
	}
	return out
}

// chunks frames text in chunks of n bytes, wherever its events end.
func chunks(text string, n int) string {
	var parts []string
	for len(text) > 0 {
		k := min(n, len(text))
		parts, text = append(parts, text[:k]), text[k:]
	}
	return chunk(parts...)
}

// TestCapturedCuts: what real servers sent, split between two reads at every
// byte, gives the same events but for their stamps, whatever the transfer coding;
// stamps never go back, and every byte belongs to one event.
func TestCapturedCuts(t *testing.T) {
	const most = 1500 // the cost goes with the square
	for name, body := range captured(t) {
		body = body[:min(len(body), most)]
		events := strings.SplitAfter(body, "\n\n")
		for coding, in := range map[string]struct {
			transfer Transfer
			text     string
		}{
			"until close":    {untilClose, body},
			"length":         {Transfer{Length: int64(len(body))}, body},
			"a chunk each":   {Transfer{Chunked: true}, chunk(events[:len(events)-1]...)},
			"odd chunks":     {Transfer{Chunked: true}, chunks(body, 61)},
			"a chunk of all": {Transfer{Chunked: true}, chunks(body, most)},
		} {
			want := decode(SSE, in.transfer, 0, []byte(in.text)).plain()
			for i := range len(in.text) + 1 {
				got := decode(SSE, in.transfer, 0, []byte(in.text[:i]), []byte(in.text[i:]))
				checkBytes(t, got, len(in.text))
				last := record.Stamp(0)
				for _, f := range got.Frames {
					if f.At < last {
						t.Fatalf("%s, %s, cut at %d: a stamp went back", name, coding, i)
					}
					last = f.At
				}
				if got = got.plain(); !reflect.DeepEqual(want, got) { // cmp is slow
					t.Fatalf("%s, %s, cut at %d: %s", name, coding, i, cmp.Diff(want, got))
				}
			}
		}
	}
}

// TestCapturedReplies: over the sockets of both transports, cut in three here and
// there, every byte of a whole reply is of one event.
func TestCapturedReplies(t *testing.T) { both(t, testCapturedReplies) }

func testCapturedReplies(t *testing.T, newClient opener) {
	next := make(chan []string, 1)
	addr := serve(t, nil, func(p *peer) {
		for p.request() != nil {
			for _, piece := range <-next {
				p.send(piece)
				runtime.Gosched()
			}
		}
	})
	c := newClient(t, addr, nil)
	for name, body := range captured(t) {
		if !strings.HasSuffix(body, "\n\n") {
			continue // its last bytes are of no event
		}
		want := decode(SSE, untilClose, 0, []byte(body)).plain().Frames
		reply := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		for i := 1; i < len(reply)-1; i += len(reply) / 37 {
			next <- []string{reply[:i], reply[i : i+1], reply[i+1:]}
			var sink recorder
			a, err := do(t, c, &sink)
			if err != nil {
				t.Fatalf("%s, cut at %d: %v", name, i, err)
			}
			sum, last := 0, a.Headers
			for k := range sink.frames {
				f := &sink.frames[k]
				if f.At < last {
					t.Fatalf("%s, cut at %d: a stamp went back", name, i)
				}
				sum += f.Wire
				last, f.At, f.Flags = f.At, 0, 0
			}
			if diff := cmp.Diff(want, sink.frames); diff != "" || sum != len(body) {
				t.Fatalf("%s, cut at %d: %d of %d bytes: %s", name, i, sum, len(body), diff)
			}
		}
	}
}
