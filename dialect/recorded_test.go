package dialect

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/assay-bench/assay/record"
)

func TestRecorded(t *testing.T) {
	chat := `{"model": "gpt-9", "messages":[{"role":"user","content":[{"type":"image_url"}]}], "stream":false, "stream_options":null,"top_p":0.5,"max_completion_tokens":7,"\u0074ools":[{"n":1e2}]}`
	run := Options{Model: "tiny", Stream: true, IncludeUsage: true}
	tests := []struct {
		name    string
		dialect Dialect
		body    string
		request record.Request
		options Options
		want    string
		err     string
	}{
		{
			"as it is, but for the run's own", Chat{}, chat, record.Request{MaxTokens: 99, ExactOutput: true}, run,
			`{"messages":[{"role":"user","content":[{"type":"image_url"}]}],"top_p":0.5,"max_completion_tokens":7,"tools":[{"n":1e2}],"model":"tiny","stream":true,"stream_options":{"include_usage":true}}`, "",
		},
		{
			"its own model, where none is asked for", Completions{}, `{"prompt":[1,2],"model":"m"}`, record.Request{}, Options{},
			`{"prompt":[1,2],"model":"m","stream":false}`, "",
		},
		{
			"extra body wins", Completions{}, `{"prompt":"a","max_tokens":5,"seed":1}`, record.Request{}, Options{ExtraBody: []byte(`{"max_tokens":9,"prompt":"b"}`)},
			`{"seed":1,"stream":false,"max_tokens":9,"prompt":"b"}`, "",
		},
		{
			"a salt of the run's", Completions{}, `{"prompt":"a","cache_salt":"x"}`, record.Request{CacheSalt: "run-1"}, Options{},
			`{"prompt":"a","cache_salt":"run-1","stream":false}`, "",
		},
		{
			"its own salt, where the run has none", Completions{}, `{"prompt":"a","cache_salt":"x"}`, record.Request{}, Options{},
			`{"prompt":"a","cache_salt":"x","stream":false}`, "",
		},
		{"no chat", Chat{}, `{"prompt":"a"}`, record.Request{}, run, "", "building the body of request 0: the recorded body has no messages: it is no chat"},
		{"no completion", Completions{}, chat, record.Request{}, run, "", "building the body of request 0: the recorded body has no prompt: it is no completion"},
		{"no object", Chat{}, `["messages"]`, record.Request{}, run, "", "building the body of request 0: the recorded body is not a JSON object"},
		{"more than one", Chat{}, chat + `{}`, record.Request{}, run, "", "building the body of request 0: the recorded body is not a JSON object"},
		{"cut off", Chat{}, chat[:60], record.Request{}, run, "", "building the body of request 0: the recorded body is not a JSON object"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.request.Prompt.Body = []byte(test.body)
			got, err := test.dialect.AppendRequest(nil, &test.request, &test.options)
			switch {
			case test.err != "":
				if err == nil || err.Error() != test.err || len(got) > 0 {
					t.Errorf("%s, %v; want %q", got, err, test.err)
				}
			case err != nil:
				t.Error(err)
			case string(got) != test.want:
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

// FuzzRecorded: whatever was recorded, what is sent is one JSON object that says the
// run's model once, or nothing is sent.
func FuzzRecorded(f *testing.F) {
	for _, s := range []string{
		`{"messages":[],"model":"x"}`, `{"messages":1,"messages":2,"stream":{}}`, `{"messages":"\ud800","\u006dodel":3}`, `{"messages":` + strings.Repeat("[", 50) + strings.Repeat("]", 50) + `}`,
		`{}`, `[]`, `null`, ``, `{"messages":1}x`, `{"a":1,}`, " {\t} ",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r := record.Request{Prompt: record.Prompt{Body: body}}
		if body == nil {
			return
		}
		got, err := Chat{}.AppendRequest([]byte("head"), &r, &Options{Model: "tiny", Stream: true})
		if err != nil {
			if string(got) != "head" {
				t.Fatalf("an error with %q", got)
			}
			return
		}
		var was, is map[string]any
		if json.Unmarshal(got[len("head"):], &is) != nil || json.Unmarshal(body, &was) != nil {
			t.Fatalf("%q from %q", got, body)
		}
		if is["model"] != "tiny" || is["stream"] != true {
			t.Fatalf("%q is not the run's", got)
		}
		for _, m := range []map[string]any{is, was} {
			for _, key := range []string{"model", "stream", "stream_options"} {
				delete(m, key)
			}
		}
		if !reflect.DeepEqual(was, is) { // cmp takes exponential time on nested arrays
			t.Fatalf("%q became %q", body, got)
		}
	})
}
