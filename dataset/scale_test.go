package dataset

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// poisson is a trace of n rows at 10/s with alternating lengths.
func poisson(n int) string {
	rnd := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	b.WriteString("t_s,input_tokens,output_tokens,session_id\n")
	at := 0.0
	for i := range n {
		fmt.Fprintf(&b, "%.6f,%d,%d,s%d\n", at, 100+i%7, 10+i%3, i/5)
		at += rnd.ExpFloat64() / 10
	}
	return b.String()
}

// TestThin keeps the share, whole rows, and the same ones for the same seed.
func TestThin(t *testing.T) {
	trace := poisson(10_000)
	thin := func(seed uint64) []Row {
		src, err := Thin(text(t, trace, Options{}), 0.3, seed)
		if err != nil {
			t.Fatal(err)
		}
		return collect(t, src)
	}
	rows := thin(7)
	// Standard deviation sqrt(10000*0.3*0.7) = 45.8; 4 of them.
	if n := len(rows); n < 3000-184 || n > 3000+184 {
		t.Errorf("%d rows of 10000 kept, want 3000", n)
	}
	if again := thin(7); len(again) != len(rows) || again[10].Line != rows[10].Line {
		t.Error("another choice for the same seed")
	}
	if other := thin(8); len(other) == len(rows) && other[10].Line == rows[10].Line && other[99].Line == rows[99].Line {
		t.Error("the same choice for another seed")
	}
}

func TestCompress(t *testing.T) {
	src, err := Compress(text(t, "t_s,input_tokens\n5,1\n9,1\n6,1\n", Options{}), 4)
	if err != nil {
		t.Fatal(err)
	}
	rows := collect(t, src)
	if rows[0].At != 0 || rows[1].At != time.Second || rows[2].At != 250*time.Millisecond {
		t.Errorf("at %v, %v, %v", rows[0].At, rows[1].At, rows[2].At)
	}
}

// TestSuperpose: every copy plays every row once, within the span, in order, with
// ids of its own.
func TestSuperpose(t *testing.T) {
	trace := poisson(1000)
	s, err := Scan(text(t, trace, Options{}))
	if err != nil {
		t.Fatal(err)
	}
	open := 0
	src, err := Superpose(func() (Source, func(), error) {
		open++
		r, err := New(strings.NewReader(trace), "f", Options{})
		return r, func() { open-- }, err
	}, 3, s.Span(), 5)
	if err != nil {
		t.Fatal(err)
	}
	rows := collect(t, src)
	if open != 0 {
		t.Errorf("%d streams were not closed", open)
	}
	seen := map[string]int{}
	for i, r := range rows {
		if i > 0 && r.At < rows[i-1].At {
			t.Fatalf("row %d goes back", i)
		}
		if r.At < 0 || r.At > s.Span() {
			t.Fatalf("row %d at %v, the span is %v", i, r.At, s.Span())
		}
		if strings.HasPrefix(r.SessionID, "copy ") != (r.Copy > 0) {
			t.Fatalf("copy %d has session %q", r.Copy, r.SessionID)
		}
		seen[fmt.Sprint(r.Copy, " ", r.Line)]++
	}
	if len(rows) != 3000 || len(seen) != 3000 {
		t.Errorf("%d rows, %d different, want 3000", len(rows), len(seen))
	}
}

func TestScaleRefused(t *testing.T) {
	r := text(t, poisson(3), Options{})
	for _, p := range []float64{0, -1, 1.5, math.NaN()} {
		if _, err := Thin(r, p, 1); err == nil {
			t.Errorf("Thin by %v", p)
		}
	}
	for _, f := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		if _, err := Compress(r, f); err == nil {
			t.Errorf("Compress by %v", f)
		}
	}
	if _, err := Dither(r, 0, 1); err == nil {
		t.Error("Dither by 0")
	}
	if _, err := Superpose(nil, 2, 0, 1); err == nil {
		t.Error("Superpose without a span")
	}
}

// TestHistogram holds the quantiles against a sorted list: exact up to 512,
// within 1/256 above.
func TestHistogram(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.OneOf(rapid.IntRange(0, 600), rapid.IntRange(0, maxCount)), 1, 200).Draw(t, "values")
		var h histogram
		for _, v := range values {
			h.add(v)
		}
		q := rapid.Float64Range(0.001, 1).Draw(t, "q")
		got, want := h.quantile(q), oracleQuantile(values, q)
		if d := math.Abs(float64(got - want)); d > float64(want)/256 || want < 512 && d != 0 {
			t.Fatalf("quantile %v of %v: %d, want %d", q, values, got, want)
		}
	})
}

func oracleQuantile(values []int, q float64) int {
	for _, v := range values {
		at, below := 0, 0
		for _, w := range values {
			if w <= v {
				at++
			}
			if w < v {
				below++
			}
		}
		if rank := int(math.Ceil(q * float64(len(values)))); at >= rank && below < rank {
			return v
		}
	}
	return -1
}

// TestBlockRange: the suggested size is one that every row fits.
func TestBlockRange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		block := 1 << rapid.IntRange(2, 10).Draw(t, "log of block")
		r := blockRange{lo: 1, hi: math.MaxInt}
		for _, in := range rapid.SliceOfN(rapid.IntRange(1, 100_000), 1, 20).Draw(t, "inputs") {
			r.add((in+block-1)/block, in)
		}
		if r.lo > block || r.hi <= block {
			t.Fatalf("%d is not in %+v", block, r)
		}
		if s := r.suggest(); s != 0 && (s < r.lo || s >= r.hi) {
			t.Fatalf("%d suggested of %+v", s, r)
		}
	})
}
