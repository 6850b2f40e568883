package report

import (
	"fmt"
	"strconv"

	"github.com/assay-bench/assay/result"
)

// truth shows our measurement beside the engine's own log of it.
func (sh *sheet) truth(t *result.Truth) {
	if t == nil {
		return
	}
	sh.section("TRUTH", "the built-in engine's log of the same requests", "boundaries: client and engine, subtracted", "µs")
	sh.row("", t.Text)
	if t.Requests == 0 {
		return
	}
	tokens := "token counts are equal"
	if t.TokensDiffer > 0 {
		tokens = fmt.Sprintf("TOKEN COUNTS DIFFER in %d; the first: %s", t.TokensDiffer, t.Differs)
	}
	sh.row("", fmt.Sprintf("%d of %d completed requests of the window are in it", t.Matched, t.Requests), tokens)
	if len(t.Figures) == 0 {
		return
	}
	g := grid{header: []string{"difference, µs", "n", "min", "p50", "p99", "max"}}
	for _, f := range t.Figures {
		g.rows = append(g.rows, []string{f.Text, strconv.Itoa(f.N), micros(f.Min), micros(f.P50), micros(f.P99), micros(f.Max)})
	}
	sh.add(g)
	if t.SameClock {
		sh.row("", "both processes read one monotonic clock: stamps are compared as they are")
	} else {
		sh.row("", "no clock is common to both processes: durations alone are compared")
	}
}

// micros has one decimal: the stamps are good to about that.
func micros(x *float64) string {
	if x == nil {
		return none
	}
	return fixed(*x, 1)
}
