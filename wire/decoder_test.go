package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tmaxmax/go-sse"
	"pgregory.net/rapid"

	"github.com/assay-bench/assay/record"
)

// got is a Frame that outlives its callback.
type got struct {
	Name, Data string
	Wire       int
	At         record.Stamp
	Flags      record.EventFlags
}

// decoded is what came of a body.
type decoded struct {
	Frames []got
	Rest   int64
	Body   int64
	Excess int64
	Ended  bool
	Err    string
}

// decode feeds the pieces, each with a stamp of its own, and then closes.
func decode(f Framing, t Transfer, limit int, pieces ...[]byte) decoded {
	var (
		d   Decoder
		out decoded
	)
	d.Reset(f, t, limit, func(fr Frame) {
		out.Frames = append(out.Frames, got{string(fr.Name), string(fr.Data), fr.WireBytes, fr.At, fr.Flags})
	})
	var err error
	for i, p := range pieces {
		p = bytes.Clone(p)
		at := record.Stamp(i + 1)
		if err = d.Feed(p, ReadStamp{At: at, Read: at}); err != nil {
			break
		}
		for j := range p { // nothing may be kept
			p[j] = '#'
		}
	}
	out.Ended = d.Ended()
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		out.Err = err.Error()
	}
	out.Rest, out.Body, out.Excess = d.Rest(), d.BodyBytes(), d.Excess()
	return out
}

// plain drops what depends on how the bytes were cut.
func (d decoded) plain() decoded {
	fr := d.Frames
	d.Frames = nil
	for _, f := range fr {
		f.At, f.Flags = 0, 0
		d.Frames = append(d.Frames, f)
	}
	return d
}

func chunk(parts ...string) string {
	var b strings.Builder
	for _, p := range parts {
		fmt.Fprintf(&b, "%x\r\n%s\r\n", len(p), p)
	}
	return b.String() + "0\r\n\r\n"
}

var untilClose = Transfer{Length: -1}

func TestSplit(t *testing.T) {
	type ev = [2]string
	for _, tc := range []struct {
		name, in string
		want     []ev
	}{
		{"space after the colon", "data: a\n\n", []ev{{"", "a"}}},
		{"no space", "data:a\n\n", []ev{{"", "a"}}},
		{"only one space is dropped", "data:  a\n\n", []ev{{"", " a"}}},
		{"CRLF", "data: a\r\n\r\ndata: b\r\n\r\n", []ev{{"", "a"}, {"", "b"}}},
		{"CR", "data: a\r\rdata: b\r\r", []ev{{"", "a"}, {"", "b"}}},
		{"mixed line ends", "data: a\r\n\ndata: b\n\r\ndata: c\r\r\n", []ev{{"", "a"}, {"", "b"}, {"", "c"}}},
		{"comments", ": ping\n\n:\ndata: a\n: mid\n\n", []ev{{"", "a"}}},
		{"named", "event: delta\ndata: a\n\n", []ev{{"delta", "a"}}},
		{"name after data", "data: a\nevent: delta\n\n", []ev{{"delta", "a"}}},
		{"last name counts", "event: x\nevent: y\ndata: a\n\n", []ev{{"y", "a"}}},
		{"name does not stick", "event: x\n\ndata: a\n\n", []ev{{"", "a"}}},
		{"empty name", "event:\ndata: a\n\n", []ev{{"", "a"}}},
		{"multi-line data", "data: a\ndata:\ndata: b\n\n", []ev{{"", "a\n\nb"}}},
		{"empty data", "data:\n\ndata\n\n", []ev{{"", ""}, {"", ""}}},
		{"id and retry are not data", "id: 7\nretry: 100\ndata: a\n\nid\n\n", []ev{{"", "a"}}},
		{"unknown fields", "datax: n\nDATA: n\n data: n\ndata: a\n\n", []ev{{"", "a"}}},
		{"byte order mark", "\xEF\xBB\xBFdata: a\n\n\xEF\xBB\xBFdata: b\n\n", []ev{{"", "a"}}},
		{"extra blank lines", "\n\ndata: a\n\n\n\n\ndata: b\n\n", []ev{{"", "a"}, {"", "b"}}},
		{"colons in the value", "data: a: b:c\n\n", []ev{{"", "a: b:c"}}},
		{"UTF-8", "data: héllo 🦙 日本\n\n", []ev{{"", "héllo 🦙 日本"}}},
		{"NUL and invalid UTF-8 pass", "data: \x00\xff\n\n", []ev{{"", "\x00\xff"}}},
		{"no blank line at the end", "data: a\n\ndata: b\n", []ev{{"", "a"}, {"", "b"}}},
		{"no line end at the end", "data: a\n\ndata: b", []ev{{"", "a"}, {"", "b"}}},
		{"only a name at the end", "data: a\n\nevent: b", []ev{{"", "a"}}},
		{"empty", "", nil},
		{"only comments", ": a\n: b\n\n", nil},
		{"bare JSON", "{\"error\":1}\ndata: a\n\n", []ev{{"", "{\"error\":1}"}, {"", "a"}}},
		{"bare JSON, pretty", "{\n  \"error\": {\n  }\n}\ndata: a\n\n", []ev{{"", "{\n  \"error\": {\n  }\n}"}, {"", "a"}}},
		{"bare JSON to a blank line", "{\n\"a\":1\n\n", []ev{{"", "{\n\"a\":1"}}},
		{"bare JSON to a field", "{\n1\ndata: a\n\n", []ev{{"", "{\n1"}, {"", "a"}}},
		{"bare JSON at the end", "data: a\n\n{\"error\":", []ev{{"", "a"}, {"", "{\"error\":"}}},
		{"a brace inside an event is an unknown field", "data: a\n{x}\n\n", []ev{{"", "a"}}},
		{"bare JSON drops a name", "event: x\n{x}\n\n", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var have []ev
			for _, f := range decode(SSE, untilClose, 0, []byte(tc.in)).Frames {
				have = append(have, ev{f.Name, f.Data})
			}
			if diff := cmp.Diff(tc.want, have); diff != "" {
				t.Error(diff)
			}
			cutEverywhere(t, SSE, untilClose, tc.in)
			cutEverywhere(t, SSE, Transfer{Chunked: true}, chunk(tc.in)[:len(chunk(tc.in))])
			cutEverywhere(t, SSE, Transfer{Length: int64(len(tc.in))}, tc.in)
		})
	}
}

// cutEverywhere compares all cuts in two and the cut into bytes with no cut.
func cutEverywhere(t *testing.T, f Framing, tr Transfer, in string) {
	t.Helper()
	want := decode(f, tr, 0, []byte(in)).plain()
	for i := range len(in) + 1 {
		if diff := cmp.Diff(want, decode(f, tr, 0, []byte(in[:i]), []byte(in[i:])).plain()); diff != "" {
			t.Fatalf("cut at %d of %q: %s", i, in, diff)
		}
	}
	single := [][]byte{nil}
	for i := range len(in) {
		single = append(single, []byte{in[i]})
	}
	if diff := cmp.Diff(want, decode(f, tr, 0, single...).plain()); diff != "" {
		t.Fatalf("byte by byte %q: %s", in, diff)
	}
}

func TestNDJSON(t *testing.T) {
	const in = "{\"a\":1}\n\n{\"b\":2}\r\n  \n{\"c\":3}"
	want := []got{{Data: `{"a":1}`, Wire: 8}, {Data: `{"b":2}`, Wire: 9}, {Data: `{"c":3}`, Wire: 11}}
	if diff := cmp.Diff(want, decode(NDJSON, untilClose, 0, []byte(in)).plain().Frames); diff != "" {
		t.Error(diff)
	}
	cutEverywhere(t, NDJSON, untilClose, in)
}

func TestWhole(t *testing.T) {
	for _, in := range []string{"", "{}", "a\r\n\r\nb\n"} {
		want := []got{{Data: in, Wire: len(in)}}
		if diff := cmp.Diff(want, decode(Whole, Transfer{Length: int64(len(in))}, 0, []byte(in)).plain().Frames); diff != "" {
			t.Error(diff)
		}
		cutEverywhere(t, Whole, Transfer{Length: int64(len(in))}, in)
		cutEverywhere(t, Whole, Transfer{Chunked: true}, chunk(in+"x"))
	}
}

func TestTransfer(t *testing.T) {
	const ev = "data: a\n\n"
	for _, tc := range []struct {
		name string
		t    Transfer
		in   string
		want decoded
	}{
		{"chunked", Transfer{Chunked: true}, "9\r\n" + ev + "\r\n0\r\n\r\n",
			decoded{Frames: []got{{Data: "a", Wire: 12}}, Rest: 7, Body: 9, Ended: true}},
		{"extension, trailer, upper case, LF", Transfer{Chunked: true}, "009;x=\"y\"\n" + ev + "\n0;z\nA: b\r\nC: d\n\n",
			decoded{Frames: []got{{Data: "a", Wire: 19}}, Rest: 17, Body: 9, Ended: true}},
		{"excess", Transfer{Chunked: true}, "9\r\n" + ev + "\r\n0\r\n\r\nHTTP",
			decoded{Frames: []got{{Data: "a", Wire: 12}}, Rest: 7, Body: 9, Excess: 4, Ended: true}},
		{"cut in a chunk", Transfer{Chunked: true}, "a\r\n" + ev,
			decoded{Frames: []got{{Data: "a", Wire: 12}}, Body: 9, Err: "unexpected EOF"}},
		{"cut in an event", Transfer{Chunked: true}, "12\r\n" + ev + "data: b",
			decoded{Frames: []got{{Data: "a", Wire: 13}}, Rest: 7, Body: 16, Err: "unexpected EOF"}},
		{"cut after a line", Transfer{Chunked: true}, "12\r\n" + ev + "data: b\n",
			decoded{Frames: []got{{Data: "a", Wire: 13}, {Data: "b", Wire: 8}}, Body: 17, Err: "unexpected EOF"}},
		{"no last chunk", Transfer{Chunked: true}, "9\r\n" + ev + "\r\n",
			decoded{Frames: []got{{Data: "a", Wire: 12}}, Rest: 2, Body: 9, Err: "unexpected EOF"}},
		{"length", Transfer{Length: 9}, ev,
			decoded{Frames: []got{{Data: "a", Wire: 9}}, Body: 9, Ended: true}},
		{"length, cut", Transfer{Length: 12}, ev,
			decoded{Frames: []got{{Data: "a", Wire: 9}}, Body: 9, Err: "unexpected EOF"}},
		{"length, excess", Transfer{Length: 9}, ev + "x",
			decoded{Frames: []got{{Data: "a", Wire: 9}}, Body: 9, Excess: 1, Ended: true}},
		{"length 0", Transfer{Length: 0}, "", decoded{Ended: true}},
		{"empty size", Transfer{Chunked: true}, "\r\n", decoded{Rest: 1, Err: ErrChunk.Error() + ": invalid chunk size"}},
		{"no size", Transfer{Chunked: true}, "x\r\n", decoded{Rest: 1, Err: ErrChunk.Error() + ": invalid chunk size"}},
		{"huge size", Transfer{Chunked: true}, "1000000000000000\r\n", decoded{Rest: 16, Err: ErrChunk.Error() + ": chunk too large"}},
		{"CR alone", Transfer{Chunked: true}, "1\rx", decoded{Rest: 3, Err: ErrChunk.Error() + ": CR without LF"}},
		{"chunk too long", Transfer{Chunked: true}, "1\r\naa", decoded{Rest: 5, Body: 1, Err: ErrChunk.Error() + ": no line end after a chunk"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, decode(SSE, tc.t, 0, []byte(tc.in)).plain()); diff != "" {
				t.Error(diff)
			}
			cutEverywhere(t, SSE, tc.t, tc.in)
		})
	}
}

func TestLimits(t *testing.T) {
	for name, in := range map[string]string{
		"one line":    "data: " + strings.Repeat("x", 100) + "\n\n",
		"many lines":  strings.Repeat("data: xxxx\n", 20) + "\n",
		"no line end": strings.Repeat("x", 100),
	} {
		for _, f := range []Framing{SSE, Whole} {
			if d := decode(f, untilClose, 64, []byte(in)); d.Err != ErrTooLarge.Error() {
				t.Errorf("%s, %v: error %q", name, f, d.Err)
			}
		}
	}
	if d := decode(SSE, Transfer{Chunked: true}, 0, []byte("1;"+strings.Repeat("x", maxChunkLine))); !strings.Contains(d.Err, "too long") {
		t.Errorf("chunk extension without end: %q", d.Err)
	}
	if d := decode(SSE, Transfer{Chunked: true}, 0, []byte("0\r\n"+strings.Repeat("A: b\r\n", maxTrailer/6+1))); !strings.Contains(d.Err, "too long") {
		t.Errorf("trailer without end: %q", d.Err)
	}
	if !errors.Is(fmt.Errorf("%w", ErrTooLarge), ErrTooLarge) {
		t.Fatal()
	}
}

func TestStampsAndCoalescing(t *testing.T) {
	const c, k = record.FlagCoalesced, record.FlagKernel
	type piece struct {
		b      string
		shared bool
		kernel bool
	}
	for _, tc := range []struct {
		name  string
		in    []piece
		at    []record.Stamp
		flags []record.EventFlags
	}{
		{"alone", []piece{{b: "data: a\n\n"}, {b: "data: b\n\n"}}, []record.Stamp{1, 2}, []record.EventFlags{0, 0}},
		{"kernel", []piece{{b: "data: a\n\n", kernel: true}, {b: "data: b\n\n"}}, []record.Stamp{1, 2}, []record.EventFlags{k, 0}},
		{"three in a read", []piece{{b: "data: a\n\ndata: b\n\ndata: c\n\n"}}, []record.Stamp{1, 1, 1}, []record.EventFlags{c, c, c}},
		{"the start of the next", []piece{{b: "data: a\n\nda"}, {b: "ta: b\n\n"}}, []record.Stamp{1, 2}, []record.EventFlags{c, 0}},
		{"the end of the one before", []piece{{b: "data: a\n"}, {b: "\ndata: b\n\n"}, {b: "data: c\n\n"}}, []record.Stamp{2, 2, 3}, []record.EventFlags{c, c, 0}},
		{"over three reads", []piece{{b: "data"}, {b: ": a"}, {b: "\n\n"}}, []record.Stamp{3}, []record.EventFlags{0}},
		{"line ends are not an event", []piece{{b: "data: a\r\n\r\n\r\n"}}, []record.Stamp{1}, []record.EventFlags{0}},
		{"a comment behind", []piece{{b: "data: a\n\n: ping\n\n"}}, []record.Stamp{1}, []record.EventFlags{c}},
		{"no raw read of its own", []piece{{b: "data: a\n\n"}, {b: "data: b\n\n", shared: true}}, []record.Stamp{1, 2}, []record.EventFlags{0, c}},
		{"unterminated", []piece{{b: "data: a\n\ndata: b"}}, []record.Stamp{1, 1}, []record.EventFlags{c, c}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var (
				d     Decoder
				at    []record.Stamp
				flags []record.EventFlags
			)
			d.Reset(SSE, untilClose, 0, func(f Frame) { at, flags = append(at, f.At), append(flags, f.Flags) })
			for i, p := range tc.in {
				s := record.Stamp(i + 1)
				if err := d.Feed([]byte(p.b), ReadStamp{At: s, Read: s, Shared: p.shared, Kernel: p.kernel}); err != nil {
					t.Fatal(err)
				}
			}
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.at, at); diff != "" {
				t.Error("stamps:", diff)
			}
			if diff := cmp.Diff(tc.flags, flags); diff != "" {
				t.Error("flags:", diff)
			}
		})
	}
}

// TestChunkedSharing: two chunks in one read share its stamp; framing does not.
func TestChunkedSharing(t *testing.T) {
	both := chunk("data: a\n\n", "data: b\n\n")
	for _, f := range decode(SSE, Transfer{Chunked: true}, 0, []byte(both)).Frames {
		if !f.Flags.Has(record.FlagCoalesced) {
			t.Errorf("%q is not coalesced", f.Data)
		}
	}
	one := chunk("data: a\n\n") // with the last chunk in the same read
	if f := decode(SSE, Transfer{Chunked: true}, 0, []byte(one)).Frames[0]; f.Flags != 0 {
		t.Errorf("flags %b for an event alone in its read", f.Flags)
	}
}

// sseText draws text rich in what matters to a splitter.
func sseText() *rapid.Generator[string] {
	return rapid.Map(rapid.SliceOfN(rapid.SampledFrom([]string{
		"data: ", "data:", "data", "event: ", "event", "id: 1", "retry: 5", ": c", "\n", "\n", "\r\n", "\r\n", "\r", "\n\n",
		"x", "é", "{", "}", " ", "\xEF\xBB\xBF", "[DONE]",
	}), 0, 40), func(s []string) string { return strings.Join(s, "") })
}

// TestAgreesWithGoSSE compares with an independent reader, where both follow
// the same rules: an unterminated last event and bare JSON are ours alone,
// go-sse skips a byte order mark in other places than the start, and it gives events that have a name or an id and no data.
func TestAgreesWithGoSSE(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := strings.NewReplacer("{", "<", "}", ">", "\xEF\xBB\xBF", "").Replace(sseText().Draw(t, "in")) + "\n\n"
		var want, have []got
		for e, err := range sse.Read(strings.NewReader(in), nil) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Data != "" {
				want = append(want, got{Name: e.Type, Data: e.Data})
			}
		}
		for _, f := range decode(SSE, untilClose, 0, []byte(in)).Frames {
			if f.Data != "" {
				have = append(have, got{Name: f.Name, Data: f.Data})
			}
		}
		if diff := cmp.Diff(want, have); diff != "" {
			t.Fatalf("%q: %s", in, diff)
		}
	})
}

// cuts cuts in at the given places.
func cuts(in []byte, at []byte) [][]byte {
	var out [][]byte
	for _, n := range at {
		k := min(int(n), len(in))
		out, in = append(out, in[:k]), in[k:]
	}
	return append(out, in)
}

func FuzzDecoder(f *testing.F) {
	add := func(in string, kind byte) { f.Add([]byte(in), []byte{3, 1, 7}, kind) }
	add("data: a\n\ndata: b\r\n\r\n: c\n\n", 0)
	add(chunk("data: a\n\nda", "ta: b\n\n", "event: x\ndata: c"), 1)
	add("{\"a\":1}\n{\"b\":2}", 2)
	add("9;ext\r\ndata: a\n\n\r\n0\r\nTrailer: x\r\n\r\nrest", 1)
	add("\xEF\xBB\xBFdata: é\r\rdata: {\n{\n}\n", 0)
	add("data: a\n\nda", 3)
	f.Fuzz(func(t *testing.T, in, at []byte, kind byte) {
		framing := Framing(kind >> 4 % 3)
		tr := []Transfer{untilClose, {Chunked: true}, {Length: int64(len(in))}, {Length: int64(len(in)) / 2}}[kind%4]
		const limit = 1 << 10
		whole := decode(framing, tr, limit, in)
		cut := decode(framing, tr, limit, cuts(in, at)...)
		checkBytes(t, whole, len(in))
		checkBytes(t, cut, len(in))
		if strings.Contains(whole.Err, ErrTooLarge.Error()) || strings.Contains(cut.Err, ErrTooLarge.Error()) {
			return // a bound may be met one piece earlier
		}
		if whole.Err == "" || whole.Err == io.ErrUnexpectedEOF.Error() {
			if diff := cmp.Diff(whole.plain(), cut.plain()); diff != "" {
				t.Fatalf("cut %v of %q: %s", at, in, diff)
			}
		}
		last := record.Stamp(0)
		for _, fr := range cut.Frames {
			if fr.At < last {
				t.Fatal("a stamp went back")
			}
			last = fr.At
		}
	})
}

// checkBytes: every byte belongs to one event, to the rest or to the excess.
func checkBytes(t *testing.T, d decoded, n int) {
	t.Helper()
	sum := d.Rest + d.Excess
	for _, f := range d.Frames {
		if f.Wire < 0 || f.Wire == 0 && f.Data != "" {
			t.Fatalf("an event of %d wire bytes", f.Wire)
		}
		sum += int64(f.Wire)
	}
	if (d.Err == "" || d.Err == io.ErrUnexpectedEOF.Error()) && sum != int64(n) {
		t.Fatalf("%d bytes in, %d accounted for: %+v", n, sum, d)
	}
}
