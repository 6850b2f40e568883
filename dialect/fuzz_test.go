package dialect

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-bench/assay/record"
)

// seeds are all frames of the stored streams, and the awkward ones.
func seeds(f *testing.F) (out [][]byte) {
	f.Helper()
	files, err := filepath.Glob("testdata/*.sse")
	if err != nil || len(files) == 0 {
		f.Fatal("no stored streams", err)
	}
	for _, file := range files {
		for _, fr := range frames(f, filepath.Base(file)) {
			out = append(out, []byte(fr.data))
		}
	}
	for _, s := range []string{
		`{}`, ` { } `, `{"choices":[]}`, `{"choices":[{}]}`, `{"choices":[null]}`, `{"usage":{}}`, `{"usage":null}`,
		`{"choices":[{"delta":null}],"x":[1,-2.5e+3,true,false,null,{"a":"b"}]}`,
		`{"choices":[{"delta":{"content":"\u00e9\ud83d\ude00\ud83d\u0041\udc00\\\"\/\b\f\n\r\t"}}]}`,
		`{"choices":[{"delta":{"content":"é😀"}}]}`, "{\"choices\":[{\"delta\":{\"content\":\"\xff\"}}]}",
		`{"choices":[{"text":"a"}],"choices":[{"text":"bc"}]}`, `{"Choices":[{"text":"a"}]}`, `{"\u0063hoices":[{"text":"a"}]}`,
		`{"choices":[{"index":1e0,"text":"a"}]}`, `{"choices":[{"index":-1,"text":"a"}]}`, `{"choices":[{"index":01}]}`,
		`{"usage":{"completion_tokens":2147483647}}`, `{"usage":{"completion_tokens":2147483648}}`, `{"usage":{"completion_tokens":3.0}}`,
		`{"choices":[{"finish_reason":"a\u0062c","stop_reason":151645}]}`, `{"choices":[{"finish_reason":7}]}`,
		`{"error":{"message":"x"}}`, `{"error":"x"}`, `{"error":null}`, `{"error":false}`, `{"object":"error"}`, `{"object":"\u0065rror"}`,
		`{"choices":[{"token_ids":[1,2],"logprobs":{"content":[{}],"tokens":[]}}]}`, `{"model":"a\/b"}`, `{"a":1}x`, `{"a":1,}`, `{"a" 1}`, `[`, ``,
		`{"choices":[{"delta":{"tool_calls":[{"function":{"name":"f","arguments":{"a":1}}}],"function_call":{"name":"g"}}}]}`,
		`{"choices":[{"delta":{"reasoning":{"x":1}}}]}`, `{"x":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`,
	} {
		out = append(out, []byte(s))
	}
	return out
}

// plain is a chunk with its strings decoded, to compare by value.
type plain struct {
	C                   chunk
	Finish, Stop, Model string
	Said                [2]string
}

func plainly(c chunk) plain {
	p := plain{Finish: c.finish.String(), Stop: c.stop.String(), Model: c.model.String()}
	p.Said = [2]string{c.saidContent.String(), c.saidText.String()}
	c.saidContent, c.saidText = rawString{}, rawString{}
	c.finish, c.stop, c.model = rawString{}, rawString{}, rawString{}
	p.C = c
	return p
}

// The scanner, where it is sure, agrees with encoding/json.
func FuzzScanAgrees(f *testing.F) {
	for _, s := range seeds(f) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var fast, full chunk
		if !scanChunk(data, &fast) {
			return
		}
		if !fullChunk(data, "delta", &full) {
			t.Fatalf("the scanner took what encoding/json refuses: %q", data)
		}
		if diff := cmp.Diff(plainly(full), plainly(fast), cmp.AllowUnexported(chunk{}, usage{}, rawString{})); diff != "" {
			t.Fatalf("%q (-full +fast):\n%s", data, diff)
		}
	})
}

// The scanner is sure of every frame that the servers we know send, except the
// errors: else it would be of no use.
func TestScannerTakesStoredStreams(t *testing.T) {
	files, err := filepath.Glob("testdata/*.sse")
	if err != nil || len(files) == 0 {
		t.Fatal("no stored streams", err)
	}
	for _, file := range files {
		for _, fr := range frames(t, filepath.Base(file)) {
			var c chunk
			ok := scanChunk([]byte(fr.data), &c)
			if hard := fr.data == "[DONE]" || strings.HasPrefix(fr.data, `{"error"`); ok == hard {
				t.Errorf("%s: scanned = %v: %s", file, ok, fr.data)
			}
		}
	}
}

// Skipping accepts exactly what encoding/json accepts, but for depth and keys
// with escapes.
func FuzzSkip(f *testing.F) {
	for _, s := range seeds(f) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := scanner{b: data}
		took := s.skip(0) && s.end()
		valid := json.Valid(data)
		if took && !valid {
			t.Fatalf("took invalid %q", data)
		}
		escapedKey := bytes.ContainsRune(data, '\\')
		deep := bytes.Count(data, []byte("["))+bytes.Count(data, []byte("{")) > maxDepth
		if valid && !took && !escapedKey && !deep {
			t.Fatalf("refused valid %q", data)
		}
	})
}

// Whatever arrives, the reader keeps its promises.
func FuzzReader(f *testing.F) {
	for _, s := range seeds(f) {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, one, two []byte) {
		for _, d := range All() {
			r := d.NewReader()
			r.Collect()
			var a record.Attempt
			for _, data := range [][]byte{one, two} {
				e := record.Event{Flags: record.FlagKernel}
				r.Event(nil, data, &e, &a)
				checkEvent(t, e, &a)
			}
			var e record.Event
			if err := r.Whole(one, &e, &a); err == nil {
				checkEvent(t, e, &a)
			}
			if n := len(r.ToolCalls()); n > maxCalls {
				t.Fatalf("%d tool calls", n)
			}
		}
	})
}

func checkEvent(t *testing.T, e record.Event, a *record.Attempt) {
	t.Helper()
	switch {
	case e.Tokens < record.UnknownTokens:
		t.Fatalf("tokens %d", e.Tokens)
	case e.AnswerBytes > e.TextBytes || e.AnswerBytes < 0:
		t.Fatalf("answer %d of text %d", e.AnswerBytes, e.TextBytes)
	case (e.TextBytes > 0) != e.Flags.Has(record.FlagText):
		t.Fatalf("text %d with flags %b", e.TextBytes, e.Flags)
	case (e.AnswerBytes > 0) != e.Flags.Has(record.FlagAnswer):
		t.Fatalf("answer %d with flags %b", e.AnswerBytes, e.Flags)
	case e.Flags.Has(record.FlagUsage) && a.Usage == nil:
		t.Fatal("usage flag without usage")
	case e.Flags.Has(record.FlagError) && (a.Error == "" || strings.ContainsAny(a.Error, "\r\n")):
		t.Fatalf("error flag with %q", a.Error)
	case e.Flags.Has(record.FlagRole) && e.Flags.Has(record.FlagText|record.FlagFinish):
		t.Fatalf("role-only with flags %b", e.Flags)
	}
}

// A string, whatever its bytes, is the JSON string that encoding/json reads.
func FuzzAppendString(f *testing.F) {
	for _, s := range []string{"", "a", "\x00\x1f\x7f\"\\/\n\r\t", "é😀\u2028", "\xff\xc0\x80a\xed\xa0\x80", strings.Repeat("ab\"", 9)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var got string
		if err := json.Unmarshal(appendString(nil, s), &got); err != nil {
			t.Fatal(err)
		}
		if want := strings.ToValidUTF8(s, ""); strings.ToValidUTF8(s, "") == s && got != want {
			t.Fatalf("%q became %q", s, got)
		}
		std, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var want string
		if err := json.Unmarshal(std, &want); err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Fatalf("%q became %q, encoding/json has %q", s, got, want)
		}
	})
}

func FuzzParseError(f *testing.F) {
	for _, c := range errorBodies {
		f.Add([]byte(c.body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		line := ParseError(body)
		if strings.ContainsAny(line, "\r\n\t\x00") || len(line) > maxErrorLine+len("…") {
			t.Fatalf("%q", line)
		}
	})
}

func benchFrames(b *testing.B) [][]byte {
	raw, err := os.ReadFile("testdata/vllm_chat.sse")
	if err != nil {
		b.Fatal(err)
	}
	var out [][]byte
	for _, f := range splitFrames(string(raw)) {
		if strings.Contains(f.data, `"content":" `) {
			out = append(out, []byte(f.data))
		}
	}
	return out
}

// BenchmarkEvent is the cost of one token chunk of about 260 bytes.
func BenchmarkEvent(b *testing.B) {
	fs := benchFrames(b)
	r := Chat{}.NewReader()
	var a record.Attempt
	b.ReportAllocs()
	b.SetBytes(int64(len(fs[0])))
	i := 0
	for b.Loop() {
		var e record.Event
		r.Event(nil, fs[i%len(fs)], &e, &a)
		i++
	}
}

// BenchmarkEventFull is the same by the full decode of this package.
func BenchmarkEventFull(b *testing.B) {
	fs := benchFrames(b)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		var c chunk
		fullChunk(fs[i%len(fs)], "delta", &c)
		i++
	}
}

// BenchmarkEventJSON is the same by encoding/json into the smallest struct.
func BenchmarkEventJSON(b *testing.B) {
	fs := benchFrames(b)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		var c struct {
			Choices []struct {
				Index int
				Delta struct {
					Role, Content, Reasoning string
				}
				FinishReason *string `json:"finish_reason"`
			}
			Usage *struct {
				PromptTokens     int `json:"prompt_tokens"`
				CompletionTokens int `json:"completion_tokens"`
			}
		}
		if json.Unmarshal(fs[i%len(fs)], &c) != nil {
			b.Fatal()
		}
		i++
	}
}

// BenchmarkRequest is one chat body of about 2,000 bytes.
func BenchmarkRequest(b *testing.B) {
	r := &record.Request{MaxTokens: 128, ExactOutput: true, Prompt: record.Prompt{Text: strings.Repeat(" word", 400)}}
	o := &Options{Model: "tiny", Stream: true, IncludeUsage: true, ContinuousUsage: true, ExtraBody: []byte(`{"seed":1}`)}
	buf := make([]byte, 0, 4096)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := (Chat{}).AppendRequest(buf[:0], r, o); err != nil {
			b.Fatal(err)
		}
	}
}
