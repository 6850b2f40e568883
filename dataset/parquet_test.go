//go:build parquet

package dataset

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"
)

// parquetFile writes rows as a Parquet file, in groups of two.
func parquetFile[T any](t testing.TB, rows []T, group int64) *bytes.Reader {
	t.Helper()
	var b bytes.Buffer
	w := parquet.NewGenericWriter[T](&b, parquet.MaxRowsPerRowGroup(group), parquet.Compression(&parquet.Snappy))
	if _, err := w.Write(rows); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return bytes.NewReader(b.Bytes())
}

func readParquet[T any](t testing.TB, rows []T, o Options) ([]Row, *Reader) {
	t.Helper()
	r, err := New(parquetFile(t, rows, 2), "f.parquet", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return collect(t, r), r
}

// TestParquetTrace reads stamps by type, lists of ids, counts that are missing.
func TestParquetTrace(t *testing.T) {
	type row struct {
		Time   time.Time `parquet:"arrival_time,timestamp(microsecond)"`
		In     int32     `parquet:"input_length"`
		Out    *int64    `parquet:"output_length,optional"`
		Ids    []int64   `parquet:"hash_ids,list"`
		Client string    `parquet:"who"`
		Weight float64   `parquet:"weight"`
	}
	base := time.Date(2025, 3, 1, 12, 0, 0, 0, time.UTC)
	n := func(v int64) *int64 { return &v }
	rows := []row{
		{base, 20, n(3), []int64{7, 8}, "x", 0.5},
		{base.Add(1500 * time.Microsecond), 5, nil, nil, "y", 1},
		{base.Add(time.Second), 33, n(0), []int64{7, 8, 9}, "x", 2},
	}
	got, r := readParquet(t, rows, Options{BlockSize: 16, Columns: map[Field]string{FieldClient: "who"}, KeepExtra: true})
	extra := func(v string) []Column { return []Column{{"weight", v}} }
	want := []Row{
		{Line: 1, Timed: true, PromptTokens: 20, OutputTokens: 3, HashIDs: []int64{7, 8}, BlockSize: 16, Client: "x", Extra: extra("0.5")},
		{Line: 2, Timed: true, At: 1500 * time.Microsecond, PromptTokens: 5, OutputTokens: Unknown, Client: "y", Extra: extra("1")},
		{Line: 3, Timed: true, At: time.Second, PromptTokens: 33, HashIDs: []int64{7, 8, 9}, BlockSize: 16, Client: "x", Failed: true, Extra: extra("2")},
	}
	if diff := cmp.Diff(want, got, sameRows); diff != "" {
		t.Error(diff)
	}
	if unit, from := r.Unit(); from != FromType {
		t.Errorf("unit %q from %q", unit, from)
	}
}

// TestParquetEpoch keeps epoch seconds of a double apart to the microsecond.
func TestParquetEpoch(t *testing.T) {
	type row struct {
		Timestamp float64 `parquet:"timestamp"`
		In        uint32  `parquet:"prompt_tokens"`
	}
	got, r := readParquet(t, []row{{1700000000.0000005, 1}, {1700000000.001953125, 2}}, Options{})
	if unit, from := r.Unit(); unit != Seconds || from != FromMagnitude {
		t.Errorf("unit %q from %q", unit, from)
	}
	if at := got[1].At.Round(time.Microsecond); at != 1953*time.Microsecond && at != 1952*time.Microsecond {
		t.Errorf("second row at %v", got[1].At)
	}
}

// TestParquetConversation reads LMSYS's and WildChat's shape.
func TestParquetConversation(t *testing.T) {
	type message struct {
		Content string `parquet:"content"`
		Role    string `parquet:"role"`
	}
	type row struct {
		ID           string    `parquet:"conversation_id"`
		Model        string    `parquet:"model"`
		Conversation []message `parquet:"conversation,list"`
		Turn         int32     `parquet:"turn"`
	}
	got, _ := readParquet(t, []row{
		{"c1", "m", []message{{"Q1", "user"}, {"A1", "assistant"}, {"Q2", "user"}, {"A2", "assistant"}}, 2},
		{"c2", "m", nil, 0},
		{"c3", "m", []message{{"Q", "user"}, {"A", "assistant"}}, 1},
	}, Options{})
	want := []Row{
		{Line: 1, SessionID: "c1", Model: "m", Turn: 1, Text: "Q1", Reply: "A1", PromptTokens: Unknown, OutputTokens: Unknown},
		{Line: 1, SessionID: "c1", Model: "m", Turn: 2, Text: "Q2", Reply: "A2", PromptTokens: Unknown, OutputTokens: Unknown},
		{Line: 3, SessionID: "c3", Model: "m", Turn: 1, Text: "Q", Reply: "A", PromptTokens: Unknown, OutputTokens: Unknown},
	}
	if diff := cmp.Diff(want, got, sameRows); diff != "" {
		t.Error(diff)
	}
}

// TestParquetTurns reads guidellm's columns.
func TestParquetTurns(t *testing.T) {
	type row struct {
		Prefix string `parquet:"prefix"`
		P0     string `parquet:"prompt_0"`
		O0     int64  `parquet:"output_tokens_count_0"`
		P1     string `parquet:"prompt_1"`
		O1     int64  `parquet:"output_tokens_count_1"`
	}
	got, _ := readParquet(t, []row{{"S", "a", 3, "b", 4}, {"", "c", 5, "", 0}}, Options{})
	want := []Row{
		{Line: 1, SessionID: "row 1", Turn: 1, System: "S", Text: "a", PromptTokens: Unknown, OutputTokens: 3},
		{Line: 1, SessionID: "row 1", Turn: 2, Text: "b", PromptTokens: Unknown, OutputTokens: 4},
		{Line: 2, SessionID: "row 2", Turn: 1, Text: "c", PromptTokens: Unknown, OutputTokens: 5},
	}
	if diff := cmp.Diff(want, got, sameRows); diff != "" {
		t.Error(diff)
	}
}

// TestParquetBad: a bad value names row and column, and the next row is read.
func TestParquetBad(t *testing.T) {
	type row struct {
		T  string `parquet:"timestamp"`
		In int64  `parquet:"input_tokens"`
	}
	rows := []row{{"2025-01-01 00:00:00", 4}, {"2025-01-01 00:00:01", -4}, {"yesterday", 4}, {"2025-01-01 00:00:03", 9}}
	r, err := New(parquetFile(t, rows, 2), "f.parquet", Options{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for range 5 {
		row, err := r.Next()
		if err != nil {
			got = append(got, err.Error())
		} else {
			got = append(got, row.At.String())
		}
	}
	want := []string{"0s", `f.parquet:2: column "input_tokens": "-4": is not a whole number of at least 0`,
		`f.parquet:3: column "timestamp": "yesterday": is not a date and time (2006-01-02 15:04:05.999999999, with or without zone)`, "3s", "EOF"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestParquetRefused: a stream, a broken file.
func TestParquetRefused(t *testing.T) {
	if _, err := New(strings.NewReader("PAR1 and then nothing"), "f", Options{}); err == nil {
		t.Error("a broken file was opened")
	}
	pipe := struct{ *bytes.Buffer }{bytes.NewBufferString("PAR1....")}
	if _, err := New(pipe, "f", Options{}); err == nil || !strings.Contains(err.Error(), "pipe") {
		t.Errorf("a pipe: %v", err)
	}
	if _, err := New(parquetFile(t, []struct{ A int64 }{{1}}, 2), "f", Options{}); !errors.Is(err, ErrFormat) {
		t.Errorf("no known column: %v", err)
	}
}

func BenchmarkParquet(b *testing.B) {
	type row struct {
		T   time.Time `parquet:"timestamp,timestamp(microsecond)"`
		In  int64     `parquet:"input_tokens"`
		Out int64     `parquet:"output_tokens"`
	}
	rnd := rand.New(rand.NewPCG(1, 1))
	rows := make([]row, 200_000)
	at := time.Date(2024, 5, 12, 0, 0, 0, 0, time.UTC)
	for i := range rows {
		at = at.Add(time.Duration(rnd.ExpFloat64() * 36e6))
		rows[i] = row{at, rnd.Int64N(8000) + 1, rnd.Int64N(900) + 1}
	}
	file := parquetFile(b, rows, 50_000)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		file.Seek(0, io.SeekStart)
		r, err := New(file, "f", Options{})
		if err != nil {
			b.Fatal(err)
		}
		n += drain(b, r)
		r.Close()
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "rows/s")
}

func FuzzParquet(f *testing.F) {
	type message struct {
		Role, Content string
	}
	type row struct {
		T    int64     `parquet:"timestamp,timestamp(millisecond)"`
		In   *int64    `parquet:"input_tokens,optional"`
		IDs  []int32   `parquet:"hash_ids,list"`
		Chat []message `parquet:"conversation,list"`
	}
	n := int64(3)
	b := parquetFile(f, []row{{1, &n, []int32{1, 2}, []message{{"user", "a"}, {"assistant", "b"}}}, {5, nil, nil, nil}}, 1)
	all, err := io.ReadAll(b)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(all)
	fuzzFormats(f, []Format{""})
}

// TestParquetDecimals reads counts and stamps that are decimals, and days.
func TestParquetDecimals(t *testing.T) {
	type row struct {
		At  int64 `parquet:"arrived_at,decimal(3:18)"`
		In  int32 `parquet:"input_tokens,decimal(0:9)"`
		Out int64 `parquet:"output_tokens,decimal(2:18)"`
	}
	got, _ := readParquet(t, []row{{-500, 20, 300}, {1, 5, 1200}, {1234567, 7, 4}}, Options{SkipBad: true})
	if len(got) != 2 || got[1].At != 501*time.Millisecond || got[1].PromptTokens != 5 || got[1].OutputTokens != 12 {
		t.Errorf("%+v", got)
	}
	_, err := readAll(must(New(parquetFile(t, []row{{0, 1, 4}}, 1), "f", Options{})))
	if err == nil || err.Error() != `f:1: column "output_tokens": "0.04": is not a whole number of at least 0` {
		t.Errorf("a part of a token: %v", err)
	}
	type day struct {
		Date int32 `parquet:"date,date"`
		In   int32 `parquet:"input_tokens"`
	}
	days, _ := readParquet(t, []day{{19844, 1}, {19845, 1}}, Options{})
	if days[1].At != 24*time.Hour {
		t.Errorf("the next day is %v later", days[1].At)
	}
	wide := parquet.FixedLenByteArrayValue([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x85})
	if got := decimalText(wide, 2); got != "-1.23" {
		t.Errorf("-123 with two digits behind the point: %s", got)
	}
}

func must(r *Reader, err error) *Reader {
	if err != nil {
		panic(err)
	}
	return r
}

// TestParquetWildChat: messages with more than a role and a content.
func TestParquetWildChat(t *testing.T) {
	type message struct {
		Content string `parquet:"content"`
		Role    string `parquet:"role"`
		Turn    int64  `parquet:"turn_identifier"`
		IP      string `parquet:"hashed_ip,optional"`
	}
	type row struct {
		ID           string    `parquet:"conversation_hash"`
		Timestamp    time.Time `parquet:"timestamp,timestamp(microsecond)"`
		Conversation []message `parquet:"conversation,list"`
	}
	got, _ := readParquet(t, []row{
		{"c1", time.Unix(1700000000, 0), []message{{"Q1", "user", 1, "x"}, {"A1", "assistant", 1, ""}, {"Q2", "user", 2, ""}, {"A2", "assistant", 2, ""}}},
		{"c2", time.Unix(1700000005, 0), []message{{"Q", "user", 1, ""}, {"A", "assistant", 1, ""}}},
	}, Options{})
	if len(got) != 3 || got[0].Text != "Q1" || got[1].Reply != "A2" || got[2].Text != "Q" || got[2].SessionID != "c2" {
		t.Errorf("%+v", got)
	}
}

// TestParquetLZ4 is refused: of pages that are packed to more than a third, the library
// returns what was in its buffer before (parquet-go 0.32.0, Column.decompress).
func TestParquetLZ4(t *testing.T) {
	type row struct {
		At int64 `parquet:"time_s"`
		In int64 `parquet:"input_tokens"`
	}
	var b bytes.Buffer
	w := parquet.NewGenericWriter[row](&b, parquet.Compression(&parquet.Lz4Raw))
	if _, err := w.Write([]row{{0, 1}, {1, 2}}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := New(bytes.NewReader(b.Bytes()), "f", Options{}); err == nil || !strings.Contains(err.Error(), "packed by LZ4") {
		t.Errorf("%v", err)
	}
}
