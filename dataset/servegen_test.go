package dataset

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

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
		c, err := newServeGenClient(newInput(strings.NewReader(test.content), 0), "chunk-0-trace.csv", ls, 1)
		if err == nil {
			_, err = readAll(&Reader{name: "chunk-0-trace.csv", shape: shapeOf(ServeGen), src: c, set: newSetter(shapeOf(ServeGen), Options{})})
		}
		if err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, bad := range []string{`{"0":{"input_tokens":"{1:1","output_tokens":"{1:1}"}}`, `{"x":{}}`, `{"0":{"input_tokens":"{1:-1}","output_tokens":"{1:1}"}}`, `{}`, `[`} {
		if _, err := parseLengths(strings.NewReader(bad), "d"); err == nil {
			t.Errorf("%s was read", bad)
		}
	}
}
