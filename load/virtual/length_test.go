package virtual

import (
	"math"
	"testing"

	"github.com/assay-bench/assay/engine"
	"github.com/assay-bench/assay/record"
)

func TestDrawLengths(t *testing.T) {
	const n, mean = 20_000, 200.0
	draw, again, other := DrawLengths(7, mean), DrawLengths(7, mean), DrawLengths(8, mean)
	sum, differ := 0.0, 0
	for i := range int64(n) {
		r := record.Request{Index: i, MaxTokens: 1_000_000}
		length := func(shape func(*record.Request, *engine.Request)) int {
			e := engine.Request{OutputTokens: r.MaxTokens}
			shape(&r, &e)
			if !e.Stop || e.OutputTokens < 1 {
				t.Fatalf("request %d: %d tokens, stop %t", i, e.OutputTokens, e.Stop)
			}
			return e.OutputTokens
		}
		a := length(draw)
		if a != length(again) {
			t.Fatalf("request %d has two lengths", i)
		}
		if a != length(other) {
			differ++
		}
		sum += float64(a)
	}
	if got := sum / n; math.Abs(got/mean-1) > 0.03 {
		t.Errorf("mean length %.1f, want %.0f", got, mean)
	}
	if differ < n/2 {
		t.Errorf("another seed changes %d of %d lengths", differ, n)
	}
	for _, c := range []struct {
		name  string
		exact bool
		limit int
		stops bool
	}{{"exact", true, 5, false}, {"cut off", false, 1, false}, {"by itself", false, 1 << 30, true}} {
		e := engine.Request{OutputTokens: c.limit}
		draw(&record.Request{MaxTokens: c.limit, ExactOutput: c.exact}, &e)
		if e.Stop != c.stops || !c.stops && e.OutputTokens != c.limit {
			t.Errorf("%s: %d tokens, stop %t", c.name, e.OutputTokens, e.Stop)
		}
	}
}
