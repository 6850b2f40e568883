package metric

import (
	"fmt"

	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/result"
)

// What the phases of a throughput statement can be.
const (
	edgesByEvent      = "warm-up and cooldown outside; requests across an edge count with their part inside"
	edgesByCompletion = "warm-up and cooldown outside, but requests that began in the warm-up and completed inside count whole"
)

// throughput lists every rate with its three statements. Output and prompt
// tokens are never added.
func (s *Stage) throughput(v view) []result.Throughput {
	if s.untimed {
		return nil
	}
	list := s.windowThroughput(v)
	if t, ok := spanThroughput(v.sample); ok {
		list = append(list, t)
	}
	return list
}

func (s *Stage) windowThroughput(v view) []result.Throughput {
	seconds := s.window.Length().Seconds()
	if seconds == 0 {
		return nil
	}
	var completed, output, prompt, untold int64
	var completedBins, outputBins windowBins
	for _, r := range v.all {
		if !r.completed() || !s.window.Contains(r.end) {
			continue
		}
		completed++
		completedBins.add(s.window, r.end, 1)
		if r.n == unknownCount {
			untold++
			continue
		}
		output += int64(r.n)
		prompt += int64(r.prompt)
		outputBins.add(s.window, r.end, float64(r.n))
	}
	lacks := ""
	if untold > 0 {
		lacks = fmt.Sprintf(" (%d without usage not counted)", untold)
	}
	window := fmt.Sprintf("declared window of %.6g s", seconds)
	out := result.Throughput{
		Name: "output_tps", Unit: "tokens/s", Value: float64(output) / seconds, Denominator: window,
		Numerator: "output tokens of the requests completed in the window, since token deltas of events are not known" + lacks,
		Phases:    edgesByCompletion,
		CI:        outputBins.interval(seconds),
	}
	if s.deltaKnown > 0 && s.deltaUnknown == 0 {
		out.Value = float64(s.eventTokens) / seconds
		out.Numerator, out.Phases = "output tokens of the events inside the window", edgesByEvent
		out.CI = s.eventBins.interval(seconds)
	}
	return []result.Throughput{
		out,
		{
			Name: "prompt_tps", Unit: "tokens/s", Value: float64(prompt) / seconds, Denominator: window,
			Numerator: "prompt tokens of the requests completed in the window" + lacks, Phases: edgesByCompletion,
		},
		{
			Name: "rps", Unit: "requests/s", Value: float64(completed) / seconds, Denominator: window,
			Numerator: "requests completed in the window", Phases: edgesByCompletion, CI: completedBins.interval(seconds),
		},
	}
}

// spanThroughput is output tokens over T_last - T_first of the measured set.
func spanThroughput(rows []*row) (t result.Throughput, ok bool) {
	var first, last record.Stamp
	var output, untold int64
	for _, r := range rows {
		if r.why[qE2E] != Defined {
			continue
		}
		if !first.Known() || r.sent < first {
			first = r.sent
		}
		last = max(last, r.last)
		if r.n == unknownCount {
			untold++
			continue
		}
		output += int64(r.n)
	}
	span, ok := last.Since(first)
	if !ok || span <= 0 {
		return t, false
	}
	t = result.Throughput{
		Name: "output_tps_span", Unit: "tokens/s", Value: float64(output) / span.Seconds(),
		Numerator:   "output tokens of the completed requests that were due in the window",
		Denominator: fmt.Sprintf("T_last - T_first = %.6g s, from their first sent to their last text", span.Seconds()),
		Phases:      "warm-up outside; the drain of the last of them, after the window, inside",
	}
	if untold > 0 {
		t.Numerator += fmt.Sprintf(" (%d without usage not counted)", untold)
	}
	return t, true
}
