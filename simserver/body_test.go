package simserver

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestRefusals(t *testing.T) {
	cfg := fastConfig()
	cfg.APIKey = "sesame"
	r := start(t, cfg)
	const chat, text = "/v1/chat/completions", "/v1/completions"
	for name, c := range map[string]struct {
		path, body string
		status     int
		want       string
	}{
		"not JSON":            {text, `{"prompt":`, 400, `"type":"Bad Request"`},
		"wrong type":          {text, `{"prompt":"x","max_tokens":"many"}`, 400, "max_tokens"},
		"unknown model":       {text, `{"prompt":"x","model":"other"}`, 404, "The model `other` does not exist."},
		"no prompt":           {text, `{}`, 400, "prompt"},
		"empty prompt":        {text, `{"prompt":[]}`, 400, "cannot be empty"},
		"id out of range":     {text, `{"prompt":[1,128256]}`, 400, "Token id 128256 is out of vocabulary"},
		"mixed prompt":        {text, `{"prompt":[1,"x"]}`, 400, "prompt must be"},
		"no messages":         {chat, `{"messages":[]}`, 400, "must not be empty"},
		"no role":             {chat, `{"messages":[{"content":"x"}]}`, 400, "messages[0] has no role"},
		"image":               {chat, `{"messages":[{"role":"user","content":[{"type":"image_url"}]}]}`, 400, "image_url"},
		"zero tokens":         {text, `{"prompt":"x","max_tokens":0}`, 400, "max_tokens must be at least 1, got 0."},
		"min above max":       {text, `{"prompt":"x","max_tokens":3,"min_tokens":4}`, 400, "min_tokens must be less than or equal to max_tokens=3, got 4."},
		"n":                   {text, `{"prompt":"x","n":0}`, 400, "n must be at least 1, got 0."},
		"many choices":        {text, `{"prompt":[[1],[2],[3]],"n":1000}`, 400, "more than 1024 sequences"},
		"temperature":         {text, `{"prompt":"x","temperature":-0.5}`, 400, "temperature must be non-negative, got -0.5."},
		"top_p":               {text, `{"prompt":"x","top_p":0}`, 400, "top_p must be in (0, 1], got 0."},
		"stream options":      {text, `{"prompt":"x","stream_options":{"include_usage":true}}`, 400, "Stream options can only be defined when `stream=True`."},
		"echo":                {text, `{"prompt":"x","echo":true}`, 400, "echo"},
		"too long":            {text, `{"prompt":"one two three","max_tokens":8190}`, 400, "This model's maximum context length is 8192 tokens. However, you requested 8190 output tokens and your prompt contains at least 3 input tokens, for a total of at least 8193 tokens."},
		"prompt too long":     {chat, `{"messages":[{"role":"user","content":"` + strings.Repeat("x ", 8192) + `"}]}`, 400, "maximum context length is 8192"},
		"tokenize a number":   {"/tokenize", `{"prompt":3}`, 400, "prompt must be a string"},
		"detokenize a word":   {"/detokenize", `{"tokens":["x"]}`, 400, "tokens"},
		"detokenize negative": {"/detokenize", `{"tokens":[-1]}`, 400, "out of vocabulary"},
		"no such path":        {"/v2/completions", `{}`, 404, `{"detail":"Not Found"}`},
		"wrong method":        {"/v1/models", `{}`, 405, `{"detail":"Method Not Allowed"}`},
	} {
		t.Run(name, func(t *testing.T) {
			body := r.post(c.status, c.path, c.body, "Authorization", "Bearer sesame")
			var v any
			unmarshal(t, body, &v)
			if plain := fmt.Sprint(v); !strings.Contains(body, c.want) && !strings.Contains(plain, c.want) {
				t.Errorf("answer %s lacks %q", body, c.want)
			}
		})
	}
	if body := r.post(401, text, `{"prompt":"x"}`); body != `{"error":"Unauthorized"}` {
		t.Errorf("without a key: %s", body)
	}
	if body := r.post(401, text, `{"prompt":"x"}`, "Authorization", "Bearer other"); body != `{"error":"Unauthorized"}` {
		t.Errorf("with another key: %s", body)
	}
	r.get("/health") // needs no key
	if body := r.post(400, text, `{"prompt":"x"}`, "Authorization", "Bearer sesame", "Content-Type", "text/plain"); !strings.Contains(body, "Unsupported Media Type") {
		t.Errorf("text/plain: %s", body)
	}
}

func TestAdmissionControl(t *testing.T) {
	cfg := slowConfig()
	cfg.MaxQueued = 2
	cfg.Engine.MaxNumSeqs = 1
	r := start(t, cfg)
	// One sequence runs, two of the same request wait, the next request is refused.
	resp, err := r.client.Do(r.request("POST", "/v1/completions", `{"prompt":"x","n":3,"max_tokens":4000,"ignore_eos":true,"stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body := r.post(503, "/v1/completions", `{"prompt":"x"}`); !strings.Contains(body, `"code":503`) {
		t.Errorf("answer %s", body)
	}
}

func TestSmallEndpoints(t *testing.T) {
	cfg := fastConfig()
	cfg.RequestIDHeaders = true
	r := start(t, cfg)
	for path, want := range map[string]string{
		"/health": "", "/ping": "", "/version": `{"version":"0.33.0"}`, "/load": `{"server_load":0}`,
	} {
		if got := r.get(path); got != want {
			t.Errorf("%s: %s", path, got)
		}
	}
	var models struct {
		Data []struct {
			ID  string
			Max int `json:"max_model_len"`
		}
	}
	unmarshal(t, r.get("/v1/models"), &models)
	if len(models.Data) != 1 || models.Data[0].ID != cfg.ModelName || models.Data[0].Max != 8192 {
		t.Errorf("%+v", models)
	}
	r.get("/v1/models/" + cfg.ModelName)
	resp, _, err := r.do(r.request("POST", "/v1/completions", `{"prompt":"x","max_tokens":1}`, "X-Request-Id", "mine"))
	if err != nil || resp.Header.Get("X-Request-Id") != "mine" {
		t.Errorf("X-Request-Id %q, %v", resp.Header.Get("X-Request-Id"), err)
	}
	resp, body, err := r.do(r.request(http.MethodHead, "/version", ""))
	if err != nil || body != "" || resp.ContentLength != 20 {
		t.Errorf("HEAD: %d bytes of %d, %v", len(body), resp.ContentLength, err)
	}
	var tokens struct {
		Count  int
		Tokens []int
		Strs   []string `json:"token_strs"`
	}
	unmarshal(t, r.post(200, "/tokenize", `{"messages":[{"role":"user","content":"one two"}],"return_token_strs":true}`), &tokens)
	if tokens.Count != 1+4+2+1+4 || len(tokens.Strs) != tokens.Count {
		t.Errorf("chat form: %+v", tokens)
	}
	var usage chunk
	unmarshal(t, r.post(200, "/v1/chat/completions", `{"messages":[{"role":"user","content":"one two"}],"max_tokens":1}`), &usage)
	if usage.Usage.Prompt != tokens.Count {
		t.Errorf("usage says %d prompt tokens, /tokenize %d", usage.Usage.Prompt, tokens.Count)
	}
}

func TestNamesAndPrefix(t *testing.T) {
	cfg := fastConfig()
	cfg.Aliases, cfg.PathPrefix = []string{"nickname"}, "/team-a"
	r := start(t, cfg)
	if body := r.get("/team-a/v1/models"); !strings.Contains(body, `"id":"nickname"`) || !strings.Contains(body, cfg.ModelName) {
		t.Error(body)
	}
	r.post(200, "/team-a/v1/completions", `{"model":"nickname","prompt":"x","max_tokens":1}`)
	r.post(404, "/v1/completions", `{"prompt":"x","max_tokens":1}`)
}

// The same prompt hits the prefix cache, another salt or a reset makes it miss,
// and the next turn of a chat hits what was generated.
func TestPrefixCache(t *testing.T) {
	cfg := fastConfig()
	cfg.PromptTokensDetails = true
	r := start(t, cfg)
	cached := func(path, body string) (hits, prompt int, text string) {
		var answer struct {
			Usage struct {
				Prompt  int `json:"prompt_tokens"`
				Details struct {
					Cached int `json:"cached_tokens"`
				} `json:"prompt_tokens_details"`
			}
			Choices []struct{ Message struct{ Content string } }
		}
		unmarshal(t, r.post(200, path, body), &answer)
		return answer.Usage.Details.Cached, answer.Usage.Prompt, answer.Choices[0].Message.Content
	}
	long := strings.Repeat("again and ", 50)
	plain := fmt.Sprintf(`{"prompt":%q,"max_tokens":1}`, long)
	salted := fmt.Sprintf(`{"prompt":%q,"max_tokens":1,"cache_salt":"s"}`, long)
	for i, c := range []struct {
		body string
		want int
	}{{plain, 0}, {plain, 96}, {salted, 0}, {salted, 96}} {
		if hits, _, _ := cached("/v1/completions", c.body); hits != c.want {
			t.Errorf("request %d hit %d tokens instead of %d", i, hits, c.want)
		}
	}
	if body := r.post(200, "/reset_prefix_cache", ""); body != `{"success":true}` {
		t.Error(body)
	}
	if hits, _, _ := cached("/v1/completions", plain); hits != 0 {
		t.Errorf("%d tokens hit after a reset", hits)
	}
	turn := `{"role":"user","content":"Tell me a story."}`
	_, prompt, reply := cached("/v1/chat/completions", `{"messages":[`+turn+`],"max_tokens":50,"ignore_eos":true}`)
	hits, _, _ := cached("/v1/chat/completions", fmt.Sprintf(`{"messages":[%s,{"role":"assistant","content":%q},%s],"max_tokens":1}`, turn, reply, turn))
	if want := (prompt + 49) / 16 * 16; hits != want {
		t.Errorf("the second turn hit %d tokens, %d are known", hits, want)
	}
}

func TestOutputLengthDraws(t *testing.T) {
	g := &generation{maxTokens: math.MaxInt}
	const n = 20000
	sum := 0.0
	for i := range n {
		tokens, stopped := g.outputLength(mix(uint64(i)), 200)
		if !stopped || tokens < 1 {
			t.Fatalf("%d tokens, stopped %t", tokens, stopped)
		}
		sum += float64(tokens)
	}
	// The standard error of the mean is 0.7 %.
	if mean := sum / n; math.Abs(mean-200) > 6 {
		t.Errorf("the mean of the drawn lengths is %.1f", mean)
	}
}

func TestTokenizer(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "  \n": 0, "hello": 1, "Hello, world!": 4, "internationalization": 3, "12345": 2, "a1b2": 4, "日本語": 1, "naïve café": 2, "x\xffy": 3,
	} {
		if ids := tokenize(nil, text); len(ids) != want {
			t.Errorf("%q has %d tokens instead of %d", text, len(ids), want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOf(rapid.IntRange(0, firstSpecial-1)).Draw(t, "ids")
		if got := tokenize(nil, detokenize(ids)); !slices.Equal(got, ids) {
			t.Fatalf("%v came back as %v", ids, got)
		}
		a, b := rapid.String().Draw(t, "a"), rapid.String().Draw(t, "b")
		if joined := len(tokenize(nil, a+" "+b)); joined != len(tokenize(nil, a))+len(tokenize(nil, b)) {
			t.Fatalf("%q and %q have %d tokens when joined", a, b, joined)
		}
	})
	for id := range VocabSize {
		piece := strings.TrimSpace(string(appendWord(nil, id)))
		if got, ok := wordID(piece); id < firstSpecial && (!ok || got != id) {
			t.Fatalf("token %d is %q, which is token %d", id, piece, got)
		}
	}
}

func TestBlockHashes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOfN(rapid.IntRange(0, 9), 1, 60).Draw(t, "ids")
		other := slices.Clone(ids)
		at := rapid.IntRange(0, len(ids)-1).Draw(t, "at")
		other[at] += 10
		hash := func(ids []int) []uint64 {
			return blockHashes(func(i int) int { return ids[i] }, len(ids), 4, "")
		}
		a, b := hash(ids), hash(other)
		if len(a) != len(ids)/4 {
			t.Fatalf("%d hashes of %d tokens", len(a), len(ids))
		}
		for i := range a {
			// Chained: equal up to the block with the change, different from it on.
			if (a[i] == b[i]) != (i < at/4) {
				t.Fatalf("block %d after a change at %d: equal %t", i, at, a[i] == b[i])
			}
		}
	})
}

// Whatever the body, parsing neither panics nor lets anything through that the
// engine would refuse.
func FuzzBody(f *testing.F) {
	f.Add([]byte(`{"prompt":"x","max_tokens":3,"stream":true,"stream_options":{"include_usage":true}}`), false)
	f.Add([]byte(`{"messages":[{"role":"user","content":[{"type":"text","text":"x"}]}],"n":2,"seed":-1}`), true)
	f.Add([]byte(`{"prompt":[[1],[2,3]],"min_tokens":2,"temperature":0.1}`), false)
	f.Add([]byte(`{"prompt":[9223372036854775807],"max_tokens":9223372036854775807}`), false)
	srv, err := New(fastConfig())
	if err != nil {
		f.Fatal(err)
	}
	header := http.Header{"Content-Type": {"application/json"}}
	f.Fuzz(func(t *testing.T, body []byte, chat bool) {
		a := apiCompletions
		if chat {
			a = apiChat
		}
		g, b, bad := srv.parse(header, body, a)
		if bad == nil {
			if g.prompts, bad = b.tokens(a); bad == nil {
				bad = g.fit(srv.maxModelLen)
			}
		}
		if bad != nil {
			if !json.Valid(bad.object()) || bad.status < 400 {
				t.Fatalf("error %+v", bad)
			}
			return
		}
		if len(g.prompts)*g.n > 64 {
			return // right, but slow
		}
		for i, p := range g.prompts {
			tokens, _ := g.outputLength(uint64(i), srv.cfg.MeanOutput)
			if len(p) == 0 || tokens < 1 || tokens < g.minTokens || tokens > g.maxTokens || len(p)+tokens > srv.maxModelLen {
				t.Fatalf("%d prompt and %d output tokens pass", len(p), tokens)
			}
		}
	})
}
