package workload

import "github.com/assay-bench/assay/arrival"

// Sample takes the first n requests of the plan, which are used up then. Of
// sessions it takes whole ones, as if all went as planned, and their starts are the
// arrivals. The error is that of a trace.
func (p *Plan) Sample(n int) (Sample, error) {
	var s Sample
	times := p.Arrivals()
	if p.sessions != nil {
		p.sampleSessions(&s, n, times)
		s.Sharing = p.Sharing()
		return s, p.Err()
	}
	at := int64(0)
	for range n {
		r, ok := p.Next()
		if !ok {
			break
		}
		p.Due(&r)
		s.Prompts, s.Outputs = append(s.Prompts, r.PromptTokens), append(s.Outputs, r.MaxTokens)
		if times != nil && !s.arrive(&at, times) {
			break
		}
	}
	s.Sharing = p.Sharing()
	return s, p.Err()
}

// arrive notes the next arrival; false if there is none.
func (s *Sample) arrive(at *int64, times arrival.Process) bool {
	gap := times.Next()
	if gap == arrival.Never {
		return false
	}
	*at += int64(gap)
	s.At = append(s.At, *at)
	return true
}

func (p *Plan) sampleSessions(s *Sample, n int, times arrival.Process) {
	at := int64(0)
	for len(s.Prompts) < n {
		one, ok := p.NextSession()
		if !ok || times != nil && !s.arrive(&at, times) {
			return
		}
		s.Turns = append(s.Turns, len(one.Turns))
		said := 0
		for i := range one.Turns {
			r := p.turnOf(&one, i, said, said-1)
			p.Due(&r)
			s.Prompts, s.Outputs = append(s.Prompts, r.PromptTokens), append(s.Outputs, r.MaxTokens)
			s.PromptTokens += int64(r.PromptTokens)
			s.KnownTokens += int64(r.KnownTokens)
			said = r.PromptTokens + r.MaxTokens
		}
	}
}
