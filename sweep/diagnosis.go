package sweep

import (
	"fmt"
	"slices"

	"github.com/assay-bench/assay/result"
)

// rose is from which ratio of the highest level to the lowest a latency has risen.
const rose = 1.2

// Diagnose makes a hypothesis of what grows with the load, for each series of
// stages that was climbed: by TTFT against TPOT over its levels, and by the
// server's own queue and prefill means, where it tells them (MEASUREMENT.md section
// 7). The figures are medians over runs; those of client and server stand side by
// side and are never subtracted.
func Diagnose(stages []result.SweepStage) []result.SweepDiagnosis {
	var out []result.SweepDiagnosis
	for _, name := range seriesNames(stages) {
		var levels []*result.SweepStage
		for i := range stages {
			if s := &stages[i]; s.Load != nil && s.Series == name && s.TTFTp50 != nil && s.TPOTMean != nil {
				levels = append(levels, s)
			}
		}
		if len(levels) < 2 {
			continue
		}
		slices.SortStableFunc(levels, func(a, b *result.SweepStage) int {
			if *a.Load < *b.Load {
				return -1
			}
			return 1
		})
		out = append(out, diagnose(name, levels[0], levels[len(levels)-1]))
	}
	return out
}

func seriesNames(stages []result.SweepStage) (names []string) {
	for i := range stages {
		if s := &stages[i]; s.Load != nil && !slices.Contains(names, s.Series) {
			names = append(names, s.Series)
		}
	}
	return names
}

func diagnose(name string, low, high *result.SweepStage) result.SweepDiagnosis {
	d := result.SweepDiagnosis{Series: name, Hypothesis: result.HypothesisUndecided}
	say := func(to *[]string, format string, args ...any) { *to = append(*to, fmt.Sprintf(format, args...)) }
	for _, s := range []*result.SweepStage{low, high} {
		for _, r := range s.Runs {
			if r.Client == result.Invalid {
				d.Hypothesis = result.HypothesisClient
				say(&d.For, "%s, repeat %d: our own client was INVALID: %s", s.Name, r.Repeat, r.ClientCause)
				d.Next = []string{"the sweep again from a quiet client machine, or with fewer streams: assay calibrate says how many it takes"}
				return d
			}
		}
	}
	ttft, tpot := high.TTFTp50.Median/low.TTFTp50.Median, high.TPOTMean.Median/low.TPOTMean.Median
	grew := func(what string, from, to, ratio float64) string {
		return fmt.Sprintf("client: %s went from %.4g ms at %s to %.4g ms at %s (%.2f times)", what, from, low.Name, to, high.Name, ratio)
	}
	ttftText := grew("TTFT p50", low.TTFTp50.Median, high.TTFTp50.Median, ttft)
	tpotText := grew("mean TPOT", low.TPOTMean.Median, high.TPOTMean.Median, tpot)
	switch {
	case ttft < rose && tpot < rose:
		d.For = []string{ttftText, tpotText}
		d.Next = []string{"higher loads: nothing has risen by more than a fifth yet"}
		return d
	case ttft < rose:
		d.Hypothesis = result.HypothesisDecode
		d.For, d.Against = []string{tpotText}, []string{ttftText}
		d.Next = []string{"TPOT over the batch: the server's running requests and KV cache usage at each level"}
		return d
	}
	d.For = []string{ttftText}
	if tpot < rose {
		say(&d.For, "%s: flat, as it stays where requests wait before they run", tpotText)
		d.Hypothesis = result.HypothesisQueue
	} else {
		say(&d.Against, "%s: what runs slows down too, so that waiting alone does not explain it", tpotText)
	}
	byServer(&d, low, high)
	return d
}

// byServer lets the server's own means decide between queue and prefill.
func byServer(d *result.SweepDiagnosis, low, high *result.SweepStage) {
	say := func(to *[]string, format string, args ...any) { *to = append(*to, fmt.Sprintf(format, args...)) }
	queue, prefill, ok := serverMeans(high)
	was, wasPrefill, okLow := serverMeans(low)
	if !ok || !okLow {
		say(&d.Against, "the server's queue and prefill times are not told at both levels: a client cannot tell them apart")
		d.Next = []string{"the same levels with the server's metrics (--metrics-url), from an engine that tells queue and prefill time"}
		return
	}
	queueText := fmt.Sprintf("server: mean queue time went from %.4g to %.4g ms", was, queue)
	prefillText := fmt.Sprintf("server: mean prefill time went from %.4g to %.4g ms", wasPrefill, prefill)
	if queue-was >= prefill-wasPrefill {
		d.Hypothesis = result.HypothesisQueue
		d.For, d.Against = append(d.For, queueText), append(d.Against, prefillText)
		d.Next = []string{"one level below with more sequences (max_num_seqs) or another replica: if the queue goes, TTFT follows; KV cache usage says whether memory is what admits no more"}
		return
	}
	d.Hypothesis = result.HypothesisPrefill
	d.For, d.Against = append(d.For, prefillText), append(d.Against, queueText)
	d.Next = []string{"the highest level with half the prompt length, and with another chunk budget (max_num_batched_tokens): prefill contention follows both"}
}

// serverMeans are the server's own, at a level.
func serverMeans(s *result.SweepStage) (queue, prefill float64, ok bool) {
	if s.ServerQueue == nil || s.ServerPrefill == nil {
		return 0, 0, false
	}
	return s.ServerQueue.Median, s.ServerPrefill.Median, true
}
