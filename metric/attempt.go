package metric

import (
	"time"

	"github.com/assay-bench/assay/record"
)

const nsPerMS = 1e6

// Tokens is n, the completion tokens that the server's usage reports. It is
// never a count of events and never a tokenisation of ours.
func Tokens(a *record.Attempt) (n int, ok bool) {
	if a.Usage == nil || a.Usage.CompletionTokens < 0 {
		return 0, false
	}
	return a.Usage.CompletionTokens, true
}

func zeroTokens(a *record.Attempt) bool {
	n, ok := Tokens(a)
	return ok && n == 0
}

// sinceMS is to - from in milliseconds.
func sinceMS(to, from record.Stamp, missing Reason) (float64, Reason) {
	d, ok := to.Since(from)
	if !ok {
		return 0, missing
	}
	return float64(d) / nsPerMS, Defined
}

// streamedText says why an attempt has no streamed text to time.
func streamedText(a *record.Attempt) Reason {
	switch {
	case zeroTokens(a):
		return ZeroTokens
	case !a.Streamed:
		return NotStreamed
	case !a.FirstText.Known() || !a.LastText.Known():
		return NoText
	}
	return Defined
}

// TTFT is the time to first token in ms: first_text - sent.
func TTFT(a *record.Attempt) (ms float64, why Reason) {
	if why := streamedText(a); why != Defined {
		return 0, why
	}
	return sinceMS(a.FirstText, a.Sent, NotSent)
}

// TTFTFromSchedule is first_text - scheduled in ms: what a user felt who came
// when the schedule says. It is free of coordinated omission. A linked attempt
// after a stale connection keeps the scheduled stamp of its request.
func TTFTFromSchedule(a *record.Attempt) (ms float64, why Reason) {
	if why := streamedText(a); why != Defined {
		return 0, why
	}
	return sinceMS(a.FirstText, a.Scheduled, NotSeen)
}

// TimeToFirstAnswer is first_answer - sent in ms; reasoning, refusals and
// tool calls are no answer.
func TimeToFirstAnswer(a *record.Attempt) (ms float64, why Reason) {
	if why := streamedText(a); why != Defined {
		return 0, why
	}
	if !a.FirstAnswer.Known() {
		return 0, NoAnswer
	}
	return sinceMS(a.FirstAnswer, a.Sent, NotSent)
}

// E2E is the end-to-end latency in ms: last_text - sent if streamed, else
// end of body - sent. The two are never in one sample.
func E2E(a *record.Attempt) (ms float64, why Reason) {
	switch {
	case zeroTokens(a):
		return 0, ZeroTokens
	case a.Streamed && !a.LastText.Known(), !a.Streamed && a.TextBytes == 0:
		return 0, NoText
	case !a.Sent.Known():
		return 0, NotSent
	}
	return sinceMS(lastOf(a), a.Sent, NotSeen)
}

// lastOf is the end of E2E: last_text, or the end of the body if not streamed.
func lastOf(a *record.Attempt) record.Stamp {
	if a.Streamed {
		return a.LastText
	}
	return a.EOF
}

// decodeSpan is last_text - first_text, of text that came in several pieces.
func decodeSpan(a *record.Attempt) (time.Duration, Reason) {
	span := time.Duration(a.LastText - a.FirstText)
	switch {
	case a.TextEvents == 1 || (a.TextEvents == 0 && span == 0):
		return 0, SingleEvent
	case span <= 0:
		return 0, SingleStamp
	}
	return span, Defined
}

// seedForm gives both parts of the seed form of TPOT: the span and n.
func seedForm(a *record.Attempt) (span time.Duration, n int, why Reason) {
	if why := streamedText(a); why != Defined {
		return 0, 0, why
	}
	n, known := Tokens(a)
	switch {
	case a.Choices > 1:
		return 0, 0, SeveralChoices
	case !known:
		return 0, 0, NoUsage
	case n < 2:
		return 0, 0, OneTokenOnly
	case a.Usage.ReasoningTokens > 0 && !a.ReasoningText:
		return 0, 0, HiddenReasoning
	}
	span, why = decodeSpan(a)
	return span, n, why
}

// TPOT is the time per output token in ms, in the seed form
// (last_text - first_text) / (n - 1). n usually counts a stop token that has no
// text, which makes it short by one step; see [TPOTPaired].
func TPOT(a *record.Attempt) (ms float64, why Reason) {
	span, n, why := seedForm(a)
	if why != Defined {
		return 0, why
	}
	return float64(span) / float64(n-1) / nsPerMS, Defined
}

// TPOTPaired is the same span in ms, divided by the tokens that arrived after
// the first text event up to and including the last one. It needs the token
// delta of every text event, and no usage.
func TPOTPaired(a *record.Attempt) (ms float64, why Reason) {
	if why := streamedText(a); why != Defined {
		return 0, why
	}
	switch {
	case a.Choices > 1:
		return 0, SeveralChoices
	case a.DeltasUnknown > 0 || a.TokenEvents == 0:
		return 0, DeltasUnknown
	case a.PairedTokens < 1:
		return 0, NoPairedToken
	}
	span, why := decodeSpan(a)
	if why != Defined {
		return 0, why
	}
	return float64(span) / float64(a.PairedTokens) / nsPerMS, Defined
}

// UserTPS is (n - 1) / (E2E - TTFT) in tokens per second: what one user sees.
func UserTPS(a *record.Attempt) (tps float64, why Reason) {
	span, n, why := seedForm(a)
	if why != Defined {
		return 0, why
	}
	return float64(n-1) * 1e9 / float64(span), Defined
}

// HeadersTime is headers - sent in ms.
func HeadersTime(a *record.Attempt) (ms float64, why Reason) {
	if zeroTokens(a) {
		return 0, ZeroTokens
	}
	if !a.Sent.Known() {
		return 0, NotSent
	}
	return sinceMS(a.Headers, a.Sent, NotSeen)
}

// DNSTime is the duration of the name look-up in ms, for a new connection.
func DNSTime(a *record.Attempt) (ms float64, why Reason) { return setup(a, a.DNS) }

// ConnectTime is the duration of the TCP connect in ms, for a new connection.
func ConnectTime(a *record.Attempt) (ms float64, why Reason) { return setup(a, a.Connect) }

// TLSTime is the duration of the TLS handshake in ms, for a new connection.
func TLSTime(a *record.Attempt) (ms float64, why Reason) { return setup(a, a.TLS) }

func setup(a *record.Attempt, d time.Duration) (float64, Reason) {
	switch {
	case a.ConnReused:
		return 0, Reused
	case d <= 0:
		return 0, NotSeen
	}
	return float64(d) / nsPerMS, Defined
}

// SendLateness is sent - scheduled in ms. It judges the client only where
// scheduled is a plan (open loop), and only the first try of a request.
func SendLateness(a *record.Attempt) (ms float64, why Reason) {
	if !a.Sent.Known() {
		return 0, NotSent
	}
	return sinceMS(a.Sent, a.Scheduled, NotSeen)
}

// endOf is when the attempt was over.
func endOf(a *record.Attempt) record.Stamp {
	if a.Ended.Known() {
		return a.Ended
	}
	return max(a.Done, a.Finish, a.EOF, a.LastText)
}

// startOf is when the attempt began to be in flight.
func startOf(a *record.Attempt) record.Stamp {
	switch {
	case a.Sent.Known():
		return a.Sent
	case a.Dispatched.Known():
		return a.Dispatched
	}
	return a.Scheduled
}
