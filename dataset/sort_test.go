package dataset

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestSort: rows come as a stable sort of the whole puts them, counted from the
// earliest; ids go with their rows.
func TestSort(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	type line struct {
		ms, n int
	}
	var all []line
	var b strings.Builder
	for i := range 5000 {
		l := line{rnd.IntN(2000), i + 1}
		all = append(all, l)
		fmt.Fprintf(&b, `{"timestamp":%d,"input_length":%d,"output_length":1,"hash_ids":[%s]}`+"\n", l.ms, l.n, strings.Trim(strings.Repeat(fmt.Sprintf("%d,", l.n), (l.n+511)/512), ","))
	}
	s, err := Scan(text(t, b.String(), Options{}))
	if err != nil || s.Backwards == 0 {
		t.Fatalf("%d backwards, %v", s.Backwards, err)
	}
	slices.SortStableFunc(all, func(a, b line) int { return a.ms - b.ms })
	rows := collect(t, Sort(text(t, b.String(), Options{}), "f", s.First, SortWindow))
	if len(rows) != len(all) {
		t.Fatalf("%d rows, want %d", len(rows), len(all))
	}
	for i, r := range rows {
		l := all[i]
		if r.PromptTokens != l.n || r.At != time.Duration(l.ms-all[0].ms)*time.Millisecond || r.HashIDs[0] != int64(l.n) || len(r.HashIDs) != (l.n+511)/512 {
			t.Fatalf("row %d is %v at %v, want %v", i, r.PromptTokens, r.At, l)
		}
	}
}

// TestSortWindow: what is further off is said, by its line, and ends the rows.
func TestSortWindow(t *testing.T) {
	const content = "t_s,input_tokens\n5,1\n4,2\n6,3\n7,4\n1,5\n8,6\n"
	sort := func(window int) ([]int, error) {
		rows, err := readAll(Sort(text(t, content, Options{}), "f", -4*time.Second, window))
		var got []int
		for _, r := range rows {
			got = append(got, r.PromptTokens)
		}
		return got, err
	}
	if got, err := sort(5); err != nil || !cmp.Equal(got, []int{5, 2, 1, 3, 4, 6}) {
		t.Errorf("%v, %v", got, err)
	}
	got, err := sort(2)
	if want := "f:6: stands more than 2 rows behind a row with a later stamp: sort the file by its stamps"; err == nil || err.Error() != want {
		t.Errorf("%v after %v, want %s", err, got, want)
	}
	// What is wrong with a row is told between the others.
	bad := Sort(text(t, "t_s,input_tokens\n5,1\nx,2\n4,3\n", Options{}), "f", -time.Second, SortWindow)
	n, wrong := 0, 0
	for range 5 {
		_, err := bad.Next()
		switch {
		case err == nil:
			n++
		case errors.As(err, new(*RowError)):
			wrong++
		}
	}
	if n != 2 || wrong != 1 {
		t.Errorf("%d rows and %d errors, want 2 and 1", n, wrong)
	}
}
