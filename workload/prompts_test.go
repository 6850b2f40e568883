package workload

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/assay-bench/assay/record"
)

func promptsFile(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// ownRequests draws n requests with the prompts of a file.
func ownRequests(t *testing.T, x Prompts, seed uint64, n int) []record.Request {
	t.Helper()
	spec := with(func(s *Spec) { s.Prompts = &x })
	f, err := OpenPrompts(spec)
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewPlan(spec, seed)
	if err != nil {
		t.Fatal(err)
	}
	p.UsePrompts(f)
	var out []record.Request
	for range n {
		r, ok := p.Next()
		if !ok {
			t.Fatal(p.Err())
		}
		out = append(out, r)
	}
	return out
}

func promptTexts(rs []record.Request) (out []string) {
	for _, r := range rs {
		out = append(out, r.Prompt.Text)
	}
	return out
}

// TestPromptOrder: in the order of the file or shuffled, each prompt comes once a
// round.
func TestPromptOrder(t *testing.T) {
	file := promptsFile(t, "p.txt", "one\n\ntwo\r\nthree\nfour\nfive")
	all := []string{"one", "two", "three", "four", "five"}
	if got := promptTexts(ownRequests(t, Prompts{File: file, Order: FileOrder}, 1, 10)); !slices.Equal(got, append(slices.Clone(all), all...)) {
		t.Errorf("in order: %q", got)
	}
	shuffled := promptTexts(ownRequests(t, Prompts{File: file}, 1, 15))
	rounds := map[string]bool{}
	slices.Sort(all)
	for i := 0; i < 15; i += 5 {
		rounds[strings.Join(shuffled[i:i+5], " ")] = true
		if got := slices.Sorted(slices.Values(shuffled[i : i+5])); !slices.Equal(got, all) {
			t.Errorf("round %d: %q", i/5, got)
		}
	}
	if len(rounds) < 2 {
		t.Errorf("every round has one order: %v", rounds)
	}
	if again := promptTexts(ownRequests(t, Prompts{File: file}, 1, 15)); !slices.Equal(again, shuffled) {
		t.Errorf("another order for the same seed: %q", again)
	}
}

// TestPromptOf: what of each format is sent, behind the code of the run.
func TestPromptOf(t *testing.T) {
	const (
		key = "sk-secret"
		sys = `{"system_prompt":"Be brief.","prompt":"Why?","output_tokens":5}`
	)
	tests := []struct {
		name, file, text string
		chat             bool
		want             record.Prompt
		max              int
	}{
		{"a line, chat", "p.txt", "Why?", true, record.Prompt{Text: "CODE\n\nWhy?"}, 128},
		{"vLLM's", "p.jsonl", `{"prompt":"Why?","output_tokens":7}`, false, record.Prompt{Text: "CODE\n\nWhy?"}, 128},
		{"a system prompt, chat", "p.jsonl", sys, true, record.Prompt{Messages: []record.Message{{Role: "system", Content: "CODE\n\nBe brief."}, {Role: "user", Content: "Why?"}}}, 128},
		{"a system prompt, completion", "p.jsonl", sys, false, record.Prompt{Text: "CODE\n\nBe brief.\n\nWhy?"}, 128},
		{"ShareGPT", "p.json", `[{"id":"a","conversations":[{"from":"human","value":"Why?"},{"from":"gpt","value":"So."},{"from":"human","value":"And?"}]}]`, true, record.Prompt{Text: "CODE\n\nWhy?"}, 128},
		{"a batch file", "p.jsonl", `{"custom_id":"a","headers":{"Authorization":"` + key + `"},"body":{"messages":[],"max_tokens":9}}`, true, record.Prompt{Body: []byte(`{"messages":[],"max_tokens":9}`)}, 9},
		{"a body", "p.jsonl", `{"model":"m","prompt":"Why?"}`, false, record.Prompt{Body: []byte(`{"model":"m","prompt":"Why?"}`)}, 0},
		{
			"messages with parts", "p.jsonl", `{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"u"}}]}],"output_length":3}`, true,
			record.Prompt{Body: []byte(`{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"u"}}]}]}`)}, 3,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := ownRequests(t, Prompts{File: promptsFile(t, test.file, test.text)}, 1, 3)[2]
			if r.MaxTokens != test.max {
				t.Errorf("at most %d tokens, want %d", r.MaxTokens, test.max)
			}
			c := Own(CalibrateOptions{Chat: test.chat, Nonce: "n"})
			code := c.text(r.Index, codeUnits)
			same := r
			c.Fill(&r)
			if r.PromptTokens != 0 {
				t.Errorf("%d prompt tokens are asked for", r.PromptTokens)
			}
			show := func(p record.Prompt) string {
				s := p.Text + string(p.Body)
				for _, m := range p.Messages {
					s += "|" + m.Role + ": " + m.Content
				}
				return s
			}
			if got, want := show(r.Prompt), strings.ReplaceAll(show(test.want), "CODE", code); got != want || strings.Contains(got, key) {
				t.Errorf("got  %q\nwant %q", got, want)
			}
			Own(CalibrateOptions{Chat: test.chat, Reuse: true}).Fill(&same)
			if got, want := show(same.Prompt), strings.ReplaceAll(show(test.want), "CODE\n\n", ""); got != want {
				t.Errorf("reused: got %q, want %q", got, want)
			}
		})
	}
}

// TestPromptsRefused: what cannot be sent is said before anything is.
func TestPromptsRefused(t *testing.T) {
	file := promptsFile(t, "p.txt", "one\n")
	for want, change := range map[string]func(*Spec){
		"prompts.file: none is named":                  func(s *Spec) { s.Prompts.File = "" },
		`prompts.order: "random" is neither`:           func(s *Spec) { s.Prompts.Order = "random" },
		"prompts.format: unknown format":               func(s *Spec) { s.Prompts.Format = "pdf" },
		"prompts: sessions take theirs from a trace":   func(s *Spec) { s.Sessions = &Sessions{Turns: FixedLength(2)} },
		"prompts: they are as they are in the file":    func(s *Spec) { s.Prefix = &Prefix{Tokens: FixedLength(9)} },
		"prompts: their lengths are those of the file": func(s *Spec) { s.LengthPairs = []LengthPair{{1, 2}} },
		"no such file":                               func(s *Spec) { s.Prompts.File += "x" },
		"is not the file that was meant":             func(s *Spec) { s.Prompts.SHA256 = "00" },
		`p.jsonl:2:11: column "prompt": is not JSON`: func(s *Spec) { s.Prompts.File = promptsFile(t, "p.jsonl", "{\"prompt\":\"a\"}\n{\"prompt\":\n") },
		"no row has a text":                          func(s *Spec) { s.Prompts.File = promptsFile(t, "p.jsonl", `{"input_length":3,"timestamp":1}`) },
		`p.txt:2: "\xff": is not UTF-8`:              func(s *Spec) { s.Prompts.File = promptsFile(t, "p.txt", "a\n\xff\n") },
	} {
		spec := with(func(s *Spec) { s.Prompts = &Prompts{File: file} })
		change(&spec)
		if _, err := OpenPrompts(spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	spec := with(func(s *Spec) { s.Prompts = &Prompts{File: promptsFile(t, "p.txt", "a\n\xff\n"), SkipBad: true} })
	f, err := OpenPrompts(spec)
	if err != nil || f.Prompts != 1 || f.Skipped != 1 || f.FirstSkipped == nil {
		t.Errorf("skipped: %+v, %v", f, err)
	}
	p, err := NewPlan(spec, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := p.Next(); ok || p.Err() == nil {
		t.Error("a plan gave prompts that were never opened")
	}
	spec.Prompts.File = promptsFile(t, "p.jsonl", `{"model":"m","messages":[]}`+"\n"+`{"model":"m","prompt":"x"}`)
	if f, err = OpenPrompts(spec); err != nil {
		t.Fatal(err)
	}
	for _, chat := range []bool{true, false} {
		if err := f.Fits(chat); err == nil || !strings.Contains(err.Error(), "1 of 2 recorded bodies") {
			t.Errorf("chat %v: %v", chat, err)
		}
	}
}
