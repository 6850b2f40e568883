package dialect

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-bench/assay/record"
)

func TestAppendRequest(t *testing.T) {
	warm, hot := 0.7, math.Inf(1)
	text := record.Prompt{Text: `say "hi"` + "\n"}
	tests := []struct {
		name    string
		dialect Dialect
		request record.Request
		options Options
		want    string
		err     string
	}{
		{
			"chat, everything", Chat{},
			record.Request{MaxTokens: 128, ExactOutput: true, Prompt: record.Prompt{Messages: []record.Message{{Role: "system", Content: "be"}, {Role: "user", Content: "hi"}}}},
			Options{Model: "tiny", Stream: true, IncludeUsage: true, ContinuousUsage: true, Temperature: &warm, Choices: 2},
			`{"model":"tiny","messages":[{"role":"system","content":"be"},{"role":"user","content":"hi"}],"max_tokens":128,"ignore_eos":true,"min_tokens":128,"temperature":0.7,"n":2,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`, "",
		},
		{
			"tool calls", Chat{},
			record.Request{MaxTokens: 1, Prompt: record.Prompt{Messages: []record.Message{
				{Role: "user", Content: "hi"},
				{Role: "assistant", ToolCalls: []record.ToolCall{
					{ID: "a", Function: record.Function{Name: "f", Arguments: `{"x":"y"}`}}, {ID: "b", Function: record.Function{Name: "g", Arguments: "{}"}}}},
				{Role: "tool", Content: "1", ToolCallID: "a"}, {Role: "tool", Content: "2", ToolCallID: "b"},
			}}}, Options{Model: "tiny"},
			`{"model":"tiny","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":null,"tool_calls":[` +
				`{"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\":\"y\"}"}},{"id":"b","type":"function","function":{"name":"g","arguments":"{}"}}]},` +
				`{"role":"tool","content":"1","tool_call_id":"a"},{"role":"tool","content":"2","tool_call_id":"b"}],"max_tokens":1,"temperature":0,"stream":false}`, "",
		},
		{
			"chat from text, not streamed", Chat{},
			record.Request{MaxTokens: 1, Prompt: text}, Options{Model: "tiny", IncludeUsage: true},
			`{"model":"tiny","messages":[{"role":"user","content":"say \"hi\"\n"}],"max_tokens":1,"temperature":0,"stream":false}`, "",
		},
		{
			"hosted reasoning model", Chat{},
			record.Request{MaxTokens: 9, Prompt: text}, Options{MaxCompletionTokens: true},
			`{"messages":[{"role":"user","content":"say \"hi\"\n"}],"max_completion_tokens":9,"temperature":0,"stream":false}`, "",
		},
		{
			"completion from ids", Completions{},
			record.Request{MaxTokens: 3, Prompt: record.Prompt{TokenIDs: []int32{1, 31999}}}, Options{Model: "tiny", Stream: true, IncludeUsage: true},
			`{"model":"tiny","prompt":[1,31999],"max_tokens":3,"temperature":0,"stream":true,"stream_options":{"include_usage":true}}`, "",
		},
		{
			"completion from text, no cap", Completions{},
			record.Request{ExactOutput: true, Prompt: text}, Options{Stream: true},
			`{"prompt":"say \"hi\"\n","temperature":0,"stream":true}`, "",
		},
		{
			"extra body wins", Completions{},
			record.Request{MaxTokens: 3, Prompt: text}, Options{Model: "tiny", Stream: true, IncludeUsage: true, ExtraBody: []byte(` { "seed" : 1, "temperature":null ,"stream_options":{} } `)},
			`{"model":"tiny","prompt":"say \"hi\"\n","max_tokens":3,"stream":true,"seed" : 1, "temperature":null ,"stream_options":{}}`, "",
		},
		{
			"extra body of everything", Completions{},
			record.Request{Prompt: text}, Options{ExtraBody: []byte(`{"prompt":"x","temperature":1,"stream":true}`)},
			`{"prompt":"x","temperature":1,"stream":true}`, "",
		},
		{
			"extra body with an escaped key", Completions{},
			record.Request{Prompt: text}, Options{ExtraBody: []byte(`{"\u0073tream":true}`)},
			`{"prompt":"say \"hi\"\n","temperature":0,"\u0073tream":true}`, "",
		},
		{"empty extra body", Completions{}, record.Request{Prompt: text}, Options{ExtraBody: []byte(`{ }`)}, `{"prompt":"say \"hi\"\n","temperature":0,"stream":false}`, ""},
		{"extra body not an object", Chat{}, record.Request{Index: 4, Prompt: text}, Options{ExtraBody: []byte(`[1]`)}, "", "building the body of request 4: the extra body is not a JSON object"},
		{"extra body broken", Chat{}, record.Request{Prompt: text}, Options{ExtraBody: []byte(`{"a":}`)}, "", "building the body of request 0: the extra body is not a JSON object"},
		{"two extra bodies", Chat{}, record.Request{Prompt: text}, Options{ExtraBody: []byte(`{}{}`)}, "", "building the body of request 0: the extra body is not a JSON object"},
		{"infinite temperature", Completions{}, record.Request{Prompt: text}, Options{Temperature: &hot}, "", "building the body of request 0: temperature +Inf is not a finite number"},
		{"ids in a chat", Chat{}, record.Request{Prompt: record.Prompt{TokenIDs: []int32{1}}}, Options{}, "", "building the body of request 0: a chat takes no token ids"},
		{"messages in a completion", Completions{}, record.Request{Prompt: record.Prompt{Messages: []record.Message{{}}}}, Options{}, "", "building the body of request 0: a completion takes no messages"},
		{"no prompt, chat", Chat{}, record.Request{}, Options{}, "", "building the body of request 0: no prompt"},
		{"no prompt, completion", Completions{}, record.Request{}, Options{}, "", "building the body of request 0: no prompt"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.dialect.AppendRequest([]byte("kept"), &tt.request, &tt.options)
			if errText(err) != tt.err {
				t.Fatalf("err = %v, want %q", err, tt.err)
			}
			body, ok := strings.CutPrefix(string(got), "kept")
			if !ok {
				t.Fatalf("lost what was in dst: %q", got)
			}
			if diff := cmp.Diff(tt.want, body); diff != "" {
				t.Error(diff)
			}
			if err == nil && !json.Valid([]byte(body)) {
				t.Error("invalid JSON")
			}
		})
	}
}

func TestAppendRequestAllocatesNothing(t *testing.T) {
	r := &record.Request{MaxTokens: 8, ExactOutput: true, Prompt: record.Prompt{Text: "a b c"}}
	o := &Options{Model: "m", Stream: true, IncludeUsage: true, ExtraBody: []byte(`{"seed":1}`)}
	buf := make([]byte, 0, 1024)
	for _, d := range All() {
		n := testing.AllocsPerRun(50, func() {
			if _, err := d.AppendRequest(buf[:0], r, o); err != nil {
				t.Fatal(err)
			}
		})
		if n != 0 {
			t.Errorf("%s: %v allocations", d.Name(), n)
		}
	}
}

func TestByName(t *testing.T) {
	for _, d := range All() {
		got, ok := ByName(d.Name())
		if !ok || got.Path() != d.Path() {
			t.Errorf("%s is not found by its name", d.Name())
		}
	}
	if _, ok := ByName("openai"); ok {
		t.Error("found a dialect that there is not")
	}
}

var errorBodies = []struct{ name, body, want string }{
	{"openai", `{"error":{"message":"The model ` + "`x`" + ` does not exist.","type":"NotFoundError","param":null,"code":404}}`, "NotFoundError: The model `x` does not exist."},
	{"code only", `{"error":{"code":503,"message":"Loading model"}}`, "503: Loading model"},
	{"string", `{"error":"no such model"}`, "no such model"},
	{"string with a type, TGI", `{"error":"Model is overloaded","error_type":"overloaded"}`, "overloaded: Model is overloaded"},
	{"object error, older vLLM", `{"object":"error","message":"too long","type":"BadRequestError","code":400}`, "BadRequestError: too long"},
	{"FastAPI", `{"detail":"Not Found"}`, "Not Found"},
	{"FastAPI validation", `{"detail":[{"loc":["body","model"],"msg":"field required","type":"value_error.missing"}]}`, "value_error.missing: field required"},
	{"message", `{"message":"Unauthorized"}`, "Unauthorized"},
	{"list, Gemini", `[{"error":{"code":400,"message":"bad","status":"INVALID_ARGUMENT"}}]`, "INVALID_ARGUMENT: bad"},
	{"several lines", "{\"error\":{\"message\":\"a\\n  b\\u0000c\"}}", "a b c"},
	{"nothing in it", `{"error":{}}`, "error without a message"},
	{"text", "upstream connect error\r\n", "upstream connect error"},
	{"html", "<html>\n<head><title>502 Bad Gateway</title></head>", "<html> <head><title>502 Bad Gateway</title></head>"},
	{"other JSON", `{"a":1}`, `{"a":1}`},
	{"number", `7`, `7`},
	{"empty", ``, ``},
	{"long", strings.Repeat("é", 400), strings.Repeat("é", 150) + "…"},
}

func TestParseError(t *testing.T) {
	for _, tt := range errorBodies {
		t.Run(tt.name, func(t *testing.T) {
			if got := ParseError([]byte(tt.body)); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
