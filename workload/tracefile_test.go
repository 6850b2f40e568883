package workload

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay/arrival"
)

// traceSpec follows a trace of 1000 rows, ten at each whole second, of which the
// first of every hundred failed.
func traceSpec(t *testing.T, change func(*Trace)) Spec {
	t.Helper()
	var b strings.Builder
	for i := range 1000 {
		out := i%50 + 1
		if i%100 == 0 {
			out = 0
		}
		fmt.Fprintf(&b, `{"timestamp": %d, "input_length": %d, "output_length": %d}`+"\n", i/10*1000, i+1, out)
	}
	file := filepath.Join(t.TempDir(), "m.jsonl")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return with(func(s *Spec) {
		s.Arrival, s.Trace = Arrival{Process: ByTrace}, &Trace{File: file}
		s.PromptTokens, s.OutputTokens = Length{Dist: FromTrace}, Length{Dist: FromTrace}
		if change != nil {
			change(s.Trace)
		}
	})
}

// TestTraceFile: scaled and dithered, times and lengths stay those of one row,
// and the plan is the same for the same seed.
func TestTraceFile(t *testing.T) {
	tests := []struct {
		name        string
		change      func(*Trace)
		least, most int // requests
		span        time.Duration
	}{
		{"as recorded", nil, 990, 990, 99 * time.Second},
		{"dithered", func(t *Trace) { t.Dither = "quantum" }, 990, 990, 100 * time.Second},
		{"compressed", func(t *Trace) { t.Scale = &TraceScale{Compression, 4} }, 990, 990, 99 * time.Second / 4},
		// Standard deviation sqrt(990/4) = 15.7; 4 of them.
		{"thinned", func(t *Trace) { t.Scale = &TraceScale{Thinning, 0.5} }, 432, 558, 99 * time.Second},
		// Of 2970, 5/6 stay: standard deviation 20.3.
		{"superposed", func(t *Trace) { t.Dither, t.Scale = "1s", &TraceScale{Superposition, 2.5} }, 2393, 2557, 100 * time.Second},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			spec := traceSpec(t, test.change)
			draw := func(seed uint64) (at []time.Duration) {
				f, err := OpenTrace(spec, seed)
				if err != nil {
					t.Fatal(err)
				}
				p, err := NewTracePlan(spec, seed, f.Rows)
				if err != nil {
					t.Fatal(err)
				}
				a, now := p.Arrivals(), time.Duration(0)
				for r, ok := p.Next(); ok; r, ok = p.Next() {
					gap := a.Next()
					if gap == arrival.Never || gap < 0 {
						t.Fatalf("gap %v", gap)
					}
					now += gap
					at = append(at, now)
					if i := r.PromptTokens - 1; r.MaxTokens != i%50+1 || i%100 == 0 {
						t.Fatalf("prompt %d with output %d", r.PromptTokens, r.MaxTokens)
					}
				}
				if p.Err() != nil || a.Next() != arrival.Never {
					t.Fatalf("at the end: %v", p.Err())
				}
				return at
			}
			at := draw(1)
			if n := len(at); n < test.least || n > test.most {
				t.Errorf("%d requests, want %d to %d", n, test.least, test.most)
			}
			if last := at[len(at)-1]; last > test.span || last < test.span*9/10 {
				t.Errorf("they span %v, want %v", last, test.span)
			}
			again := draw(1)
			if len(again) != len(at) || again[len(at)/2] != at[len(at)/2] {
				t.Error("another plan for the same seed")
			}
		})
	}
}

// TestTraceFileRefused: what is wrong is said before anything is sent.
func TestTraceFileRefused(t *testing.T) {
	tests := map[string]func(*Trace){
		"is not the file that was meant":     func(t *Trace) { t.SHA256 = "00" },
		"no such file":                       func(t *Trace) { t.File += "x" },
		"trace.format: unknown format":       func(t *Trace) { t.Format = "magic" },
		"trace.unit":                         func(t *Trace) { t.Unit = "h" },
		"trace.dither":                       func(t *Trace) { t.Dither = "-1s" },
		"thinning only lowers a rate":        func(t *Trace) { t.Scale = &TraceScale{Thinning, 2} },
		"superposition only raises a rate":   func(t *Trace) { t.Scale = &TraceScale{Superposition, 0.5} },
		"is not above 0":                     func(t *Trace) { t.Scale = &TraceScale{Compression, 0} },
		`there is no column "x"`:             func(t *Trace) { t.Columns = map[string]string{"time": "x"} },
		`there is no field "when"`:           func(t *Trace) { t.Columns = map[string]string{"when": "timestamp"} },
		"azure is CSV, but the file is JSON": func(t *Trace) { t.Format = "azure" },
	}
	for want, change := range tests {
		if _, err := OpenTrace(traceSpec(t, change), 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestTraceFileMissing: a length that is used must be there; one that is not used
// need not.
func TestTraceFileMissing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "t.csv")
	if err := os.WriteFile(file, []byte("t_s,prompt_tokens\n1,7\n2,8\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	spec := with(func(s *Spec) {
		s.Arrival, s.Trace = Arrival{Process: ByTrace}, &Trace{File: file}
		s.PromptTokens = Length{Dist: FromTrace}
	})
	plan := func() error {
		f, err := OpenTrace(spec, 1)
		if err != nil {
			return err
		}
		_, err = NewTracePlan(spec, 1, f.Rows)
		return err
	}
	if err := plan(); err != nil {
		t.Errorf("outputs of the spec: %v", err)
	}
	spec.OutputTokens = Length{Dist: FromTrace}
	if err := plan(); err == nil || !strings.Contains(err.Error(), "t.csv:2: no row has a number of output tokens: give output_tokens") {
		t.Errorf("outputs of the trace: %v", err)
	}
}

// TestTraceFingerprint: a trace is known by what it says, not by where it lies.
func TestTraceFingerprint(t *testing.T) {
	a := with(func(s *Spec) { s.Arrival, s.Trace = Arrival{Process: ByTrace}, &Trace{File: "a", SHA256: "12"} })
	b := a
	b.Trace = &Trace{File: "b", SHA256: "12"}
	if a.Fingerprint(1) != b.Fingerprint(1) {
		t.Error("two names of one file are two workloads")
	}
	b.Trace = &Trace{File: "a", SHA256: "13"}
	if a.Fingerprint(1) == b.Fingerprint(1) {
		t.Error("two files are one workload")
	}
}

// TestTraceOrder: a trace that is not in the order of its stamps is replayed in it,
// scaled and dithered or not; without its times, in that of the file.
func TestTraceOrder(t *testing.T) {
	const rows = 2000
	var b strings.Builder
	for i := range rows {
		ms := i*10 + 500*(i%2) // every other one is late by 50 rows
		fmt.Fprintf(&b, `{"timestamp": %d, "input_length": %d, "output_length": 7}`+"\n", ms, ms/10+1)
	}
	file := filepath.Join(t.TempDir(), "late.jsonl")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, scale := range map[string]*TraceScale{"as recorded": nil, "compressed": {Compression, 2}, "superposed": {Superposition, 3}} {
		spec := with(func(s *Spec) {
			s.Arrival, s.Trace = Arrival{Process: ByTrace}, &Trace{File: file, Scale: scale}
			s.PromptTokens, s.OutputTokens = Length{Dist: FromTrace}, Length{Dist: FromTrace}
		})
		f, err := OpenTrace(spec, 1)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !strings.Contains(f.Note(), "rows stand behind one with a later stamp: replayed in the order of stamps") {
			t.Errorf("%s: not said: %s", name, f.Note())
		}
		p, err := NewTracePlan(spec, 1, f.Rows)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		s, err := p.Sample(rows)
		if err != nil || len(s.At) != rows {
			t.Fatalf("%s: %d requests, %v", name, len(s.At), err)
		}
		for i := range s.At {
			if scale == nil && s.At[i] != int64(s.Prompts[i]-s.Prompts[0])*1e7 {
				t.Fatalf("request %d of %d tokens at %v", i, s.Prompts[i], time.Duration(s.At[i]))
			}
			if i > 0 && s.At[i] < s.At[i-1] {
				t.Fatalf("%s: request %d is before the one ahead", name, i)
			}
		}
	}
	spec := with(func(s *Spec) {
		s.Trace, s.PromptTokens, s.OutputTokens = &Trace{File: file}, Length{Dist: FromTrace}, FixedLength(3)
	})
	f, err := OpenTrace(spec, 1)
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewTracePlan(spec, 1, f.Rows)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := p.Sample(3); err != nil || s.Prompts[0] != 1 || s.Prompts[1] != 52 || s.Prompts[2] != 3 {
		t.Errorf("without its times: %v, %v", s.Prompts, err)
	}
}

// TestTraceMissing: rows without a length that others have stop the plan, or are
// left out and counted.
func TestTraceMissing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "gaps.csv")
	if err := os.WriteFile(file, []byte("time_s,input_tokens,output_tokens\n0,1,1\n1,,2\n2,3,\n,4,4\n4,5,5\n5,6,0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	spec := with(func(s *Spec) {
		s.Arrival, s.Trace = Arrival{Process: ByTrace}, &Trace{File: file, SkipBad: true}
		s.PromptTokens, s.OutputTokens = Length{Dist: FromTrace}, Length{Dist: FromTrace}
	})
	f, err := OpenTrace(spec, 1)
	if err != nil {
		t.Fatal(err)
	}
	if f.Summary.Skipped != 3 || f.FirstSkipped.Error() != file+`:3: column "prompt_tokens": has no value` || f.Summary.Failed != 1 {
		t.Errorf("%d skipped, %v; %d failed", f.Summary.Skipped, f.FirstSkipped, f.Summary.Failed)
	}
	p, err := NewTracePlan(spec, 1, f.Rows)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := p.Sample(9); err != nil || len(s.Prompts) != 2 || s.Prompts[1] != 5 {
		t.Errorf("%v, %v", s.Prompts, err)
	}
	spec.Trace.SkipBad = false
	if f, err = OpenTrace(spec, 1); err != nil {
		t.Fatal(err)
	}
	_, err = NewTracePlan(spec, 1, f.Rows)
	if want := "gaps.csv:3: the row has no number of prompt tokens (skip_bad leaves such rows out)"; err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestTraceBlockSize: without it nothing is replayed by guess.
func TestTraceBlockSize(t *testing.T) {
	file := filepath.Join(t.TempDir(), "blocks.csv")
	if err := os.WriteFile(file, []byte("time_s,input_length,output_length,hash_ids\n0,600,1,\"[1,2]\"\n1,1500,1,\"[1,2,3]\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	spec := with(func(s *Spec) {
		s.Arrival, s.Trace = Arrival{Process: ByTrace}, &Trace{File: file}
		s.PromptTokens, s.OutputTokens = Length{Dist: FromTrace}, Length{Dist: FromTrace}
	})
	if _, err := OpenTrace(spec, 1); !errors.Is(err, ErrBlockSize) || !strings.Contains(err.Error(), "512 would fit all rows") {
		t.Errorf("%v", err)
	}
	spec.Trace.BlockSize = 512
	if f, err := OpenTrace(spec, 1); err != nil || !f.ReplaysBlocks() {
		t.Errorf("%v", err)
	}
}

// TestTracePipe: what can be read once only is refused before it is waited for.
func TestTracePipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	path := fmt.Sprintf("/dev/fd/%d", r.Fd())
	if _, err := os.Stat(path); err != nil {
		path = os.DevNull // where pipes have no names
	}
	trace := traceSpec(t, func(x *Trace) { x.File = path })
	if _, err := OpenTrace(trace, 1); err == nil || !strings.Contains(err.Error(), "is no regular file") {
		t.Errorf("trace: %v", err)
	}
	own := with(func(s *Spec) { s.Prompts = &Prompts{File: path} })
	if _, err := OpenPrompts(own); err == nil || !strings.Contains(err.Error(), "is no regular file") {
		t.Errorf("prompts: %v", err)
	}
}

// TestTraceLabels: the three ways to change a rate are not one workload, and neither
// its description, nor what is said before a run, nor its fingerprint take them for one.
func TestTraceLabels(t *testing.T) {
	seen := map[string]string{}
	for name, scale := range map[string]*TraceScale{
		"as recorded": nil, Thinning: {Thinning, 1}, Compression: {Compression, 1}, Superposition: {Superposition, 1},
	} {
		spec := traceSpec(t, func(x *Trace) { x.Scale, x.SHA256 = scale, "" })
		f, err := OpenTrace(spec, 1)
		if err != nil {
			t.Fatal(err)
		}
		spec.Trace.SHA256 = f.SHA256
		if scale != nil && (!strings.Contains(spec.Describe(), "rate times 1 by "+name) || !strings.Contains(f.Note(), "; "+name+": 10.09/s")) {
			t.Errorf("%s: %s; %s", name, spec.Describe(), f.Note())
		}
		hash := spec.Fingerprint(1)
		if other, ok := seen[hash]; ok {
			t.Errorf("%s and %s have one fingerprint", name, other)
		}
		seen[hash] = name
	}
}
