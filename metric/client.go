package metric

import (
	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/stat"
)

// ClientHealth is what the records of the window say about our own client. A
// nil number does not exist: no plan, no events, no kernel stamps, or too few.
type ClientHealth struct {
	// Due requests of the window, and those of them that were ever sent.
	Due, Sent int
	// SendLatenessP99MS is of sent - scheduled over first tries, where scheduled
	// is a plan.
	SendLatenessP99MS *float64
	// ReadLagP99MS is over events with a kernel stamp: how many stands beside.
	ReadLagP99MS         *float64
	KernelEvents, Events int64
	// CoalescedShare is the share of text events, first ones apart, that shared
	// a read with the text event before.
	CoalescedShare *float64
	// Stale counts reused connections that died before a reply.
	Stale int
}

// ClientHealth judges nothing; thresholds are the caller's.
func (s *Stage) ClientHealth() ClientHealth {
	v := s.view()
	h := ClientHealth{Due: len(v.judged), KernelEvents: s.kernelEvents, Events: s.events}
	for _, r := range v.judged {
		if r.sent.Known() {
			h.Sent++
		}
	}
	stale := codeOf(s.outcomes, record.StaleConnection)
	for _, r := range v.due {
		if r.outcome == stale {
			h.Stale++
		}
	}
	if share, ok := s.coalescedShare(); ok {
		h.CoalescedShare = &share
	}
	if lag := s.sendLag(v); lag != nil {
		h.SendLatenessP99MS = lag.P99
	}
	if n := int(s.lags.n); stat.Describable(n, 0.99) {
		s.lags.seal()
		h.ReadLagP99MS = num(stat.QuantileAt(n, s.lags.ms, 0.99, stat.Type(s.options.QuantileType)))
	}
	return h
}
