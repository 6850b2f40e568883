package rundir

import (
	"bytes"
	"fmt"
	"io"
	"testing"
)

// BenchmarkCSV reads a request table of 100,000 rows.
func BenchmarkCSV(b *testing.B) {
	var text bytes.Buffer
	text.WriteString(csvHeader)
	for i := range 100_000 {
		fmt.Fprintf(&text, "assay-0123456789abcdef-%d,512,128,%d.%06d,%d.%06d\n", i, 20+i%50, i%999999, 900+i%300, i%999983)
	}
	b.SetBytes(int64(text.Len()))
	for b.Loop() {
		r, err := NewCSVReader(bytes.NewReader(text.Bytes()), "x.csv")
		if err != nil {
			b.Fatal(err)
		}
		n := 0
		for {
			if _, err := r.Request(); err == io.EOF {
				break
			} else if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n != 100_000 {
			b.Fatalf("%d rows", n)
		}
	}
}

// BenchmarkAppend is one attempt of 128 events on its way to disk.
func BenchmarkAppend(b *testing.B) {
	w, err := Create(b.TempDir(), "x", Meta{Epoch: epoch()})
	if err != nil {
		b.Fatal(err)
	}
	s := fixed()[4]
	for len(s.events) < 128 {
		e := s.events[len(s.events)-1]
		e.At, e.Read = e.At+7e6, e.Read+7e6
		s.events = append(s.events, e)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := w.Append(&s.attempt, s.events); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Close(true, ""); err != nil {
		b.Fatal(err)
	}
}
