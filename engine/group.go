package engine

import "fmt"

// Group is several data-parallel replicas that share the experts of a mixture
// model. Every layer exchanges tokens between all of them, so they step
// together, and the slowest sets the pace; a replica without work takes part
// in the steps of the others.
//
// Which replica a request goes to is the caller's choice: Add it to one of
// Engines.
type Group struct {
	engines []*Engine
	steps   []*Step
}

// NewGroup returns that many replicas, with their experts spread over all of
// them. Replica i draws from seed c.Seed + i.
func NewGroup(c Config, replicas int) (*Group, error) {
	if replicas < 1 {
		return nil, fmt.Errorf("engine: a group of %d replicas", replicas)
	}
	if replicas > 1 {
		c.EP = c.TP * replicas
	}
	g := &Group{steps: make([]*Step, replicas)}
	for range replicas {
		e, err := New(c)
		if err != nil {
			return nil, err
		}
		g.engines = append(g.engines, e)
		c.Seed++
	}
	return g, nil
}

// Engines are the replicas, in order. Step the group, never one of them.
func (g *Group) Engines() []*Engine { return g.engines }

// HasWork reports whether any replica has.
func (g *Group) HasWork() bool {
	for _, e := range g.engines {
		if e.HasWork() {
			return true
		}
	}
	return false
}

// Step is Engine.Step for all replicas: all start and end at the same time.
// Replicas without work have a step without tokens. The slice is reused by the
// next call.
func (g *Group) Step(now int64) []*Step {
	for _, e := range g.engines {
		now = max(now, e.last)
	}
	everywhere := 0
	for _, e := range g.engines {
		e.begin(now)
		everywhere += e.batch.tokens
	}
	end := now
	for _, e := range g.engines {
		if e.batch.tokens > 0 {
			e.batch.everywhere = everywhere
			end = max(end, now+e.duration())
		}
	}
	for i, e := range g.engines {
		g.steps[i] = e.finish(end)
	}
	return g.steps
}
