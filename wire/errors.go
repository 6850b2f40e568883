package wire

import (
	"context"
	"errors"
	"net/http"
	"os"
	"regexp"
	"strings"
	"syscall"

	"github.com/assay-bench/assay/record"
)

// Error is how an exchange failed. Its text holds no userinfo of a URL and no
// value of a request header; the chain below Err may.
type Error struct {
	// Outcome is the row of the ledger.
	Outcome record.Outcome
	// Err is the cause.
	Err error

	text string // redacted with knowledge of the request
}

// Error says what failed, on one line, without secrets.
func (e *Error) Error() string {
	if e.text != "" {
		return e.text
	}
	return redact(e.Err.Error(), nil)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

var userinfo = regexp.MustCompile(`//[^/@\s"]*@`)

// minSecret is the shortest header value that is searched for in a message;
// shorter ones would mutilate ordinary words.
const minSecret = 8

// hiddenValues are the values of a request's header that no message may have.
func hiddenValues(h http.Header) []string {
	out := make([]string, 0, len(h))
	for name, values := range h {
		if name == "Content-Type" || name == "Accept" || name == "Accept-Encoding" {
			continue
		}
		out = append(out, values...)
	}
	return out
}

// redact removes userinfo and the hidden values from a message, and folds it
// into one line.
func redact(msg string, hidden []string) string {
	for _, v := range hidden {
		msg = redactValue(msg, v)
	}
	msg = userinfo.ReplaceAllString(msg, "//")
	return strings.Join(strings.Fields(msg), " ")
}

// redactValue removes a header value and each of its words ("Bearer KEY").
func redactValue(msg, v string) string {
	if len(v) >= minSecret {
		msg = strings.ReplaceAll(msg, v, "[redacted]")
	}
	for _, word := range strings.FieldsFunc(v, func(r rune) bool { return strings.ContainsRune(" ;=,\"", r) }) {
		if len(word) >= minSecret && word != "Bearer" {
			msg = strings.ReplaceAll(msg, word, "[redacted]")
		}
	}
	return msg
}

// isDeadline reports whether a deadline of ours has passed. A timeout of the
// kernel (ETIMEDOUT) is not one.
func isDeadline(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded)
}

// isReset reports whether the peer, or the network, cut the connection off.
func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		errors.Is(err, syscall.ECONNABORTED)
}
