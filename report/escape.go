package report

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// escape makes foreign text safe to print on one line: whatever is not
// printable in the sense of [unicode.IsPrint] becomes visible as a Go escape.
// That takes control characters (C0, DEL, C1), line breaks, invalid UTF-8, and
// the format characters that hide or reorder text.
func escape(s string) string {
	if plain(s) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			escapeRune(&b, r)
		}
		s = s[size:]
	}
	return b.String()
}

func plain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

func escapeRune(b *strings.Builder, r rune) {
	switch {
	case r == '\n':
		b.WriteString(`\n`)
	case r == '\r':
		b.WriteString(`\r`)
	case r == '\t':
		b.WriteString(`\t`)
	case r < 0x80:
		fmt.Fprintf(b, `\x%02x`, r)
	case r > 0xffff:
		fmt.Fprintf(b, `\U%08x`, r)
	default:
		fmt.Fprintf(b, `\u%04x`, r)
	}
}

// transliteration has the signs of our own texts in ASCII.
var transliteration = strings.NewReplacer(
	"·", "|", "–", "-", "—", "-", "−", "-", "±", "+/-", "≤", "<=", "≥", ">=", "×", "x", "Σ", "sum", "…", "...",
	"µ", "u", "→", "->", "’", "'",
)

// ascii is s, which is printable, without any character beyond ASCII.
func ascii(s string) string {
	if plain(s) {
		return s
	}
	s = transliteration.Replace(s)
	var b strings.Builder
	for _, r := range s {
		if r <= '~' {
			b.WriteRune(r)
		} else {
			escapeRune(&b, r)
		}
	}
	return b.String()
}
