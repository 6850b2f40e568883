package simserver

import (
	"net/http"
	"strconv"

	"github.com/assay-bench/assay/engine"
)

// frame is one write of a step: bytes of core.buf, and what follows them.
type frame struct {
	st       *stream
	from, to int
	kind     EventKind
	index    int
	tokens   int
	then     then
	outcome  string // of the request, where then ends it
}

// then is what happens after a write.
type then int

const (
	thenGoOn  then = iota
	thenDone       // the answer is complete
	thenClose      // close the connection
	thenReset      // reset it
	thenHang       // nothing ever again
	thenStall      // nothing for Fault.Stall
)

// encode makes the events of a step's outputs. It runs before the loop sleeps to
// the step's end, so that only writes remain then.
func (c *core) encode(step *engine.Step) {
	c.buf, c.frames = c.buf[:0], c.frames[:0]
	for i := range step.Outputs {
		o := &step.Outputs[i]
		q := o.Request.Data.(*sequence)
		if q.st.ended || q.st.gone.Load() {
			continue
		}
		q.held += o.NewTokens
		if o.Finished {
			q.done = true
			q.st.left--
		}
		if q.st.gen.stream {
			c.stream(q, o)
		} else if q.st.left == 0 {
			c.body(q.st)
		}
	}
}

// stream encodes one output of a streamed request.
func (c *core) stream(q *sequence, o *engine.Output) {
	st := q.st
	if !st.begun {
		st.begun = true
		if c.cut(st) {
			return
		}
		c.roles(st)
	}
	// The first output goes out at once, unless a fault collects tokens.
	now := o.Finished || q.held >= st.interval() || o.First && st.fault.TokensPerChunk == 0
	if !now {
		return
	}
	if n := st.fault.Comments; n > 0 && st.events%n == 0 {
		c.put(st, ": keep-alive", nil, frame{kind: EventComment, index: q.index})
	}
	from, tokens := q.sent, q.held
	q.sent, q.held = from+tokens, 0
	st.tokens += tokens
	c.event = st.appendToken(c.event[:0], q, from, q.sent, o.Finished)
	c.put(st, "data: ", c.event, frame{kind: EventToken, index: q.index, tokens: tokens})
	if !c.cut(st) && st.left == 0 {
		c.tail(st)
	}
}

// roles encodes the role events of a chat, one a choice.
func (c *core) roles(st *stream) {
	if st.gen.api != apiChat {
		return
	}
	for _, q := range st.seqs {
		c.event = st.appendRole(c.event[:0], q)
		c.put(st, "data: ", c.event, frame{kind: EventRole, index: q.index})
	}
}

// tail encodes what follows the last choice.
func (c *core) tail(st *stream) {
	st.ended = true
	if st.gen.includeUsage && !st.fault.NoUsage {
		c.event = st.appendUsageEvent(c.event[:0])
		c.put(st, "data: ", c.event, frame{kind: EventUsage})
	}
	if st.fault.NeverEnd {
		c.bare(st, frame{kind: EventEnd, then: thenHang, outcome: "fault"})
		return
	}
	c.finish(st, "completed")
}

// finish encodes [DONE] and the end of the body.
func (c *core) finish(st *stream, outcome string) {
	if st.fault.NoDone {
		c.endBody(st, outcome)
		return
	}
	c.put(st, "data: ", []byte("[DONE]"), frame{kind: EventDone, then: thenDone, outcome: outcome})
}

// endBody encodes the end of the body alone.
func (c *core) endBody(st *stream, outcome string) {
	f := frame{st: st, kind: EventEnd, from: len(c.buf), then: thenDone, outcome: outcome}
	c.buf = st.appendPrelude(c.buf)
	if st.chunked {
		c.buf = append(c.buf, lastChunk...)
	}
	f.to = len(c.buf)
	c.frames = append(c.frames, f)
}

// bare adds a frame without bytes, but for headers or merged events that still
// wait.
func (c *core) bare(st *stream, f frame) {
	f.st, f.from = st, len(c.buf)
	c.buf = st.appendPrelude(c.buf)
	f.to = len(c.buf)
	c.frames = append(c.frames, f)
}

// cut ends a stream early if a fault says so at this number of tokens.
func (c *core) cut(st *stream) bool {
	at := func(k int) bool { return k >= 0 && st.tokens >= k }
	f := st.fault
	switch {
	case f.Well():
		return false
	case at(f.ErrorAfter):
		c.event = append(c.event[:0], errMidStream.object()...)
		c.put(st, "data: ", c.event, frame{kind: EventError})
		c.finish(st, "error")
	case at(f.EndAfter):
		c.endBody(st, "fault")
	case at(f.TruncateAfter):
		c.bare(st, frame{kind: EventEnd, then: thenClose, outcome: "fault"})
	case at(f.ResetAfter):
		c.bare(st, frame{kind: EventEnd, then: thenReset, outcome: "fault"})
	case at(f.StallAfter) && f.Stall == 0:
		c.bare(st, frame{kind: EventEnd, then: thenHang, outcome: "fault"})
	case at(f.StallAfter) && !st.stalled:
		st.stalled = true
		c.bare(st, frame{kind: EventStall, then: thenStall})
		return false
	default:
		return false
	}
	st.ended = true
	return true
}

// errMidStream is what an engine's failure looks like after the status line.
var errMidStream = &apiError{http.StatusInternalServerError, "InternalServerError", "EngineCore encountered an issue. See stack trace (above) for the root cause.", ""}

const lastChunk = "0\r\n\r\n"

// put frames one event: prefix, payload and the empty line that ends it, as one
// chunk and one write. The end of the body goes with the last event.
func (c *core) put(st *stream, prefix string, payload []byte, f frame) {
	eol := "\n\n"
	if st.fault.CRLF {
		eol = "\r\n\r\n"
	}
	st.events++
	merge := st.fault.Merge > 1 && f.then == thenGoOn
	if merge {
		st.merged = st.appendChunk(st.merged, prefix, payload, eol)
		st.mergedTokens += f.tokens
		if st.mergedEvents++; st.mergedEvents < st.fault.Merge {
			return
		}
		f.tokens = 0 // among those of the merged
	}
	f.st, f.from = st, len(c.buf)
	f.tokens += st.mergedTokens
	c.buf = st.appendPrelude(c.buf)
	if !merge {
		c.buf = st.appendChunk(c.buf, prefix, payload, eol)
	}
	if f.then == thenDone && st.chunked {
		c.buf = append(c.buf, lastChunk...)
	}
	f.to = len(c.buf)
	c.frames = append(c.frames, f)
}

// appendPrelude appends what must go out before the next bytes: late headers,
// merged events.
func (st *stream) appendPrelude(b []byte) []byte {
	b = append(b, st.lateHead...)
	b = append(b, st.merged...)
	st.lateHead, st.merged = nil, st.merged[:0]
	st.mergedEvents, st.mergedTokens = 0, 0
	return b
}

func (st *stream) appendChunk(b []byte, prefix string, payload []byte, eol string) []byte {
	if st.chunked {
		b = strconv.AppendInt(b, int64(len(prefix)+len(payload)+len(eol)), 16)
		b = append(b, "\r\n"...)
	}
	b = append(b, prefix...)
	b = append(b, payload...)
	b = append(b, eol...)
	if st.chunked {
		b = append(b, "\r\n"...)
	}
	return b
}

// write makes the write call of a frame and does what follows it.
func (c *core) write(f *frame, planned int64) {
	st := f.st
	if st.gone.Load() {
		return // its letter is on the way
	}
	if f.then != thenGoOn && f.then != thenStall {
		st.countHTTP(c.srv)
	}
	if f.to > f.from {
		c.sendFrame(f, planned)
	}
	switch f.then {
	case thenGoOn:
		return
	case thenStall:
		st.conn.hold(st.fault.Stall)
		return
	case thenClose:
		st.close = true
	}
	if f.outcome == "error" {
		c.met.mu.Lock()
		c.met.finished[3]++
		c.met.mu.Unlock()
	}
	c.end(planned, st, f.outcome)
	switch f.then {
	case thenDone, thenClose:
		st.conn.answered(st)
	case thenReset:
		st.conn.reset()
	}
}

func (c *core) sendFrame(f *frame, planned int64) {
	st, b := f.st, c.buf[f.from:f.to]
	clk := c.srv.clk
	before := clk.Now()
	direct, err := true, error(nil)
	if n := st.fault.Split; n > 1 {
		direct, err = st.conn.sendSplit(b, n)
	} else {
		direct, err = st.conn.send(b)
	}
	after := clk.Now()
	if err != nil {
		return // the connection's goroutine sees it, too, and cancels
	}
	if c.srv.truth == nil {
		return
	}
	e := TruthEvent{
		Kind: f.kind, Index: int32(f.index), Tokens: int32(f.tokens), Bytes: int32(len(b)),
		Planned: c.srv.monotonic(planned), Before: c.srv.monotonic(before),
	}
	if direct {
		e.After = c.srv.monotonic(after)
	}
	st.truth = append(st.truth, e)
}
