package rundir

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/assay-bench/assay/record"
)

// stored is an attempt with its events.
type stored struct {
	attempt record.Attempt
	events  []record.Event
}

// genEvent draws an event with any values that a stream can have.
func genEvent(t *rapid.T) record.Event {
	at := record.Stamp(rapid.Int64Range(1, 1<<50).Draw(t, "at"))
	return record.Event{
		At: at, Read: at + record.Stamp(rapid.Int64Range(-1000, 1<<40).Draw(t, "lag")),
		Tokens:    rapid.Int32Range(record.UnknownTokens, 1<<20).Draw(t, "tokens"),
		TextBytes: rapid.Int32Range(0, 1<<30).Draw(t, "text"), AnswerBytes: rapid.Int32Range(0, 1<<30).Draw(t, "answer"),
		WireBytes: rapid.Int32Range(0, 1<<30).Draw(t, "wire"),
		Flags:     record.EventFlags(rapid.Uint16().Draw(t, "flags")),
	}
}

func genStored(t *rapid.T) stored {
	s := stored{events: rapid.SliceOfN(rapid.Custom(genEvent), 0, 20).Draw(t, "events")}
	s.attempt = record.Attempt{
		ID:      rapid.StringN(1, 20, 60).Draw(t, "id"),
		Request: rapid.Int64Range(-2, 1<<40).Draw(t, "request"), Try: rapid.IntRange(0, 1).Draw(t, "try"),
		Stage: rapid.String().Draw(t, "stage"), Phase: rapid.SampledFrom([]record.Phase{record.Warmup, record.Measured, record.Cooldown}).Draw(t, "phase"),
		Streamed:  rapid.Bool().Draw(t, "streamed"),
		Scheduled: record.Stamp(rapid.Int64Range(1, 1<<62).Draw(t, "scheduled")), Sent: record.Stamp(rapid.Int64Range(0, 1<<62).Draw(t, "sent")),
		FirstText: record.Stamp(rapid.Int64Range(0, 1<<62).Draw(t, "first")), Ended: record.Stamp(rapid.Int64Range(0, 1<<62).Draw(t, "ended")),
		Connect: time.Duration(rapid.Int64Range(0, 1<<40).Draw(t, "connect")),
		Outcome: rapid.SampledFrom(record.Outcomes()).Draw(t, "outcome"), Status: rapid.IntRange(0, 599).Draw(t, "status"),
		Error: rapid.String().Draw(t, "error"), ErrorBody: rapid.String().Draw(t, "body"), FinishReason: rapid.String().Draw(t, "finish"),
	}
	if rapid.Bool().Draw(t, "has usage") {
		s.attempt.Usage = &record.Usage{PromptTokens: rapid.IntRange(0, 1<<30).Draw(t, "prompt"), CompletionTokens: rapid.IntRange(0, 1<<30).Draw(t, "completion")}
	}
	return s
}

// epoch of all runs in tests.
func epoch() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC) }

// write makes a run directory of attempts.
func write(t testing.TB, parent, id string, attempts []stored, complete bool) string {
	t.Helper()
	w, err := Create(parent, id, Meta{Epoch: epoch()})
	if err != nil {
		t.Fatal(err)
	}
	for i := range attempts {
		if err := w.Append(&attempts[i].attempt, attempts[i].events); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(complete, ""); err != nil {
		t.Fatal(err)
	}
	return w.Dir()
}

// read reads all of a run directory.
func read(t testing.TB, dir string) (*Run, []stored) {
	t.Helper()
	r, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []stored
	for a, ev := range r.Records {
		out = append(out, stored{*a, slices.Clone(ev)})
	}
	return r, out
}

// fixed are attempts with all kinds of events, of small and large size.
func fixed() []stored {
	var out []stored
	at := record.Stamp(time.Second)
	for i, id := range []string{"run-0", "run-1", "run-1-1", "run-2", "run-3"} {
		s := stored{attempt: record.Attempt{
			ID: id, Request: int64(i), Stage: "s", Phase: record.Measured, Streamed: true, Scheduled: at, Sent: at + 5, Outcome: record.Completed,
			Usage: &record.Usage{PromptTokens: 7, CompletionTokens: i},
		}}
		for k := range i {
			at += record.Stamp(time.Millisecond)
			s.events = append(s.events, record.Event{At: at, Read: at + 3, Tokens: 1, TextBytes: 4, AnswerBytes: 4, WireBytes: int32(100 + k), Flags: record.FlagText | record.FlagAnswer})
		}
		for _, e := range s.events {
			s.attempt.Observe(e)
		}
		s.attempt.Ended = at
		out = append(out, s)
	}
	return out
}

func file(t testing.TB, dir, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}
