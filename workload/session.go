package workload

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Sessions make conversations of the requests: each turn is asked when the one
// before has been answered, with all that was said before in its prompt. Then
// arrivals are those of sessions, concurrency and max_in_flight count sessions in
// progress, and think_time is the rest before a later turn, in any loop.
//
// prompt_tokens is what a turn adds to its prompt, output_tokens what is answered.
type Sessions struct {
	// Turns of a session: its requests. "dist: trace" takes sessions, lengths and
	// delays as a trace has them.
	Turns Length `yaml:"turns" json:"turns"`
	// FirstPromptTokens is what the user says first, where it is not as long as the
	// rest.
	FirstPromptTokens *Length `yaml:"first_prompt_tokens,omitempty" json:"first_prompt_tokens,omitempty"`
	// SystemPromptTokens are a message of the system at the head of every session,
	// SharedPrefixTokens the beginning of every first prompt: the same in all
	// sessions of a run. Then comes the prefix of a pool, if the workload has a
	// [Prefix]. UserPrefixTokens come next, and are the user's own, as is their number,
	// drawn once a user. All of them come on top of the first prompt's length.
	SystemPromptTokens int     `yaml:"system_prompt_tokens,omitempty" json:"system_prompt_tokens,omitzero"`
	SharedPrefixTokens int     `yaml:"shared_prefix_tokens,omitempty" json:"shared_prefix_tokens,omitzero"`
	UserPrefixTokens   *Length `yaml:"user_prefix_tokens,omitempty" json:"user_prefix_tokens,omitempty"`
	// Users that sessions are drawn from; 0: each session is another user's.
	Users int `yaml:"users,omitempty" json:"users,omitzero"`
	// Tool calls, in place of think time before some turns.
	Tool *ToolCalls `yaml:"tool,omitempty" json:"tool,omitempty"`
	// Timing of the later turns of a trace's sessions: delays, after the end of the
	// turn before; times, at the recorded times, but never before that end; at-once,
	// at that end. Empty: delays where the trace has any, else times, else at-once.
	Timing string `yaml:"timing,omitempty" json:"timing,omitzero"`
}

// The timings of later turns.
const (
	ByDelays = "delays"
	ByTimes  = "times"
	AtOnce   = "at-once"
)

// ToolCalls are the turns that a program asks, not a person: after Delay, in place
// of the think time.
type ToolCalls struct {
	// Share of the later turns that are.
	Share float64 `yaml:"share" json:"share"`
	Delay Think   `yaml:"delay" json:"delay_ns"`
}

const (
	// maxTurns of a session; more is a typing error.
	maxTurns = 10_000
	maxUsers = 1_000_000_000
)

// FollowTrace reports whether the sessions are those of a trace.
func (s *Sessions) FollowTrace() bool { return s != nil && s.Turns.Dist == FromTrace }

// check passes what is wrong to field, by its name.
func (s *Sessions) check(field func(string, error)) {
	field("sessions.turns", s.Turns.Validate())
	if _, most := s.Turns.Bounds(); most > maxTurns {
		field("sessions.turns", fmt.Errorf("up to %d turns: want at most %d", most, maxTurns))
	}
	if f := s.FirstPromptTokens; f != nil {
		field("sessions.first_prompt_tokens", f.Validate())
		if f.Dist == FromTrace {
			field("sessions.first_prompt_tokens", errors.New("a trace has it with prompt_tokens"))
		}
	}
	for _, n := range []struct {
		name  string
		n, up int
	}{
		{"system_prompt_tokens", s.SystemPromptTokens, MaxTokens}, {"shared_prefix_tokens", s.SharedPrefixTokens, MaxTokens},
		{"users", s.Users, maxUsers},
	} {
		if n.n < 0 || n.n > n.up {
			field("sessions."+n.name, fmt.Errorf("%d is not within 0 and %d", n.n, n.up))
		}
	}
	if u := s.UserPrefixTokens; u != nil {
		field("sessions.user_prefix_tokens", u.Validate())
		if u.Dist == FromTrace {
			field("sessions.user_prefix_tokens", errors.New("a trace does not have it"))
		}
	}
	if t := s.Tool; t != nil {
		if !(t.Share > 0 && t.Share <= 1) {
			field("sessions.tool.share", fmt.Errorf("%v is not above 0 and at most 1", t.Share))
		}
		field("sessions.tool.delay", t.Delay.Validate())
	}
	if s.FollowTrace() {
		s.checkTrace(field)
	} else if s.Timing != "" {
		field("sessions.timing", errors.New("it is of a trace (turns: {dist: trace})"))
	}
}

// checkTrace refuses what a trace has by itself.
func (s *Sessions) checkTrace(field func(string, error)) {
	if s.FirstPromptTokens != nil {
		field("sessions.first_prompt_tokens", errors.New("the trace has the lengths of first prompts"))
	}
	if !slices.Contains([]string{"", ByDelays, ByTimes, AtOnce}, s.Timing) {
		field("sessions.timing", fmt.Errorf("%q is none of %s, %s, %s", s.Timing, ByDelays, ByTimes, AtOnce))
	}
	if s.Tool != nil {
		field("sessions.tool", errors.New("the trace has its own delays"))
	}
}

// describe says the sessions in words, after the loop.
func (s *Sessions) describe(think Think) string {
	var b strings.Builder
	if s.FollowTrace() {
		b.WriteString("sessions as in the trace")
		switch {
		case !think.IsZero():
			b.WriteString(", " + think.describe() + " before each later turn")
		case s.Timing == ByDelays:
			b.WriteString(", later turns after the end of the one before and the recorded delay")
		case s.Timing == ByTimes:
			b.WriteString(", later turns at the recorded times, and not before the end of the one before")
		case s.Timing == AtOnce:
			b.WriteString(", later turns at the end of the one before")
		}
	} else {
		fmt.Fprintf(&b, "sessions of %s turns, %s before each later one", strings.TrimPrefix(s.Turns.describe(), "exactly "), think.describe())
	}
	if t := s.Tool; t != nil {
		fmt.Fprintf(&b, ", for %.4g %% of them a tool's delay instead (%s)", 100*t.Share, strings.TrimPrefix(t.Delay.describe(), "think time "))
	}
	for _, p := range []struct {
		n    int
		name string
	}{
		{s.SystemPromptTokens, "system prompt"}, {s.SharedPrefixTokens, "prefix shared by all"},
	} {
		if p.n > 0 {
			fmt.Fprintf(&b, ", %s of %d tokens", p.name, p.n)
		}
	}
	if u := s.UserPrefixTokens; u != nil {
		fmt.Fprintf(&b, ", prefix of the user of %s tokens", strings.TrimPrefix(u.describe(), "exactly "))
	}
	if s.Users > 0 {
		fmt.Fprintf(&b, ", %d users", s.Users)
	}
	return b.String()
}
