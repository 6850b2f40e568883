package workload

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/assay-bench/assay/record"
)

// server is a pretended one with a tokenizer.
type server struct {
	// tokenizer cuts a text into tokens.
	tokenizer func(text string) []string
	bos       bool
	template  int // tokens around the text of a chat
	context   int // longest prompt, 0 for any

	noTokenize, noUsage, noIDs bool
	idsBOS                     bool // adds a start token before ids, too
	fail                       error

	probes int
}

func (s *server) Tokenize(_ context.Context, text string) ([]int32, error) {
	s.probes++
	if s.noTokenize {
		return nil, errors.ErrUnsupported
	}
	var ids []int32
	if s.bos {
		ids = append(ids, 1)
	}
	for _, piece := range s.tokenizer(text) {
		h := fnv.New32a()
		h.Write([]byte(piece))
		ids = append(ids, int32(h.Sum32()>>8)+2)
	}
	return ids, nil
}

func (s *server) PromptTokens(_ context.Context, p record.Prompt) (int, error) {
	s.probes++
	switch {
	case s.fail != nil:
		return 0, s.fail
	case s.noUsage:
		return 0, errors.ErrUnsupported
	case p.TokenIDs != nil && s.noIDs:
		return 0, errors.New("400: prompt must be a string")
	}
	n := s.measure(p)
	if s.context > 0 && n > s.context {
		return 0, fmt.Errorf("400: %d tokens are too many", n)
	}
	return n, nil
}

// measure is the truth: how many tokens a prompt has.
func (s *server) measure(p record.Prompt) int {
	n := 0
	switch {
	case p.TokenIDs != nil:
		n = len(p.TokenIDs)
		if s.idsBOS {
			n++
		}
		return n
	case p.Messages != nil:
		n = s.template + len(s.tokenizer(p.Messages[0].Content))
	default:
		n = len(s.tokenizer(p.Text))
	}
	if s.bos {
		n++
	}
	return n
}

// Tokenizers, from kind to hostile.

// wordTokens: a word with the space before it is one token.
func wordTokens(text string) (out []string) {
	for i, w := range strings.Split(text, " ") {
		if i > 0 {
			w = " " + w
		}
		out = append(out, w)
	}
	return out
}

// byteTokens: one byte, one token.
func byteTokens(text string) []string { return strings.Split(text, "") }

// phraseTokens merges two neighbouring words by the parity of their lengths and
// letters: as tokenizers with tokens of several words do, but far more often.
func phraseTokens(text string) (out []string) {
	words := wordTokens(text)
	for i := 0; i < len(words); i++ {
		if i+1 < len(words) && sum(words[i]+words[i+1])%97 == 0 && i > 0 {
			out = append(out, words[i]+words[i+1])
			i++
			continue
		}
		out = append(out, words[i])
	}
	return out
}

// onlyPhrases merges exactly the pairs named.
func onlyPhrases(pairs ...string) func(string) []string {
	return func(text string) (out []string) {
		words := wordTokens(text)
		for i := 0; i < len(words); i++ {
			if i+1 < len(words) && slices.Contains(pairs, words[i]+words[i+1]) {
				out = append(out, words[i]+words[i+1])
				i++
				continue
			}
			out = append(out, words[i])
		}
		return out
	}
}

func sum(s string) (n int) {
	for _, c := range []byte(s) {
		n = n*31 + int(c)
	}
	return n & 0xffff
}

// smallTokens: a vocabulary too small for words of more than four letters,
// which come in pieces of three.
func smallTokens(text string) (out []string) {
	for _, w := range wordTokens(text) {
		for len(w) > 5 {
			out = append(out, w[:3])
			w = w[3:]
		}
		out = append(out, w)
	}
	return out
}

// lumpTokens: pieces of seven bytes regardless of words, so that no unit is a token.
func lumpTokens(text string) (out []string) {
	for len(text) > 7 {
		out = append(out, text[:7])
		text = text[7:]
	}
	return append(out, text)
}

func TestCalibrate(t *testing.T) {
	tests := []struct {
		name     string
		server   server
		chat     bool
		ids      bool
		lengths  []int
		method   string
		residual int // largest difference allowed, in tokens
	}{
		{"token ids", server{tokenizer: wordTokens, bos: true}, false, true, []int{512}, "token ids", 0},
		{"token ids behind a start token", server{tokenizer: wordTokens, bos: true, idsBOS: true}, false, true, []int{64, 512}, "token ids", 0},
		{"token ids, byte level", server{tokenizer: byteTokens}, false, true, []int{512}, "token ids", 0},
		{"token ids refused", server{tokenizer: wordTokens, bos: true, noIDs: true}, false, true, []int{512}, "text, lengths by /tokenize", 0},
		{"token ids, none to learn", server{tokenizer: wordTokens, noTokenize: true}, false, true, []int{512}, "text, lengths by usage", 0},
		{"token ids, no usage", server{tokenizer: wordTokens, noUsage: true}, false, true, []int{512}, "token ids", 0},
		{"words", server{tokenizer: wordTokens}, false, false, []int{512}, "text, lengths by /tokenize", 0},
		{"words by usage", server{tokenizer: wordTokens, bos: true, noTokenize: true}, false, false, []int{512}, "text, lengths by usage", 0},
		{"words by /tokenize alone", server{tokenizer: wordTokens, bos: true, noUsage: true}, false, false, []int{512}, "text, lengths by /tokenize", 0},
		{"words, many lengths", server{tokenizer: wordTokens, bos: true}, false, false, []int{16, 17, 64, 100, 512, 2000, 4096}, "text, lengths by /tokenize", 0},
		{"chat", server{tokenizer: wordTokens, bos: true, template: 25}, true, true, []int{128, 512}, "text, lengths by /tokenize", 0},
		{"chat by usage", server{tokenizer: wordTokens, template: 25, noTokenize: true}, true, false, []int{512}, "text, lengths by usage", 0},
		{"bytes", server{tokenizer: byteTokens, bos: true}, false, false, []int{512}, "text, lengths by /tokenize", 0},
		{"bytes by usage", server{tokenizer: byteTokens, bos: true, noTokenize: true}, false, false, []int{512, 77}, "text, lengths by usage", 0},
		{"bytes, chat by usage", server{tokenizer: byteTokens, template: 70, noTokenize: true}, true, false, []int{512}, "text, lengths by usage", 0},
		{"a phrase in the first words", server{tokenizer: onlyPhrases(" time water")}, false, false, []int{512}, "text, lengths by /tokenize", 0},
		{"phrases in all presets", server{tokenizer: onlyPhrases(" time water", " world light", " case car", " art arm")}, false, false, []int{512}, "text, lengths by /tokenize", 0},
		{"many phrases", server{tokenizer: phraseTokens, bos: true}, false, false, []int{512}, "text, lengths by /tokenize", 0},
		{"phrase by usage", server{tokenizer: onlyPhrases(" time water"), noTokenize: true}, false, false, []int{512}, "text, lengths by usage", 0},
		{"small vocabulary", server{tokenizer: smallTokens, bos: true}, false, false, []int{512}, "text, lengths by /tokenize", 0},
		{"small vocabulary by usage", server{tokenizer: smallTokens, bos: true, noTokenize: true}, false, false, []int{512}, "text, lengths by usage", 0},
		{"no unit is a token", server{tokenizer: lumpTokens}, false, false, []int{512}, "text, lengths by /tokenize", 3},
		{"no unit is a token, by usage", server{tokenizer: lumpTokens, noTokenize: true}, false, false, []int{512, 100}, "text, lengths by usage", 3},
		{"small context", server{tokenizer: wordTokens, bos: true, noTokenize: true, context: 128}, false, false, []int{100}, "text, lengths by usage", 0},
		{"nothing to measure with", server{tokenizer: wordTokens, noTokenize: true, noUsage: true}, false, false, []int{512}, "text, uncalibrated", 1},
		{"shorter than the template", server{tokenizer: wordTokens, template: 25, noTokenize: true}, true, false, []int{10}, "text, lengths by usage", 17},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := Calibrate(t.Context(), &tt.server, CalibrateOptions{Chat: tt.chat, TokenIDs: tt.ids, Lengths: tt.lengths, Nonce: "n1"})
			if err != nil {
				t.Fatal(err)
			}
			if c.Method() != tt.method {
				t.Errorf("method %q, want %q", c.Method(), tt.method)
			}
			if limit := 12 + 4*(min(len(tt.lengths), 4)-1); tt.server.probes > limit {
				t.Errorf("%d probes, more than %d", tt.server.probes, limit)
			}
			for _, n := range tt.lengths {
				for index := range int64(40) {
					r := record.Request{Index: index * 977, PromptTokens: n}
					c.Fill(&r)
					if got := tt.server.measure(r.Prompt); abs(got-n) > tt.residual {
						t.Fatalf("request %d has %d tokens, not %d", r.Index, got, n)
					}
				}
			}
			for _, check := range c.Checks() {
				if abs(check.Achieved-check.Asked) > tt.residual {
					t.Errorf("check %+v", check)
				}
			}
			if len(c.Checks()) == 0 && !tt.server.noUsage {
				t.Error("nothing was checked")
			}
		})
	}
}

// A residual that is there is told.
func TestChecksTellTheResidual(t *testing.T) {
	s := &server{tokenizer: wordTokens, template: 25}
	c, err := Calibrate(t.Context(), s, CalibrateOptions{Chat: true, Nonce: "n", Lengths: []int{10, 100}})
	if err != nil {
		t.Fatal(err)
	}
	want := []LengthCheck{{100, 100}, {10, 27}}
	if diff := cmp.Diff(want, c.Checks()); diff != "" {
		t.Error(diff)
	}
}

func TestCalibrateFails(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	refused := errors.New("401: bad key")
	tests := []struct {
		name   string
		ctx    context.Context
		server server
		o      CalibrateOptions
		want   error
		text   string
	}{
		{"no lengths", t.Context(), server{}, CalibrateOptions{}, nil, "no lengths"},
		{"no nonce", t.Context(), server{}, CalibrateOptions{Lengths: []int{5}}, nil, "no nonce"},
		{"cancelled", cancelled, server{tokenizer: wordTokens}, CalibrateOptions{Nonce: "n", Lengths: []int{5}, TokenIDs: true}, context.Canceled, ""},
		{"refused", t.Context(), server{tokenizer: wordTokens, fail: refused}, CalibrateOptions{Nonce: "n", Lengths: []int{5}}, refused, "a prompt of 5 tokens"},
		{"refused at once", t.Context(), server{tokenizer: wordTokens, noTokenize: true, fail: refused}, CalibrateOptions{Nonce: "n", Lengths: []int{5}}, refused, ""},
		{"longer than the server takes", t.Context(), server{tokenizer: wordTokens, context: 2048}, CalibrateOptions{Nonce: "n", Lengths: []int{100, 5000}}, nil, "a prompt of 5000 tokens: 400: 5000 tokens are too many"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Calibrate(tt.ctx, &tt.server, tt.o)
			if err == nil || !strings.Contains(err.Error(), tt.text) || tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("err = %v", err)
			}
		})
	}
}

func calibrated(t testing.TB, o CalibrateOptions) *Content {
	t.Helper()
	o.Lengths = []int{64}
	c, err := Calibrate(t.Context(), &server{tokenizer: wordTokens, bos: true}, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// firstBlock is the first 16 tokens as a cache sees them.
func firstBlock(c *Content, index int64) string {
	r := record.Request{Index: index, PromptTokens: 64}
	c.Fill(&r)
	if r.Prompt.TokenIDs != nil {
		return fmt.Sprint(r.Prompt.TokenIDs[:16])
	}
	return strings.Join(wordTokens(r.Prompt.Text)[:15], "")
}

func TestNoSharedFirstBlock(t *testing.T) {
	for _, ids := range []bool{false, true} {
		seen := map[string]bool{}
		for _, nonce := range []string{"one", "two", "three"} {
			c := calibrated(t, CalibrateOptions{TokenIDs: ids, Nonce: nonce})
			for index := range int64(2_000) {
				block := firstBlock(c, index)
				if seen[block] {
					t.Fatalf("ids %v: request %d of run %s begins as another", ids, index, nonce)
				}
				seen[block] = true
			}
		}
	}
}

func TestCodeIsABijection(t *testing.T) {
	// In 48 bits, every step can be undone; distinct inputs must stay distinct
	// also where they are close or share their low bits.
	rapid.Check(t, func(t *rapid.T) {
		c := newContent(&CalibrateOptions{Nonce: rapid.String().Draw(t, "nonce")})
		a := rapid.Int64Range(0, 1<<codeBits-1).Draw(t, "a")
		b := rapid.OneOf(rapid.Just(a^1), rapid.Just(a^1<<47), rapid.Int64Range(0, 1<<codeBits-1)).Draw(t, "b")
		if (c.code(a) == c.code(b)) != (a == b) {
			t.Fatalf("codes of %d and %d", a, b)
		}
	})
}

func TestReuse(t *testing.T) {
	prompt := func(o CalibrateOptions) string { return firstBlock(calibrated(t, o), 7) }
	if prompt(CalibrateOptions{Nonce: "a", Reuse: true}) != prompt(CalibrateOptions{Nonce: "b", Reuse: true}) {
		t.Error("reused prompts differ between runs")
	}
	first, again := prompt(CalibrateOptions{Nonce: "a"}), prompt(CalibrateOptions{Nonce: "a"})
	if first != again {
		t.Error("one nonce gave two prompts")
	}
	if prompt(CalibrateOptions{Nonce: "a"}) == prompt(CalibrateOptions{Nonce: "b"}) {
		t.Error("two nonces gave one prompt")
	}
}

// Fill may run on many goroutines; the race detector watches.
func TestFillConcurrently(t *testing.T) {
	c := calibrated(t, CalibrateOptions{Nonce: "a"})
	want := record.Request{Index: 3, PromptTokens: 64}
	c.Fill(&want)
	done := make(chan string)
	for range 8 {
		go func() {
			r := record.Request{Index: 3, PromptTokens: 64}
			c.Fill(&r)
			done <- r.Prompt.Text
		}()
	}
	for range 8 {
		if got := <-done; got != want.Prompt.Text {
			t.Error("differs")
		}
	}
}

func BenchmarkFill(b *testing.B) {
	for name, ids := range map[string]bool{"text": false, "ids": true} {
		b.Run(name, func(b *testing.B) {
			c := calibrated(b, CalibrateOptions{TokenIDs: ids, Nonce: "a"})
			b.ReportAllocs()
			for i := int64(0); b.Loop(); i++ {
				r := record.Request{Index: i, PromptTokens: 512}
				c.Fill(&r)
			}
		})
	}
}

func TestUnitsAreDistinct(t *testing.T) {
	for name, units := range map[string][]string{"nouns": nouns[:], "letters": letters[:]} {
		s := slices.Sorted(slices.Values(units))
		if n := len(slices.Compact(s)); n != len(units) {
			t.Errorf("%s: %d of %d are distinct", name, n, len(units))
		}
	}
	for _, a := range anchors {
		if slices.Contains(nouns[:], a) {
			t.Errorf("%q is an anchor and a noun", a)
		}
	}
}

// Every ordered pair of units stands in the text of pairs, once.
func TestPairs(t *testing.T) {
	for k := 1; k <= 24; k++ {
		units := nouns[:k]
		text, order := pairs(units, " ")
		if len(order) != k*k+1 || len(wordTokens(text)) != len(order)+1 {
			t.Fatalf("%d units: %d long", k, len(order))
		}
		seen := map[[2]int]bool{}
		for i := range order[1:] {
			seen[[2]int{order[i], order[i+1]}] = true
		}
		if len(seen) != k*k {
			t.Errorf("%d units: %d pairs of %d", k, len(seen), k*k)
		}
	}
}

// TestNoisyLengths: where prompts of as many units differ in tokens, lengths
// come from the mean of the samples, not from the one that happened to fit.
func TestNoisyLengths(t *testing.T) {
	// Words of one to three tokens: no alphabet is additive.
	ragged := func(text string) (out []string) {
		for word := range strings.SplitSeq(text, " ") {
			h := fnv.New32a()
			h.Write([]byte(word))
			for i := range 1 + h.Sum32()>>7%3 {
				out = append(out, fmt.Sprint(word, i))
			}
		}
		return out
	}
	const asked, runs, requests = 200, 60, 30
	off := 0.0
	for i := range runs {
		s := &server{tokenizer: ragged, template: 7}
		c, err := Calibrate(t.Context(), s, CalibrateOptions{Chat: true, Lengths: []int{asked}, Nonce: fmt.Sprint(i)})
		if err != nil {
			t.Fatal(err)
		}
		if !c.noisy() {
			t.Fatal("the tokenizer of this test became additive")
		}
		sum := 0
		for j := range requests {
			r := record.Request{Index: int64(j), PromptTokens: asked}
			c.Fill(&r)
			n, err := s.PromptTokens(t.Context(), r.Prompt)
			if err != nil {
				t.Fatal(err)
			}
			sum += n
		}
		off += math.Abs(float64(sum)/requests-asked) / runs
	}
	t.Logf("off by %.2f tokens", off)
	if off > 1.6 {
		t.Errorf("the mean length of a run is off by %.2f tokens", off)
	}
}

// TestLocalTokenizer: a tokenizer of this side takes the place of the server's, which
// is not asked; what the server counts still decides.
func TestLocalTokenizer(t *testing.T) {
	s := &server{tokenizer: wordTokens, bos: true, template: 25, noTokenize: true}
	local := &server{tokenizer: wordTokens}
	c, err := Calibrate(t.Context(), s, CalibrateOptions{Chat: true, Lengths: []int{64, 700}, Nonce: "n", Tokenizer: local})
	if err != nil {
		t.Fatal(err)
	}
	if c.Method() != methodTokenizer || local.probes == 0 || !c.Exact() {
		t.Errorf("%s after %d questions", c.Method(), local.probes)
	}
	for _, n := range []int{64, 200, 700} {
		r := record.Request{Index: 3, PromptTokens: n}
		if c.Fill(&r); s.measure(r.Prompt) != n {
			t.Errorf("%d tokens, want %d", s.measure(r.Prompt), n)
		}
	}
}
