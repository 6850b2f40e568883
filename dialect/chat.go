package dialect

import (
	"errors"

	"github.com/assay-bench/assay/record"
)

// Chat is OpenAI's chat completions protocol, as served by vLLM, llama.cpp,
// SGLang, TGI, TensorRT-LLM and hosted services.
type Chat struct{}

// Name is "openai-chat".
func (Chat) Name() string { return "openai-chat" }

// Path is "chat/completions".
func (Chat) Path() string { return "chat/completions" }

// NewReader makes a reader of chat completion chunks.
func (Chat) NewReader() Reader { return &openaiReader{chat: true} }

// AppendRequest sends Messages as they are and a Text as one user message.
// Chats take no token ids. The output cap is named max_tokens, which open
// engines all take, unless o.MaxCompletionTokens says otherwise.
func (Chat) AppendRequest(dst []byte, r *record.Request, o *Options) ([]byte, error) {
	b := bodyWriter{b: dst, extra: o.ExtraBody}
	if r.Prompt.Body != nil {
		if err := b.recorded(r, o, "messages", errNoMessages); err != nil {
			return dst, requestError(r, err)
		}
		return b.b, nil
	}
	b.open(o)
	if b.field("messages") {
		if err := b.messages(&r.Prompt); err != nil {
			return dst, requestError(r, err)
		}
	}
	limit := "max_tokens"
	if o.MaxCompletionTokens {
		limit = "max_completion_tokens"
	}
	if err := b.sampling(r, o, limit); err != nil {
		return dst, requestError(r, err)
	}
	if err := b.close(); err != nil {
		return dst, requestError(r, err)
	}
	return b.b, nil
}

var (
	errNoPrompt = errors.New("no prompt")
	errTokenIDs = errors.New("a chat takes no token ids")
	errMessages = errors.New("a completion takes no messages")
)

func (w *bodyWriter) messages(p *record.Prompt) error {
	switch {
	case p.TokenIDs != nil:
		return errTokenIDs
	case len(p.Messages) == 0 && p.Text == "":
		return errNoPrompt
	case len(p.Messages) == 0:
		w.b = append(w.b, '[')
		w.message(&record.Message{Role: "user", Content: p.Text})
		w.b = append(w.b, ']')
		return nil
	}
	w.b = append(w.b, '[')
	for i := range p.Messages {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		w.message(&p.Messages[i])
	}
	w.b = append(w.b, ']')
	return nil
}

func (w *bodyWriter) message(m *record.Message) {
	w.b = append(w.b, `{"role":`...)
	w.b = appendString(w.b, m.Role)
	w.b = append(w.b, `,"content":`...)
	if m.Content == "" && len(m.ToolCalls) > 0 {
		w.b = append(w.b, "null"...) // as servers have it
	} else {
		w.b = appendString(w.b, m.Content)
	}
	for i, c := range m.ToolCalls {
		if i == 0 {
			w.b = append(w.b, `,"tool_calls":[`...)
		} else {
			w.b = append(w.b, ',')
		}
		w.b = append(w.b, `{"id":`...)
		w.b = appendString(w.b, c.ID)
		w.b = append(w.b, `,"type":"function","function":{"name":`...)
		w.b = appendString(w.b, c.Function.Name)
		w.b = append(w.b, `,"arguments":`...)
		w.b = appendString(w.b, c.Function.Arguments)
		w.b = append(w.b, "}}"...)
	}
	if len(m.ToolCalls) > 0 {
		w.b = append(w.b, ']')
	}
	if m.ToolCallID != "" {
		w.b = append(w.b, `,"tool_call_id":`...)
		w.b = appendString(w.b, m.ToolCallID)
	}
	w.b = append(w.b, '}')
}
