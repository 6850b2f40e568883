package wire

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/assay-bench/assay/record"
)

// TestDeadlines holds the heap against a look at every entry.
func TestDeadlines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h deadlines[*timed]
		all := make([]timed, rapid.IntRange(1, 20).Draw(t, "entries"))
		for range rapid.IntRange(1, 100).Draw(t, "moves") {
			x := &all[rapid.IntRange(0, len(all)-1).Draw(t, "entry")]
			h.set(x, record.Stamp(rapid.IntRange(0, 30).Draw(t, "at")))
			want := record.Stamp(0)
			n := 0
			for _, e := range all {
				if e.deadline == 0 {
					continue
				}
				n++
				if want == 0 || e.deadline < want {
					want = e.deadline
				}
			}
			got, ok := h.first()
			if ok != (n > 0) || ok && got.deadline != want || len(h) != n {
				t.Fatalf("first %+v of %d, want %d of %d", got, len(h), want, n)
			}
		}
	})
}
