package dialect

import (
	"strconv"

	"github.com/assay-bench/assay/record"
)

// Completions is OpenAI's older text completions protocol, the one that takes
// prompts as token ids.
type Completions struct{}

// Name is "openai-completions".
func (Completions) Name() string { return "openai-completions" }

// Path is "completions".
func (Completions) Path() string { return "completions" }

// NewReader makes a reader of text completion chunks.
func (Completions) NewReader() Reader { return &openaiReader{} }

// AppendRequest sends token ids where the prompt has them, else its text.
func (Completions) AppendRequest(dst []byte, r *record.Request, o *Options) ([]byte, error) {
	b := bodyWriter{b: dst, extra: o.ExtraBody}
	if r.Prompt.Body != nil {
		if err := b.recorded(r, o, "prompt", errNoText); err != nil {
			return dst, requestError(r, err)
		}
		return b.b, nil
	}
	b.open(o)
	if b.field("prompt") {
		if err := b.prompt(&r.Prompt); err != nil {
			return dst, requestError(r, err)
		}
	}
	if err := b.sampling(r, o, "max_tokens"); err != nil {
		return dst, requestError(r, err)
	}
	if err := b.close(); err != nil {
		return dst, requestError(r, err)
	}
	return b.b, nil
}

func (w *bodyWriter) prompt(p *record.Prompt) error {
	switch {
	case p.Messages != nil:
		return errMessages
	case len(p.TokenIDs) == 0 && p.Text == "":
		return errNoPrompt
	case len(p.TokenIDs) == 0:
		w.b = appendString(w.b, p.Text)
		return nil
	}
	w.b = append(w.b, '[')
	for i, id := range p.TokenIDs {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		w.b = strconv.AppendInt(w.b, int64(id), 10)
	}
	w.b = append(w.b, ']')
	return nil
}
