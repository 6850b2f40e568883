package workload

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/assay-bench/assay/record"
)

// Whatever is replied, the history is a conversation that strict servers take: no
// message is empty, each call of a tool is answered by the message behind it, users do
// not speak twice; and nothing that was said is lost.
func TestHistory(t *testing.T) {
	spec := talking(func(s *Spec) { s.Sessions.Turns = FixedLength(6) })
	rapid.Check(t, func(t *rapid.T) {
		p, err := NewPlan(spec, 2)
		if err != nil {
			t.Fatal(err)
		}
		c := NewConversations(p, Uncalibrated(CalibrateOptions{Chat: true, Nonce: "n"}))
		r, ok := c.Next()
		for ok {
			reply := record.Message{Content: rapid.SampledFrom([]string{"", " \n", "a reply"}).Draw(t, "text")}
			for range rapid.IntRange(0, 3).Draw(t, "calls") {
				reply.ToolCalls = append(reply.ToolCalls, record.ToolCall{
					ID: rapid.SampledFrom([]string{"", "x1", "x2"}).Draw(t, "id"),
					Function: record.Function{
						Name:      rapid.SampledFrom([]string{"", "f", "f"}).Draw(t, "name"),
						Arguments: rapid.SampledFrom([]string{"", "{}", `{"a":[1]}`, `{"a`, `[1]`, "null"}).Draw(t, "arguments"),
					},
				})
			}
			var next record.Request
			if next, _, ok = c.After(&r, 1, 2); !ok {
				break
			}
			c.Fill(&next, reply)
			r = next
			all := r.Prompt.Messages
			open := 0
			for i, m := range all {
				if strings.TrimSpace(m.Content) == "" && len(m.ToolCalls) == 0 {
					t.Fatalf("message %d is empty: %+v", i, all)
				}
				switch {
				case i > 0 && m.Role == "user" && all[i-1].Role == "user", i == len(all)-1 && m.Role == "assistant":
					t.Fatalf("message %d of %s has no place: %+v", i, m.Role, all)
				case open > 0:
					calls := all[i-1].ToolCalls
					for k := i - 1; calls == nil; k-- {
						calls = all[k].ToolCalls
					}
					if m.Role != "tool" || m.ToolCallID != calls[len(calls)-open].ID {
						t.Fatalf("message %d does not answer a call: %+v", i, all)
					}
					open--
				case m.Role == "tool":
					t.Fatalf("message %d answers nobody: %+v", i, all)
				}
				if len(m.ToolCalls) > 0 {
					open = len(m.ToolCalls)
				}
				for _, x := range m.ToolCalls {
					if x.ID == "" || x.Function.Name == "" || !strings.HasPrefix(x.Function.Arguments, "{") || !strings.HasSuffix(x.Function.Arguments, "}") {
						t.Fatalf("a call that cannot be sent: %+v", x)
					}
				}
			}
			if open > 0 {
				t.Fatalf("calls without an answer: %+v", all)
			}
		}
	})
}

func TestParts(t *testing.T) {
	for _, tt := range []struct {
		text string
		n    int
		want string
	}{
		{"A b c d", 1, "A b c d"}, {"A b c d", 2, "A b| c d"}, {"A b c d e f", 3, "A b| c d| e f"}, {"Ab", 3, "Ab|ok|ok"}, {"", 2, "ok|ok"}, {"é è", 2, "é| è"},
	} {
		if got := strings.Join(parts(tt.text, tt.n), "|"); got != tt.want {
			t.Errorf("%q in %d: %q, want %q", tt.text, tt.n, got, tt.want)
		}
	}
}
