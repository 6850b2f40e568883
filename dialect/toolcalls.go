package dialect

import (
	"encoding/json"

	"github.com/assay-bench/assay/record"
)

const (
	// maxCalls of tools that are kept of a reply.
	maxCalls = 128
	// maxArguments is how much is kept of the arguments of one.
	maxArguments = 1 << 20
)

// toolChunk is what a frame, or a whole reply, says of tool calls: the name and id
// of each with its first piece, and its arguments piece by piece.
type toolChunk struct {
	Choices []struct {
		Index          int `json:"index"`
		Delta, Message struct {
			ToolCalls []toolPiece `json:"tool_calls"`
		}
	} `json:"choices"`
}

type toolPiece struct {
	Index    *int            `json:"index"`
	ID       string          `json:"id"`
	Function record.Function `json:"function"`
}

// ToolCalls are what was kept. See [Reader].
func (r *openaiReader) ToolCalls() []record.ToolCall { return r.calls }

// keepCalls adds the tool calls of the first choice. Few frames have any: those are
// decoded once more.
func (r *openaiReader) keepCalls(c *chunk, data []byte) {
	if !r.collect || c.tool == 0 {
		return
	}
	var t toolChunk
	if json.Unmarshal(data, &t) != nil {
		return // not of these types: nothing that could be sent back
	}
	for _, choice := range t.Choices {
		if choice.Index != 0 {
			continue
		}
		for i, p := range append(choice.Delta.ToolCalls, choice.Message.ToolCalls...) {
			if p.Index != nil {
				i = *p.Index
			}
			r.keepCall(i, &p)
		}
	}
}

// keepCall adds a piece of the i-th call.
func (r *openaiReader) keepCall(i int, p *toolPiece) {
	if i < 0 || i >= maxCalls {
		return
	}
	for len(r.calls) <= i {
		r.calls = append(r.calls, record.ToolCall{})
	}
	call := &r.calls[i]
	if call.ID == "" {
		call.ID = p.ID
	}
	if call.Function.Name == "" {
		call.Function.Name = p.Function.Name
	}
	room := maxArguments - len(call.Function.Arguments)
	call.Function.Arguments += p.Function.Arguments[:min(len(p.Function.Arguments), room)]
}
