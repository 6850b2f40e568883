package metric

import (
	"slices"
	"time"

	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/result"
	"github.com/assay-bench/assay/stat"
)

// minDispersionWindows is how many counts an index of dispersion needs.
const minDispersionWindows = 10

// workload is the workload as it really was.
func (s *Stage) workload(v view) result.Observed {
	w := result.Observed{
		PromptTokens:     s.tokenSummary(v.sample, func(r *row) int32 { return r.prompt }),
		CompletionTokens: s.tokenSummary(v.sample, func(r *row) int32 { return r.n }),
	}
	var asked, planned float64
	for _, r := range v.judged {
		if r.asked > 0 {
			asked += float64(r.asked)
			planned++
		}
	}
	var prompts float64
	for _, r := range v.sample {
		w.CachedTokens += int(r.cached)
		prompts += float64(max(r.prompt, 0))
	}
	if w.CachedTokens > 0 {
		w.CachedShare = num(float64(w.CachedTokens) / prompts)
	}
	w.PromptTokensAsked = num(asked / planned) // nil for 0/0
	w.EarlyStopRate = earlyStopRate(v.sample)
	if s.untimed || s.window.Length() == 0 {
		return w
	}
	w.Rate = num(float64(len(v.arrived)) / s.window.Length().Seconds())
	w.CV = num(stat.GapCV(v.arrived))
	w.Dispersion = s.dispersion(v.arrived)
	w.InFlight = s.inFlight(v.all)
	return w
}

// earlyStopRate is the share of the rows with n below max_tokens, of those where
// both are known; nil if there are none.
func earlyStopRate(rows []*row) *float64 {
	var early, capped float64
	for _, r := range rows {
		if r.n == unknownCount || r.maxTokens <= 0 {
			continue
		}
		capped++
		if r.n < r.maxTokens {
			early++
		}
	}
	return num(early / capped) // nil for 0/0
}

func (s *Stage) tokenSummary(rows []*row, count func(*row) int32) *result.Summary {
	c := sample{unit: "tokens", weights: result.RequestWeighted, excluded: new(exclusions)}
	if s.untimed {
		c.depends = unordered
	}
	for _, r := range rows {
		if n := count(r); n != unknownCount {
			c.series = append(c.series, float64(n))
		} else {
			c.excluded[NoUsage]++
		}
	}
	return s.options.summarize(c)
}

func (s *Stage) dispersion(arrived []int64) []result.Dispersion {
	var list []result.Dispersion
	for _, width := range []time.Duration{time.Second, 10 * time.Second, time.Minute} {
		index, windows := stat.IndexOfDispersion(arrived, int64(s.window.Start), int64(s.window.End), int64(width))
		if windows >= minDispersionWindows && num(index) != nil {
			list = append(list, result.Dispersion{WindowS: width.Seconds(), Index: index})
		}
	}
	return list
}

// inFlight weighs the number of attempts of any phase between start and end by
// time over the window.
func (s *Stage) inFlight(rows []*row) result.InFlight {
	var spans []span
	for _, r := range rows {
		if r.outcome != s.neverSent() {
			spans = append(spans, span{r.start, r.end})
		}
	}
	return overlap(s.window, spans)
}

// span is from a start to an end.
type span struct{ start, end record.Stamp }

// overlap weighs the number of spans that hold a moment by time over the window.
func overlap(w record.Window, spans []span) result.InFlight {
	var starts, ends []record.Stamp
	var busy float64
	for _, x := range spans {
		start, end := max(x.start, w.Start), min(x.end, w.End)
		if start >= end {
			continue
		}
		starts, ends = append(starts, start), append(ends, end)
		busy += float64(end - start)
	}
	slices.Sort(starts)
	slices.Sort(ends)
	f := result.InFlight{Mean: num(busy / float64(w.Length()))}
	ended := 0
	for i, start := range starts {
		for ended < len(ends) && ends[ended] <= start { // half-open: an end frees the slot first
			ended++
		}
		f.Max = max(f.Max, i+1-ended)
	}
	return f
}
