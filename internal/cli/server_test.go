package cli

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/assay-bench/assay/experiment"
	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/result"
	"github.com/assay-bench/assay/rundir"
	"github.com/assay-bench/assay/simserver"
	"github.com/assay-bench/assay/stat"
)

// TestServerTruth holds the server's account of a run against the log of the
// engine that served it: counts and means are exact, and every percentile lies
// in the interval that is told of it.
func TestServerTruth(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	log := filepath.Join(dir, "truth.jsonl")
	o := assay(t, dir, nil, "run", "--duration", "1s", "--concurrency", "6", "--prompt-tokens", "20..300", "--output-tokens", "2..40", "--warmup", "none",
		"--fail-on", "none", "--scrape-interval", "50ms", "--noise-cv", "0.3", "--truth-log", log, "-q", "--json")
	r := parseRun(t, o)
	s := r.Stages[0].Server
	if s.Text != "" || len(s.Targets) != 1 || s.Targets[0].Failed != 0 || s.Window == nil || s.Window.Scrapes < 3 {
		t.Fatalf("%+v", s)
	}
	for _, k := range s.Window.Checks {
		if !k.Agrees {
			t.Errorf("in the window: %+v", k)
		}
	}
	for _, c := range s.Counters {
		if !c.Agrees {
			t.Errorf("whole run: %+v", c)
		}
	}
	// The same conclusions over a window that has all scrapes in it, from before
	// the first request to after the last: then the log says what must be there.
	d := openRun(t, filepath.Join(dir, "runs"))
	scrapes, err := d.Scrapes()
	if err != nil {
		t.Fatal(err)
	}
	defer scrapes.Close()
	info := d.Meta.Stages[0]
	info.Window = record.Window{Start: 1, End: math.MaxInt64}
	w := experiment.Server(info, &d.Meta.Target, d.Meta.Epoch, scrapes.Index, scrapes, d.Records).Window
	truth := readTruth(t, log, "assay-"+d.Meta.Nonce)
	for quantity, samples := range truth {
		i := slices.IndexFunc(w.Distributions, func(x result.ServerDistribution) bool { return x.Quantity == quantity })
		if i < 0 || w.Distributions[i].Hidden != "" {
			t.Fatalf("%s: %+v", quantity, w)
		}
		compareTruth(t, &w.Distributions[i], samples)
	}
}

func compareTruth(t *testing.T, d *result.ServerDistribution, ms []float64) {
	t.Helper()
	sum := 0.0
	for _, x := range ms {
		sum += x
	}
	if mean := sum / float64(len(ms)); int(d.N) != len(ms) || math.Abs(*d.Mean-mean) > 1e-6*mean+1e-6 {
		t.Errorf("%s: n %d, mean %v; the log has n %d, mean %v", d.Quantity, d.N, *d.Mean, len(ms), mean)
	}
	for p, b := range map[float64]*result.ServerBound{0.5: d.P50, 0.95: d.P95, 0.99: d.P99} {
		if b == nil {
			if float64(len(ms))*(1-p) >= 1 {
				t.Errorf("%s: no p%g of %d samples", d.Quantity, 100*p, len(ms))
			}
			continue
		}
		q := stat.Quantile(slices.Sorted(slices.Values(ms)), p, 1)
		const slack = 1e-6 // of decimal sums
		if q <= *b.Lo-slack || b.Hi != nil && q > *b.Hi+slack || q < *b.TightLo-slack || b.TightHi != nil && q > *b.TightHi+slack || !b.SumFits {
			t.Errorf("%s: p%g is %v by the log, outside of (%v, %v] or [%v, %v]", d.Quantity, 100*p, q, *b.Lo, *b.Hi, *b.TightLo, *b.TightHi)
		}
	}
}

// readTruth takes the durations of each finished request of a run out of a truth
// log, in ms, by the quantity that a histogram has of them.
func readTruth(t *testing.T, path, run string) map[string][]float64 {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out := make(map[string][]float64)
	err = simserver.ReadTruth(f, func(line simserver.TruthLine) error {
		q := line.Request
		if q == nil || !strings.HasPrefix(q.XRequestID, run) || strings.Contains(q.XRequestID, "--") {
			return nil
		}
		for _, s := range q.Sequences {
			add := func(quantity string, ns int64) { out[quantity] = append(out[quantity], float64(ns)/1e6) }
			add("queue", s.Scheduled-s.Queued)
			add("prefill", s.FirstToken-s.Scheduled)
			add("decode", s.LastToken-s.FirstToken)
			add("inference", s.LastToken-s.Scheduled)
			out["output_length"] = append(out["output_length"], float64(s.OutputTokens))
			out["prompt_length"] = append(out["prompt_length"], float64(s.PromptTokens))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out["queue"]) < 20 {
		t.Fatalf("the log has %d requests of the run", len(out["queue"]))
	}
	return out
}

// openRun opens the one run below a folder.
func openRun(t *testing.T, parent string) *rundir.Run {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(parent, "*"))
	if err != nil || len(dirs) != 1 {
		t.Fatalf("runs: %q, %v", dirs, err)
	}
	d, err := rundir.Open(dirs[0])
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestScrapesDelayNothing: a page of metrics that never comes again after the
// first holds up neither the load nor the end of a run.
func TestScrapesDelayNothing(t *testing.T) {
	t.Parallel()
	scraped := make(chan bool, 100)
	f := &fake{}
	url := startWithMetrics(t, f, func(w http.ResponseWriter, r *http.Request) {
		scraped <- true
		if n := len(scraped); n > 1 && n < 3 {
			wait(w) // the second alone: it is cut off when the load is over
			return
		}
		fmt.Fprint(w, "# TYPE vllm:generation_tokens_total counter\nvllm:generation_tokens_total 5\n")
	})
	o := assay(t, t.TempDir(), nil, append([]string{"run", url}, short("--scrape-interval", "20ms", "-q", "--json", "--requests", "400")...)...)
	r := parseRun(t, o)
	s := r.Stages[0]
	if s.Ledger.Completed != 400 || s.Server.Targets[0].Failed == 0 {
		t.Errorf("%d completed, %+v", s.Ledger.Completed, s.Server)
	}
	if !slices.ContainsFunc(s.Warnings, func(w result.Warning) bool { return w.Code == "server-scrapes" }) {
		t.Errorf("%+v", s.Warnings)
	}
}

// TestMetricsElsewhere: another host than the target never sees its key, and
// gets the headers that are meant for it.
func TestMetricsElsewhere(t *testing.T) {
	t.Parallel()
	seen := make(chan http.Header, 100)
	metrics := startWithMetrics(t, &fake{}, func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header
		fmt.Fprint(w, "# TYPE vllm:generation_tokens_total counter\nvllm:generation_tokens_total 5\n")
	})
	target := (&fake{}).start(t)
	dir := t.TempDir()
	o := assay(t, dir, []string{"KEY=sk-" + canary}, append([]string{"run", target}, short("--api-key-env", "KEY", "--metrics-url", metrics+"/metrics?k=query"+canary,
		"--metrics-header", "X-Scope: scope"+canary, "--header", "X-Target: target"+canary, "-q", "--json")...)...)
	r := parseRun(t, o)
	if s := r.Stages[0].Server; len(s.Targets) != 1 || s.Targets[0].URL != metrics+"/metrics" || s.Counters[0].Agrees {
		t.Errorf("%+v", s)
	}
	h := <-seen
	if h.Get("Authorization") != "" || h.Get("X-Target") != "" || h.Get("X-Scope") != "scope"+canary {
		t.Errorf("%v", h)
	}
	_ = filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if b, rerr := os.ReadFile(path); rerr == nil && strings.Contains(string(b), canary) {
			t.Errorf("%s has a secret", path)
		}
		return err
	})
	var conf struct {
		Environment struct {
			NotRecorded []string `json:"not_recorded"`
		}
	}
	b, err := os.ReadFile(filepath.Join(openRun(t, filepath.Join(dir, "runs")).Dir, "run.json"))
	if err == nil {
		err = json.Unmarshal(b, &conf)
	}
	if err != nil || !slices.Contains(conf.Environment.NotRecorded, "GPU type") {
		t.Errorf("%v, %v", conf, err)
	}
}

// startWithMetrics serves a fake with a page of metrics.
func startWithMetrics(t *testing.T, f *fake, metrics http.HandlerFunc) string {
	mux := http.NewServeMux()
	mux.HandleFunc("/metrics", metrics)
	mux.Handle("/", f)
	s := httptest.NewServer(mux)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL
}
