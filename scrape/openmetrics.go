package scrape

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/prometheus/common/expfmt"
)

// classicText rewrites OpenMetrics 1.0 text as Prometheus text 0.0.4, line for
// line, so that line numbers of errors stay right. What is lost is what a window
// does not need: units, exemplars, timestamps of samples.
//
// The official OpenMetrics decoder (prometheus/common 0.74) is not used: it
// matches every line against a grammar, which takes 3.5 ms a line or 3 s for a
// vLLM-sized page, and it refuses info and stateset families and NaN sums. The
// official text parser still reads every sample.
func classicText(body []byte) ([]byte, error) {
	types := declaredTypes(body)
	out := bytes.NewBuffer(make([]byte, 0, len(body)+len(body)/8))
	n := 0
	for line := range bytes.Lines(body) {
		n++
		text := string(bytes.TrimRight(line, "\r\n"))
		switch {
		case text == "# EOF":
			return out.Bytes(), nil
		case strings.HasPrefix(text, "# TYPE "):
			name, _ := cutName(text[len("# TYPE "):])
			out.WriteString("# TYPE " + classicName(name, types[name]) + " " + classicType(types[name]))
		case strings.HasPrefix(text, "# HELP "):
			name, help := cutName(text[len("# HELP "):])
			out.WriteString("# HELP " + classicName(name, types[name]) + " " + help)
		case strings.HasPrefix(text, "#"):
			// UNIT and comments: the line stays, empty.
		default:
			out.WriteString(classicSample(text))
		}
		out.WriteByte('\n')
	}
	return nil, expfmt.ParseError{Line: n + 1, Msg: "no # EOF: the body was cut off"}
}

// declaredTypes maps names of families to their OpenMetrics types. HELP may
// stand before TYPE, so they are gathered first.
func declaredTypes(body []byte) map[string]string {
	types := map[string]string{}
	for line := range bytes.Lines(body) {
		if rest, ok := bytes.CutPrefix(line, []byte("# TYPE ")); ok {
			name, typ := cutName(string(bytes.TrimRight(rest, "\r\n")))
			types[name] = typ
		}
	}
	return types
}

// cutName splits a name, quoted or bare, from what follows it.
func cutName(s string) (name, rest string) {
	if !strings.HasPrefix(s, `"`) {
		name, rest, _ = strings.Cut(s, " ")
		return name, rest
	}
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return s[:i+1], strings.TrimPrefix(s[i+1:], " ")
		}
	}
	return s, ""
}

// classicName is the name that the samples of a family bear. Families of
// counters and infos are declared without the suffix; some servers declare
// counters with it all the same.
func classicName(name, typ string) string {
	suffix := map[string]string{"counter": "_total", "info": "_info"}[typ]
	if suffix == "" {
		return name
	}
	bare, quoted := strings.CutSuffix(name, `"`)
	if !strings.HasSuffix(bare, suffix) {
		bare += suffix
	}
	if quoted {
		return bare + `"`
	}
	return bare
}

// classicType is the type of text 0.0.4 that holds the same values.
func classicType(typ string) string {
	switch typ {
	case "info", "stateset":
		return "gauge"
	case "unknown", "gaugehistogram":
		return "untyped"
	default:
		return typ // what the text parser does not know, it reports with the line
	}
}

// classicSample cuts exemplar and timestamp from a sample line.
func classicSample(line string) string {
	end := labelsEnd(line)
	value, _, _ := strings.Cut(line[end:], "#")
	fields := strings.Fields(value)
	if len(fields) == 0 || len(fields) > 2 {
		return line // not a sample: let the parser say so
	}
	return fmt.Sprintf("%s %s", strings.TrimRight(line[:end], " "), fields[0])
}

// labelsEnd is the offset after a sample's name and labels.
func labelsEnd(line string) int {
	open := strings.IndexByte(line, '{')
	space := strings.IndexByte(line, ' ')
	if open < 0 || space >= 0 && space < open {
		return max(space, 0)
	}
	quoted := false
	for i := open; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case c == '}' && !quoted:
			return i + 1
		}
	}
	return len(line)
}
