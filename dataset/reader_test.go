package dataset

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/klauspost/compress/zstd"
)

// collect reads all rows of a source into memory of their own.
func collect(t testing.TB, src Source) []Row {
	t.Helper()
	rows, err := readAll(src)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func readAll(src Source) ([]Row, error) {
	var rows []Row
	for {
		row, err := src.Next()
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			return rows, err
		}
		own := *row
		own.HashIDs = append([]int64(nil), row.HashIDs...)
		own.Messages = append([]Message(nil), row.Messages...)
		own.Extra = append([]Column(nil), row.Extra...)
		rows = append(rows, own)
	}
}

func open(t testing.TB, name string, o Options) *Reader {
	t.Helper()
	r, err := Open(filepath.Join("testdata", name), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func text(t testing.TB, content string, o Options) *Reader {
	t.Helper()
	r, err := New(strings.NewReader(content), "f", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

var sameRows = cmp.Options{cmpopts.IgnoreUnexported(Row{}), cmpopts.EquateEmpty()}

const ms = time.Millisecond

// TestFormats reads a small file of every shape.
func TestFormats(t *testing.T) {
	user := func(s string) Message { return Message{Role: "user", Content: s} }
	tests := []struct {
		file   string
		o      Options
		format Format
		unit   Unit
		from   UnitSource
		rows   []Row
	}{
		{"azure2023.csv", Options{}, Azure, Date, FromFormat, []Row{
			{Line: 2, Timed: true, PromptTokens: 812, OutputTokens: 97},
			{Line: 3, Timed: true, At: 500, PromptTokens: 40, OutputTokens: 3},
			{Line: 4, Timed: true, At: 2376955 * time.Microsecond, PromptTokens: 1201, OutputTokens: 14},
		}},
		{"azure2024.csv", Options{}, Azure, Date, FromFormat, []Row{
			{Line: 2, Timed: true, PromptTokens: 640, OutputTokens: 33},
			{Line: 3, Timed: true, At: 53157498079 * time.Microsecond, PromptTokens: 91, OutputTokens: 204},
			{Line: 4, Timed: true, At: 53157498081 * time.Microsecond, PromptTokens: 15, OutputTokens: 8},
		}},
		{"azure2025.csv.gz", Options{}, Azure, Date, FromFormat, []Row{
			{Line: 2, Timed: true, Images: 2, PromptTokens: 1801, OutputTokens: 66},
			{Line: 3, Timed: true, At: 500 * ms, PromptTokens: 150, OutputTokens: 12},
		}},
		{"burstgpt-v1.csv", Options{}, BurstGPT, Seconds, FromFormat, []Row{
			{Line: 2, Timed: true, Model: "ChatGPT", PromptTokens: 310, OutputTokens: 42},
			{Line: 3, Timed: true, At: 33 * time.Second, Model: "GPT-4", PromptTokens: 77, OutputTokens: 0, Failed: true},
			{Line: 4, Timed: true, At: 106 * time.Second, Model: "ChatGPT", PromptTokens: 15, OutputTokens: 230},
		}},
		{"burstgpt-v2.csv", Options{KeepExtra: true}, BurstGPT, Seconds, FromFormat, []Row{
			{Line: 2, Timed: true, SessionID: "s-77", Model: "ChatGPT", PromptTokens: 310, OutputTokens: 42,
				Extra: []Column{{"Elapsed time", "3.4"}, {"Total tokens", "352"}, {"Log Type", "Conversation log"}}},
			{Line: 3, Timed: true, At: 33 * time.Second, SessionID: "s-77", Model: "ChatGPT", PromptTokens: 402, OutputTokens: 11,
				Extra: []Column{{"Elapsed time", "1.2"}, {"Total tokens", "413"}, {"Log Type", "Conversation log"}}},
			{Line: 4, Timed: true, At: 106 * time.Second, Model: "GPT-4", PromptTokens: 77, Failed: true,
				Extra: []Column{{"Elapsed time", "9"}, {"Total tokens", "77"}, {"Log Type", "API log"}}},
		}},
		{"mooncake.jsonl", Options{}, Mooncake, Milliseconds, FromFormat, []Row{
			{Line: 1, Timed: true, PromptTokens: 1100, OutputTokens: 64, HashIDs: []int64{5, 6, 901}, BlockSize: 512},
			{Line: 2, Timed: true, At: 3000 * ms, PromptTokens: 1024, OutputTokens: 1, HashIDs: []int64{5, 6}, BlockSize: 512},
			{Line: 3, Timed: true, At: 3000 * ms, PromptTokens: 700, OutputTokens: 12, HashIDs: []int64{5, 77}, BlockSize: 512},
			{Line: 4, Timed: true, At: 6000 * ms, PromptTokens: 513, OutputTokens: 300, HashIDs: []int64{8, 9}, BlockSize: 512},
		}},
		{"mooncake-extended.jsonl", Options{KeepExtra: true}, Mooncake, Milliseconds, FromFormat, []Row{
			{Line: 1, Timed: true, SessionID: "a", PromptTokens: 700, OutputTokens: 20, HashIDs: []int64{1, 2}, BlockSize: 512},
			{Line: 2, SessionID: "a", Delay: 250 * ms, Text: "and then?", PromptTokens: Unknown, OutputTokens: 9},
			{Line: 3, Timed: true, At: 11750 * time.Microsecond, PromptTokens: Unknown, OutputTokens: 5,
				Messages: []Message{{Role: "system", Content: "Be brief."}, user("Name a river.")},
				Extra:    []Column{{"tools", `[{"type": "function", "function": {"name": "map"}}]`}}},
			{Line: 4, Timed: true, At: 39500 * time.Microsecond, PromptTokens: Unknown, OutputTokens: 7, Model: "m1", Messages: []Message{user("Hi")},
				Body: []byte(`{"model": "m1", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 7}`)},
		}},
		{"bailian.jsonl", Options{}, Bailian, Seconds, FromFormat, []Row{
			{Line: 1, Timed: true, ID: "9", SessionID: "9", Turn: 1, PromptTokens: 33, OutputTokens: 12, HashIDs: []int64{1, 2, 3}, BlockSize: 16},
			{Line: 2, Timed: true, At: 6840 * ms, ID: "10", Parent: "9", SessionID: "9", Turn: 2, PromptTokens: 64, OutputTokens: 5, HashIDs: []int64{1, 2, 3, 4}, BlockSize: 16},
			{Line: 3, Timed: true, At: 10590 * ms, ID: "11", Parent: "10", SessionID: "9", Turn: 3, PromptTokens: 65, OutputTokens: 80, HashIDs: []int64{1, 2, 3, 4, 5}, BlockSize: 16},
			{Line: 4, Timed: true, At: 12090 * ms, ID: "12", SessionID: "12", Turn: 1, PromptTokens: 10, OutputTokens: 2, HashIDs: []int64{-1}, BlockSize: 16},
		}},
		{"weka.jsonl", Options{}, Weka, Seconds, FromFormat, []Row{
			{Line: 1, ID: "s1/1", SessionID: "s1", Turn: 1, Delay: 1200 * ms, Model: "m", PromptTokens: 420, OutputTokens: 33, HashIDs: []int64{0, 1, 2, 3, 4, 5, 6}, HashScope: Local, BlockSize: 64},
			{Line: 1, At: 3200 * ms, ID: "s1/a7/1", Parent: "s1/1", SessionID: "s1", Turn: 1, Model: "m2", PromptTokens: 128, OutputTokens: 6, HashIDs: []int64{0, 9}, HashScope: Local, BlockSize: 64},
			{Line: 1, At: 5500 * ms, ID: "s1/2", Parent: "s1/1", SessionID: "s1", Turn: 2, Delay: 500 * ms, Model: "m", PromptTokens: 500, OutputTokens: 8, HashIDs: []int64{0, 1, 2, 3, 4, 5, 6}, HashScope: Local, BlockSize: 64},
			{Line: 2, ID: "s2/1", SessionID: "s2", Turn: 1, Model: "m", PromptTokens: 64, OutputTokens: 3, HashIDs: []int64{0}, HashScope: Local, BlockSize: 64},
		}},
		{"sharegpt.json", Options{}, ShareGPT, "", "", []Row{
			{Line: 2, SessionID: "q1_0", Turn: 1, Text: `What is a "byte"?`, Reply: "Eight bits.", PromptTokens: Unknown, OutputTokens: Unknown},
			{Line: 2, SessionID: "q1_0", Turn: 2, Text: "And a nibble—half?", Reply: "Yes, } four ] bits.", PromptTokens: Unknown, OutputTokens: Unknown},
			{Line: 9, SessionID: "q3_0", Turn: 1, System: "You are terse.", Text: "Go.", Reply: "Gone.", PromptTokens: Unknown, OutputTokens: Unknown},
		}},
		{"vllm-custom.jsonl", Options{}, VLLMCustom, "", "", []Row{
			{Line: 1, Text: "Count to three.", PromptTokens: Unknown, OutputTokens: 10},
			{Line: 2, Text: "Say \"no\"\n", PromptTokens: Unknown, OutputTokens: 1},
		}},
		{"single-turn.jsonl", Options{}, SingleTurn, Milliseconds, FromFormat, []Row{
			{Line: 1, Timed: true, Text: "First.", PromptTokens: Unknown, OutputTokens: 12},
			{Line: 2, Timed: true, At: 125500 * time.Microsecond, Text: "Part one. Part two.", PromptTokens: Unknown, OutputTokens: Unknown},
			{Line: 3, Delay: 30 * ms, Text: "Named.", Images: 1, SessionID: "4", PromptTokens: Unknown, OutputTokens: Unknown},
		}},
		{"multi-turn.jsonl", Options{}, MultiTurn, Milliseconds, FromFormat, []Row{
			{Line: 1, Timed: true, SessionID: "u1", Turn: 1, System: "Be kind.", Text: "Hello", PromptTokens: Unknown, OutputTokens: Unknown},
			{Line: 1, SessionID: "u1", Turn: 2, Delay: 1500 * ms, Text: "Still there?", PromptTokens: Unknown, OutputTokens: 6},
			{Line: 2, Timed: true, At: 250 * ms, SessionID: "row 2", Turn: 1, Text: "Alone", PromptTokens: Unknown, OutputTokens: Unknown},
		}},
		{"batch.jsonl", Options{}, OpenAIBatch, "", "", []Row{
			{Line: 1, ID: "r-1", Model: "m1", PromptTokens: Unknown, OutputTokens: 50, Messages: []Message{{Role: "system", Content: "S"},
				{Role: "user", Content: "look: what?", Raw: []byte(`{"role": "user", "content": [{"type": "text", "text": "look: "}, {"type": "image_url", "image_url": {"url": "x"}}, {"type": "text", "text": "what?"}]}`)}},
				Body: []byte(`{"model": "m1", "messages": [{"role": "system", "content": "S"}, {"role": "user", "content": [{"type": "text", "text": "look: "}, {"type": "image_url", "image_url": {"url": "x"}}, {"type": "text", "text": "what?"}]}], "max_tokens": 50}`)},
			{Line: 2, ID: "r-2", Model: "m1", Text: "Once", PromptTokens: Unknown, OutputTokens: 9, Body: []byte(`{"model": "m1", "prompt": "Once", "max_tokens": 9}`)},
			{Line: 3, ID: "r-3", Model: "m1", Text: "Hi", PromptTokens: Unknown, OutputTokens: 4, Body: []byte(`{"model": "m1", "input": "Hi", "max_output_tokens": 4}`)},
		}},
		{"bodies.jsonl", Options{}, Bodies, "", "", []Row{
			{Line: 1, Model: "m1", PromptTokens: Unknown, OutputTokens: 11, Messages: []Message{user("A"), {Role: "assistant", Content: "B"}, user("C")},
				Body: []byte(`{"model": "m1", "messages": [{"role": "user", "content": "A"}, {"role": "assistant", "content": "B"}, {"role": "user", "content": "C"}], "max_completion_tokens": 11, "temperature": 0.2}`)},
			{Line: 2, Model: "m1", PromptTokens: 4, OutputTokens: 2, Body: []byte(`{"model": "m1", "prompt": [1, 2, 3, 4], "max_tokens": 2}`)},
			{Line: 3, Model: "m1", PromptTokens: Unknown, OutputTokens: Unknown,
				Messages: []Message{user("T"), {Role: "assistant", Raw: []byte(`{"role": "assistant", "content": null, "tool_calls": [{"id": "c1"}]}`)}, {Role: "tool", Content: "42"}},
				Body:     []byte(`{"model": "m1", "messages": [{"role": "user", "content": "T"}, {"role": "assistant", "content": null, "tool_calls": [{"id": "c1"}]}, {"role": "tool", "content": "42"}]}`)},
		}},
		{"guidellm.csv", Options{}, Columns, "", "", []Row{
			{Line: 2, SessionID: "row 2", Turn: 1, System: `Be "good", always`, Text: "first, line\nsecond line", PromptTokens: 7, OutputTokens: 20},
			{Line: 2, SessionID: "row 2", Turn: 2, Text: "next", PromptTokens: 1, OutputTokens: 30},
			{Line: 4, SessionID: "row 4", Turn: 1, Text: "only one", PromptTokens: 2, OutputTokens: 5},
		}},
		{"guidellm.jsonl", Options{}, Columns, "", "", []Row{
			{Line: 1, System: "S", Text: "Q1", PromptTokens: Unknown, OutputTokens: 4},
			{Line: 2, Text: "Q2", PromptTokens: 2, OutputTokens: Unknown},
		}},
		{"vidur.csv", Options{}, Columns, Seconds, FromName, []Row{
			{Line: 2, Timed: true, PromptTokens: 100, OutputTokens: 10},
			{Line: 3, Timed: true, At: 1500 * ms, PromptTokens: 200, OutputTokens: 20},
		}},
		{"mapped.tsv", Options{Columns: map[Field]string{FieldTime: "when", FieldClient: "#4"}}, Columns, Seconds, FromMagnitude, []Row{
			{Line: 2, Timed: true, PromptTokens: 10, OutputTokens: 2, Client: "x"},
			{Line: 3, Timed: true, At: 1500 * ms, PromptTokens: 20, OutputTokens: 4, Client: "y"},
		}},
		{"nested.jsonl", Options{Columns: map[Field]string{FieldTime: "log.at", FieldPromptTokens: "log.usage.prompt_tokens", FieldOutputTokens: "log.usage.completion_tokens"}},
			Columns, Date, FromDates, []Row{
				{Line: 1, Timed: true, PromptTokens: 5, OutputTokens: 6},
				{Line: 2, Timed: true, At: 2500 * ms, PromptTokens: 7, Failed: true},
			}},
	}
	for _, test := range tests {
		t.Run(test.file, func(t *testing.T) {
			r := open(t, test.file, test.o)
			rows := collect(t, r)
			if diff := cmp.Diff(test.rows, rows, sameRows); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
			if r.Format() != test.format {
				t.Errorf("format %q, want %q", r.Format(), test.format)
			}
			if unit, from := r.Unit(); unit != test.unit || from != test.from {
				t.Errorf("unit %q %q, want %q %q", unit, from, test.unit, test.from)
			}
			if _, err := r.Next(); err != io.EOF {
				t.Errorf("after the end: %v", err)
			}
		})
	}
}

// TestPacked: gzip and zstd make no difference, whatever the file is called.
func TestPacked(t *testing.T) {
	plain, err := os.ReadFile("testdata/mooncake.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	want := collect(t, open(t, "mooncake.jsonl", Options{}))
	var z bytes.Buffer
	w, err := zstd.NewWriter(&z)
	if err != nil {
		t.Fatal(err)
	}
	w.Write(plain)
	w.Close()
	got := collect(t, text(t, z.String(), Options{}))
	if diff := cmp.Diff(want, got, sameRows); diff != "" {
		t.Error(diff)
	}
	cut := z.Bytes()[:z.Len()-10]
	r, err := New(bytes.NewReader(cut), "f", Options{SkipBad: true})
	if err == nil {
		_, err = readAll(r)
	}
	if err == nil {
		t.Error("a file that is cut off was read as if whole")
	}
}

// TestMalformed: the error says file, line, byte, column and value.
func TestMalformed(t *testing.T) {
	const azure = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:20:01.12,812,97\n"
	tests := []struct {
		name, content string
		want          string
	}{
		{"count", azure + "2023-11-16 18:20:02.12,8x2,97\n", `f:3:24: column "ContextTokens": "8x2": is not a whole number of at least 0`},
		{"negative", azure + "2023-11-16 18:20:02.12,-8,97\n", `f:3:24: column "ContextTokens": "-8": is not a whole number of at least 0`},
		{"fraction", azure + "2023-11-16 18:20:02.12,8.5,97\n", `f:3:24: column "ContextTokens": "8.5": is not a whole number of at least 0`},
		{"huge", azure + "2023-11-16 18:20:02.12,8,99999999999999999999999\n", `f:3:26: column "GeneratedTokens": "99999999999999999999999": is more than 1073741824`},
		{"empty", azure + "2023-11-16 18:20:02.12,8,\n", `f:3:26: column "GeneratedTokens": is empty`},
		{"no date", azure + "2023-13-16 18:20:02.12,8,97\n", `f:3:1: column "TIMESTAMP": "2023-13-16 18:20:02.12": is not a date and time`},
		{"few fields", azure + "2023-11-16 18:20:02.12,8\n", `f:3: has 2 fields, the header 3`},
		{"many fields", azure + "2023-11-16 18:20:02.12,8,9,10\n", `f:3: has 4 fields, the header 3`},
		{"commas", azure + strings.Repeat(",", 70_000) + "\n", `f:3: has more than 65536 fields`},
		{"quote", azure + "\"2023-11-16 18:20:02.12\"x,8,9\n", `f:3: field 1: something follows its closing quote`},
		{"quoted value", azure + "2023-11-16 18:20:02.12,\"8\"\"\",9\n", `f:3: column "ContextTokens": "8\"": is not a whole number of at least 0`},
		{"JSON count", "{\"timestamp\":0,\"input_length\":1,\"output_length\":1}\n{\"timestamp\":1,\"input_length\":\"many\",\"output_length\":1}\n", `f:2:31: column "input_length": "\"many\"": is not a whole number of at least 0`},
		{"JSON cut", "{\"timestamp\":0,\"input_length\":1,\"output_length\":1}\n{\"timestamp\":1,\"input_len\n", `f:2:26: column "timestamp": is not JSON`},
		{"JSON rest", "{\"timestamp\":0,\"input_length\":1,\"output_length\":1}\n{\"timestamp\":1,\"input_length\":1} x\n", `f:2:34: "x": something follows the object`},
		{"JSON stamp", "{\"timestamp\":0,\"input_length\":1,\"output_length\":1}\n{\"timestamp\":\"soon\",\"input_length\":1}\n", `f:2:14: column "timestamp": "\"soon\"": is not a time`},
		{"ids", "{\"timestamp\":0,\"input_length\":1,\"output_length\":1}\n{\"timestamp\":1,\"input_length\":1,\"hash_ids\":[1,2.5]}\n", `f:2:44: column "hash_ids": "[1,2.5]": element 1 (2.5) is not a whole number`},
		{"blocks", "{\"timestamp\":0,\"input_length\":1,\"output_length\":1}\n{\"timestamp\":1,\"input_length\":6758,\"hash_ids\":[1,2]}\n", `f:2: column "hash_ids": hash_ids do not fit the input length: 2 ids of 512 tokens against 6758 tokens, which are 14 blocks`},
		{"turn", "{\"turns\":[{\"text\":\"a\"}]}\n{\"turns\":[{\"text\":\"a\"},{\"text\":7}]}\n", `f:2:32: column "turns.1.text": "7": is no string`},
		{"turn's delay", "{\"turns\":[{\"text\":\"a\"}]}\n{\"turns\":[{\"text\":\"a\"}, {\"text\":\"b\",\"delay\":-5}]}\n", `f:2:45: column "turns.1.delay": "-5": is out of range`},
		{"single turn", "{\"text\":\"a\",\"timestamp\":0}\n{\"text\":\"a\",\"timestamp\":\"soon\"}\n", `f:2:25: column "timestamp": "\"soon\"": is no float64`},
		{"a subagent's request", `{"id":"s","block_size":64,"requests":[{"t":0,"in":1,"out":1}]}` + "\n" + `{"id":"s","block_size":64,"requests":[{"t":0,"in":1,"out":1},{"type":"subagent","requests":[{"t":1,"in":-5}]}]}` + "\n", `f:2:105: column "requests.1.requests.0.in": "-5": is not a whole number of at least 0`},
		{"body in a batch", `{"custom_id":"a","body":{"prompt":"x","max_tokens":4}}` + "\n" + `{"custom_id":"a","body":{"prompt":"x","max_tokens":"four"}}` + "\n", `f:2:52: column "body.max_tokens": "\"four\"": is not a whole number of at least 0`},
		{"body in a string", `{"custom_id":"a","body":"{\"max_tokens\":4}"}` + "\n" + `{"custom_id":"a","body":"{\"max_tokens\":-4}"}` + "\n", `f:2:25: column "body.max_tokens": "-4": is not a whole number of at least 0`},
		{"message", "{\"id\":\"a\",\"conversations\":[{\"from\":\"human\",\"value\":\"x\"}]}\n{\"id\":\"b\",\"conversations\":[{\"value\":\"x\"}]}\n", `f:2:27: column "conversations": "[{\"value\":\"x\"}]": message 0: has no role`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := readAll(text(t, test.content, Options{}))
			var row *RowError
			if !errors.As(err, &row) {
				t.Fatalf("%v is no RowError", err)
			}
			if !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("error\n%s, want\n%s", err, test.want)
			}
			r := text(t, test.content, Options{SkipBad: true})
			if _, err := readAll(r); err != nil {
				t.Errorf("with SkipBad: %v", err)
			}
			if n, first := r.Skipped(); n != 1 || first == nil {
				t.Errorf("skipped %d, %v, want 1", n, first)
			}
		})
	}
}

// packed is a CSV of many rows.
func packed(pack func(io.Writer) io.WriteCloser) string {
	var b bytes.Buffer
	w := pack(&b)
	fmt.Fprintf(w, "t_s,input_tokens\n")
	for i := range 300 {
		fmt.Fprintf(w, "%d,%d\n", i, i*i*7919%1000+1)
	}
	w.Close()
	return b.String()
}

// TestSkipsAlone: a row that is broken costs no other one: not those behind a quote
// that is never closed, or closed by what opens another; not those around a row that
// is too long; not those in front of a value that is cut off.
func TestSkipsAlone(t *testing.T) {
	const head = "prompt,output_tokens\n"
	for _, test := range []struct {
		name, content, want, bad string
	}{
		{"quote", head + "a,1\n\"b,2\nc,3\nd,4\n", "a c d", `f:3:1: column "prompt": "\"b,2": opens a quoted field that is not closed`},
		{"quote in the last column", head + "a,1\nb,\"2\nc,3\n", "a c", `f:3:3: column "output_tokens": "\"2": opens a quoted field that is not closed`},
		{"quote before quoted ones", head + "a,1\n\"b,2\nc,3\n\"d\",4\n\"e\",5\n", "a c d e", `f:3:1: column "prompt": "\"b,2": opens a quoted field that is not closed as it should be: field 1: something follows its closing quote`},
		{"quote before doubled ones", head + "\"b,2\n\"c \"\"x\"\"\",3\n", "c \"x\"", `f:2:1: `},
		{"a field over lines", head + "\"a\nb\",1\n\"c\n\nd\"\"\",2\ne,3\n", "a\nb c\n\nd\" e", ""},
		{"the second field of a row over lines", head + "\"a\nb\",\"1\nc,3\n", "c", `f:3:4: column "output_tokens": "\"1": opens a quoted field that is not closed`},
		{"long line", head + "a,1\n" + strings.Repeat("x", 3000) + ",2\nb,3\n", "a b", "f:3: row is longer than 1000 bytes"},
		{"long line of JSON", `{"prompt":"a","output_tokens":1}` + "\n" + `{"prompt":"` + strings.Repeat("x", 3000) + "\"}\n" + `{"prompt":"b","output_tokens":1}`, "a b", "f:2: row is longer"},
		{"quote without end", head + "a,1\n\"b,2\n" + strings.Repeat("c,3\n", 500), "a" + strings.Repeat(" c", 500), `f:3:1: column "prompt": "\"b,2": opens a quoted field that is not closed in the 1000 bytes that follow`},
		{"array cut off", "[{\"prompt\":\"a\",\"output_tokens\":1},\n{\"prompt\":\"b\"", "a", "f:2: the value that begins here does not end"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := text(t, test.content, Options{SkipBad: true, MaxRow: 1000})
			var got []string
			for _, row := range collect(t, r) {
				got = append(got, row.Text)
			}
			if g := strings.Join(got, " "); g != test.want {
				t.Errorf("%q, want %q", g, test.want)
			}
			n, bad := r.Skipped()
			if test.bad == "" {
				if n != 0 {
					t.Errorf("skipped %d, %v", n, bad)
				}
				return
			}
			if want := int64(strings.Count(test.name, "row over") + 1); n != want || !strings.HasPrefix(bad.Error(), test.bad) {
				t.Errorf("skipped %d,\n%v, want\n%s", n, bad, test.bad)
			}
		})
	}
}

// TestNumbers: counts and stamps as programs write them.
func TestNumbers(t *testing.T) {
	for _, test := range []struct {
		value string
		want  int
	}{{"812", 812}, {" 812 ", 812}, {"812.0", 812}, {"812.", 812}, {"1e3", 1000}, {"1.2E+3", 1200}, {"5e0", 5}, {"120e-1", 12}, {"", Unknown}, {" ", Unknown}, {"NaN", Unknown}, {"None", Unknown}, {"null", Unknown}} {
		row := collect(t, text(t, "t_s,input_tokens\n1,"+test.value+"\n", Options{}))[0]
		if row.PromptTokens != test.want {
			t.Errorf("%q: %d, want %d", test.value, row.PromptTokens, test.want)
		}
	}
	for _, bad := range []string{"1.5", "-1", "1e-1", "1.5e0", "1e12", "0x10", "1_000", "1,5", "1e", "e3", "Inf", "+5", "5 6"} {
		if _, err := readAll(text(t, "t_s;input_tokens\n1;"+bad+"\n", Options{})); !errors.As(err, new(*RowError)) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	for _, stamp := range []string{"2024-05-12 09:00", "5/12/2024 9:00", "2024-05-12"} {
		if _, err := readAll(text(t, "time,input_tokens\n"+stamp+",1\n", Options{})); !errors.Is(err, errDate) {
			t.Errorf("%q: %v", stamp, err)
		}
	}
}

// TestNames: columns by what people call them.
func TestNames(t *testing.T) {
	for name, want := range map[string]string{
		"Request tokens": "request_tokens", " Arrival Time (ms) ": "arrival_time_ms", "TIMESTAMP": "timestamp", "prompt__tokens": "prompt_tokens", "#2": "2", "длина": "длина", "--": "",
	} {
		if got := normal(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	r := text(t, "Arrival Time (ms)|Prompt Tokens|Output tokens\n0|5|6\n500|5|6\n", Options{})
	if rows := collect(t, r); rows[1].At != 500*time.Millisecond || rows[1].OutputTokens != 6 {
		t.Errorf("%+v", rows)
	}
}

// TestUTF8: a text that is none is said, in whatever it stands.
func TestUTF8(t *testing.T) {
	for content, want := range map[string]string{
		"prompt,output_tokens\na,1\ncaf\xe9,5\n":                                 `f:3:1: column "prompt": "caf\xe9": is not UTF-8`,
		`{"prompt":"a","output_tokens":1}` + "\n" + "{\"prompt\":\"caf\xe9\"}\n": `f:2:11: column "prompt": "\"caf\xe9\"": is not UTF-8`,
	} {
		if _, err := readAll(text(t, content, Options{})); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestGoesOn: after the error of a row the next one is read.
func TestGoesOn(t *testing.T) {
	r := text(t, "t_s,input_tokens\n1,2\nx,3\n4,5\n", Options{})
	var got []string
	for {
		row, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			got = append(got, "bad")
			continue
		}
		got = append(got, fmt.Sprint(row.PromptTokens))
	}
	if want := []string{"2", "bad", "5"}; !cmp.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestRefused: what cannot be read says why, before or at the first row.
func TestRefused(t *testing.T) {
	tests := []struct {
		name, content string
		o             Options
		is            error
		says          string
	}{
		{"empty", "", Options{}, ErrFormat, "the file is empty"},
		{"binary", "\x00\x01\x02", Options{}, ErrFormat, "binary data"},
		{"no known column", "a,b\n1,2\n", Options{}, ErrFormat, `name those of time, prompt_tokens and output_tokens, as in prompt_tokens=a`},
		{"no known key", `{"a":1}`, Options{}, ErrFormat, `name those of time, prompt_tokens and output_tokens, as in prompt_tokens=a`},
		{"wrong format", "a,b\n1,2\n", Options{Format: Mooncake}, ErrFormat, "mooncake is JSON, but the file is CSV"},
		{"no such column", "a,b\n1,2\n", Options{Columns: map[Field]string{FieldTime: "c"}}, nil, `there is no column "c" (there are "a", "b")`},
		{"no such field", "a,b\n1,2\n", Options{Columns: map[Field]string{"when": "a"}}, nil, `there is no field "when"`},
		{"unit of a column", "time,input_tokens\n0.5,3\n", Options{}, ErrUnit, "say whether they are s, ms, us or ns"},
		{"unit of Mooncake's keys with fractions", `{"timestamp":0.41,"input_length":3,"output_length":1}`, Options{}, ErrUnit, "say ms or s"},
		{"numbers where dates belong", "TIMESTAMP,ContextTokens,GeneratedTokens\n12.5,1,1\n", Options{}, ErrUnit, "is not a date"},
		{"all rows bad", "t_s,input_tokens\nx,2\ny,3\n", Options{SkipBad: true}, nil, "none of 2 rows could be read"},
		{"quote never closed", "t_s,prompt\n1,\"abc\nd\ne", Options{SkipBad: true}, nil, "none of 3 rows could be read; the first: f:2:3: column \"prompt\": \"\\\"abc\": opens a quoted field that is not closed"},
		{"UTF-16", "\xff\xfet\x00_\x00s\x00,\x00a\x00\n\x00", Options{}, ErrFormat, "iconv -f UTF-16"},
		{"UTF-16 without its mark", "{\x00\"\x00a\x00\"\x00:\x001\x00}\x00", Options{}, ErrFormat, "iconv -f UTF-16"},
		{"UTF-16 of prompts", "\xfe\xff\x00h\x00i\x00\n", Options{Format: Text}, ErrFormat, "iconv -f UTF-16"},
		{"carriage returns", "t_s,input_tokens\r1,2\r", Options{}, ErrFormat, "a carriage return alone"},
		{"pointer of LFS", "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n", Options{}, ErrFormat, "git lfs pull"},
		{"unit of Mooncake's keys with fractions later", `{"timestamp":0,"input_length":3,"output_length":1}` + "\n" + `{"timestamp":0.310,"input_length":3,"output_length":1}`, Options{}, ErrUnit, "but one is 0.310: say ms or s"},
		{"many columns", strings.Repeat("a,", 40) + "b\n", Options{}, ErrFormat, `"a" and 29 more)`},
		{"gzip cut off", packed(func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) })[:60], Options{}, nil, "the gzip stream ends too soon: the file is cut off"},
		{"zstd cut off", packed(func(w io.Writer) io.WriteCloser { z, _ := zstd.NewWriter(w); return z })[:60], Options{}, nil, "the zstd stream ends too soon: the file is cut off"},
		{"gzip broken", strings.Replace(packed(func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }), "\x00\x00\x00\x00", "\x00\x00\x00\x01", 1)[:20] + strings.Repeat("\xff", 99), Options{}, nil, "the gzip stream is broken"},
		{"array cut off", "[{\"prompt\":\"a\",\"output_tokens\":1},\n{\"prompt\":\"b\"", Options{}, nil, "f:2: the value that begins here does not end in the 13 bytes that follow"},
		{"row too long", "t_s,input_tokens\n1,2\n" + strings.Repeat("1", 2000) + ",2\n", Options{MaxRow: 1000}, nil, "f:3: row is longer than 1000 bytes"},
		{"ServeGen without lengths", "0,1.5,0.9,Gamma,1.2,0.5\n", Options{}, nil, "name it"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r, err := New(strings.NewReader(test.content), "f", test.o)
			if err == nil {
				_, err = readAll(r)
			}
			if err == nil {
				t.Fatal("no error")
			}
			if test.is != nil && !errors.Is(err, test.is) {
				t.Errorf("%v is not %v", err, test.is)
			}
			if !strings.Contains(err.Error(), test.says) {
				t.Errorf("%q does not say %q", err, test.says)
			}
		})
	}
}
