package virtual

import (
	"fmt"

	"github.com/assay-bench/assay/engine"
	"github.com/assay-bench/assay/record"
)

// replica is one of the engines that share the load.
type replica struct {
	engine   *engine.Engine
	step     *engine.Step // in progress; nil if the engine rests
	inFlight int
}

// replicas makes n engines, each with a seed of its own, as simserver does.
func replicas(cfg engine.Config, n int) ([]*replica, error) {
	list := make([]*replica, 0, n)
	for i := range n {
		c := cfg
		c.Seed += uint64(i)
		e, err := engine.New(c)
		if err != nil {
			return nil, fmt.Errorf("virtual load: %w", err)
		}
		list = append(list, &replica{engine: e})
	}
	return list, nil
}

// start forms the engine's next batch, unless one is under way.
func (p *replica) start(now record.Stamp) {
	if p.step == nil && p.engine.HasWork() {
		p.step = p.engine.Step(int64(now))
	}
}

// ends reports whether a step is over.
func (p *replica) ends(now record.Stamp) bool {
	return p.step != nil && record.Stamp(p.step.End) <= now
}

// pick is the engine for the next request: the least loaded, in turn among
// equals, as simserver's.
func (r *Runner) pick() *replica {
	n := len(r.replicas)
	best := r.replicas[r.turn%n]
	for i := range r.replicas {
		if p := r.replicas[(r.turn+i)%n]; p.inFlight < best.inFlight {
			best = p
		}
	}
	return best
}
