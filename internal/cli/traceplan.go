package cli

import (
	"fmt"

	"github.com/assay-bench/assay/workload"
)

// draw makes the plan of a workload. If it follows a trace, that is read through
// first, and what it implies is said: a wrong unit shows there.
func (c *config) draw(spec workload.Spec, say func(format string, args ...any)) (*workload.Plan, error) {
	if !spec.NeedsTrace() {
		return workload.NewPlan(spec, c.Seed)
	}
	f, err := workload.OpenTrace(spec, c.Seed)
	if err != nil {
		return nil, fmt.Errorf("workload: %w", err)
	}
	say("trace %s: %s", spec.Trace.File, f.Note())
	if n, first := f.Summary.Skipped, f.FirstSkipped; n > 0 {
		say("note: %d malformed rows are left out; the first: %v", n, first)
	}
	// The run's files say what was replayed, wherever it lies.
	t := *spec.Trace
	t.SHA256 = f.SHA256
	spec.Trace, c.Workload.Trace = &t, &t
	plan, err := workload.NewTracePlan(spec, c.Seed, f.Rows)
	if err != nil {
		return nil, err
	}
	if got := plan.Trace(); got.Failed > 0 {
		say("note: %d rows of the trace failed when it was recorded: they are not replayed", got.Failed)
	}
	return plan, nil
}
