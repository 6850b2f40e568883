package record_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/assay-bench/assay/record"
)

// text is a text event with a token delta.
func text(at record.Stamp, tokens int32, more record.EventFlags) record.Event {
	return record.Event{At: at, Read: at, Tokens: tokens, TextBytes: 2, AnswerBytes: 2, Flags: record.FlagText | record.FlagAnswer | more}
}

func TestObserve(t *testing.T) {
	const unknown = record.UnknownTokens
	cases := []struct {
		name   string
		events []record.Event
		want   record.Attempt
	}{
		{"usage and done never move last text", []record.Event{
			text(10, 1, 0), text(20, 1, record.FlagFinish), {At: 30, Flags: record.FlagUsage}, {At: 40, Flags: record.FlagDone},
		}, record.Attempt{FirstEvent: 10, FirstToken: 10, FirstText: 10, FirstAnswer: 10, LastText: 20, LastToken: 20,
			Finish: 20, UsageAt: 30, Done: 40, Events: 4, TextEvents: 2, TokenEvents: 2, TextBytes: 4, AnswerBytes: 4, DeltaTokens: 2, PairedTokens: 1}},
		{"a role chunk is an event and no text", []record.Event{
			{At: 5, Flags: record.FlagRole}, text(10, 1, 0),
		}, record.Attempt{FirstEvent: 5, FirstToken: 10, FirstText: 10, FirstAnswer: 10, LastText: 10, LastToken: 10,
			Events: 2, TextEvents: 1, TokenEvents: 1, TextBytes: 2, AnswerBytes: 2, DeltaTokens: 1}},
		{"a stop token without text is a token after the last text, and not paired", []record.Event{
			text(120, 1, 0), text(155, 1, 0), text(192, 1, 0), text(228, 1, 0), {At: 265, Tokens: 1, Flags: record.FlagFinish},
		}, record.Attempt{FirstEvent: 120, FirstToken: 120, FirstText: 120, FirstAnswer: 120, LastText: 228, LastToken: 265, Finish: 265,
			Events: 5, TextEvents: 4, TokenEvents: 5, TextBytes: 8, AnswerBytes: 8, DeltaTokens: 5, PairedTokens: 3}},
		{"tokens without text are paired with the text that follows them", []record.Event{
			text(10, 1, 0), {At: 20, Tokens: 1}, text(30, 2, 0),
		}, record.Attempt{FirstEvent: 10, FirstToken: 10, FirstText: 10, FirstAnswer: 10, LastText: 30, LastToken: 30,
			Events: 3, TextEvents: 2, TokenEvents: 3, TextBytes: 4, AnswerBytes: 4, DeltaTokens: 4, PairedTokens: 3, MultiTokenEvents: 1}},
		{"unknown deltas are counted, never taken for one", []record.Event{
			text(10, unknown, 0), text(20, unknown, 0),
		}, record.Attempt{FirstEvent: 10, FirstText: 10, FirstAnswer: 10, LastText: 20,
			Events: 2, TextEvents: 2, TextBytes: 4, AnswerBytes: 4, DeltasUnknown: 2}},
		{"reasoning is text and no answer", []record.Event{
			{At: 10, Tokens: 1, TextBytes: 3, Flags: record.FlagText | record.FlagReasoning}, text(30, 1, 0),
		}, record.Attempt{FirstEvent: 10, FirstToken: 10, FirstText: 10, FirstAnswer: 30, LastText: 30, LastToken: 30,
			Events: 2, TextEvents: 2, TokenEvents: 2, TextBytes: 5, AnswerBytes: 2, DeltaTokens: 2, PairedTokens: 1, ReasoningText: true}},
		{"text events of one stamp have an unknown gap; a closing burst spoils none", []record.Event{
			text(10, 1, 0), text(20, 1, record.FlagCoalesced), text(20, 1, record.FlagCoalesced), {At: 20, Flags: record.FlagUsage | record.FlagCoalesced},
		}, record.Attempt{FirstEvent: 10, FirstToken: 10, FirstText: 10, FirstAnswer: 10, LastText: 20, LastToken: 20, UsageAt: 20,
			Events: 4, TextEvents: 3, TokenEvents: 3, CoalescedEvents: 3, CoalescedText: 1, TextBytes: 6, AnswerBytes: 6, DeltaTokens: 3, PairedTokens: 2}},
		{"read lag is that of events with a kernel stamp", []record.Event{
			{At: 10, Read: 13, Flags: record.FlagKernel}, {At: 20, Read: 21, Flags: record.FlagKernel}, {At: 40, Read: 40},
		}, record.Attempt{FirstEvent: 10, Events: 3, KernelEvents: 2, ReadLagMax: 3, ReadLagSum: 4}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var a record.Attempt
			for _, e := range c.events {
				a.Observe(e)
			}
			if d := cmp.Diff(c.want, a, cmpopts.IgnoreUnexported(record.Attempt{})); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
		})
	}
}

func TestObserveAllocatesNothing(t *testing.T) {
	e := text(10, 1, record.FlagKernel)
	var a record.Attempt
	if n := testing.AllocsPerRun(100, func() { a.Observe(e) }); n != 0 {
		t.Errorf("%v allocations an event", n)
	}
}

// attempts draws attempts of any outcome that make sense to a ledger.
func attempts() *rapid.Generator[record.Attempt] {
	return rapid.Custom(func(t *rapid.T) record.Attempt {
		a := record.Attempt{
			ID: rapid.String().Draw(t, "id"), Try: rapid.IntRange(0, 2).Draw(t, "try"),
			Outcome: rapid.SampledFrom(record.Outcomes()).Draw(t, "outcome"), Status: rapid.SampledFrom([]int{0, 200, 429, 500, 503}).Draw(t, "status"),
			Streamed: rapid.Bool().Draw(t, "streamed"), TextBytes: rapid.Int64Range(0, 9).Draw(t, "text"), MaxTokens: rapid.IntRange(0, 5).Draw(t, "max"),
			Sent: record.Stamp(rapid.Int64().Draw(t, "sent")), Done: record.Stamp(rapid.Int64Range(0, 3).Draw(t, "done")),
			FinishReason: rapid.SampledFrom([]string{"", "stop", "length"}).Draw(t, "finish"), Error: rapid.String().Draw(t, "error"),
		}
		if rapid.Bool().Draw(t, "usage") {
			a.Usage = &record.Usage{PromptTokens: rapid.IntRange(0, 9).Draw(t, "p"), CompletionTokens: rapid.IntRange(0, 5).Draw(t, "n")}
		}
		return a
	})
}

func TestLedgerBalances(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l record.Ledger
		list := rapid.SliceOf(attempts()).Draw(t, "attempts")
		first := 0
		for _, a := range list {
			l.Add(&a)
			if a.Try == 0 {
				first++
			}
		}
		if !l.Balances() || l.Attempts != len(list) || l.Requests != first {
			t.Errorf("%d attempts, %d requests: ledger %+v", len(list), first, l)
		}
	})
}

func TestLedgerKnowsAnUnknownRow(t *testing.T) {
	var l record.Ledger
	l.Add(&record.Attempt{Outcome: "vanished"})
	if l.Balances() {
		t.Error("an attempt in no known row balances")
	}
}

func TestLedgerSplits(t *testing.T) {
	var l record.Ledger
	for _, n := range []int{0, 1, 7} {
		l.Add(&record.Attempt{Outcome: record.Completed, Streamed: true, Done: 1, TextBytes: int64(n), MaxTokens: 7, FinishReason: "stop", Usage: &record.Usage{CompletionTokens: n}})
	}
	l.Add(&record.Attempt{Outcome: record.Completed, Streamed: true, TextBytes: 1})
	l.Add(&record.Attempt{Outcome: record.Rejected, Status: 503})
	want := record.Ledger{
		Requests: 5, Attempts: 5, Completed: 4, Rows: map[record.Outcome]int{record.Completed: 4, record.Rejected: 1}, HTTPStatus: map[int]int{503: 1},
		ZeroToken: 1, OneToken: 1, NoUsage: 1, NoText: 1, StoppedEarly: 2, Unterminated: 1, FinishReasons: map[string]int{"stop": 3, "": 1},
	}
	if d := cmp.Diff(want, l); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

func TestAttemptJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := attempts().Draw(t, "attempt")
		b, err := json.Marshal(&in)
		if err != nil {
			t.Fatal(err)
		}
		var out record.Attempt
		if err := json.Unmarshal(b, &out); err != nil {
			t.Fatal(err)
		}
		// encoding/json replaces invalid UTF-8, which rapid's strings do not have.
		if d := cmp.Diff(in, out, cmpopts.IgnoreUnexported(record.Attempt{})); d != "" {
			t.Errorf("(-want +got)\n%s", d)
		}
	})
}

func TestWindow(t *testing.T) {
	w := record.Window{Start: 10, End: 20}
	for at, want := range map[record.Stamp]bool{9: false, 10: true, 19: true, 20: false} {
		if w.Contains(at) != want {
			t.Errorf("%+v contains %d: %v", w, at, !want)
		}
	}
	if w.Length() != 10 || (record.Window{Start: 10}).Length() != 0 {
		t.Error("lengths of windows")
	}
}

func ExampleAttempt_Observe() {
	a := record.Attempt{Sent: 1_000_000}
	a.Observe(record.Event{At: 121_000_000, Tokens: 1, TextBytes: 5, Flags: record.FlagText | record.FlagAnswer})
	ttft, ok := a.FirstText.Since(a.Sent)
	fmt.Println(ttft, ok)
	// Output: 120ms true
}
