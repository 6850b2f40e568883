package experiment

import (
	"fmt"

	"github.com/assay-bench/assay/environ"
	"github.com/assay-bench/assay/result"
)

// Shares from which a part is taken for what limits.
const (
	most   = 0.5 // of the parts that the server tells
	bounds = 0.5 // of TTFT: what network and client alone may explain
)

// Diagnose makes a hypothesis of where the time of a stage's requests goes
// (MEASUREMENT.md section 7). It looks at the evidence in this order: our own
// client, the server's queue, prefill and decode times, the way to the server.
// path may be nil. Server means are compared with each other only, ours stand
// beside them.
func Diagnose(st *result.Stage, path *environ.Path) *result.Diagnosis {
	d := &diagnoser{st: st, path: path, out: &result.Diagnosis{}}
	d.out.TTFT.Hypothesis, d.out.E2E.Hypothesis = result.HypothesisUndecided, result.HypothesisUndecided
	if st.Ledger.Completed == 0 {
		d.against("no request of the window completed")
		return d.out
	}
	if st.Client.Verdict == result.Invalid {
		d.client()
		return d.out
	}
	d.whole()
	d.network()
	d.server()
	d.next()
	return d.out
}

type diagnoser struct {
	st   *result.Stage
	path *environ.Path
	out  *result.Diagnosis
	// why the server's parts are not known; empty if they are.
	lacking string
}

// against notes evidence that there is no deciding.
func (d *diagnoser) against(text string) {
	d.out.TTFT.Against = append(d.out.TTFT.Against, text)
	d.out.E2E.Against = append(d.out.E2E.Against, text)
}

func (d *diagnoser) client() {
	d.out.TTFT.Hypothesis, d.out.E2E.Hypothesis = result.HypothesisClient, result.HypothesisClient
	d.out.TTFT.For = append(d.out.TTFT.For, "our own client was INVALID: "+d.st.Client.Cause)
	d.out.E2E.For = d.out.TTFT.For
	d.out.Next = append(d.out.Next, "run again on a quiet client machine, or with fewer streams: assay calibrate says how many it takes")
}

// whole says what part of E2E TTFT is, of the same requests.
func (d *diagnoser) whole() {
	ttft, e2e := mean(d.st.Metrics.TTFT), mean(d.st.Metrics.E2E)
	if ttft == 0 || e2e == 0 || d.st.Metrics.TTFT.N != d.st.Metrics.E2E.N {
		return
	}
	share := ttft / e2e
	text := fmt.Sprintf("client: TTFT is %.0f %% of E2E (means %.4g and %.4g ms of the same %d requests)", 100*share, ttft, e2e, d.st.Metrics.TTFT.N)
	if share < 1-most {
		d.out.E2E.Hypothesis = result.HypothesisDecode
	}
	d.out.E2E.For = append(d.out.E2E.For, text)
}

func mean(s *result.Summary) float64 {
	if s == nil || s.Mean == nil {
		return 0
	}
	return *s.Mean
}

// network bounds what the way to the server can explain.
func (d *diagnoser) network() {
	ttft := mean(d.st.Metrics.TTFT)
	if d.path == nil || d.path.Connects == 0 || ttft == 0 {
		return
	}
	text := fmt.Sprintf("a round trip to the target takes %.3g ms (TCP connect, median of %d), TTFT %.4g ms (mean)", d.path.MedianMS, d.path.Connects, ttft)
	if d.path.MedianMS >= bounds*ttft {
		d.out.TTFT.Hypothesis = result.HypothesisNetwork
		d.out.TTFT.For = append(d.out.TTFT.For, text)
		return
	}
	d.out.TTFT.Against = append(d.out.TTFT.Against, text+": the network is not what TTFT consists of")
}

// server compares the server's own parts of a request.
func (d *diagnoser) server() {
	parts, why := d.parts()
	if d.lacking = why; why != "" {
		d.out.TTFT.Against = append(d.out.TTFT.Against, why)
		return
	}
	first := parts.queue + parts.prefill
	if d.out.TTFT.Hypothesis == result.HypothesisUndecided && first > 0 {
		share := parts.queue / first
		text := fmt.Sprintf("server: queue %.4g ms and prefill %.4g ms (means of %d finished requests); its TTFT %s, ours %.4g ms, side by side",
			parts.queue, parts.prefill, parts.n, besideText(parts.ttft), mean(d.st.Metrics.TTFT))
		d.out.TTFT.For = append(d.out.TTFT.For, text)
		d.out.TTFT.Hypothesis = result.HypothesisPrefill
		if share > most {
			d.out.TTFT.Hypothesis = result.HypothesisQueue
		}
	}
	d.waiting()
	if parts.decode > 0 {
		d.out.E2E.For = append(d.out.E2E.For, fmt.Sprintf("server: queue %.4g, prefill %.4g, decode %.4g ms (means)", parts.queue, parts.prefill, parts.decode))
		d.out.E2E.Hypothesis = largest(parts)
	}
}

// waiting holds the gauge against the hypothesis of a queue.
func (d *diagnoser) waiting() {
	for _, g := range d.st.Server.Window.Gauges {
		if g.Quantity != "waiting" || g.Samples == 0 || g.Hidden != "" {
			continue
		}
		text := fmt.Sprintf("server: %.3g requests waiting on average, %.0f at most, in %d scrapes", g.Mean, g.Max, g.Samples)
		if (g.Max > 0) == (d.out.TTFT.Hypothesis == result.HypothesisQueue) {
			d.out.TTFT.For = append(d.out.TTFT.For, text)
		} else {
			d.out.TTFT.Against = append(d.out.TTFT.Against, text)
		}
	}
}

// serverParts are means in ms over the requests that finished in the window.
type serverParts struct {
	queue, prefill, decode float64
	ttft                   float64
	n                      uint64
}

func largest(p serverParts) string {
	switch {
	case p.queue >= p.prefill && p.queue >= p.decode:
		return result.HypothesisQueue
	case p.prefill >= p.decode:
		return result.HypothesisPrefill
	}
	return result.HypothesisDecode
}

func (d *diagnoser) parts() (p serverParts, why string) {
	s := d.st.Server
	switch {
	case s == nil || s.Window == nil:
		return p, "the server's metrics were not read: queue and prefill cannot be told apart by a client"
	case s.Window.Void:
		return p, "the server's window is void: " + s.Window.Text
	}
	found := make(map[string]bool)
	for i := range s.Window.Distributions {
		x := &s.Window.Distributions[i]
		if x.Hidden != "" || x.Mean == nil || x.N == 0 {
			continue
		}
		switch x.Quantity {
		case "queue":
			p.queue, p.n = *x.Mean, x.N
		case "prefill":
			p.prefill = *x.Mean
		case "decode":
			p.decode = *x.Mean
		case "ttft":
			p.ttft = *x.Mean
		default:
			continue
		}
		found[x.Quantity] = true
	}
	if !found["queue"] || !found["prefill"] {
		return p, "the server does not tell queue and prefill times in this window"
	}
	return p, ""
}

func besideText(ms float64) string {
	if ms == 0 {
		return "not told"
	}
	return fmt.Sprintf("%.4g ms", ms)
}

// next says what would decide.
func (d *diagnoser) next() {
	add := func(text string) { d.out.Next = append(d.out.Next, text) }
	switch d.out.TTFT.Hypothesis {
	case result.HypothesisQueue:
		add("a sweep over the load: if TTFT falls with it while TPOT stays, it is the queue; then more sequences (max_num_seqs), KV cache or replicas")
	case result.HypothesisPrefill:
		add("the same load with half the prompt length, or with a shared prefix: if TTFT follows the length, it is prefill; then the chunk budget (max_num_batched_tokens)")
	case result.HypothesisNetwork:
		add("the same run from a machine beside the server")
	default:
		add("the server's own times: --metrics-url or --prometheus, and an engine that tells queue and prefill time")
	}
	if d.out.E2E.Hypothesis == result.HypothesisDecode {
		add("TPOT at concurrency 1 beside this one (assay sweep --concurrency 1,…): what lies between them is batching, what remains is the model on this GPU")
	}
}
