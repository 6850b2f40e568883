package wire

import "github.com/assay-bench/assay/record"

// Framing is how a body is cut into events.
type Framing int

const (
	// SSE is text/event-stream (WHATWG HTML, section 9.2).
	SSE Framing = iota
	// NDJSON has one event a line; lines of white space alone are skipped.
	NDJSON
	// Whole makes the entire body one event, given at its end, even if empty.
	Whole
)

// String names the framing for reports.
func (f Framing) String() string {
	switch f {
	case SSE:
		return "sse"
	case NDJSON:
		return "ndjson"
	case Whole:
		return "whole"
	}
	return "unknown"
}

// Frame is one complete event.
type Frame struct {
	// Name is the event's name (SSE), nil if it has none. Data is its payload:
	// the data lines joined by LF, a line of NDJSON, or the whole body. Both
	// are valid during the callback only.
	Name, Data []byte
	// At is the stamp behind every metric: the kernel's receive time of the
	// read that completed the event if it is known, else Read, which is when
	// that read returned to us.
	At, Read record.Stamp
	// Flags has at most FlagCoalesced and FlagKernel.
	Flags record.EventFlags
	// WireBytes is the number of body bytes since the end of the event before,
	// in bytes on the wire: chunk headers, comments and blank lines included.
	// The LF of a CRLF that ends an event is counted with the next one, since
	// the event is not held back to wait for it.
	WireBytes int
}

// ReadStamp says when bytes were received.
type ReadStamp struct {
	// At is the kernel's receive time if Kernel is set, else it equals Read.
	At record.Stamp
	// Read is when the raw read that brought the bytes returned.
	Read record.Stamp
	// Kernel is set when At is the kernel's.
	Kernel bool
	// Shared is set when the bytes had no raw read of their own, or when more
	// bytes were known to be queued behind them: At is then an upper bound.
	Shared bool
}
