package dataset

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"
)

// repeated is a stream of a head and a body that is repeated: a trace of any
// length that costs no memory.
type repeated struct {
	head, body []byte
	times      int
	at         []byte
}

func (r *repeated) Read(p []byte) (int, error) {
	if len(r.at) == 0 {
		switch {
		case r.head != nil:
			r.at, r.head = r.head, nil
		case r.times == 0:
			return 0, io.EOF
		default:
			r.at = r.body
			r.times--
		}
	}
	n := copy(p, r.at)
	r.at = r.at[n:]
	return n, nil
}

const benchRows = 10_000

// azureRows, burstRows, mooncakeRows are benchRows invented rows.
func azureRows() (string, []byte) {
	var b bytes.Buffer
	rnd := rand.New(rand.NewPCG(1, 1))
	at := time.Date(2024, 5, 12, 0, 0, 0, 0, time.UTC)
	for range benchRows {
		at = at.Add(time.Duration(rnd.ExpFloat64() * 36e6))
		fmt.Fprintf(&b, "%s,%d,%d\n", at.Format("2006-01-02 15:04:05.000000+00:00"), rnd.IntN(8000)+1, rnd.IntN(900)+1)
	}
	return "TIMESTAMP,ContextTokens,GeneratedTokens\n", b.Bytes()
}

func burstRows() (string, []byte) {
	var b bytes.Buffer
	rnd := rand.New(rand.NewPCG(1, 1))
	for i := range benchRows {
		in, out := rnd.IntN(2000)+1, rnd.IntN(900)
		fmt.Fprintf(&b, "%d.0,%x-%x,%d,GPT-4,%d,%d,%d,Conversation log\n", 19440012+i, rnd.Uint32(), rnd.Uint64(), rnd.IntN(60), in, out, in+out)
	}
	return "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n", b.Bytes()
}

// mooncakeRows have 24 ids each, as the conversation trace has in the mean.
func mooncakeRows() []byte {
	var b bytes.Buffer
	rnd := rand.New(rand.NewPCG(1, 1))
	for i := range benchRows {
		fmt.Fprintf(&b, `{"timestamp": %d, "input_length": %d, "output_length": %d, "hash_ids": [`, i/10*3000, 24*512-rnd.IntN(500), rnd.IntN(900)+1)
		for k := range 24 {
			if k > 0 {
				b.WriteString(", ")
			}
			fmt.Fprint(&b, rnd.IntN(200_000))
		}
		b.WriteString("]}\n")
	}
	return b.Bytes()
}

func vllmRows() []byte {
	var b bytes.Buffer
	for i := range benchRows {
		fmt.Fprintf(&b, `{"prompt": "Tell me, in a few words and without \"quotes\", of the number %d and what one may do with it.", "output_tokens": %d}`+"\n", i, i%300+1)
	}
	return b.Bytes()
}

// drain reads all rows.
func drain(tb testing.TB, r *Reader) (n int) {
	for {
		_, err := r.Next()
		if errors.Is(err, io.EOF) {
			return n
		}
		if err != nil {
			tb.Fatal(err)
		}
		n++
	}
}

func benchText(b *testing.B, head string, body []byte) {
	b.ReportAllocs()
	b.SetBytes(int64(len(body)))
	rows := 0
	for b.Loop() {
		r, err := New(&repeated{head: []byte(head), body: body, times: 1}, "f", Options{})
		if err != nil {
			b.Fatal(err)
		}
		rows += drain(b, r)
		r.Close()
	}
	b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
}

func BenchmarkAzure(b *testing.B) {
	head, body := azureRows()
	benchText(b, head, body)
}

func BenchmarkBurstGPT(b *testing.B) {
	head, body := burstRows()
	benchText(b, head, body)
}

func BenchmarkMooncake(b *testing.B)   { benchText(b, "", mooncakeRows()) }
func BenchmarkVLLMCustom(b *testing.B) { benchText(b, "", vllmRows()) }

func BenchmarkScanAzure(b *testing.B) {
	head, body := azureRows()
	rows := int64(0)
	for b.Loop() {
		r, err := New(&repeated{head: []byte(head), body: body, times: 1}, "f", Options{})
		if err != nil {
			b.Fatal(err)
		}
		s, err := Scan(r)
		if err != nil {
			b.Fatal(err)
		}
		rows += s.Rows
	}
	b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
}

// TestBoundedMemory streams 500,000 rows: the heap does not grow with them.
func TestBoundedMemory(t *testing.T) {
	head, body := azureRows()
	r, err := New(&repeated{head: []byte(head), body: body, times: 50}, "f", Options{})
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	if n := drain(t, r); n != 50*benchRows {
		t.Fatalf("%d rows", n)
	}
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 1<<20 {
		t.Errorf("%d bytes were allocated for %d rows", grown, 50*benchRows)
	}
}
