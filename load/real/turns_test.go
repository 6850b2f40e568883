package real

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-bench/assay/dialect"
	"github.com/assay-bench/assay/internal/clock"
	"github.com/assay-bench/assay/load/sched"
	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/wire"
	"github.com/assay-bench/assay/workload"
)

// echo is a server of chats that keeps what it was asked, and answers with words
// that name the request. Those that fails names have their stream cut.
type echo struct {
	mu    sync.Mutex
	asked map[string][]record.Message // by request id
	fails func(messages int) bool
	// deltas of the answer, in place of the words.
	deltas func(asked []record.Message) []string
}

// of is what a request asked.
func (s *echo) of(id string) []record.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[id]
}

func (s *echo) serve(c net.Conn, br *bufio.Reader) {
	for {
		r, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		var chat struct{ Messages []record.Message }
		if json.Unmarshal(body, &chat) != nil {
			return
		}
		id := r.Header.Get("X-Request-Id")
		s.mu.Lock()
		s.asked[id] = chat.Messages
		s.mu.Unlock()
		if s.fails != nil && s.fails(len(chat.Messages)) {
			fmt.Fprint(c, streamHead+chunked(textEvent))
			return
		}
		fmt.Fprint(c, streamHead)
		if s.deltas != nil {
			for _, d := range s.deltas(chat.Messages) {
				fmt.Fprint(c, chunked(`data: {"choices":[{"index":0,"delta":`+d+`,"finish_reason":null}]}`+"\n\n"))
			}
			fmt.Fprint(c, chunked(`data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\n"+
				`data: {"choices":[],"usage":{"prompt_tokens":50,"completion_tokens":20,"completion_tokens_details":{"reasoning_tokens":9}}}`+"\n\ndata: [DONE]\n\n")+"0\r\n\r\n")
			continue
		}
		for _, word := range strings.SplitAfter("reply \\\"to\\\" "+id, " ") { // escapes on purpose
			fmt.Fprint(c, chunked(`data: {"choices":[{"index":0,"delta":{"content":"`+word+`"},"finish_reason":null}]}`+"\n\n"))
		}
		fmt.Fprint(c, chunked(`data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\n"+
			fmt.Sprintf(`data: {"choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":7}}`, 100*len(chat.Messages))+"\n\ndata: [DONE]\n\n")+"0\r\n\r\n")
	}
}

// converse runs sessions over a transport until enough turns have ended.
func converse(t *testing.T, transport string, s *echo, turns int, change func(*workload.Spec)) []record.Attempt {
	t.Helper()
	s.asked = make(map[string][]record.Message)
	clk := clock.Start()
	endpoint, err := ParseEndpoint("http://" + serve(t, s.serve) + "/v1")
	if err != nil {
		t.Fatal(err)
	}
	client, err := wire.NewClient(wire.Config{Scheme: endpoint.Scheme, Host: endpoint.Host, Clock: clk})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	target := NewTarget(endpoint, client, clk, nil)
	target.Dialect, target.Options = dialect.Chat{}, dialect.Options{Model: "m", Stream: true, IncludeUsage: true}
	if transport == "epoll" {
		closeLoop, err := target.UseLoop()
		if err != nil {
			t.Fatal(err)
		}
		defer closeLoop()
	}
	spec := workload.Default()
	spec.PromptTokens = workload.FixedLength(30)
	spec.Sessions = &workload.Sessions{Turns: workload.UniformLength(1, 5)}
	change(&spec)
	plan, err := workload.NewPlan(spec, 1)
	if err != nil {
		t.Fatal(err)
	}
	content := workload.Uncalibrated(workload.CalibrateOptions{Chat: true, Nonce: "n"})
	r, err := NewSessionRunner(target, sched.Config{Concurrency: 4}, 30, workload.NewConversations(plan, content))
	if err != nil {
		t.Fatal(err)
	}
	g := &gathered{halt: func(g *gathered) (bool, bool) { return len(g.attempts) >= turns, false }}
	if err := r.Run(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	if g.due != len(g.attempts) {
		t.Errorf("%d requests were due, %d attempts told of", g.due, len(g.attempts))
	}
	return g.attempts
}

// TestSessions: what the server is asked next is what it was asked before, its own
// reply to the letter, and something new, when the turn before has ended and the
// think time has passed.
func TestSessions(t *testing.T) {
	for _, transport := range []string{"goroutine", "epoll"} {
		if transport == "epoll" && !hasLoop(t) {
			continue
		}
		for name, think := range map[string]time.Duration{"at once": 0, "think": 3 * time.Millisecond} {
			t.Run(transport+", "+name, func(t *testing.T) {
				s := &echo{}
				all := converse(t, transport, s, 200, func(spec *workload.Spec) { spec.ThinkTime = workload.FixedThink(think) })
				turns := map[int64][]record.Attempt{}
				for _, a := range all {
					turns[a.Session] = append(turns[a.Session], a)
				}
				later := 0
				for id, list := range turns {
					slices.SortFunc(list, func(a, b record.Attempt) int { return a.Turn - b.Turn })
					for i, a := range list {
						if a.Outcome != record.Completed || a.Turn != i+1 {
							t.Fatalf("session %d: %+v", id, a)
						}
						asked := s.of(a.ID)
						if len(asked) != 2*i+1 || a.Usage.PromptTokens != 100*len(asked) {
							t.Fatalf("turn %d has %d messages", a.Turn, len(asked))
						}
						if i == 0 {
							continue
						}
						later++
						before := list[i-1]
						said := s.of(before.ID)
						if !cmp.Equal(asked[:len(said)], said) || !cmp.Equal(asked[len(said)], record.Message{Role: "assistant", Content: `reply "to" ` + before.ID}) {
							t.Fatalf("turn %d of session %d does not go on from what was said: %q", a.Turn, id, asked)
						}
						if want := before.Ended.Add(think); a.Scheduled != want {
							t.Fatalf("turn %d of session %d scheduled at %d; the one before ended at %d", a.Turn, id, a.Scheduled, before.Ended)
						}
						if want := before.Usage.PromptTokens + before.Usage.CompletionTokens + 30; a.PromptTokensAsked != want {
							t.Fatalf("asked for %d tokens, want %d", a.PromptTokensAsked, want)
						}
					}
				}
				if later < 50 {
					t.Errorf("only %d later turns", later)
				}
			})
		}
	}
}

// TestSessionsAbandoned: a turn whose stream breaks ends its session, and nothing of
// it is due any more.
func TestSessionsAbandoned(t *testing.T) {
	s := &echo{fails: func(messages int) bool { return messages == 5 }} // the third turn
	all := converse(t, "goroutine", s, 100, func(spec *workload.Spec) { spec.Sessions.Turns = workload.FixedLength(4) })
	third := 0
	for _, a := range all {
		switch {
		case a.Turn > 3:
			t.Fatalf("turn %d of session %d after a turn that failed", a.Turn, a.Session)
		case a.Turn == 3:
			third++
			fallthrough
		default:
			if (a.Outcome == record.Completed) == (a.Turn == 3) || a.Turns != 4 {
				t.Fatalf("%+v", a)
			}
		}
	}
	if third < 20 {
		t.Errorf("only %d sessions were abandoned", third)
	}
}

// TestSessionsOfTools: whatever is answered, what is asked next is a conversation that
// a strict server takes: tool calls in whole and answered, no reasoning, no empty
// messages, users and assistants in turn.
func TestSessionsOfTools(t *testing.T) {
	s := &echo{deltas: func(asked []record.Message) []string {
		switch len(asked) {
		case 1: // two calls in pieces, and no text
			return []string{`{"role":"assistant","content":null}`, `{"reasoning":"hm"}`,
				`{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"look","arguments":""}}]}`,
				`{"tool_calls":[{"index":0,"function":{"arguments":"{\"at\":"}}]}`, `{"tool_calls":[{"index":0,"function":{"arguments":"1}"}}]}`,
				`{"tool_calls":[{"index":1,"id":"b","type":"function","function":{"name":"see","arguments":"{}"}}]}`}
		case 4: // text and a call that is cut off
			return []string{`{"content":"well"}`, `{"tool_calls":[{"index":0,"id":"c","function":{"name":"look","arguments":"{\"at"}}]}`}
		}
		return []string{`{"reasoning_content":"thought of nothing else"}`}
	}}
	all := converse(t, "goroutine", s, 40, func(spec *workload.Spec) { spec.Sessions.Turns = workload.FixedLength(4) })
	look := record.ToolCall{ID: "a", Function: record.Function{Name: "look", Arguments: `{"at":1}`}}
	see := record.ToolCall{ID: "b", Function: record.Function{Name: "see", Arguments: `{}`}}
	last := 0
	for _, a := range all {
		if a.Outcome != record.Completed {
			t.Fatalf("%+v", a)
		}
		if a.Turn > 1 && a.PromptTokensAsked != 50+20-9+30 {
			t.Fatalf("asked for %d tokens, want what was said without the reasoning, and 30", a.PromptTokensAsked)
		}
		if a.Turn < 4 {
			continue
		}
		last++
		asked := s.of(a.ID)
		var roles []string
		for i, m := range asked {
			roles = append(roles, m.Role)
			if i != 1 && strings.TrimSpace(m.Content) == "" {
				t.Fatalf("message %d of %q is empty", i, asked)
			}
		}
		// The third reply is of reasoning alone: the user goes on.
		if !slices.Equal(roles, []string{"user", "assistant", "tool", "tool", "assistant", "user"}) {
			t.Fatalf("roles are %v", roles)
		}
		want := record.Message{Role: "assistant", ToolCalls: []record.ToolCall{look, see}}
		if !cmp.Equal(asked[1], want) || asked[2].ToolCallID != "a" || asked[3].ToolCallID != "b" || !cmp.Equal(asked[4], record.Message{Role: "assistant", Content: "well"}) {
			t.Fatalf("asked %+v", asked)
		}
		if strings.Count(asked[5].Content, "\n\n") != 1 {
			t.Fatalf("the user said %q", asked[5].Content)
		}
	}
	if last < 5 {
		t.Errorf("only %d last turns", last)
	}
}

// hasLoop reports whether there is an epoll loop on this system.
func hasLoop(t *testing.T) bool {
	t.Helper()
	client, err := wire.NewClient(wire.Config{Scheme: "http", Host: "127.0.0.1:1", Clock: clock.Start()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	l, err := wire.NewLoop(client, 0)
	if err != nil {
		return false
	}
	l.Close()
	return true
}
