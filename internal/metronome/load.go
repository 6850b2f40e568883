package metronome

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// DefaultSize of an event in bytes: about what serving engines send for a token.
const DefaultSize = 200

// Load is what one request asks for.
type Load struct {
	// ID names the stream in the log.
	ID int64
	// At is when the first event is due, in CLOCK_MONOTONIC nanoseconds. 0 means
	// one interval after the request.
	At int64
	// Held streams wait for POST /start?at=T: their first event is due At after T.
	Held bool
	// Events with text, and the time between them.
	Events int
	Every  time.Duration
	// Size is the length of one event on the wire, transfer coding included;
	// 0 means DefaultSize. What does not fit is made as short as it can be.
	Size int
}

// Bounds on a request, against mistakes.
const (
	maxEvents = 1 << 24
	maxSize   = 1 << 20
)

// Query encodes the load as the query of a URL.
func (l Load) Query() string {
	q := fmt.Sprintf("stream=%d&at=%d&events=%d&every=%d&size=%d", l.ID, l.At, l.Events, int64(l.Every), l.Size)
	if l.Held {
		q += "&held=1"
	}
	return q
}

// parseLoad is the inverse of Query. What is not given is 100 events, 20 ms
// apart.
func parseLoad(q url.Values) (Load, error) {
	l := Load{Events: 100, Every: 20 * time.Millisecond, Held: q.Has("held")}
	number := func(name string, to *int64) error {
		text := q.Get(name)
		if text == "" {
			return nil
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			return fmt.Errorf("%s=%q: want a whole number that is not negative", name, text)
		}
		*to = n
		return nil
	}
	events, every, size := int64(l.Events), int64(l.Every), int64(0)
	for name, to := range map[string]*int64{"stream": &l.ID, "at": &l.At, "events": &events, "every": &every, "size": &size} {
		if err := number(name, to); err != nil {
			return l, err
		}
	}
	if events > maxEvents || size > maxSize {
		return l, fmt.Errorf("at most %d events of %d bytes", maxEvents, maxSize)
	}
	l.Events, l.Every, l.Size = int(events), time.Duration(every), int(size)
	return l, nil
}

const (
	replyHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
	chunkHead = `{"id":"chatcmpl-metronome","object":"chat.completion.chunk","created":1,"model":"metronome",`
)

// Preamble is what comes before the first event.
func Preamble() []byte {
	return []byte(replyHead + chunk(`data: `+chunkHead+`"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`+"\n\n"))
}

// Event is one event with text and one token, size bytes long on the wire.
func Event(size int) []byte {
	if size == 0 {
		size = DefaultSize
	}
	event := func(text string) string {
		return chunk(`data: ` + chunkHead + `"choices":[{"index":0,"delta":{"content":"` + text + `"},"finish_reason":null,"token_ids":[1]}]}` + "\n\n")
	}
	text := " "
	for len(event(text)) < size {
		text += strings.Repeat("a", size-len(event(text)))
	}
	// A longer text may have needed one more digit of the chunk size.
	for len(event(text)) > size && len(text) > 1 {
		text = text[:len(text)-1]
	}
	return []byte(event(text))
}

// End is what comes after the last event.
func End(events int) []byte {
	finish := `data: ` + chunkHead + `"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}` + "\n\n"
	usage := fmt.Sprintf(`data: %s"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":%d,"total_tokens":%d}}`+"\n\n", chunkHead, events, events+1)
	return []byte(chunk(finish) + chunk(usage) + chunk("data: [DONE]\n\n") + "0\r\n\r\n")
}

// chunk frames text by the chunked transfer coding.
func chunk(text string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(text), text) }
