package scrape

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

const (
	textType  = "text/plain; version=0.0.4; charset=utf-8"
	vllmType  = "text/plain; version=1.0.0; charset=utf-8"
	openType  = "application/openmetrics-text; version=1.0.0; charset=utf-8"
	protoType = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
)

// mustParse reads an exposition that is right.
func mustParse(t testing.TB, body string) *Scrape {
	t.Helper()
	s, err := Parse([]byte(body), textType)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func fixture(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestParseRealServers(t *testing.T) {
	for _, c := range []struct {
		file, contentType, counter string
		want                       float64
	}{
		{"vllm_0_32.txt", vllmType, "vllm:generation_tokens_total", 46},
		{"llamacpp.txt", "text/plain", "llamacpp:tokens_predicted_total", 52},
		{"llamacpp.txt", "", "llamacpp:tokens_predicted_total", 52},
	} {
		t.Run(c.file, func(t *testing.T) {
			s, err := Parse(fixture(t, c.file), c.contentType)
			if err != nil {
				t.Fatal(err)
			}
			if got := scalar(s.Families[c.counter].GetMetric()[0]); got != c.want {
				t.Errorf("%s = %g, want %g", c.counter, got, c.want)
			}
		})
	}
}

// The three formats say the same in their own words.
func TestParseFormatsAgree(t *testing.T) {
	text := `# HELP x_total Tokens.
# TYPE x_total counter
x_total{engine="0",note="a } # \"b\" 1"} 5
# TYPE x_created gauge
x_created{engine="0",note="a } # \"b\" 1"} 123.5
# TYPE g gauge
g NaN
# TYPE h histogram
h_bucket{le="0.5"} 1
h_bucket{le="+Inf"} 2
h_sum 1.5
h_count 2
# TYPE target_info gauge
target_info{version="1"} 1
`
	open := `# HELP x Tokens.
# TYPE x counter
# UNIT x tokens
x_total{engine="0",note="a } # \"b\" 1"} 5.0 1700000000.5 # {trace_id="abc"} 1.0 1700000000.1
x_created{engine="0",note="a } # \"b\" 1"} 123.5
# TYPE g gauge
g NaN 1700000000
# TYPE h histogram
h_bucket{le="0.5"} 1 # {trace_id="a # b"} 0.3
h_bucket{le="+Inf"} 2
h_sum 1.5
h_count 2
# TYPE target info
target_info{version="1"} 1
# EOF
`
	want := mustParse(t, text)
	var wire bytes.Buffer
	enc := expfmt.NewEncoder(&wire, expfmt.NewFormat(expfmt.TypeProtoDelim))
	for _, mf := range want.Families {
		if err := enc.Encode(mf); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct{ body, contentType string }{
		"openmetrics":                  {open, openType},
		"openmetrics under a lie":      {open, "text/plain"},
		"openmetrics, nothing said":    {open, ""},
		"protobuf":                     {wire.String(), protoType},
		"text without its last break":  {strings.TrimSuffix(text, "\n"), textType},
		"text with a foreign type":     {text, "application/octet-stream"},
		"text under a wrong version":   {text, "text/plain; version=9"},
		"text with carriage returns":   {text, vllmType},
		"openmetrics, counter as text": {strings.Replace(open, "TYPE x counter", "TYPE x_total counter", 1), openType},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Parse([]byte(c.body), c.contentType)
			if err != nil {
				t.Fatal(err)
			}
			x := s.Families["x_total"]
			if x.GetType() != dto.MetricType_COUNTER || scalar(x.Metric[0]) != 5 {
				t.Errorf("x_total: %v", x)
			}
			if got := labelOf(x.GetMetric()[0], "note"); got != `a } # "b" 1` {
				t.Errorf("note = %q", got)
			}
			if created := s.createdOf("x_total")[seriesKey(x.Metric[0])]; created != 123.5 {
				t.Errorf("created %g", created)
			}
			if !math.IsNaN(scalar(s.Families["g"].Metric[0])) {
				t.Error("g is not NaN")
			}
			h := s.Families["h"].GetMetric()[0].GetHistogram()
			if h.GetSampleSum() != 1.5 || h.GetSampleCount() != 2 || len(h.Bucket) != 2 {
				t.Errorf("h: %v", h)
			}
			if s.Families["target_info"] == nil || len(s.Families) != len(want.Families) {
				t.Errorf("%d families, want %d", len(s.Families), len(want.Families))
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	huge := binary.AppendUvarint(nil, 1<<40)
	for name, c := range map[string]struct {
		body, contentType string
		want              error
		line              int
	}{
		"nothing":                 {"\n ", textType, ErrNotExposition, 0},
		"JSON list of TRT-LLM":    {`[{"gpuMemUsage": 1}]`, "application/json", ErrNotExposition, 0},
		"JSON object":             {`{"detail":"Not Found"}`, "application/json", ErrNotExposition, 0},
		"HTML":                    {"<!doctype html>", "text/html", ErrNotExposition, 0},
		"text":                    {"a 1\nb x\n", textType, nil, 2},
		"openmetrics":             {"# TYPE a gauge\na 1\n# UNIT a s\na x\n# EOF\n", openType, nil, 4},
		"openmetrics cut off":     {"# TYPE a gauge\na 1\n", openType, nil, 3},
		"protobuf of 1 TiB":       {string(huge), protoType, nil, 0},
		"protobuf cut off":        {"\x05a", protoType, nil, 0},
		"protobuf without length": {"\xff", protoType, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Parse([]byte(c.body), c.contentType)
			if err == nil {
				t.Fatalf("parsed: %v", s)
			}
			if c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("error %q, want %q", err, c.want)
			}
			var syntax expfmt.ParseError
			if c.line > 0 && (!errors.As(err, &syntax) || syntax.Line != c.line) {
				t.Errorf("error %q, want one of line %d", err, c.line)
			}
		})
	}
	t.Run("too large", func(t *testing.T) {
		if _, err := Parse(make([]byte, MaxBody+1), textType); !errors.Is(err, ErrTooLarge) {
			t.Errorf("error %v", err)
		}
	})
}

func TestSkew(t *testing.T) {
	var s Scrape
	now := time.Date(2026, 11, 30, 22, 26, 28, 0, time.UTC)
	if _, _, ok := s.Skew(now, now); ok {
		t.Error("skew without a Date")
	}
	s.ReadHeader(http.Header{"Date": {"Mon, 30 Nov 2026 22:26:30 GMT"}, "Process-Start-Time-Unix": {"1158830740"}})
	lo, hi, ok := s.Skew(now, now.Add(100*time.Millisecond))
	if !ok || lo != 1900*time.Millisecond || hi != 3*time.Second {
		t.Errorf("skew in [%v, %v]", lo, hi)
	}
	if s.Process != "1158830740" {
		t.Errorf("process %q", s.Process)
	}
}

func BenchmarkParse(b *testing.B) {
	body := fixture(b, "vllm_0_32.txt")
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if _, err := Parse(body, vllmType); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(page), []byte(page), textType)
	f.Add([]byte("# TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_count NaN\nh_sum -Inf\n"), []byte("h_sum 1\n"), textType)
	f.Add([]byte("# TYPE a counter\na_total{b=\"\\\"} 1 # {} 1\"} 2 # {c=\"d\"} 1\na_created 3\n# EOF\n"), []byte("# TYPE a info\n# EOF"), openType)
	f.Add([]byte("\x0e\n\x01h\x18\x04\"\x07:\x05\x28\x03\x62\x01\x02"), []byte("\x05\n\x01h\x18\x04"), protoType)
	f.Fuzz(func(t *testing.T, first, second []byte, contentType string) {
		a, err := Parse(first, contentType)
		if (a == nil) == (err == nil) {
			t.Fatalf("scrape %v, error %v", a, err)
		}
		b, err := Parse(second, contentType)
		if err != nil {
			return
		}
		// Whatever was parsed must be safe to ask, against another and itself.
		for _, w := range []*Window{Between(a, b), Between(b, b)} {
			for name := range b.Families {
				probe(t, w, name)
			}
		}
	})
}

// probe asks everything of a family and checks what must always hold.
func probe(t *testing.T, w *Window, name string) {
	delta, _, problem := w.Counter(name, nil)
	if !(delta >= 0) || problem.Voids() && delta != 0 {
		t.Fatalf("%s: delta %g, %v", name, delta, problem)
	}
	w.Gauge(name, nil)
	h, problem := w.Histogram(name, nil)
	if problem.Voids() && h.Count != 0 {
		t.Fatalf("%s: %v, %v", name, h, problem)
	}
	var n uint64
	for _, b := range h.Buckets {
		n += b.Count
	}
	if n != h.Count {
		t.Fatalf("%s: %d samples in buckets, %d counted", name, n, h.Count)
	}
	for _, p := range []float64{0.001, 0.5, 1} {
		b, ok := h.Quantile(p)
		if ok && !(b.Lo <= b.TightLo && b.TightHi <= b.Hi) {
			t.Fatalf("%s: %+v", name, b)
		}
	}
}
