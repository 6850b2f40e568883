package record

import (
	"encoding/json"
	"strconv"
	"time"
)

// Decoder reads attempts as lines of records.jsonl. What this version writes is
// scanned, about ten times as fast as encoding/json; anything else (fields of
// another version, escapes, numbers with a fraction) is left to that, so that the
// result is always the same. It is not safe for concurrent use. The zero value is
// ready.
type Decoder struct {
	// seen holds the strings that come again and again, so that each is there once.
	seen map[string]string
}

// Decode sets a to what a line holds. A line that is no attempt is an error.
func (d *Decoder) Decode(line []byte, a *Attempt) error {
	*a = Attempt{}
	if d.scan(line, a) {
		return nil
	}
	*a = Attempt{}
	return json.Unmarshal(line, a)
}

// scan reads a line of the usual kind; false leaves a half-filled.
func (d *Decoder) scan(line []byte, a *Attempt) bool {
	s := scanner{b: line}
	if !s.byte('{') {
		return false
	}
	for first := true; !s.byte('}'); first = false {
		if !first && !s.byte(',') {
			return false
		}
		key, ok := s.text()
		if !ok || !s.byte(':') {
			return false
		}
		if string(key) == "usage" {
			if a.Usage != nil {
				return false
			}
			a.Usage = new(Usage)
			if !s.usage(a.Usage) {
				return false
			}
			continue
		}
		if !d.value(&s, a.field(key)) {
			return false
		}
	}
	return s.i == len(line)
}

// value reads into a field; nil is one that is not known.
func (d *Decoder) value(s *scanner, to any) bool {
	switch to := to.(type) {
	case *Stamp:
		n, ok := s.integer()
		*to = Stamp(n)
		return ok
	case *time.Duration:
		n, ok := s.integer()
		*to = time.Duration(n)
		return ok
	case *int64:
		n, ok := s.integer()
		*to = n
		return ok
	case *int:
		n, ok := s.integer()
		*to = int(n)
		return ok && int64(*to) == n
	case *bool:
		return s.boolean(to)
	case *string:
		b, ok := s.text()
		*to = d.intern(b)
		return ok
	case *Outcome:
		b, ok := s.text()
		*to = Outcome(d.intern(b))
		return ok
	case *Phase:
		b, ok := s.text()
		*to = Phase(d.intern(b))
		return ok
	}
	return false
}

// mostSeen strings are kept: ids, of which each is another one, soon fill it.
const mostSeen = 256

func (d *Decoder) intern(b []byte) string {
	if s, ok := d.seen[string(b)]; ok {
		return s
	}
	s := string(b)
	if len(s) <= 64 && len(d.seen) < mostSeen {
		if d.seen == nil {
			d.seen = make(map[string]string)
		}
		d.seen[s] = s
	}
	return s
}

// scanner reads JSON without spaces, as encoding/json writes it.
type scanner struct {
	b []byte
	i int
}

func (s *scanner) byte(c byte) bool {
	if s.i < len(s.b) && s.b[s.i] == c {
		s.i++
		return true
	}
	return false
}

// text is a string of plain ASCII without escapes.
func (s *scanner) text() ([]byte, bool) {
	if !s.byte('"') {
		return nil, false
	}
	for start := s.i; s.i < len(s.b); s.i++ {
		switch c := s.b[s.i]; {
		case c == '"':
			s.i++
			return s.b[start : s.i-1], true
		case c < ' ' || c == '\\' || c >= 0x7f:
			return nil, false
		}
	}
	return nil, false
}

// integer is a whole number in the form in which Go writes it.
func (s *scanner) integer() (int64, bool) {
	start := s.i
	s.byte('-')
	digits := s.i
	for s.i < len(s.b) && '0' <= s.b[s.i] && s.b[s.i] <= '9' {
		s.i++
	}
	n := s.i - digits
	if n == 0 || n > 1 && s.b[digits] == '0' {
		return 0, false
	}
	if n > 18 { // may not fit
		v, err := strconv.ParseInt(string(s.b[start:s.i]), 10, 64)
		return v, err == nil
	}
	var v int64
	for _, c := range s.b[digits:s.i] {
		v = 10*v + int64(c-'0')
	}
	if digits > start {
		v = -v
	}
	return v, true
}

func (s *scanner) boolean(to *bool) bool {
	for _, v := range []struct {
		text  string
		value bool
	}{{"true", true}, {"false", false}} {
		if len(s.b)-s.i >= len(v.text) && string(s.b[s.i:s.i+len(v.text)]) == v.text {
			s.i += len(v.text)
			*to = v.value
			return true
		}
	}
	return false
}

func (s *scanner) usage(u *Usage) bool {
	if !s.byte('{') {
		return false
	}
	for first := true; !s.byte('}'); first = false {
		if !first && !s.byte(',') {
			return false
		}
		key, ok := s.text()
		if !ok || !s.byte(':') {
			return false
		}
		n, ok := s.integer()
		if !ok || int64(int(n)) != n {
			return false
		}
		switch string(key) {
		case "prompt_tokens":
			u.PromptTokens = int(n)
		case "completion_tokens":
			u.CompletionTokens = int(n)
		case "cached_tokens":
			u.CachedTokens = int(n)
		case "reasoning_tokens":
			u.ReasoningTokens = int(n)
		default:
			return false
		}
	}
	return true
}

// field is where a key of the codec goes; nil if this version does not know it.
// A test holds it against the tags of Attempt.
func (a *Attempt) field(key []byte) any {
	switch string(key) {
	case "id":
		return &a.ID
	case "request":
		return &a.Request
	case "try":
		return &a.Try
	case "retry_of":
		return &a.RetryOf
	case "retried":
		return &a.Retried
	case "session":
		return &a.Session
	case "turn":
		return &a.Turn
	case "turns":
		return &a.Turns
	case "stage":
		return &a.Stage
	case "phase":
		return &a.Phase
	case "prompt_tokens_asked":
		return &a.PromptTokensAsked
	case "max_tokens":
		return &a.MaxTokens
	case "streamed":
		return &a.Streamed
	case "choices":
		return &a.Choices
	case "scheduled_ns":
		return &a.Scheduled
	case "dispatched_ns":
		return &a.Dispatched
	case "conn_ready_ns":
		return &a.ConnReady
	case "sent_ns":
		return &a.Sent
	case "sent_last_ns":
		return &a.SentLast
	case "sent_kernel_ns":
		return &a.SentKernel
	case "headers_ns":
		return &a.Headers
	case "first_event_ns":
		return &a.FirstEvent
	case "first_token_ns":
		return &a.FirstToken
	case "first_text_ns":
		return &a.FirstText
	case "first_answer_ns":
		return &a.FirstAnswer
	case "last_text_ns":
		return &a.LastText
	case "last_token_ns":
		return &a.LastToken
	case "finish_ns":
		return &a.Finish
	case "usage_ns":
		return &a.UsageAt
	case "done_ns":
		return &a.Done
	case "eof_ns":
		return &a.EOF
	case "ended_ns":
		return &a.Ended
	case "dns_ns":
		return &a.DNS
	case "connect_ns":
		return &a.Connect
	case "tls_ns":
		return &a.TLS
	case "conn_reused":
		return &a.ConnReused
	case "remote_addr":
		return &a.RemoteAddr
	case "outcome":
		return &a.Outcome
	case "status":
		return &a.Status
	case "error":
		return &a.Error
	case "error_body":
		return &a.ErrorBody
	case "finish_reason":
		return &a.FinishReason
	case "stop_reason":
		return &a.StopReason
	case "model":
		return &a.Model
	case "events":
		return &a.Events
	case "text_events":
		return &a.TextEvents
	case "token_events":
		return &a.TokenEvents
	case "coalesced_events":
		return &a.CoalescedEvents
	case "coalesced_text_events":
		return &a.CoalescedText
	case "kernel_events":
		return &a.KernelEvents
	case "text_bytes":
		return &a.TextBytes
	case "answer_bytes":
		return &a.AnswerBytes
	case "body_bytes":
		return &a.BodyBytes
	case "reasoning_text":
		return &a.ReasoningText
	case "deltas_unknown":
		return &a.DeltasUnknown
	case "multi_token_events":
		return &a.MultiTokenEvents
	case "delta_tokens":
		return &a.DeltaTokens
	case "paired_tokens":
		return &a.PairedTokens
	case "read_lag_max_ns":
		return &a.ReadLagMax
	case "read_lag_sum_ns":
		return &a.ReadLagSum
	}
	return nil
}
