package sweep

import (
	"fmt"
	"math"

	"github.com/assay-bench/assay/result"
)

// The thresholds at which a climb stops (MEASUREMENT.md section 5).
const (
	// leastGain in throughput from one level to the next, below which a level that
	// makes latency rise is saturated.
	leastGain = 0.05
	// leastStep between two levels that are compared: throughput cannot gain 5 %
	// from a load that grew by 5 %.
	leastStep = 1.25
	// leastRise of a latency that counts as one.
	leastRise = 0.05
	// mostErrors is the share of due requests that may fail.
	mostErrors = 0.05
	// mostCapped is the share of the window that arrivals may be held back.
	mostCapped = 0.01
	// leastSamples of the waiting gauge that tell something.
	leastSamples = 3
)

// Level is one run of a climb.
type Level struct {
	Stage Stage
	Run   *result.Stage
}

// Saturation says whether a series need not be climbed beyond its last level,
// given the levels so far in ascending order; nil if it must.
func Saturation(levels []Level, open bool) *result.SweepStop {
	last := levels[len(levels)-1]
	stop := func(rule, format string, args ...any) *result.SweepStop {
		return &result.SweepStop{Series: last.Stage.Series, Stage: last.Stage.Name, Rule: rule, Text: fmt.Sprintf(format, args...)}
	}
	st := last.Run
	if due, failed := st.Ledger.Requests, st.Ledger.Requests-st.Ledger.Completed; due > 0 && float64(failed) > mostErrors*float64(due) {
		cause := ""
		if len(st.Errors) > 0 {
			cause = ": " + st.Errors[0].Error
		}
		return stop("errors", "%d of %d requests failed, more than %.0f %%%s", failed, due, 100*mostErrors, cause)
	}
	if open {
		switch {
		case st.Stability.Verdict == result.Unstable:
			return stop("unstable", "UNSTABLE: %s", st.Stability.Cause)
		case st.CappedTime.Seconds() > mostCapped*st.Window.Length().Seconds():
			return stop("capped", "the cap on requests in flight held arrivals back for %.1f s: the loop was closed then", st.CappedTime.Seconds())
		}
		return nil
	}
	if w := waiting(st); w != nil && w.Samples >= leastSamples && w.Min > 0 {
		return stop("waiting", "the server had requests waiting in all %d scrapes of the window, %.0f on average (%s)", w.Samples, w.Mean, w.Name)
	}
	below := comparable(levels)
	if below == nil {
		return nil
	}
	return noGain(below, &last, stop)
}

// comparable is the closest level that lies far enough below the last.
func comparable(levels []Level) *Level {
	last := levels[len(levels)-1]
	for i := len(levels) - 2; i >= 0; i-- {
		if levels[i].Stage.Load*leastStep <= last.Stage.Load {
			return &levels[i]
		}
	}
	return nil
}

func noGain(below, last *Level, stop func(string, string, ...any) *result.SweepStop) *result.SweepStop {
	gain, width, ok := gain(below.Run, last.Run)
	if !ok || gain+width >= leastGain {
		return nil
	}
	for _, l := range []struct {
		name string
		of   func(*result.Stage) (float64, bool)
	}{{"TTFT p50", TTFTp50}, {"TPOT mean", TPOTMean}} {
		before, ok1 := l.of(below.Run)
		after, ok2 := l.of(last.Run)
		if ok1 && ok2 && after > before*(1+leastRise) {
			return stop("no-gain", "throughput gained %+.1f %% (± %.1f) over %s, less than %.0f %%, while %s rose from %.1f to %.1f ms",
				100*gain, 100*width, below.Stage.Name, 100*leastGain, l.name, before, after)
		}
	}
	return nil
}

// gain in throughput of b over a, and the half-width of its 95 % interval, from
// those of the two rates. ok is false where one of them has no interval.
func gain(a, b *result.Stage) (gain, width float64, ok bool) {
	x, y := throughput(a), throughput(b)
	if x == nil || y == nil || x.CI == nil || y.CI == nil || !(x.Value > 0) || !(y.Value > 0) {
		return 0, 0, false
	}
	ratio := y.Value / x.Value
	half := func(t *result.Throughput) float64 { return (t.CI[1] - t.CI[0]) / 2 / t.Value }
	return ratio - 1, ratio * math.Hypot(half(x), half(y)), true
}

// throughput is output tokens/s; requests/s where the server tells no tokens.
func throughput(s *result.Stage) *result.Throughput {
	if t := rate(s, "output_tps"); t != nil && t.Value > 0 {
		return t
	}
	return rate(s, "rps")
}

func rate(s *result.Stage, name string) *result.Throughput {
	for i := range s.Throughput {
		if s.Throughput[i].Name == name {
			return &s.Throughput[i]
		}
	}
	return nil
}

// waiting is the server's gauge of queued requests over the window, if it was
// scraped.
func waiting(s *result.Stage) *result.ServerGauge {
	if s.Server == nil || s.Server.Window == nil {
		return nil
	}
	for i, g := range s.Server.Window.Gauges {
		if g.Quantity == "waiting" && g.Hidden == "" {
			return &s.Server.Window.Gauges[i]
		}
	}
	return nil
}
