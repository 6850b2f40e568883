package experiment

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/result"
	"github.com/assay-bench/assay/rundir"
)

// page is a small vLLM, as its metrics tell of it.
type page struct {
	start    float64 // process_start_time_seconds
	out, in  float64
	finished float64
	aborted  float64
	running  float64
	// Samples of the histograms, in seconds; lengths in tokens.
	ttft, tpot, lengths []float64
	engine              string
	more                string // further lines
}

func (p page) body() []byte {
	engine := p.engine
	if engine == "" {
		engine = "0"
	}
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds %g", p.start)
	line("# TYPE vllm:generation_tokens_total counter\nvllm:generation_tokens_total{engine=%q} %g", engine, p.out)
	line("# TYPE vllm:prompt_tokens_total counter\nvllm:prompt_tokens_total{engine=%q} %g", engine, p.in)
	line("# TYPE vllm:request_success_total counter")
	line("vllm:request_success_total{engine=%q,finished_reason=\"length\"} %g", engine, p.finished)
	line("vllm:request_success_total{engine=%q,finished_reason=\"abort\"} %g", engine, p.aborted)
	line("# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{engine=%q} %g", engine, p.running)
	histogram := func(name string, samples []float64, bounds ...float64) {
		line("# TYPE %s histogram", name)
		sum := 0.0
		for _, s := range samples {
			sum += s
		}
		for _, le := range bounds {
			n := 0
			for _, s := range samples {
				if s <= le {
					n++
				}
			}
			line("%s_bucket{engine=%q,le=\"%g\"} %d", name, engine, le, n)
		}
		line("%s_bucket{engine=%q,le=\"+Inf\"} %d\n%s_sum{engine=%q} %g\n%s_count{engine=%q} %d", name, engine, len(samples), name, engine, sum, name, engine, len(samples))
	}
	histogram("vllm:time_to_first_token_seconds", p.ttft, .01, .02, .04, .1)
	histogram("vllm:request_time_per_output_token_seconds", p.tpot, .01, .025, .05)
	histogram("vllm:request_generation_tokens", p.lengths, 1, 2, 5, 10)
	b.WriteString(p.more)
	return []byte(b.String())
}

// stored are scrapes as a run leaves them.
type stored struct {
	index  []rundir.Scrape
	bodies [][]byte
}

func (s *stored) Body(of rundir.Scrape) ([]byte, error) { return s.bodies[of.Offset], nil }

// at adds a scrape of a page, at so many milliseconds.
func (s *stored) at(url string, ms int, when rundir.When, p page) {
	body := p.body()
	at := record.Stamp(ms) * record.Stamp(time.Millisecond)
	s.index = append(s.index, rundir.Scrape{
		URL: url, Round: ms, When: when, Before: at, After: at.Add(2 * time.Millisecond), Status: 200,
		ContentType: "text/plain; version=0.0.4", Offset: int64(len(s.bodies)), Length: int64(len(body)),
	})
	s.bodies = append(s.bodies, body)
}

func (s *stored) fail(url string, ms int, why string) {
	at := record.Stamp(ms) * record.Stamp(time.Millisecond)
	s.index = append(s.index, rundir.Scrape{URL: url, Round: ms, When: rundir.DuringLoad, Before: at, After: at.Add(5 * time.Second), Error: why})
}

const a8000 = "http://a:8000/metrics"

// steady is a server that was scraped before, at both edges of, inside and after
// a window of [1 s, 3 s).
func steady() *stored {
	s := new(stored)
	s.at(a8000, 0, rundir.BeforeLoad, page{start: 5, out: 100, in: 1000, finished: 10})
	s.at(a8000, 1010, rundir.DuringLoad, page{start: 5, out: 104, in: 1010, finished: 10, running: 1, ttft: []float64{.015}})
	s.at(a8000, 2000, rundir.DuringLoad, page{start: 5, out: 120, in: 1030, finished: 12, running: 3, ttft: []float64{.015, .03, .03}, tpot: []float64{.02}, lengths: []float64{4}})
	s.at(a8000, 2900, rundir.DuringLoad, page{start: 5, out: 130, in: 1050, finished: 14, running: 2, ttft: []float64{.015, .03, .03, .09}, tpot: []float64{.02, .04}, lengths: []float64{4, 4}})
	s.at(a8000, 4000, rundir.AfterLoad, page{start: 5, out: 140, in: 1060, finished: 16})
	return s
}

// attempts that fit: tokens at 10 ms a step, one request after the other.
func fitting() []fakeAttempt {
	var all []fakeAttempt
	for i, first := range []int{500, 1100, 1700, 2300, 2950} {
		n := []int{4, 8, 8, 10, 10}[i]
		if i == 4 {
			all = append(all, fakeAttempt{first: first, n: n, prompt: 10})
			continue
		}
		all = append(all, fakeAttempt{first: first, n: n, prompt: []int{10, 10, 10, 20}[i]})
	}
	return all
}

type fakeAttempt struct{ first, n, prompt int }

// records makes them: 1 token an event, 10 ms apart.
func records(all []fakeAttempt) Records {
	ms := func(x int) record.Stamp { return record.Stamp(x) * record.Stamp(time.Millisecond) }
	return func(yield func(*record.Attempt, []record.Event) bool) {
		for _, f := range all {
			a := record.Attempt{
				Stage: "s", Streamed: true, Status: 200, Outcome: record.Completed, Scheduled: ms(f.first - 20), Sent: ms(f.first - 20),
				Usage: &record.Usage{PromptTokens: f.prompt, CompletionTokens: f.n},
			}
			var events []record.Event
			for k := range f.n {
				e := record.Event{At: ms(f.first + 10*k), Tokens: 1, TextBytes: 2, Flags: record.FlagText}
				a.Observe(e)
				events = append(events, e)
			}
			a.Finish, a.Ended = ms(f.first+10*f.n), ms(f.first+10*f.n)
			if !yield(&a, events) {
				return
			}
		}
	}
}

func account(s *stored, all []fakeAttempt) *result.ServerAccount {
	info := result.StageInfo{Name: "s", Window: record.Window{Start: record.Stamp(time.Second), End: record.Stamp(3 * time.Second)}}
	return Server(info, &result.Target{}, time.Unix(1000, 0), s.index, s, records(all))
}

func distributionOf(t *testing.T, w *result.ServerWindow, quantity string) result.ServerDistribution {
	t.Helper()
	for _, d := range w.Distributions {
		if d.Quantity == quantity {
			return d
		}
	}
	t.Fatalf("no distribution of %s in %+v", quantity, w)
	return result.ServerDistribution{}
}

func TestServerWindow(t *testing.T) {
	got := account(steady(), fitting())
	w := got.Window
	if w.Text != "" || w.Scrapes != 3 || w.Start != record.Stamp(1010*time.Millisecond) || w.End != record.Stamp(2902*time.Millisecond) ||
		w.LengthLo != 1888*time.Millisecond || w.LengthHi != 1892*time.Millisecond {
		t.Errorf("window %+v", w)
	}
	if got.Targets[0].Engine != "vllm" || got.Targets[0].Scrapes != 5 || got.Targets[0].Failed != 0 {
		t.Errorf("targets %+v", got.Targets)
	}
	d := distributionOf(t, w, "ttft")
	if d.N != 3 || d.Unit != "ms" || *d.Mean < 49.999 || *d.Mean > 50.001 || *d.P50.Lo != 20 || *d.P50.Hi != 40 || d.P95 != nil {
		t.Errorf("ttft %+v", d)
	}
	if d := distributionOf(t, w, "tpot_request"); d.Hidden != "" || d.N != 2 || len(d.Flags) != 1 {
		t.Errorf("tpot %+v", d)
	}
	i := slices.IndexFunc(w.Totals, func(x result.ServerTotal) bool { return x.Quantity == "tokens_out" })
	if o := w.Totals[i]; o.Total != 26 || math.Abs(o.PerSecond[0]-26/1.892) > 1e-9 || math.Abs(o.PerSecond[1]-26/1.888) > 1e-9 {
		t.Errorf("output %+v", o)
	}
	i = slices.IndexFunc(w.Totals, func(x result.ServerTotal) bool { return x.Quantity == "requests_finished" })
	if o := w.Totals[i]; o.Total != 4 || len(o.By) != 1 || o.By["length"] != 4 {
		t.Errorf("finished %+v", o)
	}
	if g := w.Gauges[0]; g.Quantity != "running" || g.Samples != 3 || g.Min != 1 || g.Mean != 2 || g.Max != 3 {
		t.Errorf("running %+v", g)
	}
	for _, k := range w.Checks {
		want := map[string]float64{"tokens_out": 26, "tokens_in": 40, "requests_finished": 3}[k.Quantity]
		if k.Client != want {
			t.Errorf("the client has %v of %s, want %v", k.Client, k.Quantity, want)
		}
	}
	if k := w.Checks[0]; !k.Agrees || k.Tolerance > 3 {
		t.Errorf("%+v", k)
	}
	if c := got.Counters[0]; *c.Delta != 40 || c.Client != 40 || !c.Agrees {
		t.Errorf("whole run %+v", c)
	}
}

// TestServerWindowVoid: what must not be believed is not shown, and says why.
func TestServerWindowVoid(t *testing.T) {
	replace := func(i int, p page) *stored {
		s := steady()
		s.bodies[i] = p.body()
		s.index[i].Length = int64(len(s.bodies[i]))
		return s
	}
	for name, tc := range map[string]struct {
		s    *stored
		want string
	}{
		"restart inside, back beyond": {replace(2, page{start: 5, out: 3, in: 20}), "went down"},
		"another process in between":  {replace(2, page{start: 9, out: 120, in: 1030, finished: 12}), "process_start_time_seconds"},
		"another process at the end":  {replace(3, page{start: 9, out: 130, in: 1050, finished: 14}), "process_start_time_seconds"},
		"another engine answers":      {replace(3, page{start: 5, out: 130, in: 1050, finished: 14, engine: "1"}), "vanished"},
		"a second engine joins": {replace(2, page{start: 5, out: 120, in: 1030, finished: 12,
			more: "vllm:generation_tokens_total{engine=\"1\"} 500\n"}), "appeared"},
		"a page that is none": {func() *stored {
			s := steady()
			s.bodies[1], s.bodies[2], s.bodies[3] = []byte("<html>"), []byte("<html>"), []byte("<html>")
			return s
		}(), "3 scrapes in the window failed, and 0 did not: 1.01 s into the run: parsing metrics: not a Prometheus exposition: it looks like HTML"},
		"one scrape alone": {func() *stored {
			s := steady()
			s.index = append(s.index[:2], s.index[4])
			return s
		}(), "1 whole scrapes lie inside the window of 2.0 s"},
	} {
		t.Run(name, func(t *testing.T) {
			w := account(tc.s, fitting()).Window
			if (tc.want == "") != (w.Text == "") || !strings.Contains(w.Text, tc.want) {
				t.Errorf("%q, want %q", w.Text, tc.want)
			}
			if w.Text != "" && (w.Distributions != nil || w.Totals != nil || w.Gauges != nil || w.Checks != nil) {
				t.Errorf("numbers of a void window: %+v", w)
			}
		})
	}
}

// TestServerFailedScrapes: a scrape that failed in between costs nothing but a
// word; one at the edge makes the window shorter.
func TestServerFailedScrapes(t *testing.T) {
	s := steady()
	s.index[1] = rundir.Scrape{URL: a8000, Round: 1010, When: rundir.DuringLoad, Before: s.index[1].Before, After: s.index[1].After, Error: "HTTP 503"}
	s.fail(a8000, 2500, "no reply within 5s")
	got := account(s, fitting())
	if w := got.Window; w.Text != "" || w.Scrapes != 2 || w.Start != record.Stamp(2*time.Second) {
		t.Errorf("%+v", w)
	}
	if x := got.Targets[0]; x.Failed != 2 || x.FirstError != "1.01 s into the run: HTTP 503" {
		t.Errorf("%+v", x)
	}
	if w := ServerWarnings(got); len(w) != 1 || w[0].Code != "server-scrapes" {
		t.Errorf("%+v", w)
	}
}

// TestServerChecks: what the server counts and the client did not see is named.
func TestServerChecks(t *testing.T) {
	foreign := steady()
	foreign.bodies[3] = page{start: 5, out: 1130, in: 1050, finished: 14}.body()
	foreign.index[3].Length = int64(len(foreign.bodies[3]))
	foreign.bodies[4] = page{start: 5, out: 1140, in: 1060, finished: 16}.body()
	foreign.index[4].Length = int64(len(foreign.bodies[4]))
	got := account(foreign, fitting())
	if k := got.Window.Checks[0]; k.Agrees || !strings.Contains(k.Text, "other traffic") {
		t.Errorf("%+v", k)
	}
	if w := ServerWarnings(got); len(w) != 1 || w[0].Code != "server-check" {
		t.Errorf("%+v", w)
	}
	// Half of the requests went to an engine that was not scraped.
	double := append(fitting(), fakeAttempt{first: 1200, n: 60, prompt: 10}, fakeAttempt{first: 1900, n: 60, prompt: 10})
	if k := account(steady(), double).Window.Checks[0]; k.Agrees || k.Client != 146 || !strings.Contains(k.Text, "--metrics-url") {
		t.Errorf("%+v", k)
	}
	// A reply of one token: the client knows, whatever the server's lengths say.
	one := append(fitting(), fakeAttempt{first: 1200, n: 1, prompt: 10})
	if d := distributionOf(t, account(steady(), one).Window, "tpot_request"); d.Mean != nil || !strings.Contains(d.Hidden, "1 requests of no or one token") {
		t.Errorf("%+v", d)
	}
	// Or the server knows, whatever the client saw: foreign traffic.
	zeros := steady()
	zeros.bodies[3] = page{start: 5, out: 130, in: 1050, finished: 14, tpot: []float64{.02, 0}, lengths: []float64{4, 1}}.body()
	zeros.index[3].Length = int64(len(zeros.bodies[3]))
	// The TTFT samples are gone in that page: the series went down.
	w := account(zeros, fitting()).Window
	if d := distributionOf(t, w, "tpot_request"); d.Mean != nil || !strings.Contains(d.Hidden, "made-up zeros") {
		t.Errorf("%+v", d)
	}
	if d := distributionOf(t, w, "ttft"); d.Mean != nil || !strings.Contains(d.Hidden, "went down") {
		t.Errorf("%+v", d)
	}
}

// TestServerTargets: two replicas are one server; a round in which one of them
// failed is none.
func TestServerTargets(t *testing.T) {
	const b = "http://b:8000/metrics"
	s := steady()
	s.at(b, 0, rundir.BeforeLoad, page{start: 6, out: 0, in: 0})
	s.fail(b, 1010, "HTTP 500")
	s.at(b, 2000, rundir.DuringLoad, page{start: 6, out: 50, in: 100, running: 5, ttft: []float64{.05}})
	s.at(b, 2900, rundir.DuringLoad, page{start: 6, out: 90, in: 130, running: 7, ttft: []float64{.05, .07}})
	s.at(b, 4000, rundir.AfterLoad, page{start: 6, out: 95, in: 140})
	got := account(s, fitting())
	w := got.Window
	if w.Text != "" || w.Scrapes != 2 || len(got.Targets) != 2 || got.Targets[1].Failed != 1 {
		t.Fatalf("%+v %+v", w, got.Targets)
	}
	i := slices.IndexFunc(w.Totals, func(x result.ServerTotal) bool { return x.Quantity == "tokens_out" })
	if o := w.Totals[i]; o.Total != 10+40 || o.Series != 2 {
		t.Errorf("output %+v", o)
	}
	if d := distributionOf(t, w, "ttft"); d.N != 2 || *d.Mean < 79.99 || *d.Mean > 80.01 {
		t.Errorf("ttft %+v", d)
	}
	if g := w.Gauges[0]; g.Min != 8 || g.Max != 9 {
		t.Errorf("running %+v", g)
	}
	if c := got.Counters[0]; *c.Delta != 40+95 {
		t.Errorf("whole run %+v", c)
	}
}

// TestTokensOfUnknownDeltas spreads usage over the events that carried text.
func TestTokensOfUnknownDeltas(t *testing.T) {
	at := func(ms int) record.Stamp { return record.Stamp(ms) * record.Stamp(time.Millisecond) }
	a := record.Attempt{Streamed: true, Sent: at(1), Outcome: record.Completed, Usage: &record.Usage{PromptTokens: 7, CompletionTokens: 12}}
	var events []record.Event
	for k := range 4 {
		e := record.Event{At: at(1000 + 1000*k), Tokens: record.UnknownTokens, Flags: record.FlagText}
		a.Observe(e)
		events = append(events, e)
	}
	a.Ended = at(4001)
	c := clientEdges{edges: [2]bracket{{at(1990), at(1995)}, {at(3500), at(3510)}}}
	c.add(&a, events)
	if c.out.n != 6 || c.out.flying != 3 || c.in.n != 0 || c.finished.n != 0 {
		t.Errorf("%+v", c)
	}
	// Not streamed: all of it may be counted at any time while it ran.
	whole := record.Attempt{Sent: at(100), Ended: at(3000), Outcome: record.Completed, Usage: &record.Usage{PromptTokens: 7, CompletionTokens: 12}}
	c = clientEdges{edges: c.edges}
	c.add(&whole, nil)
	if c.out.n != 12 || c.out.flying != 12 || c.in.n != 7 || c.in.flying != 7 {
		t.Errorf("%+v", c)
	}
}
