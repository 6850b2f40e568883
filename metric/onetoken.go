package metric

import (
	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/result"
)

// OneToken is the verdict of the one-token-an-event check on one attempt: may
// the gaps between its events be called gaps between tokens?
type OneToken uint8

// The verdicts.
const (
	// Unchecked: not completed, not streamed, n unknown or below 2.
	Unchecked OneToken = iota
	// Proven: every token event has a known delta of 1.
	Proven
	// Inferred: deltas are unknown, but the text events are as many as n, or as
	// n - 1 where the last token was a stop token. It can pass by coincidence.
	Inferred
	// Failed: some event carried several tokens, or the counts do not match.
	Failed
)

// String is the verdict as it stands in result.OneTokenCheck.
func (v OneToken) String() string {
	switch v {
	case Proven:
		return "proven"
	case Inferred:
		return "inferred"
	case Failed:
		return "failed"
	}
	return "not checked"
}

// CheckOneToken makes the check. Attempts with several choices fail: their
// events interleave.
func CheckOneToken(a *record.Attempt) OneToken {
	n, known := Tokens(a)
	if a.Outcome != record.Completed || !a.Streamed || !known || n < 2 || a.Events == 0 {
		return Unchecked
	}
	switch {
	case a.Choices > 1 || a.MultiTokenEvents > 0:
		return Failed
	case a.DeltasUnknown == 0 && a.TokenEvents > 0:
		return Proven
	case a.TextEvents == n, a.TextEvents == n-1 && endedOnStopToken(a):
		return Inferred
	}
	return Failed
}

// endedOnStopToken reports whether n counts a last token without text. A string
// stop_reason shows that a stop string matched instead.
func endedOnStopToken(a *record.Attempt) bool {
	return (a.FinishReason == "stop" || a.FinishReason == "tool_calls") && a.StopReason == ""
}

// isTokenEvent reports whether gaps are taken between this event and the next
// such one: it is known to carry a token or, where the server does not say, it
// carries text.
func isTokenEvent(e *record.Event) bool {
	return e.Tokens > 0 || (e.Tokens == record.UnknownTokens && e.Flags.Has(record.FlagText))
}

// Gaps appends to dst the gaps in ms between successive token events of one
// attempt. They are inter-token latencies only if the check passes.
func Gaps(dst []float64, ev []record.Event) []float64 {
	eachGap(ev, func(ns int64) { dst = append(dst, float64(ns)/nsPerMS) })
	return dst
}

// eachGap calls add with every gap in nanoseconds.
func eachGap(ev []record.Event, add func(ns int64)) {
	var last record.Stamp
	for i := range ev {
		e := &ev[i]
		if !isTokenEvent(e) {
			continue
		}
		if last.Known() {
			add(int64(e.At - last))
		}
		last = e.At
	}
}

func countCheck(c *result.OneTokenCheck, v OneToken) {
	if v == Unchecked {
		return
	}
	c.Checked++
	switch v {
	case Proven:
		c.Proven++
	case Inferred:
		c.Inferred++
	case Failed:
		c.Failed++
	}
}

func checkVerdict(c result.OneTokenCheck) OneToken {
	switch {
	case c.Checked == 0:
		return Unchecked
	case c.Failed > 0:
		return Failed
	case c.Inferred > 0:
		return Inferred
	}
	return Proven
}
