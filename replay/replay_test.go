package replay

import (
	"compress/gzip"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/assay-bench/assay/engine"
	"github.com/assay-bench/assay/result"
	"github.com/google/go-cmp/cmp"
)

func TestRead(t *testing.T) {
	want := []Row{
		{Line: 2, Input: 10, Output: 3, Queued: 0, Scheduled: 250e6, First: 500e6, Last: 1500e6},
		{Line: 1, Input: 20, Output: 1, Queued: 1e9, Scheduled: 1e9, First: 2e9, Last: 2e9},
	}
	lines := `{"input_toks":20,"output_toks":1,"queued_ts":101,"scheduled_ts":101,"first_token_ts":102,"last_token_ts":102,"more":{"a":[1]}}
{"input_toks":10,"output_toks":3,"queued_ts":100.0,"scheduled_ts":100.25,"first_token_ts":100.5,"last_token_ts":101.5}
`
	table := `request,prompt_tokens,out,arrival_ms,scheduled_ts,first_token_ts,last_token_ts
# a comment
a,20,1,101000,101,102,102
b, 10, 3, 1e5, 100.25, 100.5, 101.5
`
	inTable := slices.Clone(want)
	inTable[0].Line, inTable[1].Line = 4, 3
	bare := slices.Clone(want)
	for i := range bare {
		bare[i].Scheduled, bare[i].First, bare[i].Last = -1, -1, -1
	}
	bare[0].Line, bare[1].Line = 3, 2
	for _, c := range []struct {
		name, text string
		columns    Columns
		want       []Row
	}{
		{"JSON lines", lines, nil, want},
		{"JSON lines with a byte order mark", "\xef\xbb\xbf" + lines, nil, want},
		{"CSV, mapped, in ms", table, Columns{Input: "prompt_tokens", Output: "out", Queued: "arrival_ms"}, inTable},
		{"required columns alone", "queued_ts,output_toks,input_toks\n101,1,20\n100,3,10", nil, bare},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Read(strings.NewReader(c.text), "f", c.columns)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Seconds since 1970 keep their microseconds, a clock in ns all of its digits
// that a float has.
func TestReadLargeClock(t *testing.T) {
	rows, err := Read(strings.NewReader("input_toks,output_toks,queued_ts\n1,1,1787267980.000001\n1,1,1787267980.250001\n"), "f", nil)
	if err != nil {
		t.Fatal(err)
	}
	if d := rows[1].Queued - 250e6; d < -1000 || d > 1000 {
		t.Errorf("queued %d", rows[1].Queued)
	}
}

func TestReadRefuses(t *testing.T) {
	header := "input_toks,output_toks,queued_ts,first_token_ts,last_token_ts\n"
	for _, c := range []struct {
		name, text, want string
		columns          Columns
	}{
		{"nothing", "", "f: the file is empty", nil},
		{"header alone", header, "f: there is no request", nil},
		{"no number", header + "x,1,1,1,1", `f:2:input_toks: "x" is no number`, nil},
		{"empty field", header + "1,1,1,2,2\n1,1,,1,1", "f:3:queued_ts: missing", nil},
		{"no prompt", header + "0,1,1,1,1", "f:2:input_toks: 0 is no number of tokens from 1", nil},
		{"half a token", header + "1,1.5,1,1,1", "f:2:output_toks: 1.5 is no number of tokens", nil},
		{"negative output", header + "1,-1,1,1,1", "f:2:output_toks: -1 is no", nil},
		{"not a number", header + "1,1,NaN,1,1", "f:2:queued_ts:", nil},
		{"first before queued", header + "1,1,5,4,6", "f:2:first_token_ts: 4 is before queued_ts, 5", nil},
		{"last before first", header + "1,1,5,6,5.5", "f:2:last_token_ts: 5.5 is before first_token_ts, 6", nil},
		{"missing in some rows", header + "1,1,5,6,7\n1,1,5,,7", "f:3:first_token_ts: it is missing in some rows", nil},
		{"column missing", "input_toks,queued_ts\n1,1", `f:1: there is no column "output_toks"`, nil},
		{"mapped column missing", header + "1,1,1,1,1", `f:1: there is no column "ttft"`, Columns{First: "ttft"}},
		{"column twice", "input_toks,input_toks\n1,1", `f:1: column "input_toks" occurs twice`, nil},
		{"too few fields", header + "1,1\n", "f:2:", nil},
		{"bad JSON", "{\"input_toks\":1,\n", "f:1: ", nil},
		{"JSON string", `{"input_toks":"1","output_toks":1,"queued_ts":1}`, `f:1:input_toks: "\"1\"" is no number`, nil},
		{"JSON null", `{"input_toks":1,"output_toks":null,"queued_ts":1}`, "f:1:output_toks: missing", nil},
		{"JSON key missing", `{"prompt":1,"output_toks":1,"queued_ts":1}`, `f:1: there is no "input_toks" in output_toks,prompt,queued_ts; map one`, nil},
		{"JSON array", `[{"input_toks":1}]`, "f: a JSON array: want one object a line", nil},
		{"broken gzip", "\x1f\x8bxx", "reading f: ", nil},
		{"cut gzip", zipped(header + "1,1,1,1,1\n")[:40], "f", nil},
		{"one column for two fields", header, `column "x" is mapped to input_toks and to output_toks`, Columns{Input: "x", Output: "x"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Read(strings.NewReader(c.text), "f", c.columns)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q in it", err, c.want)
			}
		})
	}
}

// zipped is text as gzip makes it.
func zipped(text string) string {
	var b strings.Builder
	z := gzip.NewWriter(&b)
	_, _ = z.Write([]byte(text)) // a strings.Builder takes everything
	_ = z.Close()
	return b.String()
}

func TestReadGzip(t *testing.T) {
	for name, text := range map[string]string{
		"CSV":        "input_toks,output_toks,queued_ts\n7,2,5\n",
		"JSON lines": `{"input_toks":7,"output_toks":2,"queued_ts":5}`,
	} {
		want, err := Read(strings.NewReader(text), "f", nil)
		if err != nil || len(want) != 1 {
			t.Fatalf("%s: %v, %v", name, want, err)
		}
		if got, err := Read(strings.NewReader(zipped(text)), "f", nil); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s zipped: %v, %v", name, got, err)
		}
	}
}

func TestParseField(t *testing.T) {
	for _, f := range fields() {
		short, _, _ := strings.Cut(string(f), "_")
		for _, name := range []string{string(f), short} {
			if got, err := ParseField(name); err != nil || got != f {
				t.Errorf("%s: %q, %v", name, got, err)
			}
		}
	}
	if _, err := ParseField("ttft"); err == nil {
		t.Error("ttft is no field")
	}
}

// A recording that the engine itself made is met to the bit, and steps that take
// longer make everything take longer.
func TestRunOnItself(t *testing.T) {
	cfg := engine.DefaultConfig()
	cfg.MaxNumSeqs = 8
	e, err := engine.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var requests []*engine.Request
	for i := range int64(200) {
		requests = append(requests, &engine.Request{PromptTokens: int(100 + i*37%900), OutputTokens: int(1 + i*13%80), Queued: i * 40e6})
	}
	if err := e.Replay(requests, nil); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	text.WriteString("input_toks,output_toks,queued_ns,scheduled_ns,first_ns,last_ns\n")
	for _, r := range requests {
		fmt.Fprintln(&text, strings.Trim(strings.Join(strings.Fields(fmt.Sprint([]int64{int64(r.PromptTokens), int64(r.OutputTokens), r.Queued, r.FirstScheduled, r.FirstToken, r.LastToken})), ","), "[]"))
	}
	rows, err := Read(strings.NewReader(text.String()), "own", Columns{Queued: "queued_ns", Scheduled: "scheduled_ns", First: "first_ns", Last: "last_ns"})
	if err != nil {
		t.Fatal(err)
	}
	v, err := Run(cfg, rows)
	if err != nil {
		t.Fatal(err)
	}
	if v.Requests != 200 || v.RealMakespanS == nil || *v.RealMakespanS != v.MakespanS || len(v.Figures) != 4 {
		t.Errorf("%+v", v)
	}
	for _, f := range v.Figures {
		if diff := cmp.Diff(*f.Real, f.Simulated); diff != "" {
			t.Errorf("%s: %s", f.Name, diff)
		}
		if f.Faster.Mean >= f.Simulated.Mean || f.Slower.Mean <= f.Simulated.Mean {
			t.Errorf("%s mean: %v, %v, %v for faster, same and slower steps", f.Name, f.Faster.Mean, f.Simulated.Mean, f.Slower.Mean)
		}
	}
	if tpot := v.Figures[2]; tpot.N >= 200 || tpot.N == 0 {
		t.Errorf("TPOT has n %d: one-token outputs have none", tpot.N)
	}
	if *v.Figures[0].Simulated.P90 < 100 {
		t.Errorf("nothing queued: %+v", v.Figures[0])
	}
}

func TestRunRefuses(t *testing.T) {
	cfg := engine.DefaultConfig()
	_, err := Run(cfg, []Row{{Line: 7, Input: cfg.Model.MaxLen, Output: 1}})
	if err == nil || !strings.Contains(err.Error(), "line 7") {
		t.Errorf("%v", err)
	}
	cfg.TP = 0
	if _, err := Run(cfg, []Row{{Input: 1}}); err == nil {
		t.Error("an engine on no GPU")
	}
}

// worst is the largest relative error of TTFT, TPOT and E2E.
func worst(v *result.Replay) (what string, most float64) {
	for _, f := range v.Figures {
		if f.Error == nil {
			continue
		}
		for i, e := range []*float64{&f.Error.Mean, f.Error.P50, f.Error.P90, f.Error.P99} {
			if e != nil && math.Abs(*e) > math.Abs(most) {
				what, most = fmt.Sprint(f.Name, " ", []string{"mean", "p50", "p90", "p99"}[i]), *e
			}
		}
	}
	return what, most
}

func TestRecordedRuns(t *testing.T) {
	tables := engine.DefaultTables()
	pro := engine.ConfigFor(tables.GPUs["rtx-pro-6000"], tables.Models["llama-3.1-8b"], 1)
	pro.MaxNumSeqs, pro.MaxNumBatchedTokens = 128, 2048
	consumer := engine.ConfigFor(tables.GPUs["rtx-4090"], tables.Models["llama-3.1-8b"], 1)
	consumer.MaxNumSeqs, consumer.MaxNumBatchedTokens = 256, 2048
	consumer.KVBlocks, consumer.MaxModelLen = 2588, 32768
	calibrated := consumer
	calibrated.Constants.EtaMemory, calibrated.Constants.EtaKV, calibrated.Constants.Elementwise = 0.92, 0.92, 0.05
	for _, c := range []struct {
		name, file string
		cfg        engine.Config
		limit      float64
	}{
		{"RTX PRO 6000, generic", "RTXPRO6000_Llama-3.1-8B.requests.jsonl", pro, 0.03},
		{"RTX 4090, generic", "RTX4090_Llama-3.1-8B.requests.jsonl", consumer, 0.20},
		{"RTX 4090, calibrated", "RTX4090_Llama-3.1-8B.requests.jsonl", calibrated, 0.05},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := os.Open(filepath.Join("..", "..", "shared", "data", "vllm-runs", c.file))
			if os.IsNotExist(err) {
				t.Skip("recorded runs are not here")
			}
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			rows, err := Read(f, c.file, nil)
			if err != nil {
				t.Fatal(err)
			}
			v, err := Run(c.cfg, rows)
			if err != nil {
				t.Fatal(err)
			}
			what, most := worst(v)
			t.Logf("%d requests, %d preemptions, worst %s %+.1f %%", v.Requests, v.Preemptions, what, 100*most)
			if len(rows) != 300 || math.Abs(most) > c.limit || what == "" {
				t.Errorf("%d rows; %s is off by %+.1f %%, limit %.0f %%", len(rows), what, 100*most, 100*c.limit)
			}
		})
	}
}

func FuzzRead(f *testing.F) {
	f.Add("input_toks,output_toks,queued_ts\n1,1,1\n")
	f.Add(`{"input_toks":20,"output_toks":1,"queued_ts":101,"first_token_ts":102,"last_token_ts":102}`)
	f.Add("{}\n{}")
	f.Add("\xef\xbb\xbfa,b\n\"")
	f.Fuzz(func(t *testing.T, text string) {
		rows, err := Read(strings.NewReader(text), "f", nil)
		if (err == nil) != (len(rows) > 0) {
			t.Fatalf("%d rows, %v", len(rows), err)
		}
		for i, r := range rows {
			ordered := r.Input >= 1 && r.Output >= 0 && r.Queued >= 0 && (r.Last < 0 || r.First < 0 || r.Last >= r.First)
			if !ordered || i > 0 && r.Queued < rows[i-1].Queued {
				t.Fatalf("%+v", r)
			}
		}
	})
}
