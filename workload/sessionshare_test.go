package workload

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/assay-bench/assay/record"
)

// Sessions of the first versions: their fingerprints and all that they drew.
func TestOldSessions(t *testing.T) {
	for _, tt := range []struct {
		spec               Spec
		fingerprint, draws string
	}{
		{talking(nil), "c23ea6192c6a2bc0", "1468d2ad39405258"},
		{talking(func(s *Spec) {
			s.Sessions = &Sessions{
				Turns: UniformLength(2, 5), FirstPromptTokens: new(FixedLength(60)), SystemPromptTokens: 40, SharedPrefixTokens: 30,
				UserPrefixTokens: new(FixedLength(20)), Users: 3, Tool: &ToolCalls{Share: 0.3, Delay: FixedThink(time.Second)},
			}
		}), "54bddbb6b6baa7f1", "7d75cf4d4d458770"},
	} {
		h := sha256.New()
		for _, x := range sessionsOf(planOf(t, tt.spec, 7), 300) {
			fmt.Fprintln(h, x.Index, x.First, x.User)
			for _, u := range x.Turns {
				fmt.Fprintln(h, u.PromptTokens, u.MaxTokens, int64(u.Delay), u.Tool)
			}
		}
		if got := fmt.Sprintf("%x", h.Sum(nil)[:8]); got != tt.draws || tt.spec.Fingerprint(7) != tt.fingerprint {
			t.Errorf("%s: draws %s, fingerprint %s; they were %s and %s", tt.spec.Describe(), got, tt.spec.Fingerprint(7), tt.draws, tt.fingerprint)
		}
	}
}

// words are the tokens of a conversation as the server would have them: a word each,
// but for the lead of a text.
type words struct{ ids map[string]int32 }

func (w *words) append(out []int32, text string, isLed bool) []int32 {
	all := strings.Fields(text)
	if isLed {
		all = all[1:]
	}
	for _, x := range all {
		id, ok := w.ids[x]
		if !ok {
			id = int32(len(w.ids) + 1)
			w.ids[x] = id
		}
		out = append(out, id)
	}
	return out
}

// What sessions share is one and the same thing by three ways: the words that are
// sent, under a cache that forgets nothing and is kept apart by salts; the hashes
// that the engine gets in virtual time; and the count of the plan.
func TestSessionSharing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const block, sessions = 16, 12
		// What follows the prefixes has its whole code in the block that they begin: a
		// part of it may agree by chance.
		lengths := Length{Dist: Histogram, Bins: []Bin{{16, 16, 1}, {33, 33, 1}, {81, 81, 1}}}
		least := func(n int, name string) int { return rapid.SampledFrom([]int{0, 16, n}).Draw(t, name) }
		spec := talking(func(s *Spec) {
			s.Sessions = &Sessions{
				Turns: UniformLength(1, 4), SystemPromptTokens: least(33, "system"), SharedPrefixTokens: least(49, "shared"),
				Users: rapid.SampledFrom([]int{0, 2}).Draw(t, "users"),
			}
			if rapid.Bool().Draw(t, "user prefixes") {
				s.Sessions.UserPrefixTokens = &lengths
			}
			if rapid.Bool().Draw(t, "pools") {
				s.Prefix = &Prefix{Tokens: lengths, Pools: rapid.IntRange(1, 3).Draw(t, "n"), Share: rapid.SampledFrom([]float64{0, 0.6}).Draw(t, "share")}
			}
			s.CacheSalt = rapid.SampledFrom([]string{"", SaltRun, SaltSession, SaltRequest}).Draw(t, "salt")
		})
		seed := rapid.Uint64().Draw(t, "seed")
		plan, err := NewPlan(spec, seed)
		if err != nil {
			t.Fatal(err)
		}
		bare, err := NewPlan(spec, seed)
		if err != nil {
			t.Fatal(err)
		}
		said := NewConversations(plan, Uncalibrated(CalibrateOptions{Chat: true, Nonce: "n"}))
		hashed := NewConversations(bare, nil)
		vocabulary := words{map[string]int32{}}
		caches := map[string]*infiniteCache{}
		known := map[uint64]bool{}
		byWords, byHashes := 0, 0
		for range sessions {
			r, ok := said.Next()
			twin, _ := hashed.Next()
			replied := map[int]bool{} // messages that are replies
			for ok {
				plan.Due(&r)
				var ids []int32
				for i, m := range r.Prompt.Messages {
					ids = vocabulary.append(ids, m.Content, !replied[i])
				}
				if len(ids) != r.PromptTokens || twin.PromptTokens != r.PromptTokens || twin.KnownTokens != r.KnownTokens {
					t.Fatalf("%d words, %d and %d tokens", len(ids), r.PromptTokens, twin.PromptTokens)
				}
				if (r.CacheSalt == "") != (spec.CacheSalt == "") || spec.CacheSalt != "" && r.CacheSalt == spec.CacheSalt {
					t.Fatalf("a salt of %q for scope %q", r.CacheSalt, spec.CacheSalt)
				}
				cache := caches[r.CacheSalt]
				if cache == nil {
					cache = &infiniteCache{block, map[string]int{}}
					caches[r.CacheSalt] = cache
				}
				byWords += cache.hit(ids)
				var reply []string
				for i := range r.MaxTokens {
					reply = append(reply, fmt.Sprintf("r%d_%d", r.Index, i))
				}
				text := " " + strings.Join(reply, " ")
				// The last token of a reply is never computed.
				cache.hit(vocabulary.append(ids, strings.Join(reply[:len(reply)-1], " "), false))

				h := hashed.Hashes(&twin, twin.MaxTokens, block)
				for i, x := range h {
					if !known[x] || (i+1)*block >= twin.PromptTokens {
						break
					}
					byHashes += block
				}
				for i, x := range h {
					if (i+1)*block < twin.PromptTokens+twin.MaxTokens {
						known[x] = true
					}
				}
				replied[len(r.Prompt.Messages)] = true
				next, _, more := said.After(&r, 1, 2)
				twin, _, _ = hashed.After(&twin, 1, 2)
				if ok = more; ok {
					said.Fill(&next, record.Message{Content: text})
				}
				r = next
			}
		}
		s := plan.Sharing()
		if s == nil || s.BlockSize != block || int(s.HitTokens) != byWords || byHashes != byWords {
			t.Errorf("%d tokens of the words are hits, %d of the hashes; the plan says %+v", byWords, byHashes, s)
		}
		if spec.CacheSalt == SaltRequest && byWords > 0 {
			t.Errorf("%d tokens are hits under a salt for each request", byWords)
		}
	})
}

// Pools are drawn by a session's number, in the shares that were asked, and leave all
// other draws as they were.
func TestSessionPools(t *testing.T) {
	const n = 4000
	plain := sessionsOf(planOf(t, talking(nil), 3), n)
	spec := talking(func(s *Spec) {
		s.Prefix = &Prefix{Tokens: UniformLength(30, 90), Pools: 3, Share: 0.6, Pick: PickZipf}
	})
	short := spec
	short.Sessions = &Sessions{Turns: FixedLength(1)}
	other := sessionsOf(planOf(t, short, 3), n)
	length := map[int]int{}
	of := [4]float64{}
	for i, s := range sessionsOf(planOf(t, spec, 3), n) {
		if s.PrefixPool != other[i].PrefixPool {
			t.Fatalf("session %d: pool %d, and %d with other turns", i, s.PrefixPool, other[i].PrefixPool)
		}
		of[s.PrefixPool]++
		if was, ok := length[s.PrefixPool]; ok && was != s.PrefixTokens {
			t.Fatalf("the prefix of pool %d has %d and %d tokens", s.PrefixPool, was, s.PrefixTokens)
		}
		length[s.PrefixPool] = s.PrefixTokens
		s.Turns[0].PromptTokens -= s.PrefixTokens
		for k, x := range s.Turns {
			if w := plain[i].Turns[k]; x.PromptTokens != w.PromptTokens || x.MaxTokens != w.MaxTokens || x.Delay != w.Delay {
				t.Fatalf("session %d, turn %d: %+v, without pools %+v", i, k+1, x, w)
			}
		}
	}
	if length[0] != 0 || length[1] < 30 {
		t.Errorf("prefixes are %v tokens", length)
	}
	chi2 := 0.0
	for pool, share := range []float64{0.4, 0.6 * 6 / 11, 0.6 * 3 / 11, 0.6 * 2 / 11} {
		chi2 += (of[pool] - n*share) * (of[pool] - n*share) / (n * share)
	}
	if chi2 > 16.27 { // 3 degrees of freedom, alpha = 0.001
		t.Errorf("pools were picked %v times: chi-squared %v", of, chi2)
	}
}

// The length of a user's prefix is drawn once a user.
func TestUserPrefixes(t *testing.T) {
	spec := talking(func(s *Spec) { s.Sessions.UserPrefixTokens, s.Sessions.Users = new(UniformLength(20, 400)), 40 })
	of, lengths := map[int64]int{}, map[int]bool{}
	for _, s := range sessionsOf(planOf(t, spec, 5), 1000) {
		if n, ok := of[s.User]; ok && n != s.UserTokens {
			t.Fatalf("user %d has prefixes of %d and %d tokens", s.User, n, s.UserTokens)
		}
		of[s.User] = s.UserTokens
		lengths[s.UserTokens] = true
		if s.UserTokens < 20 || s.UserTokens > 400 || s.Turns[0].PromptTokens < s.UserTokens+20 {
			t.Fatalf("%+v", s)
		}
	}
	if len(of) != 40 || len(lengths) < 25 {
		t.Errorf("%d users, %d lengths", len(of), len(lengths))
	}
	low, high := planOf(t, spec, 5).PromptBounds()
	if low != 20 || high != 490 {
		t.Errorf("prompts from %d to %d tokens", low, high)
	}
}

func TestSessionSaltsValidate(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*Spec)
		want   string
	}{
		"a session's":       {func(s *Spec) { s.CacheSalt = SaltSession }, ""},
		"of no session":     {func(s *Spec) { s.CacheSalt, s.Sessions, s.ThinkTime = SaltSession, nil, Think{} }, "cache_salt: requests are of no session: want run or request"},
		"unknown":           {func(s *Spec) { s.CacheSalt = "user" }, `cache_salt: "user" is not known: want run, session or request`},
		"user's prefix":     {func(s *Spec) { s.Sessions.UserPrefixTokens = new(FixedLength(0)) }, "sessions.user_prefix_tokens: 0 is below 1"},
		"of a trace":        {func(s *Spec) { s.Sessions.UserPrefixTokens = new(Length{Dist: FromTrace}) }, "sessions.user_prefix_tokens: a trace does not have it"},
		"both prefixes fit": {func(s *Spec) { s.Sessions.SharedPrefixTokens, s.Prefix = 9, &Prefix{Tokens: FixedLength(9)} }, ""},
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

// chatBlocks are sessions with hash ids: prompts of their own, that share blocks
// within a session and between two.
const chatBlocks = `{"chat_id":1,"parent_chat_id":-1,"timestamp":0,"input_length":33,"output_length":10,"type":"text","turn":1,"hash_ids":[1,2,3]}
{"chat_id":2,"parent_chat_id":-1,"timestamp":1,"input_length":48,"output_length":20,"type":"text","turn":1,"hash_ids":[1,7,8]}
{"chat_id":3,"parent_chat_id":1,"timestamp":5,"input_length":64,"output_length":5,"type":"text","turn":2,"hash_ids":[1,2,4,5]}
{"chat_id":4,"parent_chat_id":2,"timestamp":6,"input_length":70,"output_length":5,"type":"text","turn":2,"hash_ids":[1,7,8,9,10]}
{"chat_id":5,"parent_chat_id":3,"timestamp":9,"input_length":64,"output_length":7,"type":"text","turn":3,"hash_ids":[1,2,4,5]}
`

// Turns of sessions have the recorded blocks for prompts: neither the history nor the
// reply is in them.
func TestSessionBlocks(t *testing.T) {
	file := filepath.Join(t.TempDir(), "b.jsonl")
	if err := os.WriteFile(file, []byte(chatBlocks), 0o600); err != nil {
		t.Fatal(err)
	}
	spec := blockSpec(file)
	spec.Trace.HashIDs = SessionBlocks
	spec.Sessions = &Sessions{Turns: Length{Dist: FromTrace}}
	open := func(s Spec) (*Plan, error) {
		f, err := OpenTrace(s, 3)
		if err != nil {
			return nil, err
		}
		return NewSessionPlan(s, 3, f)
	}
	plan, err := open(spec)
	if err != nil {
		t.Fatal(err)
	}
	if low, high := plan.PromptBounds(); !plan.ReplaysBlocks() || !plan.Shares() || low != 33 || high != 70 {
		t.Fatalf("prompts from %d to %d tokens", low, high)
	}
	content := Uncalibrated(CalibrateOptions{Nonce: "n"})
	content.ids = make([]int32, 200)
	for i := range content.ids {
		content.ids[i] = int32(1000 + i)
	}
	c := NewConversations(plan, content)
	cache := infiniteCache{16, map[string]int{}}
	var prompts [][]int32
	hits := 0
	for {
		r, ok := c.Next()
		if !ok {
			break
		}
		for ok {
			plan.Due(&r)
			if len(r.Prompt.TokenIDs) != r.PromptTokens {
				t.Fatalf("%d ids, want %d", len(r.Prompt.TokenIDs), r.PromptTokens)
			}
			prompts = append(prompts, r.Prompt.TokenIDs)
			hits += cache.hit(r.Prompt.TokenIDs)
			var next record.Request
			c.Replied(&r, &record.Usage{PromptTokens: 500, CompletionTokens: 500})
			if next, _, ok = c.After(&r, 1, 2); ok {
				c.Fill(&next, record.Message{Content: "what the server said"})
			}
			r = next
		}
	}
	// Prompts of session 0: 33, 64, 64; of session 1: 48, 70. Of the first the second
	// has two blocks, the third three of four (the last token is computed always), the
	// fourth one, the fifth three.
	if want := (2 + 3 + 1 + 3) * 16; hits != want || plan.Sharing().HitTokens != int64(want) || len(prompts) != 5 {
		t.Errorf("%d tokens are hits, %d planned, want %d; %d prompts", hits, plan.Sharing().HitTokens, want, len(prompts))
	}
	if !slices.Equal(prompts[1], prompts[2]) || !slices.Equal(prompts[0][:16], prompts[3][:16]) {
		t.Error("equal blocks are not equal tokens")
	}
	for want, change := range map[string]func(*Spec){
		"sessions: the trace says by its hash_ids what prompts share":                  func(s *Spec) { s.Sessions = &Sessions{Turns: Length{Dist: FromTrace}, SystemPromptTokens: 9} },
		"prefix: the trace says by its hash_ids":                                       func(s *Spec) { s.Prefix = &Prefix{Tokens: FixedLength(9)} },
		"trace.hash_ids: sessions is of the trace's own":                               func(s *Spec) { s.Sessions = &Sessions{Turns: FixedLength(3)} },
		"trace.hash_ids: prompts are of another length":                                func(s *Spec) { s.PromptTokens = FixedLength(8) },
		"trace.hash_ids: no row is a later turn":                                       func(s *Spec) { s.Trace = &Trace{File: blockTrace(t, 3), HashIDs: SessionBlocks} },
		"trace.scale.by: thinning would take sessions apart":                           func(s *Spec) { s.Trace.Scale = &TraceScale{By: Thinning, Factor: 0.5} },
		"trace.hash_ids: replay is of single requests; turns of sessions have the rec": func(s *Spec) { s.Trace.HashIDs = ReplayBlocks },
	} {
		s := spec
		s.Trace = new(*spec.Trace)
		change(&s)
		if _, err := open(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
