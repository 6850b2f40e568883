package experiment

import (
	"fmt"
	"slices"
	"time"

	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/result"
)

// findings looks for what would mislead a reader of the figures although every
// one of them is right.
type findings struct {
	info      result.StageInfo
	scheduled []record.Stamp // of the window
	long      int            // streamed replies with enough text events to tell
	bursts    int            // of those, how many came in one read
	reopened  int            // requests that needed a new connection
	requests  int
	completed record.Stamp   // when the last completed attempt ended
	unreached []record.Stamp // scheduled, of attempts that found nobody to talk to
}

// enoughEvents is from how many text events on a reply in a single read is no
// chance any more.
const enoughEvents = 8

func (f *findings) add(a *record.Attempt) {
	if !f.info.Window.Contains(a.Scheduled) {
		return
	}
	f.scheduled = append(f.scheduled, a.Scheduled)
	switch a.Outcome {
	case record.Completed:
		f.completed = max(f.completed, a.Ended)
	case record.ConnectDNS, record.ConnectTCP, record.ConnectTLS:
		f.unreached = append(f.unreached, a.Scheduled)
	}
	if a.Sent.Known() {
		f.requests++
		if !a.ConnReused {
			f.reopened++
		}
	}
	if a.Outcome == record.Completed && a.TextEvents >= enoughEvents {
		f.long++
		// All but a few of the text events shared a read.
		if 10*a.CoalescedText >= 9*(a.TextEvents-1) {
			f.bursts++
		}
	}
}

func (f *findings) warnings(t *result.Target) []result.Warning {
	var out []result.Warning
	if w, ok := f.buffered(t); ok {
		out = append(out, w)
	}
	if w, ok := f.lost(); ok {
		out = append(out, w)
	}
	if w, ok := f.lockstep(); ok {
		out = append(out, w)
	}
	// A pool that only grew, or connections that were asked for one by one, are no
	// reconnects: most of them must stand in place of one that was closed.
	h := f.info.Health
	closed := h.ConnOpened == 0 || 2*h.ConnReconnects > h.ConnOpened // 0: not counted
	if f.requests > 0 && 2*f.reopened > f.requests && closed {
		out = append(out, result.Warning{Code: "reconnects", Text: fmt.Sprintf(
			"%d of %d requests needed a new connection: the server closes them after replies; connect and TLS times come before TTFT, and are in TTFT from schedule",
			f.reopened, f.requests)})
	}
	return out
}

// buffered names a proxy that holds replies back: whole streams arrive at once.
func (f *findings) buffered(t *result.Target) (result.Warning, bool) {
	if f.long == 0 || 2*f.bursts < f.long {
		return result.Warning{}, false
	}
	who := "a proxy with response buffering, such as nginx with proxy_buffering on, or an API process that gets too little CPU to pass tokens on"
	if t.ServerHeader != "" {
		who += fmt.Sprintf("; the Server header says %q", t.ServerHeader)
	}
	return result.Warning{Code: "buffered", Text: fmt.Sprintf(
		"%d of %d streamed replies came in one burst: something between the engine and us holds them back (%s). TTFT, TPOT and gaps describe the buffer, not the engine; only E2E stands",
		f.bursts, f.long, who)}, true
}

// lost names a target that went away in the window and did not come back.
func (f *findings) lost() (result.Warning, bool) {
	const enough = 5
	after, first := 0, f.info.Window.End
	for _, s := range f.unreached {
		if s >= f.completed {
			after, first = after+1, min(first, s)
		}
	}
	if after < enough {
		return result.Warning{}, false
	}
	return result.Warning{Code: "target-lost", Text: fmt.Sprintf(
		"the target went away: from %.2f s into the window of %.2f s on, no connection could be opened (%d attempts) and nothing completed. "+
			"Latencies and the verdict on stability describe the time before; rates and goodput count the time after as well. "+
			"A slot of a closed loop rests 0.1 to 1 s after such an attempt",
		time.Duration(first-f.info.Window.Start).Seconds(), f.info.Window.Length().Seconds(), after)}, true
}

// lockstep names a closed loop whose slots start together again and again: equal
// lengths do that, and TTFT then contains the prefill of all of them.
func (f *findings) lockstep() (result.Warning, bool) {
	c := f.info.Concurrency
	if c < 4 || len(f.scheduled) < 4*c {
		return result.Warning{}, false
	}
	slices.Sort(f.scheduled)
	const together = record.Stamp(5 * time.Millisecond)
	n := 0
	for i, s := range f.scheduled {
		before := i > 0 && s-f.scheduled[i-1] < together
		after := i+1 < len(f.scheduled) && f.scheduled[i+1]-s < together
		if before || after {
			n++
		}
	}
	// Slots that start independently would be this close now and then.
	gap := float64(f.info.Window.Length()) / float64(len(f.scheduled))
	if gap < 4*float64(together) || 10*n < 8*len(f.scheduled) {
		return result.Warning{}, false
	}
	return result.Warning{Code: "lockstep", Text: fmt.Sprintf(
		"%d %% of the requests were sent within 5 ms of another one: slots with equal lengths move in lockstep, so that TTFT contains the prefill of the whole cohort. "+
			"Vary the lengths (--output-tokens 64..192) or use an open loop (--rate) for independent arrivals",
		100*n/len(f.scheduled))}, true
}
