package scrape

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// MaxBody is the largest body that [Parse] takes, in bytes: 64 MiB. A real vLLM
// answers some 60 kB.
const MaxBody = 64 << 20

// Errors of [Parse], to be tested with errors.Is. A syntax error of a text
// format is an [expfmt.ParseError] and names the line.
var (
	ErrTooLarge      = errors.New("body exceeds 64 MiB")
	ErrNotExposition = errors.New("not a Prometheus exposition")
)

// At brackets the moment at which the server sampled its metrics: somewhere
// between the stamp before the request was sent and the one after the body was
// read. Both are nanoseconds on the clock of the caller's run.
type At struct {
	Before, After int64
}

// Scrape is one parsed exposition.
type Scrape struct {
	// At is set by the caller, who fetched the body.
	At At
	// Process names the process that answered, if a header of the answer did;
	// see [Scrape.ReadHeader].
	Process string
	// Date is the server's own clock, to the second; zero if it sent none.
	Date time.Time
	// Families by name as on the wire. Names of counters end in _total and
	// names of histograms do not end in _bucket, _sum or _count, whatever the
	// format was.
	Families map[string]*dto.MetricFamily
}

// Parse reads an exposition in the format that the Content-Type of its answer
// names: Prometheus text 0.0.4 and 1.0.0, OpenMetrics text 0.0.1 and 1.0.0,
// or delimited protobuf. An absent or foreign Content-Type is taken for
// Prometheus text, or OpenMetrics if the body ends with its # EOF line, since
// proxies and small servers get it wrong. NaN and infinite values are kept.
//
// Errors are [ErrTooLarge], [ErrNotExposition] (JSON, HTML, nothing at all), or
// what the official parser says, with the line where it knows it.
func Parse(body []byte, contentType string) (*Scrape, error) {
	if len(body) > MaxBody {
		return nil, fmt.Errorf("parsing metrics: %w (%d bytes)", ErrTooLarge, len(body))
	}
	format := formatOf(body, contentType)
	if format.FormatType() != expfmt.TypeProtoDelim {
		if what := foreign(body); what != "" {
			return nil, fmt.Errorf("parsing metrics: %w: %s", ErrNotExposition, what)
		}
	}
	families, err := decode(body, format)
	if err != nil {
		return nil, fmt.Errorf("parsing metrics as %s: %w", format, err)
	}
	return &Scrape{Families: families}, nil
}

// formatOf is the format to decode with.
func formatOf(body []byte, contentType string) expfmt.Format {
	if mt, _, err := mime.ParseMediaType(contentType); err == nil && mt != "text/plain" {
		h := http.Header{"Content-Type": {contentType}}
		if f := expfmt.ResponseFormat(h); f.FormatType() != expfmt.TypeUnknown {
			return f
		}
	}
	if bytes.HasSuffix(bytes.TrimRight(body, "\n"), []byte("\n# EOF")) {
		return expfmt.NewFormat(expfmt.TypeOpenMetrics)
	}
	// Text 1.0.0 is text 0.0.4 plus quoted names: one parser reads both.
	return expfmt.NewFormat(expfmt.TypeTextPlain)
}

// foreign says what a body is that cannot be an exposition, or "".
func foreign(body []byte) string {
	trimmed := bytes.TrimLeft(body, " \t\r\n\xef\xbb\xbf")
	switch {
	case len(trimmed) == 0:
		return "the body is empty"
	case trimmed[0] == '<':
		return "it looks like HTML"
	case trimmed[0] == '[', bytes.HasPrefix(trimmed, []byte("{}")):
		return "it looks like JSON"
	case trimmed[0] == '{' && looksLikeObject(trimmed):
		return "it looks like JSON"
	}
	return ""
}

// looksLikeObject tells a JSON object from a sample whose quoted name stands
// inside the braces, {"name",label="v"} 1: after its first string stands a colon.
func looksLikeObject(b []byte) bool {
	rest := bytes.TrimLeft(b[1:], " \t\r\n")
	if len(rest) == 0 || rest[0] != '"' {
		return false
	}
	end := bytes.IndexByte(rest[1:], '"')
	if end < 0 {
		return false
	}
	after := bytes.TrimLeft(rest[end+2:], " \t\r\n")
	return len(after) > 0 && after[0] == ':'
}

// decode runs the official parser and gathers the families.
func decode(body []byte, format expfmt.Format) (map[string]*dto.MetricFamily, error) {
	switch format.FormatType() {
	case expfmt.TypeProtoDelim:
		return decodeProto(body, format)
	case expfmt.TypeOpenMetrics:
		classic, err := classicText(body)
		if err != nil {
			return nil, err
		}
		body = classic
	}
	if n := len(body); n > 0 && body[n-1] != '\n' {
		body = append(body[:n:n], '\n')
	}
	// The parser's own zero value panics: it has no scheme of validation.
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(bytes.NewReader(body))
}

// decodeProto reads delimited protobuf messages, one a family.
func decodeProto(body []byte, format expfmt.Format) (map[string]*dto.MetricFamily, error) {
	if err := checkDelimiters(body); err != nil {
		return nil, err
	}
	families := map[string]*dto.MetricFamily{}
	dec := expfmt.NewDecoder(bytes.NewReader(body), format.WithEscapingScheme(model.NoEscaping))
	for {
		mf := new(dto.MetricFamily)
		err := dec.Decode(mf)
		if errors.Is(err, io.EOF) {
			return families, nil
		}
		if err != nil {
			return nil, err
		}
		known := families[mf.GetName()]
		switch {
		case known == nil:
			families[mf.GetName()] = mf
		case known.GetType() != mf.GetType():
			return nil, fmt.Errorf("metric family %q appears as %v and as %v", mf.GetName(), known.GetType(), mf.GetType())
		default:
			known.Metric = append(known.Metric, mf.GetMetric()...)
		}
	}
}

// checkDelimiters walks the lengths of the messages. The decoder allocates
// whatever a length says, so a few hostile bytes could ask it for terabytes.
func checkDelimiters(body []byte) error {
	for at := 0; at < len(body); {
		size, n := binary.Uvarint(body[at:])
		left := len(body) - at - max(n, 0)
		if n <= 0 || size > uint64(left) {
			return fmt.Errorf("message at byte %d: bad length", at)
		}
		at += n + int(size)
	}
	return nil
}

// Has reports whether a family of that name is on the wire.
func (s *Scrape) Has(name string) bool { return s != nil && s.Families[name] != nil }

// ReadHeader keeps what the headers of the answer tell: the clock of the server
// (Date), and the process that answered (Process-Start-Time-Unix of llama.cpp,
// whose metrics do not name it).
func (s *Scrape) ReadHeader(h http.Header) {
	s.Process = h.Get("Process-Start-Time-Unix")
	if t, err := http.ParseTime(h.Get("Date")); err == nil {
		s.Date = t
	}
}

// Skew is how far the server's clock is ahead of ours, no less than lo and no
// more than hi. Date has whole seconds, so hi - lo is a second and the time
// between before and after, our wall clock around the fetch. ok is false if the
// server sent no Date.
func (s *Scrape) Skew(before, after time.Time) (lo, hi time.Duration, ok bool) {
	if s.Date.IsZero() {
		return 0, 0, false
	}
	return s.Date.Sub(after), s.Date.Add(time.Second).Sub(before), true
}
