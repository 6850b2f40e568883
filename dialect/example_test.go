package dialect_test

import (
	"fmt"

	"github.com/assay-bench/assay/dialect"
	"github.com/assay-bench/assay/record"
)

// A reply is read frame by frame; the caller stamps the events and folds them in.
func Example() {
	d, _ := dialect.ByName("openai-chat")
	body, _ := d.AppendRequest(nil,
		&record.Request{MaxTokens: 2, Prompt: record.Prompt{Text: "Hi"}},
		&dialect.Options{Model: "tiny", Stream: true, IncludeUsage: true})
	fmt.Println(string(body))

	var a record.Attempt
	r := d.NewReader()
	for i, data := range []string{
		`{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}`,
		`{"choices":[{"index":0,"delta":{"content":"Hello"},"finish_reason":"length"}]}`,
		`{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}`,
		`[DONE]`,
	} {
		e := record.Event{At: record.Stamp(i + 1)}
		r.Event(nil, []byte(data), &e, &a)
		a.Observe(e)
	}
	fmt.Println(a.FirstText, a.FinishReason, a.Usage.CompletionTokens, a.DeltasUnknown, a.Done)
	// Output:
	// {"model":"tiny","messages":[{"role":"user","content":"Hi"}],"max_tokens":2,"temperature":0,"stream":true,"stream_options":{"include_usage":true}}
	// 2 length 2 1 4
}
