package dialect

import (
	"strings"
	"testing"

	"github.com/assay-bench/assay/record"
)

// TestAnswer: what a reader keeps is the answer text of the first choice, whether a
// frame was scanned or decoded in full, and its size is what the events say.
func TestAnswer(t *testing.T) {
	tests := []struct {
		name    string
		dialect Dialect
		frames  []string
		want    string
	}{
		{"chat", Chat{}, []string{
			`{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}`,
			`{"choices":[{"index":0,"delta":{"content":"Hel"}}]}`, `{"choices":[{"index":0,"delta":{"content":"lo"}}]}`,
			`{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}`, `[DONE]`}, "Hello"},
		{"escapes", Chat{}, []string{`{"choices":[{"delta":{"content":"a\"\n\u00e9"}}]}`, `{"choices":[{"delta":{"content":"\ud83d\ude00"}}]}`}, "a\"\né😀"},
		{"full decode", Chat{}, []string{`{"\u0063hoices":[{"delta":{"content":"x"}}]}`, `{"choices":[{"delta":{"content":"y"}}]}`}, "xy"},
		{"parts", Chat{}, []string{`{"choices":[{"delta":{"content":[{"type":"thinking","text":"hm"},{"type":"text","text":"a"},{"type":"text","text":"b"}]}}]}`}, "ab"},
		{"no reasoning, refusal or tool", Chat{}, []string{
			`{"choices":[{"delta":{"reasoning":"hm"}}]}`, `{"choices":[{"delta":{"refusal":"no"}}]}`,
			`{"choices":[{"delta":{"tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}}]}`, `{"choices":[{"delta":{"content":"a"}}]}`}, "a"},
		{"first choice alone", Chat{}, []string{
			`{"choices":[{"index":1,"delta":{"content":"x"}}]}`, `{"choices":[{"index":0,"delta":{"content":"a"}}]}`,
			`{"choices":[{"index":0,"delta":{"content":"b"}},{"index":1,"delta":{"content":"y"}}]}`}, "ab"},
		{"completions", Completions{}, []string{`{"choices":[{"text":" one"}]}`, `{"choices":[{"text":" two","finish_reason":"stop"}]}`}, " one two"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, collect := range []bool{false, true} {
				r := tt.dialect.NewReader()
				if collect {
					r.Collect()
				}
				for range 2 { // a second reply begins anew
					r.Reset()
					var a record.Attempt
					size := 0
					for _, f := range tt.frames {
						var e record.Event
						r.Event(nil, []byte(f), &e, &a)
						size += int(e.AnswerBytes)
					}
					switch got := string(r.Answer()); {
					case !collect && got != "":
						t.Errorf("kept %q without being asked to", got)
					case collect && got != tt.want:
						t.Errorf("kept %q, want %q", got, tt.want)
					case collect && tt.name != "first choice alone" && len(got) != size:
						t.Errorf("kept %d bytes, the events say %d", len(got), size)
					}
				}
			}
		})
	}
}

func TestAnswerOfWholeReply(t *testing.T) {
	r := Chat{}.NewReader()
	r.Collect()
	var e record.Event
	var a record.Attempt
	if err := r.Whole([]byte(`{"choices":[{"message":{"role":"assistant","content":"all of it"}}]}`), &e, &a); err != nil {
		t.Fatal(err)
	}
	if got := string(r.Answer()); got != "all of it" {
		t.Errorf("kept %q", got)
	}
}

func TestAnswerIsBounded(t *testing.T) {
	r := Completions{}.NewReader()
	r.Collect()
	frame := []byte(`{"choices":[{"text":"` + strings.Repeat("x", 1<<20) + `"}]}`)
	for range maxAnswer>>20 + 2 {
		var e record.Event
		var a record.Attempt
		r.Event(nil, frame, &e, &a)
	}
	if got := len(r.Answer()); got != maxAnswer {
		t.Errorf("kept %d bytes of an endless answer", got)
	}
}

func TestCollectAllocatesNothing(t *testing.T) {
	r := Chat{}.NewReader()
	r.Collect()
	frame := []byte(`{"choices":[{"index":0,"delta":{"content":" word"}}]}`)
	read := func() {
		r.Reset()
		var e record.Event
		var a record.Attempt
		for range 100 {
			r.Event(nil, frame, &e, &a)
		}
	}
	read()
	if n := testing.AllocsPerRun(100, read); n != 0 {
		t.Errorf("%v allocations for 100 events", n)
	}
}
