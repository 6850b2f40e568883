package dataset

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"
	"unicode/utf8"
)

// seeds adds the files of testdata.
func seeds(f *testing.F, pattern string) {
	paths, err := filepath.Glob(filepath.Join("testdata", pattern))
	if err != nil || len(paths) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
}

// fuzzFormats reads any bytes as any format: an error, never a panic or an
// endless loop, and rows that hold what rows promise.
func fuzzFormats(f *testing.F, formats []Format) {
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, format := range formats {
			o := Options{Format: format, SkipBad: true, KeepExtra: true, MaxRow: 1 << 16}
			r, err := New(bytes.NewReader(b), "f", o)
			if err != nil {
				continue
			}
			checkRows(t, r, len(b))
			r.Close()
		}
	})
}

func checkRows(t *testing.T, r *Reader, size int) {
	for n := 0; ; n++ {
		row, err := r.Next()
		if err != nil {
			if again, err2 := r.Next(); err2 == nil {
				t.Fatalf("after %v: row %+v", err, again)
			}
			return
		}
		if n > size {
			t.Fatalf("more rows than bytes")
		}
		switch {
		case row.PromptTokens < Unknown || row.OutputTokens < Unknown:
			t.Fatalf("counts of %+v", row)
		case row.Delay < 0 || row.Turn < 0 || row.Line < 1:
			t.Fatalf("numbers of %+v", row)
		case len(row.Body) > 0 && !json.Valid(row.Body):
			t.Fatalf("body %q", row.Body)
		case row.Timed && row.At.Abs() > 366*24*time.Hour:
			t.Fatalf("at %v", row.At)
		}
	}
}

func FuzzCSV(f *testing.F) {
	seeds(f, "*.csv")
	seeds(f, "*.tsv")
	fuzzFormats(f, []Format{Text, "", Azure, BurstGPT, Columns})
}

func FuzzJSON(f *testing.F) {
	seeds(f, "*.json*")
	fuzzFormats(f, []Format{"", Mooncake, Bailian, Weka, ShareGPT, VLLMCustom, SingleTurn, MultiTurn, OpenAIBatch, Bodies, Columns})
}

func FuzzPacked(f *testing.F) {
	seeds(f, "*.gz")
	fuzzFormats(f, []Format{""})
}

// FuzzScan holds the JSON scanner against encoding/json: both accept the same,
// and find the same members.
func FuzzScan(f *testing.F) {
	seeds(f, "*.jsonl")
	for _, s := range []string{`{}`, `{"a":1}`, `{"a":"\ud800"}`, `{"a":-0.5e+7,"b":[{},[]]}`, "{\"a\":\"\x01\"}", `{"a":01}`, `{"a":1,}`, `{"a":tru}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		o := objectScanner{b: b}
		got := map[string]string{}
		for o.next() {
			got[string(o.key)] = string(o.val)
		}
		err := o.scanWhole()
		var want map[string]json.RawMessage
		wantErr := json.Unmarshal(b, &want)
		if want == nil && wantErr == nil {
			return // null
		}
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%q: %v, encoding/json: %v", b, err, wantErr)
		}
		if err != nil || !utf8.Valid(b) {
			return
		}
		for k, v := range want {
			if got[k] != string(v) {
				t.Fatalf("%q: member %q is %q, want %q", b, k, got[k], v)
			}
		}
	})
}

// FuzzNumbers: times and counts never panic, and what they accept is in range.
func FuzzNumbers(f *testing.F) {
	for _, s := range []string{"12", "12.0", "1e3", "-5", "1700000000.123456789", "2023-11-16 18:17:03.9799600", "2024-05-10T00:00:00.009930+00:00", "nan", "9223372036.9", "-9999999999999"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if n, err := parseCount(b); err == nil && (n < Unknown || n > maxCount) {
			t.Fatalf("count %q: %d", b, n)
		}
		var d dateReader
		if ns, err := d.parse(b); err == nil && ns < -48*3600e9 {
			t.Fatalf("date %q: %d", b, ns)
		}
		for _, u := range []Unit{Seconds, Milliseconds, Microseconds, Nanoseconds} {
			ns, err := parseDecimal(b, u.ns())
			if err != nil {
				continue
			}
			if again, err := parseDecimal(b, u.ns()); err != nil || again != ns {
				t.Fatalf("%q: %d then %d", b, ns, again)
			}
		}
		if _, err := parseInts(nil, b); len(b) > 0 && err == nil && b[0] != 'n' && b[0] != '[' {
			t.Fatalf("ids %q", b)
		}
	})
}

// FuzzServeGen reads a client's windows and lengths.
func FuzzServeGen(f *testing.F) {
	f.Add([]byte("0,2.0,1.0,Gamma,1.0,0.5\n600,0,0,,0,0\n1200,1,1,Weibull,0.1,1\n"), []byte(`{"0": {"input_tokens": "{100: 0.5}", "output_tokens": "{50: 1}"}}`))
	f.Fuzz(func(t *testing.T, trace, table []byte) {
		ls, err := parseLengths(bytes.NewReader(table), "d")
		if err != nil {
			return
		}
		c, err := newServeGenClient(newInput(bytes.NewReader(trace), 1<<16), "c", ls, 1, nil)
		if err != nil {
			return
		}
		var row Row
		for range 1000 {
			row.reset()
			if err := c.next(&row); err != nil {
				return
			}
			if row.PromptTokens < 0 || row.OutputTokens < 0 {
				t.Fatalf("%+v", row)
			}
		}
	})
}

// FuzzUnquote holds our own unescaping against encoding/json.
func FuzzUnquote(f *testing.F) {
	for _, s := range []string{`"a"`, `"\n\t\\\"\/"`, `"\u00e9\ud83d\ude00"`, `"x\\"`, `"\ud800"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		end, _, ok := skipString(b, 0)
		if !ok || end != len(b) || !utf8.Valid(b) {
			return
		}
		var want string
		if err := json.Unmarshal(b, &want); err != nil {
			t.Fatalf("%q: scanned, but %v", b, err)
		}
		if got := unquote(b); got != want {
			t.Fatalf("%q: %q, want %q", b, got, want)
		}
	})
}
