package dialect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/assay-bench/assay/record"
)

// bodyWriter appends the members of a request body, leaving out those that the
// extra body replaces.
type bodyWriter struct {
	b     []byte
	extra []byte
	// members: something was written that a comma must follow.
	members bool
}

// field starts a member; false means that the extra body has one of that name.
func (w *bodyWriter) field(name string) bool {
	if len(w.extra) > 0 && hasMember(w.extra, name) {
		return false
	}
	w.comma()
	w.b = append(w.b, '"')
	w.b = append(w.b, name...)
	w.b = append(w.b, '"', ':')
	return true
}

func (w *bodyWriter) comma() {
	if w.members {
		w.b = append(w.b, ',')
	}
	w.members = true
}

func (w *bodyWriter) open(o *Options) {
	w.b = append(w.b, '{')
	if o.Model != "" && w.field("model") {
		w.b = appendString(w.b, o.Model)
	}
}

func (w *bodyWriter) intField(name string, v int) {
	if w.field(name) {
		w.b = strconv.AppendInt(w.b, int64(v), 10)
	}
}

func (w *bodyWriter) boolField(name string, v bool) {
	if w.field(name) {
		w.b = strconv.AppendBool(w.b, v)
	}
}

// sampling appends what both protocols share.
func (w *bodyWriter) sampling(r *record.Request, o *Options, limit string) error {
	if r.MaxTokens > 0 {
		w.intField(limit, r.MaxTokens)
		if r.ExactOutput {
			w.boolField("ignore_eos", true)
			w.intField("min_tokens", r.MaxTokens)
		}
	}
	w.salt(r)
	if w.field("temperature") {
		t := 0.0
		if o.Temperature != nil {
			t = *o.Temperature
		}
		if math.IsNaN(t) || math.IsInf(t, 0) {
			return fmt.Errorf("temperature %v is not a finite number", t)
		}
		w.b = strconv.AppendFloat(w.b, t, 'g', -1, 64)
	}
	if o.Choices > 1 {
		w.intField("n", o.Choices)
	}
	w.streaming(o)
	return nil
}

func (w *bodyWriter) salt(r *record.Request) {
	if r.CacheSalt != "" && w.field("cache_salt") {
		w.b = appendString(w.b, r.CacheSalt)
	}
}

func (w *bodyWriter) streaming(o *Options) {
	w.boolField("stream", o.Stream)
	if !o.Stream || !(o.IncludeUsage || o.ContinuousUsage) || !w.field("stream_options") {
		return
	}
	w.b = append(w.b, `{"include_usage":true`...)
	if o.ContinuousUsage {
		w.b = append(w.b, `,"continuous_usage_stats":true`...)
	}
	w.b = append(w.b, '}')
}

// errExtraBody is what CheckExtraBody and AppendRequest say.
var errExtraBody = errors.New("the extra body is not a JSON object")

// CheckExtraBody says whether b can be an Options.ExtraBody: empty, or one JSON
// object.
func CheckExtraBody(b []byte) error {
	if len(b) == 0 || (bytes.HasPrefix(bytes.TrimLeft(b, " \t\r\n"), []byte{'{'}) && json.Valid(b)) {
		return nil
	}
	return errExtraBody
}

// close appends the members of the extra body as they are written.
func (w *bodyWriter) close() error {
	if err := CheckExtraBody(w.extra); err != nil {
		return err
	}
	if x := bytes.Trim(w.extra, " \t\r\n"); len(x) > 0 {
		if inner := bytes.Trim(x[1:len(x)-1], " \t\r\n"); len(inner) > 0 {
			w.comma()
			w.b = append(w.b, inner...)
		}
	}
	w.b = append(w.b, '}')
	return nil
}

func requestError(r *record.Request, err error) error {
	return fmt.Errorf("building the body of request %d: %w", r.Index, err)
}

// hasMember reports whether the JSON object b has a top-level member of that
// name. Broken JSON has none; close refuses it.
func hasMember(b []byte, name string) bool {
	s := scanner{b: b}
	if !s.open('{') {
		return false
	}
	for first := true; ; first = false {
		key, more := s.member(first)
		if !more {
			break
		}
		if string(key) == name {
			return true
		}
		s.skip(0)
	}
	if !s.bad {
		return false
	}
	// An escaped key, or deep nesting: rare enough for a full decode.
	var m map[string]json.RawMessage
	if json.Unmarshal(b, &m) != nil {
		return false
	}
	_, ok := m[name]
	return ok
}

const hexDigits = "0123456789abcdef"

// appendString appends s as a JSON string. Bytes that are not UTF-8 become
// U+FFFD, as encoding/json has it, so that the body is valid whatever s holds.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				b = append(b, s[start:i]...)
				b = append(b, `\ufffd`...)
				start = i + 1
			}
			i += size
			continue
		}
		if c >= ' ' && c != '"' && c != '\\' {
			i++
			continue
		}
		b = append(b, s[start:i]...)
		b = appendEscape(b, c)
		i++
		start = i
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}

func appendEscape(b []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(b, '\\', c)
	case '\n':
		return append(b, '\\', 'n')
	case '\r':
		return append(b, '\\', 'r')
	case '\t':
		return append(b, '\\', 't')
	}
	return append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}
