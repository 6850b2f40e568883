package dialect

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// maxDepth of nesting that the scanner follows; deeper values are left to the
// full decode.
const maxDepth = 32

// scanner walks JSON once, without allocating. It is as strict as
// encoding/json. bad is set by anything that it does not accept, which may be
// valid JSON all the same, and from then on it stands at the end.
type scanner struct {
	b   []byte
	i   int
	bad bool
}

func (s *scanner) fail() bool {
	s.bad = true
	s.i = len(s.b)
	return false
}

// space skips white space and returns the next byte, 0 at the end.
func (s *scanner) space() byte {
	for s.i < len(s.b) {
		c := s.b[s.i]
		if c > ' ' {
			return c
		}
		if c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			s.fail()
			return 0
		}
		s.i++
	}
	return 0
}

// open consumes the bracket c.
func (s *scanner) open(c byte) bool {
	if s.space() != c {
		return s.fail()
	}
	s.i++
	return true
}

// end reports whether nothing but white space is left.
func (s *scanner) end() bool { return s.space() == 0 && !s.bad && s.i == len(s.b) }

// member moves to the value of the next member of an object and returns its
// key; more is false after the last, or on failure. Escaped keys fail.
func (s *scanner) member(first bool) (key []byte, more bool) {
	c := s.space()
	switch {
	case c == '}':
		s.i++
		return nil, false
	case !first && c == ',':
		s.i++
		c = s.space()
	case !first:
		return nil, s.fail()
	}
	if c != '"' {
		return nil, s.fail()
	}
	r, _ := s.str()
	if r.escaped || s.space() != ':' {
		return nil, s.fail()
	}
	s.i++
	return r.b, true
}

// element moves to the next value of an array.
func (s *scanner) element(first bool) bool {
	c := s.space()
	switch {
	case c == ']':
		s.i++
		return false
	case first:
		return !s.bad
	case c == ',':
		s.i++
		return true
	}
	return s.fail()
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// str consumes a string that starts at the current byte, a quote. high tells of
// bytes above ASCII in it.
func (s *scanner) str() (r rawString, high bool) {
	s.i++
	start, i := s.i, s.i
	var seen uint64
	for {
		// Eight bytes a step: the lowest flagged byte of each mask is exact.
		for i+8 <= len(s.b) {
			w := binary.LittleEndian.Uint64(s.b[i:])
			q, e := w^(ones*'"'), w^(ones*'\\')
			m := ((q-ones)&^q | (e-ones)&^e | (w-ones*' ')&^w) & highs
			if m != 0 {
				n := bits.TrailingZeros64(m) / 8
				seen |= w & (1<<(8*n) - 1)
				i += n
				break
			}
			seen |= w
			i += 8
		}
		for i < len(s.b) && s.b[i] != '"' && s.b[i] != '\\' && s.b[i] >= ' ' {
			seen |= uint64(s.b[i])
			i++
		}
		if i >= len(s.b) || s.b[i] < ' ' {
			s.fail()
			return rawString{}, false
		}
		if s.b[i] == '"' {
			break
		}
		n := escapeLen(s.b[i:])
		if n == 0 {
			s.fail()
			return rawString{}, false
		}
		r.escaped = true
		i += n
	}
	r.b = s.b[start:i]
	s.i = i + 1
	return r, seen&highs != 0
}

// escapeLen is the length of the escape that b starts with; 0 if it is none.
func escapeLen(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if hex4(b) >= 0 {
			return 6
		}
	}
	return 0
}

// hex4 is the value of the \uXXXX that b starts with, -1 if it is none.
func hex4(b []byte) int {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return -1
	}
	v := 0
	for _, c := range b[2:6] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return -1
		}
		v = v<<4 | int(c)
	}
	return v
}

// decodedLen is the size in UTF-8 of an escaped string.
func decodedLen(b []byte) int {
	n := 0
	for i := 0; i < len(b); {
		if b[i] != '\\' {
			n++
			i++
			continue
		}
		if b[i+1] != 'u' {
			n++
			i += 2
			continue
		}
		r := hex4(b[i:])
		i += 6
		switch {
		case r < 0x80:
			n++
		case r < 0x800:
			n += 2
		case r >= 0xd800 && r < 0xdc00 && isLowSurrogate(hex4(b[i:])):
			n += 4
			i += 6
		default: // a lone surrogate becomes U+FFFD, of three bytes as well
			n += 3
		}
	}
	return n
}

func isLowSurrogate(r int) bool { return r >= 0xdc00 && r < 0xe000 }

// textLen consumes a string or null and returns the size of its UTF-8.
func (s *scanner) textLen() int {
	r, ok := s.stringOrNull(true)
	switch {
	case !ok:
		return 0
	case r.escaped:
		return decodedLen(r.b)
	}
	return len(r.b)
}

// answerLen is textLen of an answer, which it notes if it is the first choice's.
func (s *scanner) answerLen(c *chunk, said *rawString) int {
	r, ok := s.stringOrNull(true)
	switch {
	case !ok:
		return 0
	case c.choices == 0:
		*said = r
	}
	if r.escaped {
		return decodedLen(r.b)
	}
	return len(r.b)
}

// stringOrNull consumes either; ok is false for null or on failure. Strings
// that are not UTF-8 fail if that matters.
func (s *scanner) stringOrNull(utf bool) (r rawString, ok bool) {
	switch s.space() {
	case '"':
		r, high := s.str()
		if high && utf && !utf8.Valid(r.b) {
			return rawString{}, s.fail()
		}
		return r, !s.bad
	case 'n':
		return rawString{}, s.literal("null") && false
	}
	return rawString{}, s.fail()
}

// null consumes a null if there is one.
func (s *scanner) null() bool { return s.space() == 'n' && s.literal("null") }

func (s *scanner) literal(l string) bool {
	if len(s.b)-s.i < len(l) || string(s.b[s.i:s.i+len(l)]) != l {
		return s.fail()
	}
	s.i += len(l)
	return true
}

// count consumes a whole number from 0 up to the largest int32, or null.
func (s *scanner) count() (n int, ok bool) {
	if s.null() {
		return 0, false
	}
	start := s.i
	for s.i < len(s.b) && s.b[s.i] >= '0' && s.b[s.i] <= '9' && s.i-start < 10 {
		n = n*10 + int(s.b[s.i]-'0')
		s.i++
	}
	digits := s.i - start
	if digits == 0 || (digits > 1 && s.b[start] == '0') || n > 1<<31-1 || s.more() {
		return 0, s.fail()
	}
	return n, true
}

// more reports whether a number goes on.
func (s *scanner) more() bool {
	if s.i >= len(s.b) {
		return false
	}
	switch c := s.b[s.i]; c {
	case '.', 'e', 'E', '+', '-':
		return true
	default:
		return c >= '0' && c <= '9'
	}
}

// skip consumes any value.
func (s *scanner) skip(depth int) bool {
	if depth > maxDepth {
		return s.fail()
	}
	switch c := s.space(); {
	case c == '"':
		s.str()
	case c == '{':
		s.i++
		s.skipObject(depth)
	case c == '[':
		s.array(depth)
	case c == 't':
		s.literal("true")
	case c == 'f':
		s.literal("false")
	case c == 'n':
		s.literal("null")
	default:
		s.number()
	}
	return !s.bad
}

func (s *scanner) skipObject(depth int) {
	for first := true; ; first = false {
		if _, more := s.member(first); !more {
			return
		}
		s.skip(depth + 1)
	}
}

// array consumes an array that starts at the current byte and counts its elements.
func (s *scanner) array(depth int) (n int) {
	s.i++
	for ; s.element(n == 0); n++ {
		if !s.skip(depth + 1) {
			return 0
		}
	}
	return n
}

// arrayOrNull consumes either; ok is false for null or on failure.
func (s *scanner) arrayOrNull() (n int, ok bool) {
	if s.null() {
		return 0, false
	}
	if s.space() != '[' {
		return 0, s.fail()
	}
	n = s.array(0)
	return n, !s.bad
}

// number consumes a number by the grammar of RFC 8259, without its value.
func (s *scanner) number() {
	if s.i < len(s.b) && s.b[s.i] == '-' {
		s.i++
	}
	start := s.i
	n := s.digits()
	if n == 0 || (n > 1 && s.b[start] == '0') {
		s.fail()
		return
	}
	if s.i < len(s.b) && s.b[s.i] == '.' {
		s.i++
		if s.digits() == 0 {
			s.fail()
			return
		}
	}
	if s.i < len(s.b) && s.b[s.i]|0x20 == 'e' {
		s.i++
		if s.i < len(s.b) && (s.b[s.i] == '+' || s.b[s.i] == '-') {
			s.i++
		}
		if s.digits() == 0 {
			s.fail()
		}
	}
}

func (s *scanner) digits() int {
	start := s.i
	for s.i < len(s.b) && s.b[s.i] >= '0' && s.b[s.i] <= '9' {
		s.i++
	}
	return s.i - start
}
