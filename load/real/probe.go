package real

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/assay-bench/assay/dialect"
	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/result"
)

// Discover finds the API's base path, the model and the engine. model may be
// empty: then the server must offer exactly one. Errors are *TargetError.
func (t *Target) Discover(ctx context.Context, model string) (result.Target, error) {
	out, err := t.discover(ctx, model)
	for _, text := range []*string{&out.Engine, &out.EngineVersion, &out.ServerHeader} {
		*text = t.secrets.redact(*text)
	}
	return out, t.hide(err)
}

// hide takes secrets that a server repeated out of the text of an error.
func (t *Target) hide(err error) error {
	var e *TargetError
	if errors.As(err, &e) {
		e.Text = t.secrets.redact(e.Text)
		return e
	}
	return err
}

func (t *Target) discover(ctx context.Context, model string) (result.Target, error) {
	out := result.Target{URL: t.Endpoint.URL(), Addresses: t.client.Resolved()}
	models, err := t.models(ctx, model)
	if err != nil {
		return out, err
	}
	out.URL = t.Endpoint.URL()
	if out.Model, err = chooseModel(models, model); err != nil {
		return out, err
	}
	t.Options.Model = out.Model
	t.identifyEngine(ctx, &out)
	out.Addresses = t.client.Resolved()
	return out, nil
}

// models lists the served models; nil if the list is closed to us but a model
// was named.
func (t *Target) models(ctx context.Context, model string) ([]string, error) {
	p, err := t.fetch(ctx, http.MethodGet, t.Endpoint.api("models"), anyType, nil)
	if err != nil {
		return nil, targetErrorf(err, "%s does not answer: %v%s", t.Endpoint.Scheme+"://"+t.Endpoint.Host, err, certificateHint(err))
	}
	if p.status == http.StatusNotFound && t.Endpoint.Guessed {
		other := t.Endpoint
		other.Base, other.Guessed = other.Root, false
		if q, err := t.fetch(ctx, http.MethodGet, other.api("models"), anyType, nil); err == nil && q.status == http.StatusOK {
			t.Endpoint, p = other, q
		}
	}
	switch {
	case p.status == http.StatusBadRequest && t.Endpoint.Scheme == "http" && wantsTLS(p.body):
		return nil, targetErrorf(nil, "%s speaks TLS: give it as https://%s", t.Endpoint.URL(), t.Endpoint.Host)
	case p.status >= 300 && p.status < 400:
		return nil, targetErrorf(nil, "%s/models redirects to %s; redirects are refused: give that URL", t.Endpoint.URL(), withoutUser(p.header.Get("Location")))
	case p.status == http.StatusUnauthorized:
		return nil, targetErrorf(nil, "%s/models wants credentials (HTTP 401): put the key in an environment variable and give --api-key-env NAME", t.Endpoint.URL())
	case p.status != http.StatusOK && model != "":
		return nil, nil // closed or not offered; the probe will show
	case p.status != http.StatusOK:
		return nil, targetErrorf(nil, "%s/models answers HTTP %d%s: name the model with --model", t.Endpoint.URL(), p.status, colon(dialect.ParseError(p.body)))
	}
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := json.Unmarshal(p.body, &list); err != nil || len(list.Data) == 0 {
		if model != "" {
			return nil, nil
		}
		return nil, targetErrorf(err, "%s/models lists no model: is this an OpenAI-compatible endpoint? name the model with --model", t.Endpoint.URL())
	}
	var ids []string
	for _, d := range list.Data {
		ids = append(ids, d.ID)
	}
	return ids, nil
}

// certificateHint says what to do about a certificate that is not trusted; it
// is empty for other errors.
func certificateHint(err error) string {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	switch {
	case errors.As(err, &unknown):
		return ": give the authority's certificate with --ca-file, or --insecure"
	case errors.As(err, &name):
		return ": give a name that the certificate is for, with --resolve NAME:PORT:ADDR if it does not resolve, or --insecure"
	}
	return ""
}

// wantsTLS reports whether the reply is what servers say that were asked in
// clear on a port for TLS: nginx, Apache and Go's own.
func wantsTLS(body []byte) bool {
	for _, text := range []string{"The plain HTTP request was sent to HTTPS port", "speaking plain HTTP to an SSL-enabled server port", "Client sent an HTTP request to an HTTPS server"} {
		if bytes.Contains(body, []byte(text)) {
			return true
		}
	}
	return false
}

func colon(s string) string {
	if s == "" {
		return ""
	}
	return " (" + s + ")"
}

func chooseModel(models []string, model string) (string, error) {
	switch {
	case model == "" && len(models) == 1:
		return models[0], nil
	case model == "":
		return "", targetErrorf(nil, "the server offers %d models, name one with --model: %s", len(models), strings.Join(models, ", "))
	case models != nil && !slices.Contains(models, model):
		return "", targetErrorf(nil, "the server has no model %q; it offers: %s", model, strings.Join(models, ", "))
	}
	return model, nil
}

// identifyEngine fills in what the server tells of itself; nothing of it is
// guessed.
func (t *Target) identifyEngine(ctx context.Context, out *result.Target) {
	if p, err := t.fetch(ctx, http.MethodGet, t.Endpoint.Root+"/version", anyType, nil); err == nil {
		out.ServerHeader = p.header.Get("Server")
		var v struct {
			Version string `json:"version"`
			Engine  string `json:"engine"`
		}
		if p.status == http.StatusOK && json.Unmarshal(p.body, &v) == nil && v.Version != "" {
			out.Engine, out.EngineVersion = "vllm", v.Version
			if v.Engine != "" {
				out.Engine = v.Engine
			}
			return
		}
	}
	if p, err := t.fetch(ctx, http.MethodGet, t.Endpoint.Root+"/props", anyType, nil); err == nil && p.status == http.StatusOK {
		var v struct {
			BuildInfo string          `json:"build_info"`
			Settings  json.RawMessage `json:"default_generation_settings"`
		}
		if json.Unmarshal(p.body, &v) == nil && (v.BuildInfo != "" || v.Settings != nil) {
			out.Engine, out.EngineVersion = "llama.cpp", v.BuildInfo
			if s := p.header.Get("Server"); s != "" {
				out.ServerHeader = s
			}
		}
	}
}

// ProbeOptions say what a run wants of the target.
type ProbeOptions struct {
	// Dialect to use; nil picks one: that of a full endpoint, else chat, else
	// completions where the server refuses chat.
	Dialect dialect.Dialect
	Stream  bool
	// ExactOutput: the run wants exact output lengths where they can be had.
	ExactOutput bool
}

// Features is what the target was found to do.
type Features struct {
	ExactOutput bool // ignore_eos and min_tokens are accepted
	Usage       bool // the usage arrived
	Warnings    []result.Warning
}

// step is one fallback of the probe: what is given up when the server refuses.
type step struct {
	code, text string
	give       func(t *Target, f *Features) bool // false if there is nothing to give up
}

func fallbacks() []step {
	return []step{
		{"no-continuous-usage", "the server refuses stream_options.continuous_usage_stats: token deltas of events are unknown", func(t *Target, _ *Features) bool {
			had := t.Options.ContinuousUsage
			t.Options.ContinuousUsage = false
			return had
		}},
		{"no-exact-output", "the server refuses ignore_eos and min_tokens: output lengths are its own choice up to max_tokens", func(_ *Target, f *Features) bool {
			had := f.ExactOutput
			f.ExactOutput = false
			return had
		}},
		{"no-usage-option", "the server refuses stream_options: usage comes only if it sends it unasked", func(t *Target, _ *Features) bool {
			had := t.Options.IncludeUsage
			t.Options.IncludeUsage = false
			return had
		}},
	}
}

// Probe sends a tiny request, settles the dialect and its options, and gives up,
// once each and with a warning, what the server refuses. Errors are *TargetError.
func (t *Target) Probe(ctx context.Context, o ProbeOptions) (Features, error) {
	choices := dialect.All()
	switch {
	case o.Dialect != nil:
		choices = []dialect.Dialect{o.Dialect}
	case t.Endpoint.Dialect != nil:
		choices = []dialect.Dialect{t.Endpoint.Dialect}
	}
	var first error
	for _, d := range choices {
		t.Dialect = d
		f, err := t.probeDialect(ctx, o)
		if err == nil {
			return f, nil
		}
		if first == nil {
			first = err
		}
		var refused *dialectRefused
		if !errors.As(err, &refused) {
			break
		}
	}
	return Features{}, t.hide(first)
}

// dialectRefused marks a refusal that another dialect may not meet: no such
// path, or no chat template.
type dialectRefused struct{ error }

func (e *dialectRefused) Unwrap() error { return e.error }

func (t *Target) probeDialect(ctx context.Context, o ProbeOptions) (Features, error) {
	f := Features{ExactOutput: o.ExactOutput}
	t.Options.Stream, t.Options.IncludeUsage, t.Options.ContinuousUsage = o.Stream, o.Stream, o.Stream
	rest := fallbacks()
	for {
		a, err := t.tryProbe(ctx, f.ExactOutput)
		if err != nil {
			return f, err
		}
		refused := a.Outcome == record.HTTPError && (a.Status == http.StatusBadRequest || a.Status == http.StatusUnprocessableEntity)
		if !refused || len(rest) == 0 {
			f.Usage = a.Usage != nil
			return f, t.judgeProbe(&a)
		}
		for len(rest) > 0 {
			s := rest[0]
			rest = rest[1:]
			if s.give(t, &f) {
				f.Warnings = append(f.Warnings, result.Warning{Code: s.code, Text: s.text})
				break
			}
		}
	}
}

func (t *Target) tryProbe(ctx context.Context, exact bool) (record.Attempt, error) {
	r := record.Request{Index: -1, MaxTokens: 4, ExactOutput: exact, Prompt: t.textPrompt("Count to ten: one two three")}
	return t.Try(ctx, &r, &t.Options)
}

// textPrompt wraps text as the dialect's prompt.
func (t *Target) textPrompt(text string) record.Prompt {
	if t.IsChat() {
		return record.Prompt{Messages: []record.Message{{Role: "user", Content: text}}}
	}
	return record.Prompt{Text: text}
}

// IsChat reports whether prompts are messages.
func (t *Target) IsChat() bool { return t.Dialect == dialect.Dialect(dialect.Chat{}) }

// judgeProbe turns what became of the probe into an error that says what to do.
func (t *Target) judgeProbe(a *record.Attempt) error {
	where := t.Endpoint.URL() + "/" + t.Dialect.Path()
	switch {
	case a.Outcome == record.Completed:
		return nil
	case a.Status == http.StatusUnauthorized || a.Status == http.StatusForbidden:
		return targetErrorf(nil, "%s refuses us (%s): put the key in an environment variable and give --api-key-env NAME", where, a.Error)
	case a.Status == http.StatusNotFound && strings.Contains(strings.ToLower(a.Error), "model"):
		return targetErrorf(nil, "%s does not know the model %q (%s)", where, t.Options.Model, a.Error)
	case a.Status == http.StatusNotFound || a.Status == http.StatusMethodNotAllowed || a.Status == http.StatusBadRequest || a.Status == http.StatusNotImplemented:
		return &dialectRefused{targetErrorf(nil, "%s refuses requests of %s: %s", where, t.Dialect.Name(), a.Error)}
	case a.Outcome == record.NotDialect && a.Streamed:
		return targetErrorf(nil, "%s does not stream as asked: %s. Measure E2E alone with --no-stream", where, a.Error)
	case a.Outcome == record.Truncated && a.Events == 0:
		return targetErrorf(nil, "%s answered with an empty stream", where)
	}
	return targetErrorf(nil, "a first small request to %s ended as %s: %s", where, a.Outcome, a.Error)
}

// Tokenize implements workload.Prober by the server's /tokenize; the error is
// errors.ErrUnsupported if it has none.
func (t *Target) Tokenize(ctx context.Context, text string) ([]int32, error) {
	// vLLM reads prompt, llama.cpp reads content; both ignore the other.
	body, err := json.Marshal(map[string]any{"model": t.Options.Model, "prompt": text, "content": text, "add_special_tokens": false})
	if err != nil {
		return nil, fmt.Errorf("encoding a /tokenize request: %w", err)
	}
	p, err := t.fetch(ctx, http.MethodPost, t.Endpoint.Root+"/tokenize", anyType, body)
	if err != nil {
		return nil, fmt.Errorf("asking /tokenize: %w", err)
	}
	var reply struct {
		Tokens []int32 `json:"tokens"`
	}
	if p.status != http.StatusOK || json.Unmarshal(p.body, &reply) != nil || reply.Tokens == nil {
		return nil, fmt.Errorf("/tokenize answered HTTP %d: %w", p.status, errors.ErrUnsupported)
	}
	return reply.Tokens, nil
}

// PromptTokens implements workload.Prober: it sends the prompt, with one token
// of output, and returns the prompt length that the server's usage tells.
func (t *Target) PromptTokens(ctx context.Context, p record.Prompt) (int, error) {
	o := t.Options
	o.Stream, o.IncludeUsage, o.ContinuousUsage = false, false, false
	a, err := t.Try(ctx, &record.Request{Index: -2, MaxTokens: 1, Prompt: p}, &o)
	switch {
	case err != nil:
		return 0, err
	case a.Usage != nil:
		return a.Usage.PromptTokens, nil
	case a.Outcome == record.Completed:
		return 0, fmt.Errorf("the reply has no usage: %w", errors.ErrUnsupported)
	}
	return 0, fmt.Errorf("a calibration request ended as %s: %s", a.Outcome, a.Error)
}
