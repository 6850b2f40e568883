package rundir

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/assay-bench/assay/record"
)

// block frames a payload with its right checksum.
func block(payload []byte) []byte {
	b := []byte(segmentMagic)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(payload)))
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(payload, castagnoli))
	return append(b, payload...)
}

// FuzzSegment: any payload behind a right checksum, and any bytes for a file,
// are read to an end or to ErrCut; what is read can be written, and is read again
// as the same.
func FuzzSegment(f *testing.F) {
	var seed bytes.Buffer
	w, err := newSegmentWriter(&seed)
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range fixed() {
		if err := w.append(s.attempt.ID, s.events); err != nil {
			f.Fatal(err)
		}
	}
	if err := w.flush(); err != nil {
		f.Fatal(err)
	}
	whole := seed.Bytes()
	f.Add(whole, false)
	f.Add(whole[:len(whole)-3], false)
	f.Add(whole[len(segmentMagic)+8:], true)
	f.Add([]byte{1, 'a', 0xff, 0xff, 0xff, 0xff, 0x0f}, true)
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, true)
	f.Add([]byte("ASYEVT01\xff\xff\xff\x3f\x00\x00\x00\x00"), false)
	f.Add([]byte("ASYEVT02"), false)
	f.Add([]byte(nil), true)
	f.Fuzz(func(t *testing.T, b []byte, framed bool) {
		if framed {
			b = block(b)
		}
		got, err := readSegment(b)
		if err != nil && !errors.Is(err, ErrCut) && !strings.Contains(err.Error(), "unknown format") {
			t.Fatalf("error %v", err)
		}
		var again bytes.Buffer
		w, werr := newSegmentWriter(&again)
		if werr != nil {
			t.Fatal(werr)
		}
		for _, s := range got {
			if err := w.append(s.attempt.ID, s.events); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.flush(); err != nil {
			t.Fatal(err)
		}
		back, err := readSegment(again.Bytes())
		if err != nil || compare(got, back) != "" {
			t.Fatalf("read again: %v %s", err, compare(got, back))
		}
	})
}

func readSegment(b []byte) ([]stored, error) {
	r, err := newSegmentReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	var out []stored
	for {
		id, events, err := r.next()
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		out = append(out, stored{record.Attempt{ID: string(id)}, append([]record.Event(nil), events...)})
	}
}

// FuzzRecords: any bytes for records.jsonl are read without a panic to an end or
// to an error with its line, and lines that were written are all there.
func FuzzRecords(f *testing.F) {
	dir := write(f, f.TempDir(), "x", fixed(), true)
	good := file(f, dir, recordsFile)
	f.Add(good)
	f.Add(good[:len(good)/2])
	f.Add([]byte("{}\n\n{}"))
	f.Add([]byte("null\n[]\n"))
	f.Add([]byte(`{"id":"a","usage":{"completion_tokens":-1},"sent_ns":9223372036854775807}` + "\n"))
	f.Add([]byte(`{"id":"` + strings.Repeat("x", 300<<10) + `"}`))
	to := f.TempDir()
	f.Fuzz(func(t *testing.T, b []byte) {
		// The fuzzer's workers are processes of their own, and share no folder.
		sub, err := os.MkdirTemp(to, "")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(sub)
		copyRun(t, dir, sub, recordsFile, b)
		r, got := read(t, sub)
		lines := bytes.Count(b, []byte("\n"))
		if len(got) > lines+1 {
			t.Fatalf("%d records in %d lines", len(got), lines)
		}
		if err := r.Err(); err != nil && !strings.Contains(err.Error(), filepath.Join(sub, recordsFile)+":") {
			t.Fatalf("an error without a line: %v", err)
		}
	})
}

// FuzzCSV: any file is read to an end or to an error that begins with its name.
func FuzzCSV(f *testing.F) {
	f.Add("request_id,prompt_tokens,completion_tokens,TTFT_ms,E2E_ms\na,1,2,3.5,4\n")
	f.Add("\xef\xbb\xbfevent,t_ms\nsent,0\ntoken,1\n# x\n\"token\",2\n")
	f.Add("t_s\n1e300\n")
	f.Add("t_ns,t_ms\n1,2\n")
	f.Add("request_id,prompt_tokens,completion_tokens,TTFT_ms,E2E_ms\na,1,2,,Inf\n")
	f.Add("request_id,prompt_tokens,completion_tokens,TTFT_ms,E2E_ms\n\"a\nb\",99999999999999999999,2,,4\n")
	f.Add("")
	f.Add("a\r\n\"")
	f.Fuzz(func(t *testing.T, text string) {
		named := func(err error) {
			if err != nil && !strings.HasPrefix(err.Error(), "f.csv:") {
				t.Fatalf("an error without its place: %v", err)
			}
		}
		r, err := NewCSVReader(strings.NewReader(text), "f.csv")
		if err != nil {
			named(err)
			return
		}
		if r.Kind() == TraceCSV {
			times, err := r.Trace()
			named(err)
			for _, at := range append(times.Tokens, times.Sent) {
				if at < 0 {
					t.Fatalf("a time of %v", at)
				}
			}
			return
		}
		for {
			row, err := r.Request()
			if err == io.EOF {
				return
			}
			if err != nil {
				named(err)
				return
			}
			if row.PromptTokens < 0 || row.CompletionTokens < 0 || row.TTFT < 0 || row.E2E < 0 {
				t.Fatalf("row %+v", row)
			}
		}
	})
}

// TestCSVAgainstWriter: what the writer of requests.csv makes, the reader reads.
func TestCSVAgainstWriter(t *testing.T) {
	dir := write(t, t.TempDir(), "x", fixed(), true)
	r, err := NewCSVReader(bytes.NewReader(file(t, dir, requestsFile)), requestsFile)
	if err != nil {
		t.Fatal(err)
	}
	var got []RequestRow
	for {
		row, err := r.Request()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, row)
	}
	var want []RequestRow
	for _, s := range fixed() {
		a := &s.attempt
		if a.Usage.CompletionTokens > 0 {
			ttft, _ := a.FirstText.Since(a.Sent)
			e2e, _ := a.LastText.Since(a.Sent)
			want = append(want, RequestRow{ID: a.ID, PromptTokens: 7, CompletionTokens: a.Usage.CompletionTokens, TTFT: ttft, E2E: e2e})
		}
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(RequestRow{})); diff != "" {
		t.Error(diff)
	}
}
