package cli

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/assay-bench/assay/experiment"
	"github.com/assay-bench/assay/result"
	"github.com/assay-bench/assay/stat"
	"github.com/assay-bench/assay/workload"
)

// fewRequests says which percentiles a window of the planned length will not have,
// "" if none or if the number of requests is not known before the run.
func (c *config) fewRequests(spec *workload.Spec) string {
	rate := spec.Arrival.Rate
	if !spec.Open() || spec.Trace != nil || spec.Sessions != nil {
		rate = 0 // not known, or not of requests
	}
	return c.few(rate, "will become due")
}

// few does so at a rate in requests/s, 0 if it is not known; how says what they do.
func (c *config) few(rate float64, how string) string {
	n := math.Inf(1)
	if c.Stage.Duration > 0 && rate > 0 {
		n = rate * c.Stage.Duration.Seconds()
	}
	if c.Stage.Requests > 0 {
		n = min(n, float64(c.Stage.Requests))
	}
	if math.IsInf(n, 1) {
		return ""
	}
	var missing []string
	needed := 0
	percentiles := slices.Concat([]float64{50, 95, 99}, c.Report.Percentiles)
	slices.Sort(percentiles)
	for _, percent := range slices.Compact(percentiles) {
		if p := percent / 100; !stat.Describable(int(n), p) {
			missing = append(missing, fmt.Sprintf("p%g", percent))
			needed = max(needed, int(math.Ceil(1/(1-p)-1e-6)))
		}
	}
	if missing == nil {
		return ""
	}
	text := fmt.Sprintf("about %.0f requests %s in the window: too few for %s, which needs %d (n(1-p) ≥ 1): give ", n, how, strings.Join(missing, ", "), needed)
	if len(missing) > 1 {
		text = strings.Replace(text, "which needs", "the last of which needs", 1)
	}
	if rate > 0 && c.Stage.Requests == 0 {
		return text + fmt.Sprintf("--duration %s", time.Duration(math.Ceil(float64(needed)/rate))*time.Second)
	}
	return text + fmt.Sprintf("--requests %d", needed)
}

// opened says, when the window opens, that it will be too short: going by the
// warm-up's residence times, and in a closed loop by its rate.
func (c *config) opened(i *result.StageInfo) []string {
	var notes []string
	if text := experiment.ShortWindow(i); text != "" {
		notes = append(notes, text)
	}
	if w := i.Warmup; !i.OpenLoop && w.Duration > 0 && c.Stage.Requests == 0 {
		if text := c.few(float64(w.Requests)/w.Duration.Seconds(), "will complete, at the rate of the warm-up,"); text != "" {
			notes = append(notes, text)
		}
	}
	return notes
}
