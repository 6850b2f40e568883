package workload

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/assay-bench/assay/arrival"
	"github.com/assay-bench/assay/record"
)

// Plan draws the requests of a run: their lengths here, their times by
// Arrivals. It is not safe for concurrent use.
type Plan struct {
	spec    Spec
	seed    uint64
	next    int64
	prompts *rand.Rand
	outputs *rand.Rand
}

// NewPlan starts the plan of a seed. It fails if the workload is not valid.
func NewPlan(spec Spec, seed uint64) (*Plan, error) {
	if err := spec.Validate(); err != nil {
		return nil, fmt.Errorf("planning the workload: %w", err)
	}
	return &Plan{
		spec:    spec.Resolve(),
		seed:    seed,
		prompts: rand.New(stream(seed, "prompt lengths")),
		outputs: rand.New(stream(seed, "output lengths")),
	}, nil
}

// stream is the random source of one purpose. Sources of different purposes or
// seeds are independent.
func stream(seed uint64, purpose string) rand.Source {
	sum := sha256.Sum256(fmt.Appendf(nil, "assay %d %s", seed, purpose))
	return rand.NewPCG(binary.LittleEndian.Uint64(sum[:]), binary.LittleEndian.Uint64(sum[8:]))
}

// Spec is the workload as resolved.
func (p *Plan) Spec() Spec { return p.spec }

// Next is the next request in planned order, without its prompt.
func (p *Plan) Next() record.Request {
	r := record.Request{
		Index:        p.next,
		PromptTokens: p.spec.PromptTokens.draw(p.prompts),
		MaxTokens:    p.spec.OutputTokens.draw(p.outputs),
		ExactOutput:  p.spec.ExactOutput,
	}
	p.next++
	return r
}

// Arrivals is the arrival process of an open loop, from its start at every
// call; nil for a closed loop.
func (p *Plan) Arrivals() arrival.Process {
	var process arrival.Process
	var err error
	switch p.spec.Arrival.Process {
	case Constant:
		process, err = arrival.NewConstant(p.spec.Arrival.Rate)
	case Poisson:
		process, err = arrival.NewPoisson(p.spec.Arrival.Rate, stream(p.seed, "arrivals"))
	}
	if err != nil {
		// NewPlan has checked the rate.
		panic(err)
	}
	return process
}

// ThinkTime is how long a slot of a closed loop waits before its next request.
func (p *Plan) ThinkTime() time.Duration { return p.spec.ThinkTime }
