package simserver

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// FaultHeader asks for a fault on one request; its value is that of [ParseFault].
const FaultHeader = "X-Assay-Fault"

// Fault is a way to misbehave. The zero value behaves well. Counts of tokens
// are over all choices of a request; a count that is not asked for is -1 in the
// parsed form, so that 0 means "before the first token".
type Fault struct {
	text string // as written, for the truth log

	Status       int    // answer with this HTTP status and an error body
	RetryAfter   int    // with the header Retry-After, in seconds
	Redirect     string // answer 307 to this location
	NotStreaming bool   // answer a streaming request with one JSON body
	Empty        bool   // finish ("stop") without any token
	Restart      bool   // see [Server.Restart]

	ErrorAfter    int           // in-stream error event after so many tokens, then [DONE]
	EndAfter      int           // well-formed end of the body after so many tokens: no finish, usage or [DONE]
	TruncateAfter int           // close the connection after so many tokens, inside the chunked body
	ResetAfter    int           // reset the connection (RST) after so many tokens
	StallAfter    int           // write nothing more after so many tokens, for Stall
	Stall         time.Duration // 0: for ever
	NeverEnd      bool          // finish and usage, but no [DONE] and no end of the body
	NoUsage       bool          // leave the usage event out
	NoDone        bool          // leave [DONE] out

	Reasoning      int           // send the first so many tokens of a chat's choice as reasoning, not content
	TokensPerChunk int           // collect so many tokens before each event
	Comments       int           // a comment line before every so many events
	CRLF           bool          // lines end in CR LF
	Giant          int           // pad the text of the first token's event to so many bytes
	LateHeaders    bool          // headers wait for the first event
	HeaderDelay    time.Duration // and for this long
	Split          int           // cut each event into so many writes
	Merge          int           // join so many events in one write
	Drip           time.Duration // write at most DripBytes at a time, this long apart
}

// DripBytes is the size of a piece under [Fault.Drip].
const DripBytes = 64

// maxGiant bounds what a header can make the server write.
const maxGiant = 256 << 20

// Well reports whether the fault changes nothing.
func (f *Fault) Well() bool { return f.text == "" }

// String is the fault as it was written.
func (f *Fault) String() string { return f.text }

// ParseFault reads faults as "name" or "name=value", several separated by ";":
//
//	status=503             HTTP error               redirect=URL       307
//	retry-after=SECONDS    with status              empty              no token at all
//	restart                all is lost              split=K  merge=K   writes an event, events a write
//	not-streaming          JSON instead of events   late-headers[=2s]  with the first event, or held so long
//	error-after=K          in-stream error          end-after=K        clean end of the body, no finish
//	truncate-after=K       connection closed        reset-after=K      connection reset
//	stall-after=K[:2s]     silence, or for a while  never-end          no [DONE], no end of the body
//	no-usage  no-done      left out                 tokens-per-chunk=K
//	comments[=K]           ": keep-alive" lines     crlf               line ends
//	giant[=BYTES]          5 MiB in the first token's event
//	drip=20ms              a few bytes at a time    reasoning=K        the first tokens are reasoning
func ParseFault(text string) (Fault, error) {
	f := Fault{text: strings.TrimSpace(text), ErrorAfter: -1, EndAfter: -1, TruncateAfter: -1, ResetAfter: -1, StallAfter: -1}
	if f.text == "" {
		return f, nil
	}
	for part := range strings.SplitSeq(f.text, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		if err := f.set(name, value); err != nil {
			return Fault{}, fmt.Errorf("fault %q: %w", name, err)
		}
	}
	return f, nil
}

func (f *Fault) set(name, value string) (err error) {
	switch name {
	case "status":
		f.Status, err = count(value, 0, 400, 599)
	case "retry-after":
		f.RetryAfter, err = count(value, 0, 1, 86400)
	case "empty":
		f.Empty = true
	case "redirect":
		f.Redirect = value
		if value == "" || strings.ContainsAny(value, "\r\n") {
			err = fmt.Errorf("needs a location")
		}
	case "restart":
		f.Restart = true
	case "not-streaming":
		f.NotStreaming = true
	case "error-after":
		f.ErrorAfter, err = count(value, 0, 0, 1<<30)
	case "end-after":
		f.EndAfter, err = count(value, 0, 0, 1<<30)
	case "truncate-after":
		f.TruncateAfter, err = count(value, 0, 0, 1<<30)
	case "reset-after":
		f.ResetAfter, err = count(value, 0, 0, 1<<30)
	case "stall-after":
		tokens, length, timed := strings.Cut(value, ":")
		f.StallAfter, err = count(tokens, 0, 0, 1<<30)
		if err == nil && timed {
			f.Stall, err = duration(length)
		}
	case "never-end":
		f.NeverEnd = true
	case "no-usage":
		f.NoUsage = true
	case "no-done":
		f.NoDone = true
	case "tokens-per-chunk":
		f.TokensPerChunk, err = count(value, 0, 1, 1<<30)
	case "reasoning":
		f.Reasoning, err = count(value, 0, 1, 1<<30)
	case "comments":
		f.Comments, err = count(value, 1, 1, 1<<30)
	case "crlf":
		f.CRLF = true
	case "giant":
		f.Giant, err = count(value, 5<<20, 1, maxGiant)
	case "late-headers":
		f.LateHeaders = true
		if value != "" {
			f.HeaderDelay, err = duration(value)
		}
	case "split":
		f.Split, err = count(value, 0, 1, 1<<20)
	case "merge":
		f.Merge, err = count(value, 0, 1, 1<<20)
	case "drip":
		f.Drip, err = duration(value)
	default:
		err = fmt.Errorf("is not known")
	}
	return err
}

// count reads a number in [low, high]; an empty value is the default, if there
// is one.
func count(value string, byDefault, low, high int) (int, error) {
	if value == "" && byDefault != 0 {
		return byDefault, nil
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < low || n > high {
		return 0, fmt.Errorf("%q is not a number from %d to %d", value, low, high)
	}
	return n, nil
}

func duration(value string) (time.Duration, error) {
	d, err := time.ParseDuration(value)
	if err != nil || d <= 0 || d > time.Hour {
		return 0, fmt.Errorf("%q is not a duration up to 1h, like 200ms", value)
	}
	return d, nil
}
