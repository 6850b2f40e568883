package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"

	"github.com/assay-bench/assay/result"
)

// JSON writes the content of report.json. The same run gives the same bytes.
func JSON(w io.Writer, r *result.Run) error { return WriteJSON(w, r) }

// WriteJSON writes any result as indented JSON that ends in a line break. The
// same value gives the same bytes. Characters in strings that are not printable
// are escaped, so that the text may go to a terminal.
func WriteJSON(w io.Writer, v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("encoding the report: %w", err)
	}
	if _, err := io.WriteString(w, escapeJSON(b.String())); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// escapeJSON escapes what encoding/json leaves as it is: DEL, C1 controls and
// invisible format characters. They occur in strings only. U+FFFD, which stands
// for bytes that were no UTF-8, is escaped always, not only where it is new.
func escapeJSON(s string) string {
	unsafe := func(r rune) bool { return r != '\n' && (r == unicode.ReplacementChar || !unicode.IsPrint(r)) }
	if !strings.ContainsFunc(s, unsafe) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case !unsafe(r):
			b.WriteRune(r)
		case r > 0xffff:
			hi, lo := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, hi, lo)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}
