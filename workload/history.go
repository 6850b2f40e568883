package workload

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/assay-bench/assay/record"
)

// begin says what the session begins with.
func (k *conversation) begin(c *Content, spec *Sessions) {
	system, user := c.opening(&k.s, spec)
	if !c.chat {
		k.text = system + user
		return
	}
	if system != "" {
		k.messages = append(k.messages, record.Message{Role: "system", Content: system})
	}
	k.messages = append(k.messages, record.Message{Role: "user", Content: user})
}

// add says a reply and what the user says then, as clients of chats do: reasoning is
// not repeated, which chat templates drop; a reply that calls tools is followed by
// their results, which servers demand, and these are what the turn says. A reply of
// which nothing is left is left out, since servers refuse empty messages, and the user
// goes on.
func (k *conversation) add(c *Content, reply record.Message, user string) {
	if !c.chat {
		k.text += reply.Content + user
		return
	}
	last := &k.messages[len(k.messages)-1]
	calls := callsOf(reply.ToolCalls)
	switch blank := strings.TrimSpace(reply.Content) == ""; {
	case len(calls) > 0:
		k.messages = append(k.messages, record.Message{Role: "assistant", Content: reply.Content, ToolCalls: calls})
		for i, part := range parts(user, len(calls)) {
			k.messages = append(k.messages, record.Message{Role: "tool", Content: part, ToolCallID: calls[i].ID})
		}
	case !blank:
		k.messages = append(k.messages, record.Message{Role: "assistant", Content: reply.Content}, record.Message{Role: "user", Content: user})
	case last.Role == "user":
		last.Content += "\n\n" + user
	default:
		k.messages = append(k.messages, record.Message{Role: "user", Content: user})
	}
}

// callsOf are the calls that can be sent back: those with a name, and arguments that
// are an object, which they are not where the reply was cut off.
func callsOf(all []record.ToolCall) (calls []record.ToolCall) {
	for _, c := range all {
		a := strings.TrimSpace(c.Function.Arguments)
		if a == "" {
			a, c.Function.Arguments = "{}", "{}"
		}
		if c.Function.Name == "" || !strings.HasPrefix(a, "{") || !json.Valid([]byte(a)) {
			continue
		}
		if c.ID == "" {
			c.ID = fmt.Sprintf("call%05d", len(calls)) // nine characters, which some templates want
		}
		calls = append(calls, c)
	}
	return calls
}

// parts cuts a text into n, at spaces; what has no words left is "ok".
func parts(text string, n int) (all []string) {
	for ; n > 1; n-- {
		at := len(text) / n
		if i := strings.IndexByte(text[at:], ' '); i >= 0 {
			at += i
		} else {
			at = len(text)
		}
		all = append(all, text[:at])
		text = text[at:]
	}
	all = append(all, text)
	for i := range all {
		if strings.TrimSpace(all[i]) == "" {
			all[i] = "ok"
		}
	}
	return all
}

func (k *conversation) prompt() record.Prompt {
	return record.Prompt{Messages: k.messages, Text: k.text}
}
