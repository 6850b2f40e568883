package engine

import "fmt"

// Replay serves requests in virtual time until all have finished. They must be
// in the order of their Queued times, at which they arrive; everything else of
// them is as for Add. A request that arrives during a step joins the next one.
//
// observe, if not nil, is called with every step; see Step for how long it may
// keep it. Replay fails on the first request that the engine refuses.
func (e *Engine) Replay(requests []*Request, observe func(*Step)) error {
	now, next := int64(0), 0
	if len(requests) > 0 {
		now = requests[0].Queued
	}
	for {
		for next < len(requests) && requests[next].Queued <= now {
			r := requests[next]
			if next > 0 && r.Queued < requests[next-1].Queued {
				return fmt.Errorf("replaying request %d: it arrives before the one before it", next)
			}
			if err := e.Add(r.Queued, r); err != nil {
				return fmt.Errorf("replaying request %d: %w", next, err)
			}
			next++
		}
		if !e.HasWork() {
			if next == len(requests) {
				return nil
			}
			now = requests[next].Queued
			continue
		}
		s := e.Step(now)
		if observe != nil {
			observe(s)
		}
		now = s.End
	}
}
