package dialect

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxErrorLine bounds the one line that is made of an error, in bytes.
const maxErrorLine = 300

// ParseError makes one line of an error body: type and message of the shapes
// that OpenAI-like servers, FastAPI and proxies send, else the start of the
// text itself. An empty body gives "".
func ParseError(body []byte) string {
	v, ok := decodeValue(body)
	if !ok {
		return oneLine(string(body[:min(len(body), 4*maxErrorLine)]))
	}
	if list, isList := v.([]any); isList && len(list) > 0 {
		v = list[0]
	}
	o, isObject := v.(object)
	if !isObject {
		return oneLine(string(body[:min(len(body), 4*maxErrorLine)]))
	}
	if line := errorIn(o); line != "" {
		return line
	}
	for _, key := range []string{"detail", "message", "msg"} {
		if line := errorLine(o[key], o); line != "" {
			return line
		}
	}
	return oneLine(string(body[:min(len(body), 4*maxErrorLine)]))
}

// errorIn is the one line of the error that a JSON object is or holds; "" if it
// is no error. A null, false or empty "error" is none.
func errorIn(o object) string {
	switch e := o["error"].(type) {
	case object:
		if line := errorLine(e, nil); line != "" {
			return line
		}
		return "error without a message"
	case string:
		if e != "" {
			return typed(oneLine(e), o)
		}
	case nil:
	case bool:
		if e {
			return orDefault(errorLine(o["message"], o))
		}
	default:
		return "error without a message"
	}
	if stringOf(o["object"]).equals("error") {
		return orDefault(errorLine(o["message"], o))
	}
	return ""
}

func orDefault(line string) string {
	if line == "" {
		return "error without a message"
	}
	return line
}

// errorLine makes a line of a message (a string, an object with one, or
// FastAPI's list of them), led by the type found in the message or in around.
func errorLine(v any, around object) string {
	switch m := v.(type) {
	case string:
		return typed(oneLine(m), around)
	case object:
		for _, key := range []string{"message", "msg", "detail", "error"} {
			if s := stringOf(m[key]); !s.empty() {
				return typed(oneLine(s.String()), m)
			}
		}
		return typed("", m)
	case []any:
		if len(m) > 0 {
			return errorLine(m[0], around)
		}
	}
	return ""
}

// typed puts the type of an error, or else its code, before its message.
func typed(message string, o object) string {
	kind := ""
	for _, key := range []string{"type", "error_type", "status", "code", "http_status_code"} {
		kind = scalar(o[key])
		if kind != "" && kind != "error" {
			break
		}
	}
	switch {
	case kind == "" || kind == "error":
		return message
	case message == "":
		return oneLine(kind)
	}
	return oneLine(kind + ": " + message)
}

func scalar(v any) string {
	switch s := v.(type) {
	case string:
		return s
	case interface{ Int64() (int64, error) }:
		if n, err := s.Int64(); err == nil {
			return strconv.FormatInt(n, 10)
		}
	}
	return ""
}

// oneLine makes printable text of one line and bounded length.
func oneLine(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	if len(s) <= maxErrorLine {
		return s
	}
	cut := maxErrorLine
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}
