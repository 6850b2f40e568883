package dataset

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// errJSON is a syntax error; where is told by the scanner.
var errJSON = errors.New("is not JSON")

// maxDepth of nested JSON, as in encoding/json.
const maxDepth = 10000

// objectScanner goes over the members of one JSON object without allocating. It
// accepts what encoding/json accepts.
type objectScanner struct {
	b     []byte
	i     int    // before the first call: the opening brace; at the end: behind the closing one
	key   []byte // unescaped
	val   []byte // as written
	at    int    // where val begins in b
	err   error
	begun bool
}

// next goes to the next member. It is false at the end or at an error.
func (s *objectScanner) next() bool {
	if s.err != nil {
		return false
	}
	i := skipSpace(s.b, s.i)
	if !s.begun {
		s.begun = true
		if i >= len(s.b) || s.b[i] != '{' {
			return s.fail(i)
		}
		i = skipSpace(s.b, i+1)
		if i < len(s.b) && s.b[i] == '}' {
			s.i = i + 1
			return false
		}
	} else {
		if i < len(s.b) && s.b[i] == '}' {
			s.i = i + 1
			return false
		}
		if i >= len(s.b) || s.b[i] != ',' {
			return s.fail(i)
		}
		i = skipSpace(s.b, i+1)
	}
	end, escaped, ok := skipString(s.b, i)
	if !ok {
		return s.fail(end)
	}
	s.key = s.b[i+1 : end-1]
	if escaped {
		s.key = []byte(unquote(s.b[i:end]))
	}
	i = skipSpace(s.b, end)
	if i >= len(s.b) || s.b[i] != ':' {
		return s.fail(i)
	}
	i = skipSpace(s.b, i+1)
	end, ok = skipValue(s.b, i, 0)
	if !ok {
		return s.fail(end)
	}
	s.val, s.at, s.i = s.b[i:end], i, end
	return true
}

func (s *objectScanner) fail(i int) bool {
	s.i = i
	s.err = &fieldError{column: string(s.key), value: around(s.b, i), col: i + 1, err: errJSON}
	return false
}

// around is what stands where a scan stopped.
func around(b []byte, i int) []byte {
	i = min(i, len(b))
	return b[i:min(len(b), i+20)]
}

// scanWhole checks that nothing follows the object.
func (s *objectScanner) scanWhole() error {
	if s.err != nil {
		return s.err
	}
	if i := skipSpace(s.b, s.i); i < len(s.b) {
		return &fieldError{value: around(s.b, i), col: i + 1, err: errors.New("something follows the object")}
	}
	return nil
}

// locate is where the value of a path such as turns.1.delay begins in an object; 0 if
// it has none.
func locate(b []byte, path string) int {
	at := 0
	for _, step := range strings.Split(path, ".") {
		at = skipSpace(b, at)
		switch {
		case at >= len(b):
			return 0
		case b[at] == '{':
			o := objectScanner{b: b, i: at}
			for o.next() && string(o.key) != step {
			}
			if o.err != nil || string(o.key) != step {
				return 0
			}
			at = o.at
		case b[at] == '[':
			n, err := strconv.Atoi(step)
			if err != nil {
				return 0
			}
			at = skipSpace(b, at+1)
			for range n {
				end, ok := skipValue(b, at, 0)
				if !ok {
					return 0
				}
				if at = skipSpace(b, end); at >= len(b) || b[at] != ',' {
					return 0
				}
				at = skipSpace(b, at+1)
			}
		default:
			return 0
		}
	}
	return at
}

// placed gives an error within a record its place, by its path.
func placed(raw []byte, err error) error {
	var f *fieldError
	if errors.As(err, &f) && f.col == 0 && f.column != "" {
		if at := locate(raw, f.column); at > 0 {
			f.col = at + 1
		}
	}
	return err
}

// within is what is wrong with a value, or with something inside of it.
func within(column string, val []byte, at int, err error) error {
	var f *fieldError
	if !errors.As(err, &f) {
		return &fieldError{column: column, value: val, col: at + 1, err: err}
	}
	inner := *f
	inner.column = strings.TrimSuffix(column+"."+f.column, ".")
	inner.col = at + max(f.col, 1)
	if val[0] == '"' {
		inner.col = at + 1 // JSON in a string: its places are others
	}
	return &inner
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

// skipString goes behind the string at i, and says whether it has escapes.
func skipString(b []byte, i int) (end int, escaped, ok bool) {
	if i >= len(b) || b[i] != '"' {
		return i, false, false
	}
	for i++; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			return i + 1, escaped, true
		case c < ' ':
			return i, escaped, false
		case c == '\\':
			escaped = true
			i++
			if i >= len(b) {
				return i, escaped, false
			}
			switch b[i] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			case 'u':
				if i+4 >= len(b) {
					return i, escaped, false
				}
				for _, h := range b[i+1 : i+5] {
					if (h < '0' || h > '9') && (h|32 < 'a' || h|32 > 'f') {
						return i, escaped, false
					}
				}
				i += 4
			default:
				return i, escaped, false
			}
		}
	}
	return i, escaped, false
}

// skipValue goes behind the value at i. If there is none, end is where it breaks.
func skipValue(b []byte, i, depth int) (end int, ok bool) {
	if i >= len(b) {
		return i, false
	}
	switch c := b[i]; c {
	case '"':
		end, _, ok := skipString(b, i)
		return end, ok
	case '{':
		return skipMembers(b, i, depth, '}')
	case '[':
		return skipMembers(b, i, depth, ']')
	case 't':
		return skipWord(b, i, "true")
	case 'f':
		return skipWord(b, i, "false")
	case 'n':
		return skipWord(b, i, "null")
	}
	return skipNumber(b, i)
}

// skipMembers goes behind an array or object.
func skipMembers(b []byte, i, depth int, closing byte) (int, bool) {
	if depth >= maxDepth {
		return i, false
	}
	i = skipSpace(b, i+1)
	if i < len(b) && b[i] == closing {
		return i + 1, true
	}
	for {
		var ok bool
		if closing == '}' {
			if i, _, ok = skipString(b, i); !ok {
				return i, false
			}
			if i = skipSpace(b, i); i >= len(b) || b[i] != ':' {
				return i, false
			}
			i = skipSpace(b, i+1)
		}
		if i, ok = skipValue(b, i, depth+1); !ok {
			return i, false
		}
		i = skipSpace(b, i)
		if i >= len(b) || b[i] != ',' && b[i] != closing {
			return i, false
		}
		if b[i] == closing {
			return i + 1, true
		}
		i = skipSpace(b, i+1)
	}
}

func skipWord(b []byte, i int, word string) (int, bool) {
	if len(b)-i >= len(word) && string(b[i:i+len(word)]) == word {
		return i + len(word), true
	}
	return i, false
}

func skipNumber(b []byte, i int) (int, bool) {
	if i < len(b) && b[i] == '-' {
		i++
	}
	digits := func() bool {
		from := i
		for i < len(b) && b[i] >= '0' && b[i] <= '9' {
			i++
		}
		return i > from
	}
	if i < len(b) && b[i] == '0' {
		i++
	} else if !digits() {
		return i, false
	}
	if i < len(b) && b[i] == '.' {
		i++
		if !digits() {
			return i, false
		}
	}
	if i < len(b) && b[i]|32 == 'e' {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		if !digits() {
			return i, false
		}
	}
	return i, true
}

// unquote is the text of a JSON string, which has been scanned.
func unquote(v []byte) string {
	rest := v[1 : len(v)-1]
	i := bytes.IndexByte(rest, '\\')
	if i < 0 {
		return string(rest)
	}
	var b strings.Builder
	b.Grow(len(rest))
	for ; i >= 0; i = bytes.IndexByte(rest, '\\') {
		b.Write(rest[:i])
		c := rest[i+1]
		switch c {
		case 'b':
			c = '\b'
		case 'f':
			c = '\f'
		case 'n':
			c = '\n'
		case 'r':
			c = '\r'
		case 't':
			c = '\t'
		case 'u':
			return unquoteSlow(v)
		}
		b.WriteByte(c)
		rest = rest[i+2:]
	}
	b.Write(rest)
	return b.String()
}

// unquoteSlow also knows \u and its surrogates.
func unquoteSlow(v []byte) string {
	var s string
	if json.Unmarshal(v, &s) != nil {
		return ""
	}
	return s
}

// bare is the text of a scalar: a string without its quotes, null as nothing. It
// is not ok for objects and arrays.
func bare(v []byte) ([]byte, bool) {
	switch v[0] {
	case '"':
		if bytes.IndexByte(v, '\\') >= 0 {
			return []byte(unquote(v)), true
		}
		return v[1 : len(v)-1], true
	case '{', '[':
		return nil, false
	case 'n':
		return nil, true
	}
	return v, true
}

// parseInts appends the whole numbers of a JSON array.
func parseInts(dst []int64, v []byte) ([]int64, error) {
	if len(v) == 0 || v[0] == 'n' {
		return dst, nil
	}
	if v[0] != '[' || v[len(v)-1] != ']' {
		return dst, errors.New("is not an array of whole numbers")
	}
	i := skipSpace(v, 1)
	if v[i] == ']' {
		return dst, nil
	}
	for {
		from := i
		for i < len(v) && v[i] != ',' && v[i] != ']' && v[i] > ' ' {
			i++
		}
		n, err := parseInt(v[from:i])
		if err != nil {
			return dst, fmt.Errorf("element %d (%s) %w", len(dst), shorten(v[from:i]), err)
		}
		dst = append(dst, n)
		i = skipSpace(v, i)
		if i >= len(v) || v[i] != ',' {
			return dst, nil
		}
		i = skipSpace(v, i+1)
	}
}
