package dialect

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-bench/assay/record"
)

func call(id, name, arguments string) record.ToolCall {
	return record.ToolCall{ID: id, Function: record.Function{Name: name, Arguments: arguments}}
}

// TestToolCalls: the tool calls of the first choice are kept piece by piece, if they
// are asked for, and a second reply begins anew.
func TestToolCalls(t *testing.T) {
	piece := func(s string) string { return `{"choices":[{"index":0,"delta":{"tool_calls":[` + s + `]}}]}` }
	for name, tt := range map[string]struct {
		frames []string
		want   []record.ToolCall
	}{
		"in pieces": {[]string{
			piece(`{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}`),
			piece(`{"index":0,"function":{"arguments":"{\"x\""}}`), piece(`{"index":0,"id":null,"function":{"name":null,"arguments":":1}"}}`)},
			[]record.ToolCall{call("a", "f", `{"x":1}`)}},
		"two at once": {[]string{
			piece(`{"index":1,"id":"b","function":{"name":"g","arguments":"{"}},{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}`),
			piece(`{"index":1,"function":{"arguments":"}"}}`)},
			[]record.ToolCall{call("a", "f", "{}"), call("b", "g", "{}")}},
		"without an index":   {[]string{piece(`{"id":"a","function":{"name":"f","arguments":"{}"}}`)}, []record.ToolCall{call("a", "f", "{}")}},
		"of another choice":  {[]string{`{"choices":[{"index":1,"delta":{"tool_calls":[{"index":0,"function":{"name":"f"}}]}}]}`}, nil},
		"a server's mistake": {[]string{piece(`{"index":"x","function":{"name":"f"}}`), piece(`{"index":-1,"function":{"name":"f"}}`), piece(`{"index":500,"function":{"name":"f"}}`)}, nil},
		"text alone":         {[]string{`{"choices":[{"delta":{"content":"a"}}]}`}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			for _, collect := range []bool{false, true} {
				r := Chat{}.NewReader()
				if collect {
					r.Collect()
				}
				for range 2 {
					r.Reset()
					for _, f := range tt.frames {
						var e record.Event
						r.Event(nil, []byte(f), &e, new(record.Attempt))
					}
					if got := r.ToolCalls(); collect && !cmp.Equal(got, tt.want) || !collect && got != nil {
						t.Errorf("collect %v: %+v, want %+v", collect, got, tt.want)
					}
				}
			}
		})
	}
}

func TestToolCallsOfWholeReply(t *testing.T) {
	r := Chat{}.NewReader()
	r.Collect()
	body := `{"choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[` +
		`{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"b","type":"function","function":{"name":"g","arguments":"{}"}}]}}]}`
	if err := r.Whole([]byte(body), new(record.Event), new(record.Attempt)); err != nil {
		t.Fatal(err)
	}
	if want := []record.ToolCall{call("a", "f", "{}"), call("b", "g", "{}")}; !cmp.Equal(r.ToolCalls(), want) {
		t.Errorf("%+v", r.ToolCalls())
	}
}

func TestToolCallsAreBounded(t *testing.T) {
	r := Chat{}.NewReader()
	r.Collect()
	frame := []byte(`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"` + strings.Repeat("x", 300<<10) + `"}}]}}]}`)
	for range 5 {
		r.Event(nil, frame, new(record.Event), new(record.Attempt))
	}
	if got := len(r.ToolCalls()[0].Function.Arguments); got != maxArguments {
		t.Errorf("kept %d bytes of endless arguments", got)
	}
}
