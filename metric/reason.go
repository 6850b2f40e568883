package metric

// Reason says why a number does not exist. The zero value, [Defined], means
// that it does.
type Reason uint8

// The reasons.
const (
	Defined         Reason = iota
	NotSent                // the request was never written to a socket
	NotStreamed            // asked for in one piece: only E2E exists
	NoText                 // no generated text came
	NoAnswer               // text came, but none of it answer text
	NoUsage                // the server did not say how many tokens
	ZeroTokens             // n = 0: no latency sample at all
	OneTokenOnly           // n = 1: no gap
	SingleEvent            // all text in one event: no span
	SingleStamp            // several text events, but all from one read: no span
	SeveralChoices         // usage sums over the choices
	HiddenReasoning        // n counts reasoning of which no text was streamed
	DeltasUnknown          // the server did not say which event carried how many tokens
	NoPairedToken          // no token after the first text event
	NotSeen                // a stamp that the number needs is missing
	Reused                 // no connection was opened for it
	reasons                // how many there are
)

// String is the reason as it stands in reports and in result.Summary.Excluded.
func (r Reason) String() string {
	switch r {
	case Defined:
		return "defined"
	case NotSent:
		return "never sent"
	case NotStreamed:
		return "not streamed"
	case NoText:
		return "no text"
	case NoAnswer:
		return "no answer text"
	case NoUsage:
		return "no usage"
	case ZeroTokens:
		return "zero tokens"
	case OneTokenOnly:
		return "one token"
	case SingleEvent:
		return "single event"
	case SingleStamp:
		return "all text in one read"
	case SeveralChoices:
		return "several choices"
	case HiddenReasoning:
		return "hidden reasoning"
	case DeltasUnknown:
		return "token deltas unknown"
	case NoPairedToken:
		return "no token after the first text"
	case NotSeen:
		return "stamp not seen"
	case Reused:
		return "connection reused"
	}
	return "unknown reason"
}

// absence reports whether the reason means that the quantity does not exist in
// this kind of traffic, rather than that one request had none.
func (r Reason) absence() bool {
	return r == NotStreamed || r == DeltasUnknown || r == NoAnswer || r == NotSeen || r == Reused
}
