package dataset

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The traps that other tools fell into; each is a test. Two are tested where they can
// be fallen into: ways to change a rate, and that reports name them (TestThin and those
// behind it, and TestTraceLabels of package workload), and turns that are sent before
// the one they answer (TestSessionTraces there).

// hour is a Mooncake trace of one hour, a row every 3 s.
func hour() string {
	var b strings.Builder
	for ms := 0; ms <= 3_600_000; ms += 3000 {
		fmt.Fprintf(&b, `{"timestamp": %d, "input_length": 100, "output_length": 10, "hash_ids": [1]}`+"\n", ms)
	}
	return b.String()
}

// TestTrapUnits: one hour of milliseconds is one hour; taken for seconds it is 41
// days, which is refused unless forced.
func TestTrapUnits(t *testing.T) {
	s, err := Scan(text(t, hour(), Options{}))
	if err != nil {
		t.Fatal(err)
	}
	if s.Span() != time.Hour {
		t.Errorf("span %v, want 1 h", s.Span())
	}
	if want := 1200.0 / 3600; s.Rate != want {
		t.Errorf("rate %v, want %v", s.Rate, want)
	}
	_, err = Scan(text(t, hour(), Options{Unit: Seconds, SkipBad: true}))
	if !errors.Is(err, ErrSpan) {
		t.Errorf("as seconds: %v, want ErrSpan", err)
	}
	s, err = Scan(text(t, hour(), Options{Unit: Seconds, MaxSpan: -1}))
	if err != nil || s.Span() != 1000*time.Hour {
		t.Errorf("forced: %v, %v", s.Span(), err)
	}
	// Bailian's keys are seconds though the names are Mooncake's.
	s, err = Scan(text(t, `{"chat_id":1,"timestamp":0.5,"input_length":1,"output_length":1}
{"chat_id":2,"timestamp":7200.25,"input_length":1,"output_length":1}`, Options{}))
	if err != nil || s.Span() != 7199750*time.Millisecond {
		t.Errorf("Bailian: %v, %v", s.Span(), err)
	}
}

// TestTrapEpoch: epoch stamps lose no resolution: no float32, and no float64.
func TestTrapEpoch(t *testing.T) {
	rows := collect(t, text(t, "timestamp,input_tokens\n1700000000.123456789,1\n1700000000.123456790,1\n", Options{}))
	if rows[1].At != 1 {
		t.Errorf("second stamp is %v after the first, want 1ns", rows[1].At)
	}
	for _, test := range []struct {
		stamp string
		unit  Unit
	}{{"1700000000", Seconds}, {"1700000000123", Milliseconds}, {"1700000000123456", Microseconds}, {"1700000000123456789", Nanoseconds}} {
		r := text(t, "timestamp,input_tokens\n"+test.stamp+",1\n", Options{})
		collect(t, r)
		if unit, from := r.Unit(); unit != test.unit || from != FromMagnitude {
			t.Errorf("%s: %s %s", test.stamp, unit, from)
		}
	}
}

// TestTrapBlocks: a block size that does not fit is refused, not cut to; both
// roundings are taken, and the summary says which, and which size would fit.
func TestTrapBlocks(t *testing.T) {
	ids := func(n int) string { return strings.Trim(strings.Repeat("7,", n), ",") }
	line := func(in, n int) string {
		return fmt.Sprintf(`{"timestamp":0,"input_length":%d,"output_length":1,"hash_ids":[%s]}`+"\n", in, ids(n))
	}
	content := line(6758, 14) + line(512, 1) + line(1025, 3)
	if _, err := Scan(text(t, content, Options{})); err != nil {
		t.Errorf("blocks of 512: %v", err)
	}
	if _, err := Scan(text(t, content, Options{BlockSize: 16})); !errors.Is(err, ErrBlocks) {
		t.Errorf("blocks of 16: %v, want ErrBlocks", err)
	}
	s, err := Scan(text(t, content, Options{BlockSize: 16, AnyBlocks: true}))
	if err != nil {
		t.Fatal(err)
	}
	if want := (BlockFit{BlockSize: 16, Wrong: 3, Suggested: 512}); s.Fits != want {
		t.Errorf("fit %+v, want %+v", s.Fits, want)
	}
	s, err = Scan(text(t, line(1100, 2)+line(1100, 3)+line(1024, 2), Options{}))
	if err != nil {
		t.Fatal(err)
	}
	if want := (BlockFit{BlockSize: 512, Up: 1, Down: 1, Exact: 1}); s.Fits != want {
		t.Errorf("fit %+v, want %+v", s.Fits, want)
	}
}

// TestTrapStableBlocks: block contents are the same in every process, on every
// machine: these numbers must never change.
func TestTrapStableBlocks(t *testing.T) {
	row := Row{SessionID: "s1", HashIDs: []int64{5, 6, -1}}
	got := []uint64{row.BlockSeed(1, 0), row.BlockSeed(1, 1), row.BlockSeed(1, 2), row.BlockSeed(2, 0)}
	row.HashScope = Local
	got = append(got, row.BlockSeed(1, 0))
	want := []uint64{3474659753338079219, 367206582936053023, 5967011716909498425, 8708859763187986355, 2690022299460223352}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestTrapBurstColumns: columns by name, in whatever order and number.
func TestTrapBurstColumns(t *testing.T) {
	for name, content := range map[string]string{
		"v1":         "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n1,ChatGPT,310,42,352,API log\n",
		"v2":         "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n1,s,3.4,ChatGPT,310,42,352,API log\n",
		"appended":   "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type,Session ID,Elapsed time\n1,ChatGPT,310,42,352,API log,s,3.4\n",
		"column map": "When (s),Req,Model,Resp\n1,310,ChatGPT,42\n",
	} {
		o := Options{}
		if name == "column map" {
			o = Options{Unit: Seconds, Columns: map[Field]string{FieldTime: "When (s)", FieldPromptTokens: "Req", FieldOutputTokens: "Resp"}}
		}
		row := collect(t, text(t, content, o))[0]
		if row.PromptTokens != 310 || row.OutputTokens != 42 || row.Model != "ChatGPT" {
			t.Errorf("%s: %+v", name, row)
		}
	}
}

// TestTrapFraction: all seven digits of Azure's stamps count.
func TestTrapFraction(t *testing.T) {
	rows := collect(t, text(t, "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,1,1\n2023-11-16 18:17:03.9799601,1,1\n2023-11-16 18:17:04,1,1\n", Options{}))
	if rows[1].At != 100 || rows[2].At != 20040*time.Microsecond {
		t.Errorf("at %v and %v, want 100ns and 20.04ms", rows[1].At, rows[2].At)
	}
}

// TestTrapQuantum: stamps in steps of 3 s are found out, and dithered they are
// uniform in their step, in order, and the same for the same seed.
func TestTrapQuantum(t *testing.T) {
	var b strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&b, `{"timestamp": %d, "input_length": %d, "output_length": 10}`+"\n", i/10*3000, i+1)
	}
	s, err := Scan(text(t, b.String(), Options{}))
	if err != nil {
		t.Fatal(err)
	}
	if s.Quantum != 3*time.Second || !s.Quantised || s.Stamps != 200 {
		t.Errorf("quantum %v, quantised %v, stamps %d", s.Quantum, s.Quantised, s.Stamps)
	}
	dither := func(seed uint64) []Row {
		src, err := Dither(text(t, b.String(), Options{}), s.Quantum, seed)
		if err != nil {
			t.Fatal(err)
		}
		return collect(t, src)
	}
	rows := dither(1)
	mean := 0.0
	for i, r := range rows {
		off := r.At - time.Duration(i/10)*3*time.Second
		if off < 0 || off >= 3*time.Second {
			t.Fatalf("row %d is %v after its stamp", i, off)
		}
		if i > 0 && r.At < rows[i-1].At {
			t.Fatalf("row %d is before the row before", i)
		}
		if r.PromptTokens != i+1 {
			t.Fatalf("row %d has the lengths of row %d", i, r.PromptTokens-1)
		}
		mean += off.Seconds() / 2000
	}
	// Standard error 3/sqrt(12*2000) = 0.0194; 4 of them.
	if mean < 1.5-0.078 || mean > 1.5+0.078 {
		t.Errorf("mean offset %v s, want 1.5", mean)
	}
	if diff := cmp.Diff(rows, dither(1), sameRows); diff != "" {
		t.Error("another dither for the same seed")
	}
	if cmp.Equal(rows, dither(2), sameRows) {
		t.Error("the same dither for another seed")
	}
	// Azure's 100 ns are a quantum too, but no burst comes of it.
	s, err = Scan(open(t, "azure2023.csv", Options{}))
	if err != nil || s.Quantised || s.Quantum != 500 {
		t.Errorf("Azure: quantum %v, quantised %v, %v", s.Quantum, s.Quantised, err)
	}
}

// TestTrapScope: local ids of two sessions are two blocks; a subagent shares its
// session's.
func TestTrapScope(t *testing.T) {
	rows := collect(t, open(t, "weka.jsonl", Options{}))
	if rows[0].BlockSeed(1, 0) != rows[1].BlockSeed(1, 0) {
		t.Error("a subagent does not share its session's block")
	}
	if rows[0].BlockSeed(1, 0) == rows[3].BlockSeed(1, 0) {
		t.Error("two sessions share block 0")
	}
	s, err := Scan(open(t, "weka.jsonl", Options{}))
	if err != nil {
		t.Fatal(err)
	}
	// Of 7+2+7+1 blocks, 0 + 1 + 7 + 0 were known.
	if want := 8.0 / 17; s.Hits != want {
		t.Errorf("hits %v, want %v", s.Hits, want)
	}
}

// TestTrapFailed: failed rows are delivered, counted, and no sample of a length.
func TestTrapFailed(t *testing.T) {
	s, err := Scan(open(t, "burstgpt-v1.csv", Options{}))
	if err != nil {
		t.Fatal(err)
	}
	if s.Rows != 3 || s.Failed != 1 || s.OutputTokens.N != 2 || s.OutputTokens.Min != 42 || s.PromptTokens.Max != 310 {
		t.Errorf("%+v", s)
	}
	rows := collect(t, text(t, "t_s,input_tokens,output_tokens,status_code\n0,5,6,200\n1,5,6,503\n2,5,0,200\n3,0,6,200\n", Options{}))
	var failed []bool
	for _, r := range rows {
		failed = append(failed, r.Failed)
	}
	if want := []bool{false, true, true, true}; !cmp.Equal(failed, want) {
		t.Errorf("failed %v, want %v", failed, want)
	}
}
