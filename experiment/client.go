package experiment

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/result"
	"github.com/assay-bench/assay/stat"
)

// clientSide gathers what the attempts of the window say of our own client.
type clientSide struct {
	window    record.Window
	lateness  []float64 // ms, without connection set-up
	setUp     []float64 // ms, of the requests that needed a new connection
	due, sent int
	attempts  int
	stale     int
	text      int
	coalesced int
	events    int
	kernel    int
	proof     []float64 // us, kernel's transmit stamp - sent
	capped    time.Duration
}

func (c *clientSide) add(a *record.Attempt) {
	if !c.window.Contains(a.Scheduled) {
		return
	}
	c.attempts++
	if a.Outcome == record.StaleConnection {
		c.stale++
	}
	switch a.Outcome {
	case record.ConnectDNS, record.ConnectTCP, record.ConnectTLS, record.TimeoutConnect:
		return // nobody was there to send to: no fault of ours
	}
	if a.Try == 0 {
		c.due++
		if d, ok := a.SentKernel.Since(a.Sent); ok {
			c.proof = append(c.proof, float64(d)/1e3)
		}
		if a.Sent.Known() {
			c.sent++
			// A server that closes its connections makes the next send wait for a new
			// one. That is in TTFT from schedule and is reported, but no fault of ours.
			setUp := a.DNS + a.Connect + a.TLS
			c.lateness = append(c.lateness, float64(a.Sent-a.Scheduled)/1e6-ms(setUp))
			if !a.ConnReused {
				c.setUp = append(c.setUp, ms(setUp))
			}
		}
	}
	// The first text event of a reply has no gap before it to spoil.
	c.text += max(0, a.TextEvents-1)
	c.coalesced += a.CoalescedText
	c.events += a.Events
	c.kernel += a.KernelEvents
}

// verdict judges by the limits: first what would be a cause, of the whole run, then
// what it shows in, of the window. The first that fails is the verdict's cause.
// readLag is that of the window's events; nil if none has a kernel stamp.
func (c *clientSide) verdict(h result.ClientHealth, readLag *result.Summary, l result.ClientLimits) result.ClientVerdict {
	v := result.ClientVerdict{Verdict: result.Valid, Stamps: c.stamps(), SendProof: c.sendProof(h)}
	if c.attempts == 0 {
		v.Verdict, v.Cause = result.NotChecked, "no attempt was due in the window: nothing to judge"
		return v
	}
	v.Checks = append(processChecks(h, l), c.checks(readLag, l)...)
	for _, ch := range v.Checks {
		if !ch.OK {
			v.Verdict, v.Cause = result.Invalid, ch.Text
			break
		}
	}
	v.GapsWithheld = c.text > 0 && float64(c.coalesced) > l.Coalesced*float64(c.text)
	return v
}

// checks judge what the attempts of the window show.
func (c *clientSide) checks(readLag *result.Summary, l result.ClientLimits) (list []result.Check) {
	late := atMost("send lateness "+nameP99(len(c.lateness)), "ms", p99(c.lateness), ms(l.SendLateness))
	late.Text += fmt.Sprintf(", n %d", len(c.lateness))
	if worst := p99(c.setUp); worst != nil {
		late.Text += fmt.Sprintf("; connection set-up, not in it: p99 %s ms", num(*worst))
	}
	todo := "requests left after they were due: a machine of its own for this client, or less load; assay calibrate finds how much it takes"
	if c.capped > 0 {
		todo = fmt.Sprintf("the cap on requests in flight held arrivals back for %.3g s: a lower rate, or more room (--max-in-flight, open files, local ports)", c.capped.Seconds())
	}
	list = append(list, advise(late, todo))
	if readLag != nil && readLag.N > 0 {
		worst := readLag.P99
		if worst == nil { // too few events: the largest is stricter
			worst = readLag.Max
		}
		lag := atMost("read lag "+nameP99(readLag.N), "ms", worst, ms(l.ReadLag))
		lag.Text += fmt.Sprintf(", n %d events; in no figure, since their stamps are the kernel's", readLag.N)
		list = append(list, advise(lag, "those stand, it is our reading that was late: less other work on these cores, --transport epoll, or less load"))
	}
	return append(list,
		advise(atMost("coalesced text events", "share", share(c.coalesced, c.text), l.Coalesced),
			"several came by one read: something between buffers, or this client was kept from its cores"),
		advise(atLeast("due requests sent", "share", share(c.sent, c.due), l.Sent),
			"the others were held back by a cap on requests in flight, or failed before their first byte"),
		advise(atMost("stale connections", "share of attempts", share(c.stale, c.attempts), l.Stale),
			"the far side closes unused connections without a word: try --conn per-request"))
}

// processChecks judge what our own process got of the machine over the whole run.
// A limit of 0 was not declared: the run is older than it, or the user turned it
// off.
func processChecks(h result.ClientHealth, l result.ClientLimits) (list []result.Check) {
	if h.Cores == 0 { // nobody lived to read it
		return nil
	}
	cores := float64(h.Cores)
	if h.CPULimit > 0 {
		cores = min(cores, h.CPULimit)
	}
	if h.Throttled != nil {
		list = append(list, advise(atMost("cgroup throttling", "ms", new(ms(*h.Throttled)), 0),
			"the CPU limit of our cgroup stopped us: raise or drop it (docker --cpus, resources.limits.cpu of a pod, CPUQuota= of a unit)"))
	}
	if l.Steal > 0 && h.Steal != nil {
		list = append(list, advise(atMost("steal", "share of the time of our cores, taken by the hypervisor", h.Steal, l.Steal),
			"other guests of the host took it: a machine with cores of its own"))
	}
	if l.CPU > 0 && h.Elapsed > 0 {
		used := float64(h.CPU) / float64(h.Elapsed) / cores
		list = append(list, advise(atMost("own CPU", fmt.Sprintf("share of the %s cores that we may use", num(cores)), &used, l.CPU),
			"more cores, or less load"))
	}
	if l.SchedLatency > 0 {
		list = append(list, advise(atMost("scheduler latency p99", "ms", new(ms(h.SchedLatencyP99)), ms(l.SchedLatency)),
			"our goroutines waited for a thread: more cores, less other work on them, or less load"))
	}
	return append(list, advise(atMost("longest GC pause", "ms", new(ms(h.GCPauseMax)), ms(l.GCPause)),
		"a pause ends when every running thread has stopped: less other work on these cores, or more of them"))
}

// advise adds to a failed check what to do about it.
func advise(c result.Check, what string) result.Check {
	if !c.OK {
		c.Text += ": " + what
	}
	return c
}

// sendProof holds the send stamps against the kernel's; nil if that was not wanted.
func (c *clientSide) sendProof(h result.ClientHealth) *result.SendProof {
	if h.SendsAsked == nil {
		return nil
	}
	p := &result.SendProof{Asked: *h.SendsAsked, N: len(c.proof)}
	if p.N == 0 {
		p.Text = fmt.Sprintf("no transmit stamp: %d requests of the run were asked, and the device on the way gives none", p.Asked)
		if p.Asked == 0 {
			p.Text = "no transmit stamp: no request was asked, since this system gives none or the run was too short"
		}
		return p
	}
	slices.Sort(c.proof)
	for _, d := range c.proof {
		if d < 0 {
			p.Before++
		}
	}
	p.After = p.N - p.Before
	p.P50, p.P99, p.Max = new(stat.Quantile(c.proof, 0.5, stat.Type7)), p99(c.proof), new(c.proof[p.N-1])
	p.Text = fmt.Sprintf("the network driver had the first bytes %s us after sent (p50; %s %s, max %s), n %d, %d of them before it",
		num(*p.P50), nameP99(p.N), num(*p.P99), num(*p.Max), p.N, p.Before)
	return p
}

// proofLimit is the p99 of the send proof, in microseconds, from which Sent is not
// what it says.
const proofLimit = 100

// warnings are what the client's own stamps give cause to.
func (c *clientSide) warnings(h result.ClientHealth, p *result.SendProof) []result.Warning {
	var out []result.Warning
	if h.ClockSteps > 0 {
		out = append(out, result.Warning{Code: "clock-step", Text: fmt.Sprintf(
			"the wall clock of this machine was set during the run (times: %d, by up to %s ms), and the kernel stamps by it: the stamps of up to a second before are off by as much. clock.csv of the run directory has the moments; repeat the run with the clock left alone (NTP may slew it, not step it)",
			h.ClockSteps, num(ms(h.ClockStep)))})
	}
	switch {
	case p == nil:
	case p.N == 0:
		out = append(out, result.Warning{Code: "verify-send", Text: "sending was to be verified and is not: " + p.Text})
	case *p.P99 > proofLimit:
		out = append(out, result.Warning{Code: "verify-send", Text: fmt.Sprintf(
			"%s of the time from sent to the network driver is %s us (at most %d): the bytes left later than sent says, and TTFT has that in it",
			nameP99(p.N), num(*p.P99), proofLimit)})
	case p.Before > 0:
		out = append(out, result.Warning{Code: "verify-send", Text: fmt.Sprintf(
			"%d of %d requests were with the network driver before they were sent, by the stamps: the wall clock's offset is wrong", p.Before, p.N)})
	}
	return out
}

func (c *clientSide) stamps() string {
	switch {
	case c.events == 0:
		return "no event was stamped"
	case c.kernel == 0:
		return "user space"
	case c.kernel == c.events:
		return "kernel receive"
	}
	return fmt.Sprintf("kernel receive for %d of %d events, user space for the others", c.kernel, c.events)
}

func atMost(name, unit string, value *float64, limit float64) result.Check {
	return bound(name, unit, value, limit, "at most", value == nil || *value <= limit)
}

func atLeast(name, unit string, value *float64, limit float64) result.Check {
	return bound(name, unit, value, limit, "at least", value == nil || *value >= limit)
}

func bound(name, unit string, value *float64, limit float64, word string, ok bool) result.Check {
	c := result.Check{Name: name, Value: value, Threshold: &limit, Unit: unit, OK: ok}
	if value == nil {
		c.Text = name + ": nothing to judge"
		return c
	}
	v, l := num(*value)+" "+unit, num(limit)
	if rest, isShare := strings.CutPrefix(unit, "share"); isShare {
		v, l = num(100**value)+" %"+rest, num(100*limit)+" %"
	}
	c.Text = fmt.Sprintf("%s %s (%s %s)", name, v, word, l)
	return c
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }

// p99 of x by type 7; nil if it is empty. Small samples are judged by it too:
// a verdict on our client may be too strict, never too lenient.
func p99(x []float64) *float64 {
	if len(x) == 0 {
		return nil
	}
	slices.Sort(x)
	return new(stat.Quantile(x, 0.99, stat.Type7))
}

// nameP99 is what p99 of n samples is: where n(1-p) < 1, close to the largest.
func nameP99(n int) string {
	if !stat.Describable(n, 0.99) {
		return "p99 (of few: about the largest)"
	}
	return "p99"
}

func share(part, whole int) *float64 {
	if whole == 0 {
		return nil
	}
	return new(float64(part) / float64(whole))
}
