package dataset

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestServeGen: rates of windows, idle windows, lengths by time, and the same
// requests for the same seed, of one client and of a directory.
func TestServeGen(t *testing.T) {
	rows := collect(t, open(t, "servegen/chunk-0-trace.csv", Options{Seed: 3}))
	start := func(r Row) float64 { return float64(r.stamp) / 1e9 }
	n := map[int]int{}
	for i, r := range rows {
		w := int(start(r) / 600)
		n[w]++
		if r.Client != "chunk-0" || r.PromptTokens == 0 || w == 3 != (r.PromptTokens == 1000) {
			t.Fatalf("row %d: %+v", i, r)
		}
		if i > 0 && r.At < rows[i-1].At {
			t.Fatalf("row %d goes back", i)
		}
	}
	// 1200 at 2/s: standard deviation 35; 300 at 0.5/s: 19; 900 at 1.5/s, CV 2: 60.
	for w, want := range map[int][2]float64{0: {1200, 140}, 1: {300, 76}, 2: {0, 0}, 3: {900, 240}} {
		if math.Abs(float64(n[w])-want[0]) > want[1] {
			t.Errorf("window %d: %d requests, want %v ± %v", w, n[w], want[0], want[1])
		}
	}
	if diff := cmp.Diff(rows, collect(t, open(t, "servegen/chunk-0-trace.csv", Options{Seed: 3})), sameRows); diff != "" {
		t.Error("other requests for the same seed")
	}
	all := collect(t, open(t, "servegen", Options{Seed: 3}))
	clients := map[string]int{}
	for i, r := range all {
		clients[r.Client]++
		if i > 0 && r.At < all[i-1].At {
			t.Fatalf("row %d goes back", i)
		}
	}
	if clients["chunk-0"] != len(rows) || clients["chunk-1"] == 0 || clients["chunk-1"] == len(rows) {
		t.Errorf("rows by client %v; client 0 alone has %d", clients, len(rows))
	}
}

// TestGaps: the mean gap is 1/rate and the CV that of the shape.
func TestGaps(t *testing.T) {
	for _, w := range []window{
		{rate: 2, family: "Gamma", shape: 0.25},
		{rate: 2, family: "Gamma", shape: 4},
		{rate: 0.1, family: "Weibull", shape: 0.8},
	} {
		c := serveGenClient{now: w, rnd: rand.New(rand.NewPCG(1, 1))}
		var sum, square float64
		const n = 100_000
		for range n {
			g := c.gap()
			sum += g
			square += g * g
		}
		mean := sum / n
		cv := math.Sqrt(square/n-mean*mean) / mean
		want := 1 / math.Sqrt(w.shape)
		if w.family == "Weibull" {
			g1, g2 := math.Gamma(1+1/w.shape), math.Gamma(1+2/w.shape)
			want = math.Sqrt(g2/(g1*g1) - 1)
		}
		if math.Abs(mean*w.rate-1) > 4*want/math.Sqrt(n) {
			t.Errorf("%+v: mean %v", w, mean)
		}
		if math.Abs(cv/want-1) > 0.03 {
			t.Errorf("%+v: CV %v, want %v", w, cv, want)
		}
	}
}

func TestServeGenBad(t *testing.T) {
	ls, err := parseLengths(strings.NewReader(`{"0":{"input_tokens":"{1:1.0}","output_tokens":"{1:1.0}"}}`), "d")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ content, says string }{
		"rate":   {"0,x,1,Gamma,1,1\n", `chunk-0-trace.csv:1:3: column "rate": "x": is not a number`},
		"family": {"0,1,1,Gamma,1,1\n600,1,1,Pareto,1,1\n", `column "family": "Pareto": is neither Gamma nor Weibull`},
		"order":  {"600,1,1,Gamma,1,1\n0,1,1,Gamma,1,1\n", `is not after the window before`},
		"fields": {"0,1,1,Gamma\n", `has 4 fields`},
	} {
		c, err := newServeGenClient(newInput(strings.NewReader(test.content), 0), "chunk-0-trace.csv", ls, 1, nil)
		if err == nil {
			_, err = readAll(&Reader{name: "chunk-0-trace.csv", shape: shapeOf(ServeGen), src: c, set: newSetter(shapeOf(ServeGen), Options{})})
		}
		if err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A window that is wrong is idle, if it may be skipped.
	for name, test := range map[string]struct{ content, bad string }{
		"rate":   {"0,1,1,Gamma,1,1\n300,x,1,Gamma,1,1\n600,1,1,Gamma,1,1\n", `dir/chunk-0-trace.csv:2:5: column "rate": "x": is not a number of at least 0`},
		"start":  {"0,1,1,Gamma,1,1\nx,1,1,Gamma,1,1\n1200,1,1,Gamma,1,1\n", `dir/chunk-0-trace.csv:2:1: column "start": "x": is not a number of at least 0`},
		"fields": {"0,1,1,Gamma,1,1\n600,1\n1200,1,1,Gamma,1,1\n", `dir/chunk-0-trace.csv:2: has 2 fields`},
		"order":  {"0,1,1,Gamma,1,1\n0,1,1,Gamma,1,1\n1200,1,1,Gamma,1,1\n", `dir/chunk-0-trace.csv:2:1: column "start": "0": is not after the window before`},
	} {
		r := &Reader{name: "dir", o: Options{SkipBad: true}, shape: shapeOf(ServeGen), set: newSetter(shapeOf(ServeGen), Options{})}
		if r.src, err = newServeGenClient(newInput(strings.NewReader(test.content), 0), "dir/chunk-0-trace.csv", ls, 1, r.skipper()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		rows := collect(t, r)
		first, last := time.Duration(0), time.Duration(0) // before the bad window, and behind it
		for _, row := range rows {
			if at := time.Duration(row.stamp); at < 600*time.Second {
				first = max(first, at)
			} else if last == 0 {
				last = at
			}
		}
		window := 600 * time.Second
		if name == "rate" {
			window /= 2
		}
		if n, bad := r.Skipped(); n != 1 || !strings.HasPrefix(bad.Error(), test.bad) || first > window || last < 2*window {
			t.Errorf("%s: %d skipped, %v; nothing between %v and %v", name, n, bad, first, last)
		}
	}
	for _, bad := range []string{`{"0":{"input_tokens":"{1:1","output_tokens":"{1:1}"}}`, `{"x":{}}`, `{"0":{"input_tokens":"{1:-1}","output_tokens":"{1:1}"}}`, `{}`, `[`} {
		if _, err := parseLengths(strings.NewReader(bad), "d"); err == nil {
			t.Errorf("%s was read", bad)
		}
	}
}
