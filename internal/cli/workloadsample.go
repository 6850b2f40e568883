package cli

import (
	"fmt"
	"time"

	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/workload"
)

// sampleSource gives the requests of a plan in planned order, with their prompts, as
// if all went as planned.
type sampleSource struct {
	plan    *workload.Plan
	content *workload.Content
	talks   *workload.Conversations // nil without sessions
	last    *record.Request         // of the session that is being told
}

func newSampleSource(p *workload.Plan, c *workload.Content) *sampleSource {
	s := &sampleSource{plan: p, content: c}
	if p.Spec().Sessions != nil {
		s.talks = workload.NewConversations(p, c)
	}
	return s
}

// next is the next request. rest is, of a later turn, the time after the end of the
// one before, or after the session's start if it has a time of its own.
func (s *sampleSource) next() (r record.Request, rest time.Duration, ok bool) {
	if s.talks == nil {
		if r, ok = s.plan.Next(); ok {
			s.content.Fill(&r)
		}
		return r, 0, ok
	}
	if s.last != nil {
		var at record.Stamp
		if r, at, ok = s.talks.After(s.last, 0, 0); ok {
			s.talks.Fill(&r, record.Message{Content: fmt.Sprintf(" [reply of up to %d tokens]", s.last.MaxTokens)})
			s.last, rest = &r, time.Duration(at)
			return r, rest, true
		}
	}
	if r, ok = s.talks.Next(); ok {
		s.last = &r
	}
	return r, 0, ok
}

// turnText says when a later turn is due.
func turnText(s *workload.Sessions, rest time.Duration) string {
	rest = rest.Round(time.Microsecond)
	switch {
	case s.Timing == workload.ByTimes:
		return fmt.Sprintf("due %v after its session began, when the turn before has ended", rest)
	case rest == 0:
		return "due when the turn before has ended"
	}
	return fmt.Sprintf("due %v after the end of the turn before", rest)
}
