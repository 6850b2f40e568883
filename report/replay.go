package report

import (
	"fmt"
	"io"

	"github.com/assay-bench/assay/result"
)

// Replay writes the comparison of a recorded run with its simulation.
func Replay(w io.Writer, r *result.Replay, o Options) error {
	sh := new(sheet)
	sh.add(verbatim{"RECORDING", r.File})
	sh.row("", times(r.Requests, "request", "requests"), fmt.Sprintf("%d output tokens", r.OutputTokens))
	sh.row("simulated", r.Engine)
	makespan := "makespan " + number(r.MakespanS) + " s"
	if real := r.RealMakespanS; real != nil && *real > 0 {
		makespan += fmt.Sprintf(", recorded %s s (%+.1f %%)", number(*real), 100*(r.MakespanS / *real - 1))
	}
	sh.row("", makespan, fmt.Sprintf("%d steps", r.Steps), times(r.Preemptions, "preemption", "preemptions"),
		"KV cache up to "+percent(r.KVUsageMax))
	sh.section("FIGURES", "ms", "boundary: the engine, from queued", "error = simulated / recorded - 1", "percentiles of type 7")
	g := grid{header: []string{"", "n", "mean", "p50", "p90", "p99"}}
	for _, f := range r.Figures {
		g.rows = append(g.rows, replayRows(f)...)
	}
	sh.add(g)
	sh.row("range", "near saturation a small error of the step becomes a large one of the figure; if every step took 5 % less to 5 % more time:")
	for _, f := range r.Figures {
		sh.row("", fmt.Sprintf("%s mean %s to %s", f.Name, number(f.Faster.Mean), number(f.Slower.Mean)),
			fmt.Sprintf("p99 %s to %s", optional(f.Faster.P99), optional(f.Slower.P99)))
	}
	if len(r.Warnings) > 0 {
		var texts list
		for _, w := range r.Warnings {
			texts = append(texts, coded(w))
		}
		sh.section("WARNINGS")
		sh.add(texts)
	}
	return sh.text(w, o)
}

func replayRows(f result.ReplayFigure) [][]string {
	cells := func(label, n string, s *result.ReplayStats, of func(*float64) string) []string {
		return []string{label, n, of(&s.Mean), of(s.P50), of(s.P90), of(s.P99)}
	}
	n := fmt.Sprint(f.N)
	var rows [][]string
	if f.Real != nil {
		rows = append(rows, cells(f.Name+" recorded", n, f.Real, optional))
	}
	rows = append(rows, cells(f.Name+" simulated", n, &f.Simulated, optional))
	if f.Error != nil {
		rows = append(rows, cells(f.Name+" error, %", "", f.Error, func(x *float64) string {
			if x == nil {
				return none
			}
			return fmt.Sprintf("%+.1f", 100**x)
		}))
	}
	return rows
}
