package rundir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/assay-bench/assay/record"
)

// compare says how two lists differ; the quick way comes first, for long ones.
func compare(want, got []stored) string {
	if slices.EqualFunc(want, got, func(a, b stored) bool {
		return slices.Equal(a.events, b.events) && reflect.DeepEqual(a.attempt, b.attempt)
	}) {
		return ""
	}
	return cmp.Diff(want, got, cmp.AllowUnexported(stored{}), cmpopts.IgnoreUnexported(record.Attempt{}), cmpopts.EquateEmpty())
}

// TestRoundTrip: what is appended comes back, in order, to the last bit.
func TestRoundTrip(t *testing.T) {
	parent := t.TempDir()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		want := rapid.SliceOfN(rapid.Custom(genStored), 0, 12).Draw(rt, "attempts")
		for i := range want {
			want[i].attempt.ID += fmt.Sprint("-", i) // ids are unique
		}
		r, got := read(t, write(t, parent, fmt.Sprint(n), want, true))
		if diff := compare(want, got); diff != "" {
			rt.Fatal(diff)
		}
		if r.Err() != nil || len(r.Warnings()) > 0 || !r.Meta.Complete {
			rt.Fatalf("error %v, warnings %v, complete %v", r.Err(), r.Warnings(), r.Meta.Complete)
		}
	})
}

// TestClock: the estimates of the wall clock are on disk after a flush, and a run
// that has none has no file of them.
func TestClock(t *testing.T) {
	w, err := Create(t.TempDir(), "x", Meta{Epoch: epoch()})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close(true, "")
	if err := errors.Join(w.AppendClock(nil), w.Flush()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(w.Dir(), clockFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file of nothing: %v", err)
	}
	want := clockHeader
	for i := range 3 {
		err := w.AppendClock([]record.ClockOffset{{At: record.Stamp(i), Wall: 1764547200000000000, Window: 71}})
		if err := errors.Join(err, w.Flush()); err != nil {
			t.Fatal(err)
		}
		want += fmt.Sprintf("%d,1764547200000000000,71\n", i)
		if got := string(file(t, w.Dir(), clockFile)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestBlocks: many events make several blocks, flushes make small ones; neither
// is seen by a reader.
func TestBlocks(t *testing.T) {
	w, err := Create(t.TempDir(), "x", Meta{Epoch: epoch()})
	if err != nil {
		t.Fatal(err)
	}
	var want []stored
	for i := range 300 {
		s := stored{attempt: record.Attempt{ID: fmt.Sprint("run-", i), Outcome: record.Completed}}
		for k := range 500 {
			at := record.Stamp(1e9 + i*1e6 + k*1e3)
			s.events = append(s.events, record.Event{At: at, Read: at + 9, Tokens: 1, TextBytes: int32(k), WireBytes: 200})
		}
		want = append(want, s)
		if err := w.Append(&s.attempt, s.events); err != nil {
			t.Fatal(err)
		}
		if i%100 == 7 {
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(true, ""); err != nil {
		t.Fatal(err)
	}
	if size := len(file(t, w.Dir(), eventsFile)); size < 3*blockTarget {
		t.Fatalf("%d bytes are too few for several blocks", size)
	}
	if _, got := read(t, w.Dir()); compare(want, got) != "" {
		t.Error(compare(want, got))
	}
}

// TestNoEvents: a run without its events still has its records.
func TestNoEvents(t *testing.T) {
	dir := write(t, t.TempDir(), "x", fixed(), true)
	if err := os.Remove(filepath.Join(dir, eventsFile)); err != nil {
		t.Fatal(err)
	}
	r, got := read(t, dir)
	if len(got) != len(fixed()) || len(got[4].events) != 0 || len(r.Warnings()) != 1 || r.Warnings()[0].Code != "no-events" {
		t.Errorf("%d records, warnings %v", len(got), r.Warnings())
	}
}

// copyRun makes a copy of a run directory with other content of one file.
func copyRun(t testing.TB, dir, to, name string, content []byte) {
	t.Helper()
	for _, f := range []string{metaFile, recordsFile, eventsFile} {
		b := content
		if f != name {
			b = file(t, dir, f)
		}
		if err := os.WriteFile(filepath.Join(to, f), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCutRecords cuts records.jsonl at every byte, as a death in mid-write does:
// whole records before the cut come back with their events; a part of one is
// said, and is not half a record.
func TestCutRecords(t *testing.T) {
	dir, to := write(t, t.TempDir(), "x", fixed()[:3], false), t.TempDir()
	all := file(t, dir, recordsFile)
	for n := range len(all) + 1 {
		part := string(all[:n])
		copyRun(t, dir, to, recordsFile, []byte(part))
		r, got := read(t, to)
		whole := strings.Count(part, "\n")
		rest := part[strings.LastIndexByte(part, '\n')+1:]
		if strings.HasPrefix(string(all[n:]), "\n") && rest != "" {
			whole, rest = whole+1, "" // only the line's end is missing
		}
		if r.Err() != nil || len(got) != whole {
			t.Fatalf("cut at %d: %d records, want %d; error %v", n, len(got), whole, r.Err())
		}
		if diff := compare(fixed()[:whole], got); diff != "" {
			t.Fatalf("cut at %d: %s", n, diff)
		}
		if warned := len(r.Warnings()) == 1 && r.Warnings()[0].Code == "cut-record"; warned != (rest != "") || !warned && len(r.Warnings()) > 0 {
			t.Fatalf("cut at %d: warnings %v", n, r.Warnings())
		}
	}
}

// TestCutEvents cuts events.seg at every byte: all records come back, with events
// up to the last whole block, and it is said.
func TestCutEvents(t *testing.T) {
	w, err := Create(t.TempDir(), "x", Meta{Epoch: epoch()})
	if err != nil {
		t.Fatal(err)
	}
	var ends []int // of the blocks: one an attempt
	for _, s := range fixed() {
		if err := errors.Join(w.Append(&s.attempt, s.events), w.Flush()); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, len(file(t, w.Dir(), eventsFile)))
	}
	if err := w.Close(false, "test"); err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	all := file(t, w.Dir(), eventsFile)
	for n := range len(all) + 1 {
		copyRun(t, w.Dir(), to, eventsFile, all[:n])
		r, got := read(t, to)
		if r.Err() != nil || len(got) != len(fixed()) {
			t.Fatalf("cut at %d: %d records, error %v", n, len(got), r.Err())
		}
		want := fixed()
		for i, end := range ends {
			if end > n {
				want[i].events = nil
			}
		}
		if diff := compare(want, got); diff != "" {
			t.Fatalf("cut at %d: %s", n, diff)
		}
		if warned := len(r.Warnings()) == 1; warned != (n < len(all)) {
			t.Fatalf("cut at %d: warnings %v", n, r.Warnings())
		}
	}
}

// TestDamagedEvents turns every byte of events.seg: no damaged event is believed.
func TestDamagedEvents(t *testing.T) {
	dir, to := write(t, t.TempDir(), "x", fixed(), true), t.TempDir()
	all := file(t, dir, eventsFile)
	for n := range all {
		bad := append([]byte(nil), all...)
		bad[n] ^= 0x41
		copyRun(t, dir, to, eventsFile, bad)
		r, got := read(t, to)
		if len(got) != len(fixed()) || len(r.Warnings()) != 1 {
			t.Fatalf("byte %d: %d records, warnings %v", n, len(got), r.Warnings())
		}
		for _, s := range got {
			if len(s.events) > 0 {
				t.Fatalf("byte %d: events of a damaged block", n)
			}
		}
	}
}

// TestMiddleDamage: a broken line that is not the last is an error with its place.
func TestMiddleDamage(t *testing.T) {
	dir, to := write(t, t.TempDir(), "x", fixed(), true), t.TempDir()
	lines := strings.SplitAfter(string(file(t, dir, recordsFile)), "\n")
	lines[2] = "{\"id\": 7}\n"
	copyRun(t, dir, to, recordsFile, []byte(strings.Join(lines, "")))
	r, got := read(t, to)
	if len(got) != 2 || r.Err() == nil || !strings.Contains(r.Err().Error(), "records.jsonl:3: ") {
		t.Errorf("%d records, error %v", len(got), r.Err())
	}
}

// TestEventsWithoutRecord: events whose record did not reach the disk belong to
// nobody, and the attempts around them keep theirs.
func TestEventsWithoutRecord(t *testing.T) {
	dir, to := write(t, t.TempDir(), "x", fixed(), true), t.TempDir()
	lines := strings.SplitAfter(string(file(t, dir, recordsFile)), "\n")
	copyRun(t, dir, to, recordsFile, []byte(strings.Join(append(lines[:2:2], lines[3:]...), "")))
	want := append(fixed()[:2:2], fixed()[3:]...)
	if _, got := read(t, to); compare(want, got) != "" {
		t.Error(compare(want, got))
	}
}

// TestNothingIsOverwritten: the same moment and id twice is an error.
func TestNothingIsOverwritten(t *testing.T) {
	parent := t.TempDir()
	dir := write(t, parent, "x", fixed(), true)
	if _, err := Create(parent, "x", Meta{Epoch: epoch()}); !errors.Is(err, os.ErrExist) {
		t.Errorf("error %v, want that it exists", err)
	}
	if _, got := read(t, dir); len(got) != len(fixed()) {
		t.Errorf("%d records are left", len(got))
	}
}

// TestRequestsCSV: measured, completed and with a token at least; the columns
// read back as the durations that they were.
func TestRequestsCSV(t *testing.T) {
	row := func(id string, change func(*record.Attempt)) stored {
		a := record.Attempt{
			ID: id, Phase: record.Measured, Outcome: record.Completed, Streamed: true, Sent: 1000, FirstText: 1000 + 123_456_789, LastText: 1000 + 987_654_321,
			Usage: &record.Usage{PromptTokens: 11, CompletionTokens: 5},
		}
		if change != nil {
			change(&a)
		}
		return stored{attempt: a}
	}
	dir := write(t, t.TempDir(), "x", []stored{
		row("a", nil),
		row("warm-up", func(a *record.Attempt) { a.Phase = record.Warmup }),
		row("failed", func(a *record.Attempt) { a.Outcome = record.Truncated }),
		row("zero", func(a *record.Attempt) { a.Usage.CompletionTokens = 0 }),
		row("no usage", func(a *record.Attempt) { a.Usage = nil }),
		row("whole", func(a *record.Attempt) {
			a.Streamed, a.FirstText, a.LastText, a.EOF = false, 0, 0, 1000+500_000_000
		}),
	}, true)
	want := "request_id,prompt_tokens,completion_tokens,TTFT_ms,E2E_ms\na,11,5,123.456789,987.654321\nwhole,11,5,,500.000000\n"
	if got := string(file(t, dir, requestsFile)); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// TestOpen says what is wrong with what is no run.
func TestOpen(t *testing.T) {
	for _, c := range []struct{ name, content, want string }{
		{"nothing", "", "is not a run directory: it has no run.json"},
		{"broken", `{"schema_version": 1,`, "run.json: unexpected end of JSON input"},
		{"other", `[]`, "run.json: json: cannot unmarshal array"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if c.content != "" {
				if err := os.WriteFile(filepath.Join(dir, metaFile), []byte(c.content), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
	t.Run("newer", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, metaFile), []byte(`{"schema_version": 99, "hologram": true}`), 0o644); err != nil {
			t.Fatal(err)
		}
		if r, err := Open(dir); err != nil || len(r.Warnings()) != 1 || r.Warnings()[0].Code != "newer-schema" {
			t.Errorf("error %v", err)
		}
	})
}
