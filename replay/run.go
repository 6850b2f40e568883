package replay

import (
	"fmt"
	"slices"

	"github.com/assay-bench/assay/engine"
	"github.com/assay-bench/assay/result"
	"github.com/assay-bench/assay/stat"
)

// sway is by how much step times are varied, to show what hangs on them.
const sway = 0.05

// Run replays the rows on an engine of that configuration, three times: as it is,
// and with steps that take 5 % less and more time. It fails if the engine
// refuses the configuration or a row.
func Run(cfg engine.Config, rows []Row) (*result.Replay, error) {
	mid, err := simulate(cfg, rows)
	if err != nil {
		return nil, err
	}
	fast, err := simulate(stretched(cfg, 1-sway), rows)
	if err != nil {
		return nil, err
	}
	slow, err := simulate(stretched(cfg, 1+sway), rows)
	if err != nil {
		return nil, err
	}
	out := &result.Replay{
		Requests: len(rows), Steps: mid.steps, KVUsageMax: mid.kvUsage, Boundary: result.Engine,
		MakespanS: float64(mid.end-rows[0].Queued) / 1e9,
	}
	last := int64(-1)
	for i, r := range rows {
		out.OutputTokens += r.Output
		out.Preemptions += mid.requests[i].Preemptions
		last = max(last, r.Last)
	}
	if last >= 0 {
		s := float64(last-rows[0].Queued) / 1e9
		out.RealMakespanS = &s
	}
	for _, f := range figures() {
		if c, ok := f.compare(rows, mid, fast, slow); ok {
			out.Figures = append(out.Figures, c)
		}
	}
	return out, nil
}

// simulation is what the engine made of the rows, in their order.
type simulation struct {
	requests []*engine.Request
	end      int64
	steps    int
	kvUsage  float64
}

func simulate(cfg engine.Config, rows []Row) (*simulation, error) {
	e, err := engine.New(cfg)
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	longest := e.Config().MaxModelLen
	s := &simulation{requests: make([]*engine.Request, len(rows))}
	for i, r := range rows {
		if r.Input+r.Output > longest {
			return nil, fmt.Errorf("replay: line %d: %d input and %d output tokens are more than the %d that the engine can hold", r.Line, r.Input, r.Output, longest)
		}
		s.requests[i] = &engine.Request{ID: uint64(i), PromptTokens: r.Input, OutputTokens: r.Output, Queued: r.Queued}
	}
	err = e.Replay(s.requests, func(step *engine.Step) {
		s.steps++
		s.end = step.End
		s.kvUsage = max(s.kvUsage, step.KVUsage)
	})
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	return s, nil
}

// stretched multiplies all parts of the step time by a factor.
func stretched(c engine.Config, by float64) engine.Config {
	k, g := &c.Constants, &c.GPU
	k.StepUs, k.LayerUs, k.RequestUs, k.MoELayerUs = k.StepUs*by, k.LayerUs*by, k.RequestUs*by, k.MoELayerUs*by
	g.BF16TFLOPS, g.FP8TFLOPS, g.FP4TFLOPS = g.BF16TFLOPS/by, g.FP8TFLOPS/by, g.FP4TFLOPS/by
	g.MemoryGBps, g.BusGBps, g.AllReduceUs = g.MemoryGBps/by, g.BusGBps/by, g.AllReduceUs*by
	return c
}

// figure is a quantity of one request, in ms, both as recorded and as simulated.
// ok is false where it does not exist.
type figure struct {
	name string
	of   func(t *times) (ms float64, ok bool)
}

// times of one request; -1 where unknown.
type times struct {
	output                         int
	queued, scheduled, first, last int64
}

const queue = "QUEUE"

func figures() []figure {
	since := func(to, from int64) (float64, bool) { return float64(to-from) / 1e6, to >= 0 && from >= 0 }
	return []figure{
		{queue, func(t *times) (float64, bool) { return since(t.scheduled, t.queued) }},
		{"TTFT", func(t *times) (float64, bool) { return since(t.first, t.queued) }},
		{"TPOT", func(t *times) (float64, bool) {
			span, ok := since(t.last, t.first)
			return span / float64(max(t.output-1, 1)), ok && t.output > 1
		}},
		{"E2E", func(t *times) (float64, bool) { return since(t.last, t.queued) }},
	}
}

func (f figure) compare(rows []Row, mid, fast, slow *simulation) (result.ReplayFigure, bool) {
	out := result.ReplayFigure{Name: f.name, Unit: "ms"}
	var real []float64
	for _, r := range rows {
		if x, ok := f.of(&times{r.Output, r.Queued, r.Scheduled, r.First, r.Last}); ok {
			real = append(real, x)
		}
	}
	sample := f.sample(mid)
	if len(sample) == 0 {
		return out, false
	}
	out.N, out.Simulated = len(sample), stats(sample)
	out.Faster, out.Slower = stats(f.sample(fast)), stats(f.sample(slow))
	if len(real) > 0 {
		s := stats(real)
		out.Real = &s
		if f.name != queue { // mostly near zero: a relation says nothing
			out.Error = relative(out.Simulated, s)
		}
	}
	return out, true
}

func (f figure) sample(s *simulation) []float64 {
	var out []float64
	for _, r := range s.requests {
		if x, ok := f.of(&times{r.OutputTokens, r.Queued, r.FirstScheduled, r.FirstToken, r.LastToken}); ok {
			out = append(out, x)
		}
	}
	return out
}

// stats sorts the sample.
func stats(x []float64) result.ReplayStats {
	slices.Sort(x)
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	q := func(p float64) *float64 {
		if !stat.Describable(len(x), p) {
			return nil
		}
		v := stat.Quantile(x, p, stat.Type7)
		return &v
	}
	return result.ReplayStats{Mean: sum / float64(len(x)), P50: q(.5), P90: q(.9), P99: q(.99)}
}

// relative is sim / real - 1, nil where real is 0 or either does not exist.
func relative(sim, real result.ReplayStats) *result.ReplayStats {
	if real.Mean == 0 {
		return nil
	}
	part := func(s, r *float64) *float64 {
		if s == nil || r == nil || *r == 0 {
			return nil
		}
		e := *s / *r - 1
		return &e
	}
	return &result.ReplayStats{
		Mean: sim.Mean/real.Mean - 1, P50: part(sim.P50, real.P50), P90: part(sim.P90, real.P90), P99: part(sim.P99, real.P99),
	}
}
