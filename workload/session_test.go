package workload

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/assay-bench/assay/record"
)

// talking is the default workload in sessions.
func talking(change func(*Spec)) Spec {
	return with(func(s *Spec) {
		s.Sessions = &Sessions{Turns: UniformLength(1, 6)}
		s.PromptTokens, s.OutputTokens = UniformLength(20, 90), UniformLength(5, 50)
		s.ThinkTime = Think{Dist: Exponential, Mean: 2 * time.Second}
		if change != nil {
			change(s)
		}
	})
}

func planOf(t testing.TB, s Spec, seed uint64) *Plan {
	t.Helper()
	p, err := NewPlan(s, seed)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func sessionsOf(p *Plan, n int) (all []Session) {
	for range n {
		s, ok := p.NextSession()
		if !ok {
			break
		}
		all = append(all, s.clone())
	}
	return all
}

func TestSessionsValidate(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*Spec)
		want   string
	}{
		"fine":                    {func(*Spec) {}, ""},
		"think time in open loop": {func(s *Spec) { s.Arrival = Arrival{Process: Poisson, Rate: 2} }, ""},
		"no turns":                {func(s *Spec) { s.Sessions.Turns = FixedLength(0) }, "sessions.turns: 0 is below 1"},
		"too many turns":          {func(s *Spec) { s.Sessions.Turns = FixedLength(20_000) }, "sessions.turns: up to 20000 turns: want at most 10000"},
		"prefix":                  {func(s *Spec) { s.Sessions.SharedPrefixTokens = -1 }, "sessions.shared_prefix_tokens: -1 is not within 0 and 10000000"},
		"first":                   {func(s *Spec) { s.Sessions.FirstPromptTokens = new(FixedLength(0)) }, "sessions.first_prompt_tokens: 0 is below 1"},
		"share":                   {func(s *Spec) { s.Sessions.Tool = &ToolCalls{Share: 1.5, Delay: FixedThink(1)} }, "sessions.tool.share: 1.5 is not above 0 and at most 1"},
		"tool delay":              {func(s *Spec) { s.Sessions.Tool = &ToolCalls{Share: 1, Delay: FixedThink(-1)} }, "sessions.tool.delay: -1ns is not within 0 and 24h0m0s"},
		"timing":                  {func(s *Spec) { s.Sessions.Timing = ByTimes }, "sessions.timing: it is of a trace (turns: {dist: trace})"},
		"no trace":                {func(s *Spec) { s.Sessions.Turns = Length{Dist: FromTrace} }, "trace.file: the workload follows a trace, and none is named"},
		"trace and tools": {func(s *Spec) {
			s.Sessions = &Sessions{Turns: Length{Dist: FromTrace}, Timing: "soon", Tool: &ToolCalls{Share: 1, Delay: FixedThink(1)}}
			s.Trace = &Trace{File: "x"}
		}, "sessions.timing: \"soon\" is none of delays, times, at-once\nsessions.tool: the trace has its own delays"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := talking(tt.change).Validate(); err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

func TestSessionsDescribe(t *testing.T) {
	s := talking(func(s *Spec) {
		s.Arrival = Arrival{Process: Poisson, Rate: 0.5, MaxInFlight: 9}
		s.ThinkTime = FixedThink(2 * time.Second)
		s.Sessions = &Sessions{Turns: FixedLength(4), SystemPromptTokens: 300, Tool: &ToolCalls{Share: 0.25, Delay: FixedThink(time.Second)}}
	})
	want := "partly open loop, session arrivals: Poisson 0.5/s, sessions of 4 turns, think time 2s before each later one, for 25 % of them a tool's delay instead (1s), " +
		"system prompt of 300 tokens, at most 9 sessions in progress; prompts 20 to 90 (uniform) tokens a turn, outputs exactly 5 to 50 (uniform) tokens"
	if got := s.Describe(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	s.Arrival, s.Concurrency = Arrival{}, 3
	if got := s.DescribeLoop(); !strings.HasPrefix(got, "closed loop of sessions, concurrency 3 sessions, ") {
		t.Error(got)
	}
}

// A session's draws depend on its index alone: other turns, think times and arrivals
// leave the rest of what is drawn as it was, and a seed fixes all of it.
func TestSessionsDependOnIndexAlone(t *testing.T) {
	const n = 200
	base := sessionsOf(planOf(t, talking(func(s *Spec) { s.Sessions.Turns = FixedLength(3) }), 7), n)
	longer := sessionsOf(planOf(t, talking(func(s *Spec) {
		s.Sessions.Turns = FixedLength(5)
		s.Arrival = Arrival{Process: Poisson, Rate: 3}
	}), 7), n)
	hasty := sessionsOf(planOf(t, talking(func(s *Spec) {
		s.Sessions.Turns, s.ThinkTime = FixedLength(3), Think{}
	}), 7), n)
	for i := range base {
		if diff := cmp.Diff(base[i].Turns, longer[i].Turns[:3]); diff != "" {
			t.Fatalf("session %d with more turns: %s", i, diff)
		}
		for k, x := range hasty[i].Turns {
			if x.PromptTokens != base[i].Turns[k].PromptTokens || x.MaxTokens != base[i].Turns[k].MaxTokens || x.Delay != 0 {
				t.Fatalf("session %d without think time: turn %d is %+v, not %+v", i, k, x, base[i].Turns[k])
			}
		}
		if base[i].First != int64(3*i) || base[i].Index != int64(i) || base[i].Turns[0].Delay != 0 {
			t.Fatalf("session %d: %+v", i, base[i])
		}
	}
	again := sessionsOf(planOf(t, talking(func(s *Spec) { s.Sessions.Turns = FixedLength(3) }), 7), n)
	other := sessionsOf(planOf(t, talking(func(s *Spec) { s.Sessions.Turns = FixedLength(3) }), 8), n)
	if !cmp.Equal(base, again) || cmp.Equal(base, other) {
		t.Error("the seed does not fix the sessions, or does not matter")
	}
	if cmp.Equal(base[0].Turns[0], base[1].Turns[0]) && cmp.Equal(base[1].Turns[0], base[2].Turns[0]) {
		t.Error("sessions are all the same")
	}
}

// Next gives the turns of the same sessions, with histories as planned.
func TestSessionsAsRequests(t *testing.T) {
	spec := talking(func(s *Spec) { s.Sessions.SystemPromptTokens, s.Sessions.UserPrefixTokens = 100, new(FixedLength(7)) })
	a, b := planOf(t, spec, 3), planOf(t, spec, 3)
	index := int64(0)
	for _, s := range sessionsOf(a, 100) {
		said := 0
		for i, turn := range s.Turns {
			want := record.Request{
				Index: index, Session: s.Index, Turn: i + 1, Turns: len(s.Turns), PromptTokens: said + turn.PromptTokens, MaxTokens: turn.MaxTokens, ExactOutput: true,
			}
			if i > 0 {
				want.KnownTokens = said - 1
			} else if s.Index > 0 {
				want.KnownTokens = 100 // users do not come back
			}
			got, ok := b.Next()
			if !ok || !cmp.Equal(want, got) {
				t.Fatalf("got %+v, want %+v", got, want)
			}
			if i == 0 && (got.PromptTokens < 20+107 || got.PromptTokens > 90+107) {
				t.Fatalf("a first prompt of %d tokens", got.PromptTokens)
			}
			said = got.PromptTokens + got.MaxTokens
			index++
		}
	}
}

// Shares and means of what is drawn, at α = 0.001.
func TestSessionDistributions(t *testing.T) {
	const n = 20_000
	spec := talking(func(s *Spec) {
		s.Sessions.Tool = &ToolCalls{Share: 0.3, Delay: Think{Dist: LogNormal, Mean: time.Second, CV: 0.5}}
		s.Sessions.Users = 50
	})
	var turns, later, tools, think, tool float64
	users := make([]float64, 50)
	for _, s := range sessionsOf(planOf(t, spec, 5), n) {
		turns += float64(len(s.Turns))
		users[s.User]++
		for _, x := range s.Turns[1:] {
			later++
			if x.Tool {
				tools++
				tool += x.Delay.Seconds()
			} else {
				think += x.Delay.Seconds()
			}
		}
	}
	near := func(name string, got, want, sd float64) {
		if math.Abs(got-want) > 3.29*sd {
			t.Errorf("%s: %v, want %v within %v", name, got, want, 3.29*sd)
		}
	}
	near("turns", turns/n, 3.5, math.Sqrt(35.0/12/n))
	near("share of tools", tools/later, 0.3, math.Sqrt(0.3*0.7/later))
	near("think time", think/(later-tools), 2, 2/math.Sqrt(later-tools))
	near("tool delay", tool/tools, 1, 0.5/math.Sqrt(tools))
	chi2 := 0.0
	for _, u := range users {
		chi2 += (u - n/50.0) * (u - n/50.0) / (n / 50.0)
	}
	if chi2 > 85.35 { // 49 degrees of freedom
		t.Errorf("users are uneven: chi-squared %v", chi2)
	}
}

// Conversations say what was planned, in whatever order sessions go on: the j-th
// turn's prompt is the one before, the reply to it and what is new; and each is due
// when it should be.
func TestConversations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		chat := rapid.Bool().Draw(t, "chat")
		p, err := NewPlan(talking(nil), 2)
		if err != nil {
			t.Fatal(err)
		}
		twin, err := NewPlan(talking(nil), 2)
		if err != nil {
			t.Fatal(err)
		}
		planned := sessionsOf(twin, 6)
		c := NewConversations(p, Uncalibrated(CalibrateOptions{Chat: chat, Nonce: "n"}))
		type state struct {
			r      record.Request
			prompt string
		}
		open := map[int64]state{}
		for range 6 {
			r, ok := c.Next()
			if !ok {
				t.Fatal("over")
			}
			open[r.Session] = state{r, flat(r.Prompt)}
		}
		for len(open) > 0 {
			var ids []int64
			for id := range open {
				ids = append(ids, id)
			}
			slices.Sort(ids)
			id := rapid.SampledFrom(ids).Draw(t, "session")
			was := open[id]
			plan := planned[id]
			if was.r.Index != plan.First+int64(was.r.Turn-1) {
				t.Fatalf("turn %d of session %d has index %d", was.r.Turn, id, was.r.Index)
			}
			if rapid.IntRange(0, 9).Draw(t, "fails") == 0 {
				c.Over(id)
				if _, _, ok := c.After(&was.r, 1, 5); ok {
					t.Fatal("a session goes on after it was over")
				}
				delete(open, id)
				continue
			}
			used := record.Usage{PromptTokens: 1000 + was.r.Turn, CompletionTokens: 11}
			c.Replied(&was.r, &used)
			next, at, ok := c.After(&was.r, 1, 5)
			if ok != (was.r.Turn < len(plan.Turns)) {
				t.Fatalf("after turn %d of %d: %v", was.r.Turn, len(plan.Turns), ok)
			}
			if !ok {
				delete(open, id)
				continue
			}
			turn := plan.Turns[was.r.Turn]
			if want := record.Stamp(5).Add(turn.Delay); at != want {
				t.Fatalf("due at %d, want %d", at, want)
			}
			if want := used.PromptTokens + used.CompletionTokens + turn.PromptTokens; next.PromptTokens != want || next.MaxTokens != turn.MaxTokens {
				t.Fatalf("asks for %d and %d tokens, want %d and %d", next.PromptTokens, next.MaxTokens, want, turn.MaxTokens)
			}
			reply := fmt.Sprintf(" reply-%d-%d", id, was.r.Turn)
			c.Fill(&next, record.Message{Content: reply})
			now := flat(next.Prompt)
			rest, found := strings.CutPrefix(now, was.prompt+reply)
			if !found || strings.TrimSpace(rest) == "" {
				t.Fatalf("turn %d does not begin with what was said before", next.Turn)
			}
			open[id] = state{next, now}
		}
		if len(c.open) != 0 {
			t.Fatalf("%d sessions are kept that are over", len(c.open))
		}
	})
}

// flat is all that a prompt says.
func flat(p record.Prompt) string {
	var b strings.Builder
	for _, m := range p.Messages {
		b.WriteString(m.Content)
	}
	return b.String() + p.Text
}

// The system prompt and the shared prefix are the same in all sessions of a run, the
// user's prefix in those of a user, and all else is nobody else's; another run has
// others. Lengths are what was asked, a word taken for a token.
func TestSessionContent(t *testing.T) {
	spec := talking(func(s *Spec) {
		s.Sessions = &Sessions{Turns: FixedLength(2), SystemPromptTokens: 40, SharedPrefixTokens: 30, UserPrefixTokens: new(FixedLength(20)), Users: 2, FirstPromptTokens: new(FixedLength(60))}
	})
	type parts struct {
		system, shared, user, own string
		of                        int64
	}
	words := func(text string, from, to int) string {
		return strings.Join(strings.Fields(text)[from:to], " ")
	}
	draw := func(nonce string) (all []parts) {
		p, twin := planOf(t, spec, 1), planOf(t, spec, 1)
		planned := sessionsOf(twin, 12)
		c := NewConversations(p, Uncalibrated(CalibrateOptions{Chat: true, Nonce: nonce}))
		for i := range 12 {
			r, _ := c.Next()
			m := r.Prompt.Messages
			if len(m) != 2 || m[0].Role != "system" || m[1].Role != "user" || r.PromptTokens != 40+30+20+60 {
				t.Fatalf("%+v", r)
			}
			// The lead word is no unit.
			if s, u := len(strings.Fields(m[0].Content))-1, len(strings.Fields(m[1].Content))-1; s != 40 || u != 110 {
				t.Fatalf("%d and %d words, want 40 and 110", s, u)
			}
			all = append(all, parts{words(m[0].Content, 1, 41), words(m[1].Content, 1, 31), words(m[1].Content, 31, 51), words(m[1].Content, 51, 111), planned[i].User})
		}
		return all
	}
	a, b := draw("one"), draw("two")
	for i, x := range a {
		for k, y := range a[:i] {
			if x.system != y.system || x.shared != y.shared {
				t.Fatalf("sessions %d and %d do not share", k, i)
			}
			if (x.user == y.user) != (x.of == y.of) {
				t.Fatalf("sessions %d and %d, of users %d and %d: the user's prefixes are equal: %v", k, i, y.of, x.of, x.user == y.user)
			}
			if x.own == y.own {
				t.Fatalf("sessions %d and %d say the same", k, i)
			}
		}
		if x.system == b[i].system || x.shared == b[i].shared || x.user == b[i].user || x.own == b[i].own {
			t.Fatalf("session %d says the same in two runs", i)
		}
	}
}

// Hashes of a turn begin with those of the turn before; two sessions share the full
// blocks of their common prefixes, and no more.
func TestSessionHashes(t *testing.T) {
	spec := talking(func(s *Spec) {
		s.Sessions = &Sessions{Turns: FixedLength(3), SystemPromptTokens: 40, SharedPrefixTokens: 30, UserPrefixTokens: new(FixedLength(50)), Users: 3}
	})
	const block = 16
	c, twin := NewConversations(planOf(t, spec, 4), nil), sessionsOf(planOf(t, spec, 4), 8)
	hashes := make([][]uint64, 8)
	for i := range hashes {
		r, _ := c.Next()
		for {
			h := c.Hashes(&r, r.MaxTokens, block)
			if len(h) != (r.PromptTokens+r.MaxTokens)/block {
				t.Fatalf("%d hashes of %d tokens", len(h), r.PromptTokens+r.MaxTokens)
			}
			if !slices.Equal(h[:len(hashes[i])], hashes[i]) {
				t.Fatalf("turn %d does not begin as the one before", r.Turn)
			}
			hashes[i] = slices.Clone(h)
			next, _, ok := c.After(&r, 1, 2)
			if !ok {
				break
			}
			r = next
		}
	}
	for i := range hashes {
		for k := range i {
			shared := 0
			for shared < len(hashes[i]) && shared < len(hashes[k]) && hashes[i][shared] == hashes[k][shared] {
				shared++
			}
			want := (40 + 30) / block
			if twin[i].User == twin[k].User {
				want = (40 + 30 + 50) / block
			}
			if shared != want {
				t.Errorf("sessions %d and %d share %d blocks, want %d", k, i, shared, want)
			}
		}
	}
}

func TestSessionFingerprint(t *testing.T) {
	plain := with(func(*Spec) {})
	if plain.Fingerprint(1) == talking(nil).Fingerprint(1) {
		t.Error("sessions are not in the fingerprint")
	}
	a := talking(func(s *Spec) { s.Sessions.Users = 3 })
	if a.Fingerprint(1) == talking(nil).Fingerprint(1) {
		t.Error("users are not in the fingerprint")
	}
}

// A sample says what an infinite cache would have, in tokens: counted here by a set
// of all that was ever said.
func TestSampleOfSessions(t *testing.T) {
	spec := talking(func(s *Spec) {
		s.Arrival = Arrival{Process: Poisson, Rate: 2}
		s.Sessions = &Sessions{Turns: UniformLength(1, 5), SystemPromptTokens: 40, UserPrefixTokens: new(FixedLength(25)), Users: 4}
	})
	got, err := planOf(t, spec, 9).Sample(300)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[uint64]bool{}
	var prompts, hits int64
	c := NewConversations(planOf(t, spec, 9), nil)
	n, sessions := 0, 0
	for n < 300 {
		r, _ := c.Next()
		sessions++
		for {
			h := c.Hashes(&r, r.MaxTokens, 1)
			prompts += int64(r.PromptTokens)
			for _, x := range h[:r.PromptTokens] {
				if !seen[x] {
					break
				}
				hits++
			}
			for _, x := range h[:len(h)-1] { // the last token is not computed
				seen[x] = true
			}
			n++
			next, _, ok := c.After(&r, 1, 2)
			if !ok {
				break
			}
			r = next
		}
	}
	if got.PromptTokens != prompts || got.KnownTokens != hits || len(got.Turns) != sessions || len(got.At) != sessions || len(got.Prompts) != n {
		t.Errorf("%d of %d tokens known, %d sessions, %d arrivals, %d requests; want %d of %d, %d, %d, %d",
			got.KnownTokens, got.PromptTokens, len(got.Turns), len(got.At), len(got.Prompts), hits, prompts, sessions, sessions, n)
	}
	p := got.Profile()
	if p.Sessions == nil || p.Sessions.Sessions != sessions || !p.Arrivals.OfSessions {
		t.Errorf("profile %+v", p.Sessions)
	}
}

// BenchmarkSessions draws a million requests in sessions.
func BenchmarkSessions(b *testing.B) {
	spec := talking(func(s *Spec) {
		s.PromptTokens = Length{Dist: LogNormal, Mean: 100, CV: 1, Max: 5000}
		s.Sessions.Tool = &ToolCalls{Share: 0.3, Delay: Think{Dist: LogNormal, Mean: time.Second, CV: 1}}
	})
	for b.Loop() {
		p := planOf(b, spec, 1)
		for range 1_000_000 {
			p.Next()
		}
	}
	b.ReportMetric(float64(b.Elapsed().Seconds())/float64(b.N), "s/million")
}
