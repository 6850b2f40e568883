package dialect

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-bench/assay/record"
)

// frame of a stream, split by the plainest means.
type frame struct{ name, data string }

func frames(t testing.TB, file string) []frame {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	return splitFrames(string(b))
}

func splitFrames(text string) (out []frame) {
	for block := range strings.SplitSeq(text, "\n\n") {
		var f frame
		for line := range strings.SplitSeq(block, "\n") {
			if d, ok := strings.CutPrefix(line, "data: "); ok {
				f.data += d
			}
			if n, ok := strings.CutPrefix(line, "event: "); ok {
				f.name = n
			}
		}
		if f.data != "" {
			out = append(out, f)
		}
	}
	return out
}

// read feeds all frames and folds them as a caller does.
func read(d Dialect, fs []frame) (events []record.Event, a record.Attempt, terminal bool) {
	r := d.NewReader()
	for i, f := range fs {
		e := record.Event{At: record.Stamp(i + 1)}
		terminal = r.Event([]byte(f.name), []byte(f.data), &e, &a) || terminal
		a.Observe(e)
		events = append(events, e)
	}
	return events, a, terminal
}

// say writes an event as "flags tokens text/answer".
func say(e record.Event) string {
	names := []struct {
		f record.EventFlags
		s string
	}{
		{record.FlagText, "text"}, {record.FlagAnswer, "answer"}, {record.FlagReasoning, "reasoning"},
		{record.FlagRefusal, "refusal"}, {record.FlagToolCall, "tool"}, {record.FlagRole, "role"},
		{record.FlagFinish, "finish"}, {record.FlagUsage, "usage"}, {record.FlagError, "error"},
		{record.FlagDone, "done"}, {record.FlagOther, "other"},
	}
	var on []string
	for _, n := range names {
		if e.Flags.Has(n.f) {
			on = append(on, n.s)
		}
	}
	tokens := "?"
	if e.Tokens != record.UnknownTokens {
		tokens = strconv.Itoa(int(e.Tokens))
	}
	return fmt.Sprintf("%s %s %d/%d", strings.Join(on, "+"), tokens, e.TextBytes, e.AnswerBytes)
}

func TestStreams(t *testing.T) {
	tests := []struct {
		file    string
		dialect Dialect
		events  []string
		want    record.Attempt
		open    bool // no terminal marker
	}{
		{
			file: "llamacpp_chat.sse", dialect: Chat{},
			events: []string{"role 0 0/0", "text+answer ? 4/4", "text+answer ? 6/6", "text+answer ? 7/7", "finish ? 0/0", "usage 0 0/0", "done 0 0/0"},
			want: record.Attempt{FinishReason: "stop", Model: "tiny", DeltasUnknown: 3, TextEvents: 3,
				Usage: &record.Usage{PromptTokens: 25, CompletionTokens: 12}},
		},
		{
			file: "llamacpp_completions.sse", dialect: Completions{},
			events: []string{"text+answer ? 4/4", "text+answer ? 3/3", "text+answer ? 5/5", "text+answer ? 3/3", "finish+usage ? 0/0", "done 0 0/0"},
			want: record.Attempt{FinishReason: "stop", Model: "tiny", DeltasUnknown: 4, TextEvents: 4,
				Usage: &record.Usage{PromptTokens: 5, CompletionTokens: 4, CachedTokens: 4}},
		},
		{
			file: "vllm_chat.sse", dialect: Chat{},
			events: []string{"role 0 0/0", "text+answer 1 7/7", "text+answer 1 5/5", "text+answer 2 5/5", "finish 1 0/0", "usage 0 0/0", "done 0 0/0"},
			want: record.Attempt{FinishReason: "stop", Model: "tiny", TextEvents: 3, TokenEvents: 4, MultiTokenEvents: 1, DeltaTokens: 5, PairedTokens: 3,
				Usage: &record.Usage{PromptTokens: 9, CompletionTokens: 5, CachedTokens: 8}},
		},
		{
			file: "vllm_reasoning.sse", dialect: Chat{},
			events: []string{"role 0 0/0", "text+reasoning 1 3/0", "text+reasoning 1 3/0", "text+reasoning 1 4/0", "text+answer 2 3/3", "text+answer+finish 1 1/1", "usage 0 0/0", "done 0 0/0"},
			want: record.Attempt{FinishReason: "length", Model: "tiny", TextEvents: 5, TokenEvents: 5, MultiTokenEvents: 1, DeltaTokens: 6, PairedTokens: 5, ReasoningText: true,
				Usage: &record.Usage{PromptTokens: 21, CompletionTokens: 6, ReasoningTokens: 4}},
		},
		{
			file: "vllm_tools.sse", dialect: Chat{},
			events: []string{"role 0 0/0", "text+tool ? 11/0", "text+tool ? 9/0", "text+tool ? 7/0", "finish ? 0/0", "usage 0 0/0", "done 0 0/0"},
			want: record.Attempt{FinishReason: "tool_calls", Model: "tiny", TextEvents: 3, DeltasUnknown: 3,
				Usage: &record.Usage{PromptTokens: 40, CompletionTokens: 17}},
		},
		{
			file: "vllm_error.sse", dialect: Chat{},
			events: []string{"role 0 0/0", "text+answer ? 4/4", "error 0 0/0", "done 0 0/0"},
			want: record.Attempt{Model: "tiny", TextEvents: 1, DeltasUnknown: 1,
				Error: "InternalServerError: EngineCore encountered an issue. See stack trace (above) for the root cause."},
		},
		{
			file: "vllm_completions.sse", dialect: Completions{},
			events: []string{" 1 0/0", "text+answer 1 2/2", "text+answer 2 4/4", "finish 2 0/0", "usage 0 0/0", "done 0 0/0"},
			want: record.Attempt{FinishReason: "stop", StopReason: "\n\n", Model: "tiny", TextEvents: 2, TokenEvents: 4, MultiTokenEvents: 2, DeltaTokens: 6, PairedTokens: 2,
				Usage: &record.Usage{PromptTokens: 4, CompletionTokens: 6}},
		},
		{
			file: "vllm_token_ids.sse", dialect: Completions{},
			events: []string{" 1 0/0", "text+answer 2 8/8", "finish 1 0/0", "usage 0 0/0", "done 0 0/0"},
			want: record.Attempt{FinishReason: "length", Model: "tiny", TextEvents: 1, TokenEvents: 3, MultiTokenEvents: 1, DeltaTokens: 4,
				Usage: &record.Usage{PromptTokens: 4, CompletionTokens: 4}},
		},
		{
			file: "llamacpp_progress.sse", dialect: Chat{},
			events: []string{"role 0 0/0", " ? 0/0", " ? 0/0", "text+answer ? 1/1", "text+answer ? 1/1", "finish ? 0/0", "usage 0 0/0", "done 0 0/0"},
			want: record.Attempt{FinishReason: "length", Model: "tiny", TextEvents: 2, DeltasUnknown: 2,
				Usage: &record.Usage{PromptTokens: 34, CompletionTokens: 2, CachedTokens: 12}},
		},
		{
			file: "vllm_chat_length.sse", dialect: Chat{},
			events: []string{"role 0 0/0", "text+answer 1 1/1", "text+answer 1 2/2", "text+answer 1 3/3", "text+answer 1 1/1", "finish 1 0/0", "usage 0 0/0", "done 0 0/0"},
			want: record.Attempt{FinishReason: "length", Model: "tiny", TextEvents: 4, TokenEvents: 5, DeltaTokens: 5, PairedTokens: 3,
				Usage: &record.Usage{PromptTokens: 8, CompletionTokens: 5}},
		},
		{
			file: "vllm_two_choices.sse", dialect: Completions{},
			events: []string{"text+answer 1 4/4", "text+answer+finish 1 3/3", "text+answer 1 1/1", "finish 1 0/0", "usage 0 0/0", "done 0 0/0"},
			want: record.Attempt{FinishReason: "length", Model: "tiny", TextEvents: 3, TokenEvents: 4, DeltaTokens: 4, PairedTokens: 2,
				Usage: &record.Usage{PromptTokens: 1, CompletionTokens: 4}},
		},
		{
			file: "vllm_interval.sse", dialect: Completions{},
			events: []string{" 1 0/0", "text+answer 4 11/11", "text+answer+finish 4 8/8", "usage 0 0/0", "done 0 0/0"},
			want: record.Attempt{FinishReason: "length", Model: "tiny", TextEvents: 2, TokenEvents: 3, MultiTokenEvents: 2, DeltaTokens: 9, PairedTokens: 4,
				Usage: &record.Usage{PromptTokens: 4, CompletionTokens: 9}},
		},
		{
			file: "vllm_error_first.sse", dialect: Completions{},
			events: []string{"error 0 0/0", "done 0 0/0"},
			want:   record.Attempt{Error: "BadRequestError: Token id 999 is out of vocabulary"},
		},
		{
			file: "azure_chat.sse", dialect: Chat{},
			events: []string{" 0 0/0", "role 0 0/0", "text+answer ? 9/9", "text+refusal ? 3/0", "finish ? 0/0", " ? 0/0", "usage 0 0/0", "done 0 0/0"},
			want: record.Attempt{FinishReason: "stop", Model: "tiny", TextEvents: 2, DeltasUnknown: 2,
				Usage: &record.Usage{PromptTokens: 11, CompletionTokens: 6}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			events, a, terminal := read(tt.dialect, frames(t, tt.file))
			var got []string
			for _, e := range events {
				got = append(got, say(e))
			}
			if diff := cmp.Diff(tt.events, got); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			if terminal == tt.open {
				t.Errorf("terminal = %v", terminal)
			}
			kept := record.Attempt{FinishReason: a.FinishReason, StopReason: a.StopReason, Model: a.Model, Usage: a.Usage, Error: a.Error,
				TextEvents: a.TextEvents, TokenEvents: a.TokenEvents, DeltasUnknown: a.DeltasUnknown, MultiTokenEvents: a.MultiTokenEvents,
				DeltaTokens: a.DeltaTokens, PairedTokens: a.PairedTokens, ReasoningText: a.ReasoningText}
			if diff := cmp.Diff(tt.want, kept, cmp.AllowUnexported(record.Attempt{})); diff != "" {
				t.Errorf("attempt (-want +got):\n%s", diff)
			}
		})
	}
}

// One frame after others, on both sides of every rule that needs memory.
func TestDeltas(t *testing.T) {
	tests := []struct {
		name    string
		dialect Dialect
		data    []string
		events  []string
		usage   *record.Usage
	}{
		{
			"interleaved choices keep their own counts", Chat{},
			[]string{
				`{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}],"usage":{"prompt_tokens":3,"completion_tokens":0}}`,
				`{"choices":[{"index":1,"delta":{"role":"assistant","content":""}}],"usage":{"prompt_tokens":3,"completion_tokens":0}}`,
				`{"choices":[{"index":0,"delta":{"content":"a"}}],"usage":{"prompt_tokens":3,"completion_tokens":1}}`,
				`{"choices":[{"index":1,"delta":{"content":"b"}}],"usage":{"prompt_tokens":3,"completion_tokens":2}}`,
				`{"choices":[{"index":0,"delta":{"content":"c"},"finish_reason":"length"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}`,
				`{"choices":[{"index":1,"delta":{"content":"d"},"finish_reason":"length"}],"usage":{"prompt_tokens":3,"completion_tokens":3}}`,
			},
			[]string{"role 0 0/0", "role 0 0/0", "text+answer 1 1/1", "text+answer 2 1/1", "text+answer+finish 1 1/1", "text+answer+finish 1 1/1"},
			&record.Usage{PromptTokens: 3, CompletionTokens: 5},
		},
		{
			"several choices in one event", Completions{},
			[]string{
				`{"choices":[{"index":0,"text":"a","token_ids":[1]},{"index":1,"text":"bc","token_ids":[2,3]}]}`,
				`{"choices":[{"index":0,"text":"a"},{"index":1,"text":"bc"}],"usage":{"completion_tokens":5}}`,
				`{"choices":[{"index":0,"text":"a"}],"usage":{"completion_tokens":6}}`,
			},
			[]string{"text+answer 3 3/3", "text+answer ? 3/3", "text+answer ? 1/1"},
			nil,
		},
		{
			"usage that begins late tells nothing of its first event", Chat{},
			[]string{
				`{"choices":[{"index":0,"delta":{"content":"a"}}]}`,
				`{"choices":[{"index":0,"delta":{"content":"b"}}],"usage":{"completion_tokens":2}}`,
				`{"choices":[{"index":0,"delta":{"content":"c"}}],"usage":{"completion_tokens":3}}`,
			},
			[]string{"text+answer ? 1/1", "text+answer ? 1/1", "text+answer 1 1/1"},
			nil,
		},
		{
			"usage that counts only at the end", Chat{},
			[]string{
				`{"choices":[{"index":0,"delta":{"content":"a"}}],"usage":{"completion_tokens":0}}`,
				`{"choices":[{"index":0,"delta":{"content":"b"}}],"usage":{"completion_tokens":0}}`,
				`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"completion_tokens":3}}`,
			},
			[]string{"text+answer ? 1/1", "text+answer ? 1/1", "finish ? 0/0"},
			&record.Usage{CompletionTokens: 3},
		},
		{
			"usage that goes back", Chat{},
			[]string{
				`{"choices":[{"index":0,"delta":{"content":"a"}}],"usage":{"completion_tokens":5}}`,
				`{"choices":[{"index":0,"delta":{"content":"b"}}],"usage":{"completion_tokens":4}}`,
			},
			[]string{"text+answer 5 1/1", "text+answer ? 1/1"},
			nil,
		},
		{
			"role in every chunk", Chat{},
			[]string{
				`{"choices":[{"index":0,"delta":{"role":"assistant","content":"a"}}]}`,
				`{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}`,
			},
			[]string{"text+answer ? 1/1", " ? 0/0"},
			nil,
		},
		{
			"logprobs of a chat", Chat{},
			[]string{
				`{"choices":[{"index":0,"delta":{"content":"ab"},"logprobs":{"content":[{"token":"a"},{"token":"b"}]}}]}`,
				`{"choices":[{"index":0,"delta":{"reasoning_content":"ab"},"logprobs":{"content":[]}}]}`,
			},
			[]string{"text+answer 2 2/2", "text+reasoning ? 2/0"},
			nil,
		},
		{
			"logprobs of a completion", Completions{},
			[]string{`{"choices":[{"index":0,"text":"ab","logprobs":{"tokens":["a","b"],"token_logprobs":[-1.5,-2e-3]}}]}`},
			[]string{"text+answer 2 2/2"},
			nil,
		},
		{
			"token ids then usage at the finish", Completions{},
			[]string{
				`{"choices":[{"index":0,"text":"a","token_ids":[1]}]}`,
				`{"choices":[{"index":0,"text":"","finish_reason":"stop"}],"usage":{"completion_tokens":2}}`,
			},
			[]string{"text+answer 1 1/1", "finish+usage 1 0/0"},
			&record.Usage{CompletionTokens: 2},
		},
		{
			"whole reply in one event", Completions{},
			[]string{`{"choices":[{"index":0,"text":"abc","finish_reason":"length"}],"usage":{"prompt_tokens":1,"completion_tokens":3}}`},
			[]string{"text+answer+finish+usage 3 3/3"},
			&record.Usage{PromptTokens: 1, CompletionTokens: 3},
		},
		{
			"an empty finish reason is none", Chat{},
			[]string{`{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":""}],"error":null}`},
			[]string{"text+answer ? 1/1"},
			nil,
		},
		{
			"content as parts", Chat{},
			[]string{`{"choices":[{"index":0,"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"yes"}]}}]}`},
			[]string{"text+answer+reasoning ? 5/3"},
			nil,
		},
		{
			"cumulative message beside the delta", Chat{},
			[]string{`{"choices":[{"index":0,"delta":{"content":"c"},"message":{"role":"assistant","content":"abc"}}]}`},
			[]string{"text+answer ? 1/1"},
			nil,
		},
		{
			"unknown frames", Chat{},
			[]string{`{"type":"ping"}`, `hello`, `[1]`, `{"choices":`, `{"choices":7}`, `{"choices":null}`, ``},
			[]string{"other ? 0/0", "other ? 0/0", "other ? 0/0", "other ? 0/0", "other ? 0/0", " 0 0/0", "other 0 0/0"},
			nil,
		},
		{
			"error shapes", Chat{},
			[]string{`{"error":"boom"}`, `{"object":"error","message":"m","code":400}`, `{"choices":[{"index":0,"delta":{"content":"x"}}],"error":{"code":502}}`},
			[]string{"error 0 0/0", "error 0 0/0", "text+answer+error ? 1/1"},
			nil,
		},
		{
			"index beyond what is followed", Chat{},
			[]string{`{"choices":[{"index":100000,"delta":{"content":"x"}}],"usage":{"completion_tokens":1}}`},
			[]string{"text+answer ? 1/1"},
			nil,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var fs []frame
			for _, d := range tt.data {
				fs = append(fs, frame{data: d})
			}
			events, a, _ := read(tt.dialect, fs)
			var got []string
			for _, e := range events {
				got = append(got, say(e))
			}
			if diff := cmp.Diff(tt.events, got); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.usage, a.Usage); diff != "" {
				t.Errorf("usage (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNamedErrorEvent(t *testing.T) {
	for data, want := range map[string]string{
		`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`: "overloaded_error: Overloaded",
		`upstream gone`: "upstream gone",
		``:              "error without a message",
	} {
		e, a := record.Event{Flags: record.FlagCoalesced}, record.Attempt{}
		if (Chat{}).NewReader().Event([]byte("error"), []byte(data), &e, &a) {
			t.Errorf("%q is terminal", data)
		}
		if a.Error != want || e.Flags != record.FlagError|record.FlagCoalesced || e.Tokens != 0 {
			t.Errorf("%q: error %q, flags %b, tokens %d", data, a.Error, e.Flags, e.Tokens)
		}
	}
}

func TestWhole(t *testing.T) {
	file := func(name string) []byte {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	tests := []struct {
		name    string
		dialect Dialect
		body    []byte
		event   string
		finish  string
		usage   *record.Usage
		err     string // of the call
		error   string // in the attempt
	}{
		{"llama.cpp chat", Chat{}, file("llamacpp_chat.json"), "text+answer+finish+usage 6 28/28", "stop", &record.Usage{PromptTokens: 16, CompletionTokens: 6, CachedTokens: 7}, "", ""},
		{"llama.cpp completion", Completions{}, file("llamacpp_completions_logprobs.json"), "text+answer+finish+usage 3 12/12", "stop", &record.Usage{PromptTokens: 5, CompletionTokens: 3}, "", ""},
		{"no usage but logprobs", Completions{}, []byte(`{"choices":[{"text":"ab","logprobs":{"tokens":["a","b"]},"finish_reason":"length"}]}`), "text+answer+finish 2 2/2", "length", nil, "", ""},
		{"nothing told", Chat{}, []byte(`{"choices":[{"message":{"content":"ab","reasoning":"c"}}]}`), "text+answer+reasoning ? 3/2", "", nil, "", ""},
		{"error with status 200", Chat{}, []byte(`{"error":{"message":"no","code":503}}`), "error 0 0/0", "", nil, "", "503: no"},
		{"html", Chat{}, []byte(`<html>`), "other 0 0/0", "", nil, "the reply is not a JSON object", ""},
		{"another protocol", Chat{}, []byte(`{"output":"x"}`), "other 0 0/0", "", nil, "the reply has no choices", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var e record.Event
			var a record.Attempt
			err := tt.dialect.NewReader().Whole(tt.body, &e, &a)
			if got := errText(err); got != tt.err {
				t.Fatalf("err = %q, want %q", got, tt.err)
			}
			if got := say(e); got != tt.event {
				t.Errorf("event %q, want %q", got, tt.event)
			}
			if a.FinishReason != tt.finish || a.Error != tt.error {
				t.Errorf("finish %q, error %q", a.FinishReason, a.Error)
			}
			if diff := cmp.Diff(tt.usage, a.Usage); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestReaderReset(t *testing.T) {
	r := Chat{}.NewReader()
	fs := frames(t, "vllm_chat.sse")
	var first []string
	for round := range 2 {
		var got []string
		var a record.Attempt
		for _, f := range fs {
			var e record.Event
			r.Event(nil, []byte(f.data), &e, &a)
			got = append(got, say(e))
		}
		r.Reset()
		if round == 0 {
			first = got
		} else if diff := cmp.Diff(first, got); diff != "" {
			t.Error(diff)
		}
	}
}

// A steady event costs no memory.
func TestEventAllocatesNothing(t *testing.T) {
	for _, file := range []string{"vllm_chat.sse", "llamacpp_chat.sse", "vllm_tools.sse", "vllm_reasoning.sse"} {
		fs := frames(t, file)
		r := Chat{}.NewReader()
		a := record.Attempt{Usage: new(record.Usage), Model: "tiny"}
		datas := make([][]byte, len(fs))
		for i, f := range fs {
			datas[i] = []byte(f.data)
		}
		run := func() {
			r.Reset()
			for _, d := range datas {
				var e record.Event
				r.Event(nil, d, &e, &a)
			}
		}
		run()
		if n := testing.AllocsPerRun(20, run); n != 0 {
			t.Errorf("%s: %v allocations", file, n)
		}
	}
}

func TestHugeEvent(t *testing.T) {
	text := strings.Repeat("x", 5<<20)
	data := []byte(`{"choices":[{"index":0,"delta":{"content":"` + text + `"}}]}`)
	var e record.Event
	var a record.Attempt
	Chat{}.NewReader().Event(nil, data, &e, &a)
	if int(e.TextBytes) != len(text) {
		t.Errorf("%d bytes of text", e.TextBytes)
	}
	deep := []byte(`{"x":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `,"choices":[{"delta":{"content":"a"}}]}`)
	Chat{}.NewReader().Event(nil, deep, &e, &a)
	if e.TextBytes != 1 {
		t.Errorf("deep nesting: %d bytes of text", e.TextBytes)
	}
}

// Frames may come with white space around them.
func TestDoneMarker(t *testing.T) {
	for _, data := range []string{"[DONE]", " [DONE] ", "[DONE]\r"} {
		var e record.Event
		var a record.Attempt
		if !(Chat{}).NewReader().Event(nil, []byte(data), &e, &a) || e.Flags != record.FlagDone {
			t.Errorf("%q is not terminal", data)
		}
	}
}
