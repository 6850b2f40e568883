package main

import (
	"context"
	"fmt"
	"time"

	"github.com/assay-bench/assay/engine"
	"github.com/assay-bench/assay/experiment"
	"github.com/assay-bench/assay/load/sched"
	"github.com/assay-bench/assay/load/virtual"
	"github.com/assay-bench/assay/metric"
	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/result"
	"github.com/assay-bench/assay/workload"
)

// noise is the coefficient of variation of a step, that of a real engine.
const noise = 0.02

// traffic is a kind of workload whose rate is set by the load.
type traffic struct {
	name string
	spec workload.Spec
	// capacity in requests/s, known from [capacity].
	capacity float64
}

func kinds() ([]*traffic, error) {
	fixed := workload.Default()
	fixed.PromptTokens, fixed.OutputTokens = workload.FixedLength(512), workload.FixedLength(128)
	fixed.ExactOutput = true
	fixed.Arrival = workload.Arrival{Process: workload.Poisson, Rate: 1}
	chat := fixed
	for text, to := range map[string]*workload.Length{
		"lognormal:mean=512,cv=1.2,max=8192": &chat.PromptTokens,
		"lognormal:mean=128,cv=0.8,max=2048": &chat.OutputTokens,
	} {
		if err := to.UnmarshalText([]byte(text)); err != nil {
			return nil, err
		}
	}
	bursty := chat
	bursty.Arrival = workload.Arrival{Process: workload.Gamma, Rate: 1, CV: 2}
	return []*traffic{
		{name: "Poisson, 512/128 tokens", spec: fixed},
		{name: "Poisson, lognormal lengths", spec: chat},
		{name: "gamma gaps of CV 2, lognormal lengths", spec: bursty},
	}, nil
}

// memory keeps what a stage records. Events are not kept: no figure that is
// looked at here needs them.
type memory struct{ attempts []record.Attempt }

func (m *memory) Append(a *record.Attempt, _ []record.Event) error {
	c := *a
	if a.Usage != nil {
		c.Usage = new(*a.Usage)
	}
	m.attempts = append(m.attempts, c)
	return nil
}

func (*memory) Flush() error { return nil }

func (m *memory) records(yield func(*record.Attempt, []record.Event) bool) {
	for i := range m.attempts {
		if !yield(&m.attempts[i], nil) {
			return
		}
	}
}

// trial is one run in virtual time.
type trial struct {
	spec workload.Spec
	seed uint64
	plan experiment.Plan // window and caps; the load comes from spec
}

// at sets the load: a share of the capacity.
func (t *traffic) at(load float64) workload.Spec {
	s := t.spec
	s.Arrival.Rate = load * t.capacity
	return s
}

// closed is the same requests from a closed loop.
func (t *traffic) closed(slots int) workload.Spec {
	s := t.spec
	s.Arrival, s.Concurrency, s.Ramp = workload.Arrival{Process: workload.Closed}, slots, 2*time.Second
	return s
}

// shipped is the plan of assay run with a window of that length.
func shipped(window time.Duration) experiment.Plan {
	return experiment.Plan{Duration: window, Warmup: experiment.MSER5, WarmupMax: time.Minute, CooldownMax: time.Minute}
}

// do runs it, and concludes by the road that every run takes.
func (t trial) do(ctx context.Context) (result.Stage, *memory, error) {
	plan, err := workload.NewPlan(t.spec, t.seed)
	if err != nil {
		return result.Stage{}, nil, err
	}
	eng := engine.DefaultConfig()
	eng.NoiseCV, eng.Seed = noise, t.seed
	spec := plan.Spec()
	load := sched.Config{Concurrency: spec.Concurrency, Ramp: int64(spec.Ramp)}
	if spec.Open() {
		arrivals := plan.Arrivals()
		load = sched.Config{Gap: func() int64 { return int64(arrivals.Next()) }}
	}
	r, err := virtual.New(virtual.Config{Engine: eng, Load: load, Requests: sched.SourceFunc(plan.Next)})
	if err != nil {
		return result.Stage{}, nil, err
	}
	p := t.plan
	p.Name, p.OpenLoop, p.Concurrency = "stage", spec.Open(), spec.Concurrency
	kept := new(memory)
	st := experiment.NewStage(p, kept)
	if err := r.Run(ctx, st); err != nil {
		return result.Stage{}, nil, err
	}
	if ctx.Err() != nil {
		return result.Stage{}, nil, ctx.Err()
	}
	info := st.Info(r.Now())
	out := experiment.Conclude(info, &result.Target{Virtual: true}, experiment.Records(kept.records), result.DefaultClientLimits(),
		metric.Options{Planned: spec.Open(), Seed: t.seed})
	if out.Client.Verdict != result.Valid {
		return out, kept, fmt.Errorf("the client was %s in virtual time: %s", out.Client.Verdict, out.Client.Cause)
	}
	return out, kept, nil
}
