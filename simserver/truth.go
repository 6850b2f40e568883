package simserver

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"
)

// TruthSchema names the format of the truth log: JSON lines of [TruthLine].
const TruthSchema = "assay-simserver-truth/1"

// TruthLine is one line of the truth log: exactly one field is set.
//
// All times are nanoseconds of CLOCK_MONOTONIC where the system has one that all
// its processes share (Linux), so that a client on the same machine can compare
// its own; add WallOffset of the start line for Unix time. A time of 0 means
// that it did not happen.
type TruthLine struct {
	Start   *TruthStart   `json:"start,omitempty"`
	Request *TruthRequest `json:"request,omitempty"`
	Step    *TruthStep    `json:"step,omitempty"`
}

// TruthStart is the first line.
type TruthStart struct {
	Schema string `json:"schema"`
	// Monotonic and Wall (Unix) are the same moment.
	Monotonic int64 `json:"monotonic_ns"`
	Wall      int64 `json:"wall_unix_ns"`
	// WallOffset is Wall - Monotonic.
	WallOffset int64  `json:"wall_offset_ns"`
	Model      string `json:"model"`
	Engines    int    `json:"engines"`
}

// TruthRequest is what happened to one request, written when it ended.
type TruthRequest struct {
	XRequestID   string `json:"x_request_id"` // header as sent; "" if there was none
	ID           string `json:"id"`           // as in the answer
	Path         string `json:"path"`
	Engine       int    `json:"engine"`
	Stream       bool   `json:"stream"`
	Fault        string `json:"fault,omitempty"`
	Outcome      string `json:"outcome"` // "completed", "aborted" (the client left), "fault", "shutdown"
	PromptTokens int    `json:"prompt_tokens"`
	OutputTokens int    `json:"output_tokens"` // handed out, over all choices
	// WallOffset is as in the start line, so that a line stands alone.
	WallOffset int64 `json:"wall_offset_ns"`
	// Received is when the first byte of the request was read from its socket.
	Received int64 `json:"received_ns"`
	// Arrival is vLLM's arrival time: body read and checked, not yet tokenised.
	Arrival int64 `json:"arrival_ns"`
	// Ended is when the engine was done with it: the end of its last step, or
	// when the client's leaving was noticed.
	Ended     int64           `json:"ended_ns"`
	Sequences []TruthSequence `json:"sequences"`
	Events    TruthEvents     `json:"events,omitempty"`
}

// TruthSequence is one choice of one prompt, in the engine's planned times.
type TruthSequence struct {
	Index        int    `json:"index"`
	Queued       int64  `json:"queued_ns"`
	Scheduled    int64  `json:"scheduled_ns"`
	FirstToken   int64  `json:"first_token_ns"`
	LastToken    int64  `json:"last_token_ns"`
	PromptTokens int    `json:"prompt_tokens"`
	CachedTokens int    `json:"cached_tokens"`
	OutputTokens int    `json:"output_tokens"`
	MaxTokens    int    `json:"max_tokens"`
	Preemptions  int    `json:"preemptions"`
	FinishReason string `json:"finish_reason,omitempty"`
	// Planned and the rest are what a replay in virtual time needs beside Queued.
	// BlockHashes are logged with the steps only.
	Planned     int      `json:"planned_tokens"`
	Stop        bool     `json:"stop,omitempty"`
	Priority    int      `json:"priority,omitempty"`
	BlockHashes []uint64 `json:"block_hashes,omitempty"`
}

// TruthEvent is one write to the client. On the wire of the log it is an array
// [kind, index, tokens, planned_ns, before_ns, after_ns, bytes].
//
// It has no pointers: a server holds a million of them, and a garbage collection
// need not look at one.
type TruthEvent struct {
	Planned int64 // end of the step
	Before  int64 // just before the write call
	After   int64 // just after it; 0: the bytes were queued (full socket, or a fault), or not stamped (headers)
	Bytes   int32
	Tokens  int32 // that the event hands out
	Index   int32 // of the choice
	Kind    EventKind
}

// EventKind is what a write to the client was; on the wire its name.
type EventKind uint8

// The kinds.
const (
	EventHeaders EventKind = iota + 1
	EventRole
	EventToken
	EventUsage
	EventDone
	EventError
	EventEnd     // of the body alone
	EventBody    // an answer in one piece
	EventComment // a keep-alive line
	EventStall   // a fault's silence begins
)

var eventNames = [...]string{"", "headers", "role", "token", "usage", "done", "error", "end", "body", "comment", "stall"}

// String is the kind's name on the wire.
func (k EventKind) String() string {
	if int(k) >= len(eventNames) {
		return ""
	}
	return eventNames[k]
}

// UnmarshalText reads a name.
func (k *EventKind) UnmarshalText(b []byte) error {
	i := slices.Index(eventNames[1:], string(b))
	if i < 0 {
		return fmt.Errorf("unknown kind %q", b)
	}
	*k = EventKind(i + 1)
	return nil
}

// MarshalJSON writes the array form.
func (e TruthEvent) MarshalJSON() ([]byte, error) { return e.append(nil), nil }

func (e TruthEvent) append(b []byte) []byte {
	b = append(b, `["`...)
	b = append(b, e.Kind.String()...)
	b = append(b, '"')
	for _, n := range [...]int64{int64(e.Index), int64(e.Tokens), e.Planned, e.Before, e.After, int64(e.Bytes)} {
		b = append(b, ',')
		b = strconv.AppendInt(b, n, 10)
	}
	return append(b, ']')
}

// TruthEvents are the events of a request in the order of their writes.
type TruthEvents []TruthEvent

// MarshalJSON is one call for all events: there may be 100,000 a second.
func (es TruthEvents) MarshalJSON() ([]byte, error) {
	return es.append(make([]byte, 0, 2+96*len(es))), nil
}

func (es TruthEvents) append(b []byte) []byte {
	b = append(b, '[')
	for i, e := range es {
		if i > 0 {
			b = append(b, ',')
		}
		b = e.append(b)
	}
	return append(b, ']')
}

// UnmarshalJSON reads the array form.
func (e *TruthEvent) UnmarshalJSON(b []byte) error {
	fields := [7]any{&e.Kind, &e.Index, &e.Tokens, &e.Planned, &e.Before, &e.After, &e.Bytes}
	list := fields[:]
	if err := json.Unmarshal(b, &list); err != nil {
		return fmt.Errorf("reading a truth event: %w", err)
	}
	if len(list) != len(fields) {
		return fmt.Errorf("reading a truth event: %d fields instead of %d", len(list), len(fields))
	}
	return nil
}

// TruthStep is one step of one engine.
type TruthStep struct {
	Engine          int     `json:"engine"`
	Number          int     `json:"number"`
	Start           int64   `json:"start_ns"`
	End             int64   `json:"end_ns"`
	Woken           int64   `json:"woken_ns"`   // when the loop had slept
	Written         int64   `json:"written_ns"` // after the step's last write
	Outputs         int     `json:"outputs"`
	ScheduledTokens int     `json:"scheduled_tokens"`
	PrefillTokens   int     `json:"prefill_tokens"`
	Running         int     `json:"running"`
	Waiting         int     `json:"waiting"`
	KVUsage         float64 `json:"kv_usage"`
}

// ReadTruth calls f for every line of a truth log until it fails or f does.
func ReadTruth(r io.Reader, f func(TruthLine) error) error {
	d := json.NewDecoder(r)
	for n := 1; ; n++ {
		var line TruthLine
		if err := d.Decode(&line); err == io.EOF {
			return nil
		} else if err != nil {
			return fmt.Errorf("reading line %d of a truth log: %w", n, err)
		}
		if err := f(line); err != nil {
			return err
		}
	}
}

// truthLog encodes and writes lines on a goroutine of its own. It is flushed
// whenever it has caught up.
type truthLog struct {
	w     *bufio.Writer
	steps bool

	mu     sync.Mutex
	cond   *sync.Cond
	queue  []TruthLine
	closed bool
	err    error // the first write error; later lines are dropped
	done   chan struct{}
}

func newTruthLog(w io.Writer, steps bool) *truthLog {
	t := &truthLog{w: bufio.NewWriterSize(w, 64<<10), steps: steps, done: make(chan struct{})}
	t.cond = sync.NewCond(&t.mu)
	return t
}

// add never waits for the writer.
func (t *truthLog) add(line TruthLine) {
	t.mu.Lock()
	t.queue = append(t.queue, line)
	t.mu.Unlock()
	t.cond.Signal()
}

func (t *truthLog) run() {
	defer close(t.done)
	var batch []TruthLine
	var buf []byte
	for {
		t.mu.Lock()
		for len(t.queue) == 0 && !t.closed {
			t.cond.Wait()
		}
		batch, t.queue = t.queue, batch[:0]
		t.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		for i := range batch {
			var err error
			if buf, err = appendLine(buf[:0], batch[i]); err == nil {
				_, err = t.w.Write(buf)
			}
			t.note(err)
			batch[i] = TruthLine{}
		}
		t.note(t.w.Flush())
	}
}

// appendLine is a line of the log. The events of a request, nearly all of it, are
// put in by hand: encoding/json would read again what they have written.
func appendLine(b []byte, line TruthLine) ([]byte, error) {
	var events TruthEvents
	if q := line.Request; q != nil && len(q.Events) > 0 {
		bare := *q
		events, bare.Events = q.Events, nil
		line.Request = &bare
	}
	text, err := json.Marshal(line)
	if err != nil {
		return b, fmt.Errorf("encoding a line of the truth log: %w", err)
	}
	if events == nil {
		return append(append(b, text...), '\n'), nil
	}
	const end = "}}" // of the request, whose last field events is, and of the line
	b = append(b, text[:len(text)-len(end)]...)
	b = append(b, `,"events":`...)
	return append(events.append(b), end+"\n"...), nil
}

func (t *truthLog) note(err error) {
	if err == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		t.err = fmt.Errorf("writing the truth log: %w", err)
	}
}

// close writes what is queued and reports the first error of all writes.
func (t *truthLog) close() error {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.cond.Signal()
	<-t.done
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}
