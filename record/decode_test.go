package record

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// full has a value in every field of the codec.
func full() Attempt {
	var a Attempt
	v := reflect.ValueOf(&a).Elem()
	for i := range v.NumField() {
		f := v.Field(i)
		if !v.Type().Field(i).IsExported() {
			continue
		}
		switch f.Kind() {
		case reflect.String:
			f.SetString("text of " + v.Type().Field(i).Name)
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Int, reflect.Int64, reflect.Int32:
			f.SetInt(int64(1000 + i))
		}
	}
	a.Usage = &Usage{1, 2, 3, 4}
	return a
}

var hidden = cmpopts.IgnoreUnexported(Attempt{})

// Every field of the codec is scanned: a new one must be in the switch.
func TestDecoderKnowsAllFields(t *testing.T) {
	want := full()
	line, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var d Decoder
	var got Attempt
	if !d.scan(line, &got) {
		t.Fatalf("not scanned: %s", line)
	}
	if diff := cmp.Diff(want, got, hidden); diff != "" {
		t.Error(diff)
	}
	typ := reflect.TypeFor[Attempt]()
	for i := range typ.NumField() {
		name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
		if name != "" && name != "-" && name != "usage" && new(Attempt).field([]byte(name)) == nil {
			t.Errorf("%s is not a case of field", name)
		}
	}
}

// FuzzDecoder holds what is scanned against encoding/json.
func FuzzDecoder(f *testing.F) {
	a := full()
	line, _ := json.Marshal(a)
	f.Add(line)
	for _, s := range []string{
		"{}", `{"id":"a","request":-1,"outcome":"completed"}`, `{"id":"a\u0041"}`, `{"request":1.0}`, `{"request":01}`, `{"request":99999999999999999999}`,
		`{"ID":"x"}`, `{"usage":null}`, `{"usage":{},"usage":{"prompt_tokens":1}}`, `{"id":"x","id":"y"}`, `{"streamed":true,"streamed":false}`, ` {}`, `{"new":1}`, `{"id":"é"}`, `{`, `[]`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		var want, got Attempt
		wantErr := json.Unmarshal(line, &want)
		var d Decoder
		if d.scan(line, &got) {
			if wantErr != nil {
				t.Fatalf("scanned %q, which is no JSON: %v", line, wantErr)
			}
			if diff := cmp.Diff(want, got, hidden); diff != "" {
				t.Fatalf("%q: %s", line, diff)
			}
		}
		if err := d.Decode(line, &got); (err == nil) != (wantErr == nil) {
			t.Fatalf("%q: %v, want %v", line, err, wantErr)
		} else if err == nil {
			if diff := cmp.Diff(want, got, hidden); diff != "" {
				t.Fatalf("%q: %s", line, diff)
			}
		}
	})
}

func BenchmarkDecoder(b *testing.B) {
	a := full()
	a.Error, a.ErrorBody = "", ""
	line, _ := json.Marshal(a)
	b.Run("scan", func(b *testing.B) {
		var d Decoder
		b.ReportAllocs()
		for b.Loop() {
			if err := d.Decode(line, &a); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("json", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := json.Unmarshal(line, &a); err != nil {
				b.Fatal(err)
			}
		}
	})
}
