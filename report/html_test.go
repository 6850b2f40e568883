package report

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/result"
)

// replies are n requests of a stage, a few of them failed, whose events come one
// token at a time.
func replies(st *result.Stage, n, tokens int) func(yield func(*record.Attempt, []record.Event) bool) {
	return func(yield func(*record.Attempt, []record.Event) bool) {
		rng := rand.New(rand.NewPCG(1, 2))
		length := float64(st.Window.Length())
		events := make([]record.Event, tokens)
		for i := range n {
			due := st.Window.Start + record.Stamp(length*(float64(i)/float64(n)*1.2-0.1))
			sent := due + 100_000
			a := &record.Attempt{
				Stage: st.Name, Request: int64(i), Scheduled: due, Dispatched: due, Sent: sent, Streamed: true, Outcome: record.Completed,
				Phase: record.Measured, Usage: &record.Usage{PromptTokens: 64, CompletionTokens: tokens},
			}
			at := sent + record.Stamp(20e6*(1+rng.ExpFloat64()))
			for j := range events {
				events[j] = record.Event{At: at, Tokens: 1, TextBytes: 3, AnswerBytes: 3, Flags: record.FlagText | record.FlagAnswer}
				at += record.Stamp(5e6 * (1 + 0.2*rng.Float64()))
			}
			for j := range events {
				a.Observe(events[j])
			}
			a.Ended, a.EOF = at, at
			if i%97 == 5 {
				a.Outcome, a.FirstText, a.LastText, a.Usage = record.Rejected, 0, 0, nil
			}
			if !yield(a, events) {
				return
			}
		}
	}
}

func htmlReport(t testing.TB, n int) string {
	run := goodRun()
	run.Target.Model = `<script>alert("x")</script>` + "\x1b[31m"
	var b bytes.Buffer
	if err := HTML(&b, run, []*Gathered{Gather(&run.Stages[0], replies(&run.Stages[0], n, 16))}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestHTML(t *testing.T) {
	text := htmlReport(t, 400)
	if strings.Contains(text, "<script>alert") || strings.Contains(text, "\x1b") {
		t.Error("foreign text is markup")
	}
	for _, want := range []string{
		"TTFT, cumulative share", "TPOT, cumulative share", "E2E, cumulative share", "Requests in flight", "Output tokens per second",
		"Median latency", "Where the mean time", "ITL over time", "as the server says", "Requests, one a line", "<h2>Ledger</h2>", "prefers-color-scheme:dark",
		"@media print", "server boundary, n = ", "client boundary, request-weighted, n = ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in the page", want)
		}
	}
	// Nothing is fetched: no address but in text.
	if m := regexp.MustCompile(`(?i)(src|href)\s*=|url\(|@import|fetch\(|XMLHttp`).FindString(text); m != "" {
		t.Errorf("the page reaches out: %s", m)
	}
	if strings.Contains(text, "NaN") || strings.Contains(text, "Infinity") {
		t.Error("a number that is none")
	}
	var without bytes.Buffer
	if err := HTML(&without, sweepRun(), nil); err != nil || !strings.Contains(without.String(), "Stage") {
		t.Errorf("a page without pictures: %v", err)
	}
}

func TestSweepHTML(t *testing.T) {
	spread := func(v float64) *result.Spread {
		return &result.Spread{N: 3, Median: v, MAD: 1, Min: v * 0.9, Max: v * 1.1}
	}
	s := &result.Sweep{ID: "x", Repeats: 3, Axes: []result.SweepAxis{{Key: "workload.concurrency", Name: "concurrency"}}, Complete: true}
	for i := range 5 {
		load := float64(int(1) << i)
		s.Stages = append(s.Stages, result.SweepStage{
			Name: fmt.Sprintf("concurrency %.0f", load), Load: &load, TTFTp50: spread(20 + load), TPOTMean: spread(5 + load/8), E2Ep50: spread(900 + load),
			OutputTPS: spread(100 * load / (1 + load/20)), Goodput: spread(100 - load),
		})
	}
	s.Scaling = []result.Scaling{{Of: "output_tps", Over: "concurrency", Knee: new(8.), Points: []result.ScalingPoint{{Load: 1}, {Load: 16}}, USL: &result.USL{Lambda: 100, Sigma: 0.05}}}
	var b bytes.Buffer
	if err := SweepHTML(&b, s); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Output throughput", "knee 8", "Universal Scalability Law", "TTFT p50 against throughput", "Goodput", "least of the runs"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in the page", want)
		}
	}
}

// In a browser the page runs without a complaint, is no wider than the window,
// and its script answers to the pointer.
func TestHTMLInBrowser(t *testing.T) {
	var browser string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			browser = path
			break
		}
	}
	if browser == "" {
		t.Skip("no headless browser on this machine")
	}
	dir := t.TempDir()
	// What the browser finds goes to the title, which is in what it dumps.
	probe := `<script>
	const s = document.querySelector("figure svg"), c = s.querySelector("circle[data-l]").getBoundingClientRect();
	s.dispatchEvent(new PointerEvent("pointermove", {clientX: c.x, clientY: c.y}));
	const tip = document.querySelector(".tip");
	const key = document.querySelector("button.key"); key.click();
	const empty = [...document.querySelectorAll("svg.chart")].filter(s => s.querySelectorAll("path,rect.cell,line.range,circle").length === 0).length;
	document.title = JSON.stringify({charts: document.querySelectorAll("svg.chart").length, empty, tip: tip.hidden ? "" : tip.textContent,
		off: document.querySelectorAll("g.series.off").length, wide: document.documentElement.scrollWidth > innerWidth});
	</script></body>`
	file := filepath.Join(dir, "report.html")
	if err := os.WriteFile(file, []byte(strings.Replace(htmlReport(t, 400), "</body>", probe, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, width := range []string{"1280", "500"} { // the narrowest window of a headless browser
		cmd := exec.Command(browser, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
			"--disable-component-update", "--disable-sync", "--user-data-dir="+filepath.Join(dir, "profile"+width),
			"--window-size="+width+",2000", "--enable-logging=stderr", "--dump-dom", "file://"+file)
		var out, log bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &log
		if err := cmd.Run(); err != nil {
			t.Fatalf("%v\n%s", err, &log)
		}
		if strings.Contains(log.String(), "CONSOLE") {
			t.Errorf("the console has something to say:\n%s", &log)
		}
		title := regexp.MustCompile(`<title>(\{.*?\})</title>`).FindStringSubmatch(out.String())
		if title == nil {
			t.Fatal("the script did not come to its end")
		}
		got := title[1]
		for _, want := range []string{`"charts":11`, `"empty":0`, `"off":1`, `"wide":false`} {
			if !strings.Contains(got, want) {
				t.Errorf("%s pixels: no %s in %s", width, want, got)
			}
		}
		if strings.Contains(got, `"tip":""`) {
			t.Errorf("%s pixels: pointing at a point says nothing: %s", width, got)
		}
	}
}

// A page of 1,000,000 requests stays small.
func BenchmarkHTML(b *testing.B) {
	run := goodRun()
	for b.Loop() {
		var out bytes.Buffer
		if err := HTML(&out, run, []*Gathered{Gather(&run.Stages[0], replies(&run.Stages[0], 1_000_000, 8))}); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(out.Len())/1e6, "MB/page")
	}
}
