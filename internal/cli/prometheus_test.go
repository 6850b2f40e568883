package cli

import (
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay/scrape"
)

// startSim serves the built-in engine in a process of its own.
func startSim(t *testing.T) string {
	t.Helper()
	b, err := startBuiltIn(t.Context(), []string{"--gpu", "b200"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.stop)
	return b.url
}

// startPrometheus runs a real Prometheus server that scrapes a target every
// 200 ms; without that program, there is nothing to test against.
func startPrometheus(t *testing.T, target string) string {
	t.Helper()
	program, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("there is no prometheus on this machine")
	}
	dir := t.TempDir()
	conf := fmt.Sprintf("global: {scrape_interval: 200ms, scrape_timeout: 200ms}\nscrape_configs:\n- job_name: llm\n  static_configs: [{targets: [%q]}]\n", strings.TrimPrefix(target, "http://"))
	if err := os.WriteFile(filepath.Join(dir, "p.yml"), []byte(conf), 0o644); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := ln.Addr().String()
	_ = ln.Close()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, program, "--config.file="+filepath.Join(dir, "p.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address)
	if err := cmd.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait()
	})
	url := "http://" + address
	if !until(func() bool {
		r, err := http.Get(url + "/api/v1/query?query=" + "vllm:generation_tokens_total")
		if err != nil {
			return false
		}
		defer r.Body.Close()
		b, _ := io.ReadAll(r.Body)
		return strings.Contains(string(b), "instance")
	}) {
		t.Fatal("Prometheus did not come up, or has not scraped")
	}
	return url
}

// TestPrometheus: a run that reads a Prometheus server agrees with the client
// over the whole run and in its window, as one that scrapes by itself does.
func TestPrometheus(t *testing.T) {
	t.Parallel()
	sim := startSim(t)
	prometheus := startPrometheus(t, sim)
	o := assay(t, t.TempDir(), nil, "run", sim, "--duration", "2s", "--concurrency", "4", "--prompt-tokens", "30", "--output-tokens", "20", "--warmup", "none",
		"--fail-on", "none", "-q", "--json", "--prometheus", prometheus, "--prometheus-selector", `job="llm"`)
	s := parseRun(t, o).Stages[0]
	a := s.Server
	if a.Text != "" || len(a.Counters) < 3 || a.Window == nil || a.Window.Text != "" || a.Window.Scrapes < 4 || a.Targets[0].Engine != "vllm" {
		t.Fatalf("%+v %+v", a, a.Window)
	}
	for _, c := range a.Counters {
		if !c.Agrees {
			t.Errorf("whole run: %+v", c)
		}
	}
	for _, k := range a.Window.Checks {
		if !k.Agrees {
			t.Errorf("window: %+v", k)
		}
	}
	for _, d := range a.Window.Distributions {
		if d.Quantity == "e2e" && (d.Mean == nil || math.Abs(*d.Mean-*s.Metrics.E2E.Mean) > 0.2**s.Metrics.E2E.Mean) {
			t.Errorf("E2E %+v, the client has %v", d, *s.Metrics.E2E.Mean)
		}
	}
}

// TestPrometheusRefusals: what is wrong with the source shows before the load.
func TestPrometheusRefusals(t *testing.T) {
	t.Parallel()
	target := (&fake{}).start(t)
	for answer, want := range map[string]string{
		`{"status":"success","data":{"resultType":"matrix","result":[]}}`: "no samples of a known engine",
		`{"status":"error","error":"parse error"}`:                        "parse error",
		`<html>`: "reading a reply of Prometheus",
	} {
		asked := make(chan *http.Request, 9)
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked <- r
			io.WriteString(w, answer)
		}))
		defer s.Close()
		o := assay(t, t.TempDir(), nil, append([]string{"run", target}, short("-q", "--prometheus", s.URL+"/prom", "--prometheus-selector", `pod="x"`)...)...)
		if r := <-asked; r.URL.Path != "/prom/api/v1/query" || !strings.HasSuffix(r.URL.Query().Get("query"), `,pod="x"}[60s]`) {
			t.Errorf("asked for %s", r.URL)
		}
		if o.code != exitTarget || !strings.Contains(o.stderr, want) {
			t.Errorf("%s: exit code %d, %q", answer, o.code, o.stderr)
		}
	}
}

// TestHistoryRounds: instances that are scraped at phases of their own make
// rounds together; one of them may lack a sample.
func TestHistoryRounds(t *testing.T) {
	epoch := time.Unix(1000, 0)
	var pages []scrape.Historic
	for instance, phase := range []float64{0, 4} {
		for k := range 7 {
			if instance == 1 && k == 3 {
				continue
			}
			at := epoch.Add(time.Duration((phase + 10*float64(k)) * 1e9))
			pages = append(pages, scrape.Historic{Instance: string(rune('a' + instance)), Time: at, Took: time.Second})
		}
	}
	got := ""
	for _, s := range rounds(pages, "p", epoch, 16e9, 42e9) {
		got += fmt.Sprintf("%s%d%s ", s.URL[len(s.URL)-2:len(s.URL)-1], s.Round, string(s.When)[:1])
	}
	// a is scraped at 0, 10, 20 ... s and b at 4, 14, ... s; the load runs from 16 to 42 s.
	if want := "a1b a2d a3d a4d a5a b1b b2d b4d b5a "; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
