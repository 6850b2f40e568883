package truth

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/result"
)

// at is a log of one request: two tokens and then what is added, on a clock that
// stands at zero when the run begins.
const head = `{"request":{"x_request_id":"a","outcome":"completed","prompt_tokens":7,"output_tokens":%d,"arrival_ns":%d,"sequences":[{"finish_reason":"%s"}],"events":[%s]}}`

func line(tokens int, arrival int, finish, events string) string {
	return fmt.Sprintf(head, tokens, arrival, finish, events)
}

func TestRead(t *testing.T) {
	three := `["headers",0,0,1,1,1,9],["role",0,0,1,1,1,9],["token",0,1,1000,1010,1015,9],["token",0,1,2000,2030,2035,9],["token",0,1,3000,3050,3055,9],["usage",0,0,3000,3060,3061,1],["done",0,0,3000,3070,3071,1]`
	for _, c := range []struct {
		name, text string
		want       Row
	}{
		{"ended by length", line(3, 500, "length", three), Row{"completed", 7, 3, 500, 1010, 3050, []int32{10, 30, 50}}},
		{"a stop token has no text", line(3, 500, "stop", three), Row{"completed", 7, 3, 500, 1010, 2030, []int32{10, 30, 50}}},
		{"a stop token that shares its event with text", line(3, 500, "stop", `["token",0,1,1000,1010,0,9],["token",0,2,2000,2030,0,9]`),
			Row{"completed", 7, 3, 500, 1010, 2030, []int32{10, 30}}},
		{"a stop token alone", line(1, 500, "stop", `["token",0,1,1000,1010,0,9]`), Row{"completed", 7, 1, 500, 0, 0, []int32{10}}},
		{"no output", line(0, 500, "length", `["token",0,0,1000,1010,0,9]`), Row{Outcome: "completed", PromptTokens: 7, Received: 500}},
		{"in one piece", line(3, 500, "length", `["body",0,3,3000,3050,0,9]`), Row{"completed", 7, 3, 500, 0, 3050, []int32{50}}},
		{"a slip beyond what an int32 holds", line(1, 500, "length", `["token",0,1,1000,9000000000,0,9]`),
			Row{"completed", 7, 1, 500, 9000000000, 9000000000, []int32{math.MaxInt32}}},
		{"several choices", strings.Replace(line(3, 500, "length", three), `"sequences":[`, `"sequences":[{},`, 1),
			Row{Outcome: "completed", PromptTokens: 7, OutputTokens: 3, Received: 500, slips: []int32{10, 30, 50}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			log, err := Read(strings.NewReader(`{"start":{"schema":"x"}}` + "\n" + c.text + "\n" + `{"request":{"x_request_id":""}}` + "\n"))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(Log{"a": c.want}, log, cmp.AllowUnexported(Row{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestReadCutShort(t *testing.T) {
	if _, err := Read(strings.NewReader(`{"request":{"x_request_id":"a"`)); err == nil {
		t.Error("half a line was read")
	}
}

func attempt(id string, sent, first, last record.Stamp) *record.Attempt {
	return &record.Attempt{
		ID: id, Phase: record.Measured, Outcome: record.Completed, Streamed: true, Sent: sent, FirstText: first, LastText: last,
		Usage: &record.Usage{PromptTokens: 7, CompletionTokens: 3},
	}
}

func TestCompare(t *testing.T) {
	log := Log{
		"a": {Outcome: "completed", PromptTokens: 7, OutputTokens: 3, Received: 1_000_100_000, First: 1_000_900_000, Last: 1_002_000_000, slips: []int32{5_000, 7_000}},
		"b": {Outcome: "completed", PromptTokens: 7, OutputTokens: 4, Received: 1_000_100_000, Last: 1_000_400_000},
		"c": {Outcome: "aborted", PromptTokens: 7, OutputTokens: 3, First: 2, Last: 3},
	}
	whole := attempt("b", 50_000, 0, 0)
	whole.Streamed, whole.EOF = false, 410_000
	early := attempt("a", 1, 2, 3)
	early.Phase = record.Warmup
	failed := attempt("a", 1, 2, 3)
	failed.Outcome = record.StreamReset
	// a: sent 50 us before it arrived; its events were seen 10 and 20 us after the
	// writes began.
	attempts := []*record.Attempt{
		early, attempt("a", 50_000, 910_000, 2_020_000), whole, attempt("c", 1, 2, 3), attempt("not there", 1, 2, 3), failed,
	}
	got := Compare(log, Clock{Zero: 1_000_000_000, Shared: true}, slices.Values(attempts))
	one := func(name string, us ...float64) result.TruthFigure {
		slices.Sort(us)
		f := result.TruthFigure{Name: name, N: len(us), Min: &us[0], Max: &us[len(us)-1]}
		if len(us) > 1 {
			mid := (us[0] + us[1]) / 2
			f.P50 = &mid
		}
		return f
	}
	want := &result.Truth{
		Requests: 4, Matched: 2, TokensDiffer: 1, SameClock: true,
		Differs: "b: usage says 7 prompt and 3 output tokens, the engine had 7 and 4",
		Figures: []result.TruthFigure{
			one("ttft", 60), one("e2e", 60, 70), one("arrival", 50, 50), one("first_text", 10), one("last_text", 10, 20), one("write_slip", 5, 7),
		},
	}
	for i := range got.Figures {
		if got.Figures[i].Text == "" {
			t.Errorf("%s is not explained", got.Figures[i].Name)
		}
		got.Figures[i].Text = ""
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}

	apart := Compare(log, Clock{}, slices.Values(attempts))
	var names []string
	for _, f := range apart.Figures {
		names = append(names, f.Name)
	}
	if diff := cmp.Diff([]string{"ttft", "e2e", "write_slip"}, names); diff != "" || apart.SameClock {
		t.Errorf("without a common clock: %s", diff)
	}
	if none := Compare(nil, Clock{}, slices.Values(attempts)); none.Matched != 0 || len(none.Figures) != 0 {
		t.Errorf("without a log: %+v", none)
	}
}

// Where the two clocks have their zero changes nothing.
func TestShift(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		stamp := rapid.Int64Range(1, 1<<40)
		log, moved := Log{}, Log{}
		var attempts []*record.Attempt
		shift := rapid.Int64Range(0, 1<<40).Draw(t, "shift")
		for i := range rapid.IntRange(1, 200).Draw(t, "n") {
			id := fmt.Sprint(i)
			row := Row{Outcome: "completed", Received: stamp.Draw(t, "received"), First: stamp.Draw(t, "first"), Last: stamp.Draw(t, "last")}
			log[id] = row
			row.Received, row.First, row.Last = row.Received+shift, row.First+shift, row.Last+shift
			moved[id] = row
			attempts = append(attempts, attempt(id, record.Stamp(stamp.Draw(t, "sent")), record.Stamp(stamp.Draw(t, "seen")), record.Stamp(stamp.Draw(t, "end"))))
		}
		a := Compare(log, Clock{Zero: 5, Shared: true}, slices.Values(attempts))
		b := Compare(moved, Clock{Zero: 5 + shift, Shared: true}, slices.Values(attempts))
		if diff := cmp.Diff(a, b); diff != "" {
			t.Fatal(diff)
		}
	})
}

func FuzzRead(f *testing.F) {
	f.Add(line(3, 500, "stop", `["token",0,1,1000,1010,0,9],["body",0,1,1,1,1,1]`))
	f.Add(`{"request":null}{"step":{}}`)
	f.Fuzz(func(t *testing.T, text string) {
		_, _ = Read(strings.NewReader(text))
	})
}
