package workload

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-bench/assay/arrival"
)

// replay is the plan of a trace's sessions: as many as there are.
func replay(t *testing.T, name, text string, change func(*Spec)) (*Plan, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := with(func(s *Spec) {
		s.Arrival, s.Trace = Arrival{Process: ByTrace}, &Trace{File: file}
		s.PromptTokens, s.OutputTokens = Length{Dist: FromTrace}, Length{Dist: FromTrace}
		s.Sessions = &Sessions{Turns: Length{Dist: FromTrace}}
		if change != nil {
			change(s)
		}
	})
	f, err := OpenTrace(s, 1)
	if err != nil {
		return nil, err
	}
	return NewSessionPlan(s, 1, f)
}

func closedLoop(s *Spec) { s.Arrival, s.Concurrency = Arrival{}, 2 }

const bailianSessions = `
{"chat_id":1,"parent_chat_id":-1,"timestamp":0,"input_length":30,"output_length":10,"type":"text","turn":1}
{"chat_id":2,"parent_chat_id":-1,"timestamp":1,"input_length":50,"output_length":20,"type":"text","turn":1}
{"chat_id":3,"parent_chat_id":1,"timestamp":5,"input_length":60,"output_length":5,"type":"text","turn":2}
{"chat_id":4,"parent_chat_id":1,"timestamp":6,"input_length":70,"output_length":5,"type":"text","turn":2}
{"chat_id":5,"parent_chat_id":3,"timestamp":9,"input_length":100,"output_length":7,"type":"text","turn":3}
{"chat_id":6,"parent_chat_id":2,"timestamp":10,"input_length":40,"output_length":0,"type":"text","turn":2}
{"chat_id":7,"parent_chat_id":6,"timestamp":11,"input_length":90,"output_length":4,"type":"text","turn":3}
`

const shareGPTSessions = `[{"id":"a","conversations":[{"from":"system","value":"Be brief."},{"from":"human","value":"abcdefgh"},{"from":"gpt","value":"12345"},` +
	`{"from":"human","value":"ijkl"},{"from":"gpt","value":"6"}]},{"id":"a","conversations":[{"from":"human","value":"x"},{"from":"gpt","value":"y"}]}]`

const aiperfSessions = `{"session_id":"u1","turns":[{"text":"aaaa","timestamp":100,"output_length":6},{"text":"bbbb","delay":1500,"output_length":7}]}
{"turns":[{"text":"cc","timestamp":350,"output_length":3}]}
`

const burstSessions = `Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type
12,s1,3,m,100,40,140,Conversation log
13,s2,3,m,100,40,140,Conversation log
20,s1,3,m,160,50,210,Conversation log
30,s2,3,m,150,10,160,Conversation log
31,,3,m,77,5,82,API log
`

const second = time.Second

func TestSessionTraces(t *testing.T) {
	tests := []struct {
		name, file, text string
		change           func(*Spec)
		starts           []time.Duration // nil: not by the trace
		want             [][]Turn
		found            SessionSummary
	}{
		{"by parents, at their times", "b.jsonl", bailianSessions, nil,
			// A second answer to one parent begins a session, and so does nothing else. A
			// turn that failed when recorded is left out; its session goes on.
			[]time.Duration{0, second, 6 * second}, [][]Turn{
				{{PromptTokens: 30, MaxTokens: 10}, {PromptTokens: 20, MaxTokens: 5, At: 5 * second}, {PromptTokens: 35, MaxTokens: 7, At: 9 * second}},
				{{PromptTokens: 50, MaxTokens: 20}, {PromptTokens: 20, MaxTokens: 4, At: 10 * second}},
				{{PromptTokens: 70, MaxTokens: 5}},
			}, SessionSummary{Sessions: 3, MaxTurns: 3, Timing: ByTimes, Branches: 1,
				TraceSummary: TraceSummary{Rows: 6, Failed: 1, Span: 6 * second, ShortestPrompt: 20, LongestPrompt: 70, ShortestOutput: 4, LongestOutput: 20}}},
		{"think time of ours", "b.jsonl", bailianSessions, func(s *Spec) { s.ThinkTime = FixedThink(3 * second) },
			[]time.Duration{0, second, 6 * second}, [][]Turn{
				{{PromptTokens: 30, MaxTokens: 10}, {PromptTokens: 20, MaxTokens: 5, Delay: 3 * second}, {PromptTokens: 35, MaxTokens: 7, Delay: 3 * second}},
				{{PromptTokens: 50, MaxTokens: 20}, {PromptTokens: 20, MaxTokens: 4, Delay: 3 * second}},
				{{PromptTokens: 70, MaxTokens: 5}},
			}, SessionSummary{}},
		{"lengths of ours, and a prefix", "b.jsonl", bailianSessions, func(s *Spec) {
			s.PromptTokens, s.OutputTokens, s.Sessions.SystemPromptTokens, s.Sessions.Timing = FixedLength(9), FixedLength(8), 100, AtOnce
		}, []time.Duration{0, second, 6 * second}, [][]Turn{
			{{PromptTokens: 109, MaxTokens: 8}, {PromptTokens: 9, MaxTokens: 8}, {PromptTokens: 9, MaxTokens: 8}},
			{{PromptTokens: 109, MaxTokens: 8, KnownTokens: 100}, {PromptTokens: 9, MaxTokens: 8}},
			{{PromptTokens: 109, MaxTokens: 8, KnownTokens: 100}},
		}, SessionSummary{}},
		{"texts, with lengths by estimate", "s.json", shareGPTSessions, closedLoop, nil, [][]Turn{
			{{PromptTokens: 2, MaxTokens: 2, Text: "abcdefgh"}, {PromptTokens: 1, MaxTokens: 1, Text: "ijkl"}},
			{{PromptTokens: 1, MaxTokens: 1, Text: "x"}},
		}, SessionSummary{Sessions: 2, MaxTurns: 2, Timing: AtOnce, Texts: true,
			TraceSummary: TraceSummary{Rows: 3, ShortestPrompt: 1, LongestPrompt: 2, ShortestOutput: 1, LongestOutput: 2}}},
		{"recorded delays", "m.jsonl", aiperfSessions, nil, []time.Duration{0, 250 * time.Millisecond}, [][]Turn{
			{{PromptTokens: 1, MaxTokens: 6, Text: "aaaa"}, {PromptTokens: 1, MaxTokens: 7, Text: "bbbb", Delay: 1500 * time.Millisecond}},
			{{PromptTokens: 1, MaxTokens: 3, Text: "cc"}},
		}, SessionSummary{Sessions: 2, MaxTurns: 2, Timing: ByDelays, Texts: true,
			TraceSummary: TraceSummary{Rows: 3, Span: 250 * time.Millisecond, ShortestPrompt: 1, LongestPrompt: 1, ShortestOutput: 3, LongestOutput: 7}}},
		{"recorded delays, compressed", "m.jsonl", aiperfSessions, func(s *Spec) { s.Trace.Scale = &TraceScale{Compression, 2.5} }, []time.Duration{0, 100 * time.Millisecond}, [][]Turn{
			{{PromptTokens: 1, MaxTokens: 6, Text: "aaaa"}, {PromptTokens: 1, MaxTokens: 7, Text: "bbbb", Delay: 600 * time.Millisecond}},
			{{PromptTokens: 1, MaxTokens: 3, Text: "cc"}},
		}, SessionSummary{}},
		{"recorded times, compressed", "burst.csv", burstSessions, func(s *Spec) { s.Trace.AnySpan, s.Trace.Scale = true, &TraceScale{Compression, 2} }, []time.Duration{0, second / 2, 19 * second / 2}, [][]Turn{
			{{PromptTokens: 100, MaxTokens: 40}, {PromptTokens: 20, MaxTokens: 50, At: 4 * second}},
			{{PromptTokens: 100, MaxTokens: 40}, {PromptTokens: 10, MaxTokens: 10, At: 8500 * time.Millisecond}},
			{{PromptTokens: 77, MaxTokens: 5}},
		}, SessionSummary{}},
		{"by session ids, some of it cut", "burst.csv", burstSessions, func(s *Spec) { s.Trace.AnySpan = true }, []time.Duration{0, second, 19 * second}, [][]Turn{
			{{PromptTokens: 100, MaxTokens: 40}, {PromptTokens: 20, MaxTokens: 50, At: 8 * second}},
			{{PromptTokens: 100, MaxTokens: 40}, {PromptTokens: 10, MaxTokens: 10, At: 17 * second}},
			{{PromptTokens: 77, MaxTokens: 5}},
		}, SessionSummary{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := replay(t, tt.file, tt.text, func(s *Spec) {
				if tt.change != nil {
					tt.change(s)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			var got [][]Turn
			for _, s := range sessionsOf(p, 100) {
				got = append(got, s.Turns)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("turns (- want, + got):\n%s", diff)
			}
			if tt.found.Sessions > 0 {
				if diff := cmp.Diff(tt.found, p.SessionTrace()); diff != "" {
					t.Errorf("found (- want, + got):\n%s", diff)
				}
			}
			if p.Err() != nil {
				t.Error(p.Err())
			}
			var starts []time.Duration
			if times := p.Arrivals(); times != nil {
				at := time.Duration(0)
				for gap := times.Next(); gap != arrival.Never; gap = times.Next() {
					at += gap
					starts = append(starts, at)
				}
			}
			if diff := cmp.Diff(tt.starts, starts); diff != "" {
				t.Errorf("starts (- want, + got):\n%s", diff)
			}
		})
	}
}

// A prompt shorter than what was said before was cut by the recording's client.
func TestSessionTraceCut(t *testing.T) {
	p, err := replay(t, "b.jsonl", strings.ReplaceAll(bailianSessions, `"input_length":100`, `"input_length":41`), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := p.SessionTrace(); got.Cut != 1 {
		t.Errorf("%d turns were cut, want 1", got.Cut)
	}
	if x := sessionsOf(p, 1)[0].Turns[2]; x.PromptTokens != 1 {
		t.Errorf("the turn that was cut says %d tokens", x.PromptTokens)
	}
}

func TestSessionTraceErrors(t *testing.T) {
	many := &strings.Builder{}
	for i := range maxTurns + 1 {
		fmt.Fprintf(many, `{"session_id":"s","timestamp":%d,"input_length":9,"output_length":9}`+"\n", i)
	}
	for name, tt := range map[string]struct {
		file, text string
		change     func(*Spec)
		want       string
	}{
		"thinned":      {"b.jsonl", bailianSessions, func(s *Spec) { s.Trace.Scale = &TraceScale{Thinning, 0.5} }, "trace.scale.by: thinning would take sessions apart"},
		"superposed":   {"b.jsonl", bailianSessions, func(s *Spec) { s.Trace.Scale = &TraceScale{Superposition, 3} }, "trace.scale.by: superposition would take sessions apart"},
		"no stamps":    {"s.json", shareGPTSessions, nil, "s.json:1: the session has no stamp"},
		"no outputs":   {"m.jsonl", strings.ReplaceAll(aiperfSessions, `"output_length"`, `"x"`), nil, "neither a number of output tokens nor a reply: give output_tokens"},
		"no delays":    {"b.jsonl", bailianSessions, func(s *Spec) { s.Sessions.Timing = ByDelays }, "b.jsonl has no delays"},
		"no times":     {"s.json", shareGPTSessions, func(s *Spec) { closedLoop(s); s.Sessions.Timing = ByTimes }, "s.json has no times"},
		"out of order": {"m.jsonl", strings.Replace(aiperfSessions, `"timestamp":350`, `"timestamp":50`, 1), nil, "session 2 begins at"},
		"endless":      {"e.jsonl", many.String(), nil, "a session of 10001 turns: want at most 10000"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := replay(t, tt.file, tt.text, tt.change)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
