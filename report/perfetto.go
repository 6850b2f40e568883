package report

import (
	"bufio"
	"cmp"
	"container/heap"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/assay-bench/assay/record"
)

// span is what a trace shows of an attempt.
type span struct {
	id                                  string
	stage, outcome                      string
	scheduled, sent, first, last, ended record.Stamp
	tokens                              int
}

// traceEvent is one entry of the trace event format that Perfetto and Chrome
// read (ph X: a span with a duration; ph M: a name). Times are in microseconds.
type traceEvent struct {
	Name  string         `json:"name"`
	Phase string         `json:"ph"`
	TS    float64        `json:"ts"`
	Dur   float64        `json:"dur,omitempty"`
	PID   int            `json:"pid"`
	TID   int            `json:"tid"`
	Args  map[string]any `json:"args,omitempty"`
}

// Perfetto writes every attempt as a lane of a trace that ui.perfetto.dev and
// chrome://tracing open: waiting (from due to sent), prefill (TTFT: with queue and
// network, as a client sees it) and decode. An attempt takes the first lane that
// is free when it is due.
func Perfetto(w io.Writer, runID string, records func(yield func(*record.Attempt, []record.Event) bool)) error {
	var spans []span
	for a := range records {
		s := span{
			id: a.ID, stage: a.Stage, outcome: string(a.Outcome), scheduled: a.Scheduled, sent: a.Sent,
			first: a.FirstText, last: a.LastText, ended: max(a.Ended, a.LastText, a.Sent, a.Scheduled),
		}
		if a.Usage != nil {
			s.tokens = a.Usage.CompletionTokens
		}
		spans = append(spans, s)
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.scheduled, b.scheduled) })
	b := bufio.NewWriter(w)
	t := &tracer{w: b}
	t.raw(`{"displayTimeUnit":"ms","traceEvents":[`)
	t.event(traceEvent{Name: "process_name", Phase: "M", PID: 1, Args: map[string]any{"name": "assay " + runID}})
	busy := new(lanes)
	for i := range spans {
		s := &spans[i]
		t.attempt(s, busy.take(s.scheduled, s.ended))
	}
	t.raw("]}\n")
	if t.err == nil {
		t.err = b.Flush()
	}
	if t.err != nil {
		return fmt.Errorf("writing the trace: %w", t.err)
	}
	return nil
}

// lanes are those in use, the one that is free first on top.
type lanes []busyLane

type busyLane struct {
	until record.Stamp
	lane  int
}

// take gives a lane that is free from a moment on, and keeps it until another.
func (l *lanes) take(from, until record.Stamp) int {
	lane := len(*l) + 1
	if len(*l) > 0 && (*l)[0].until <= from {
		lane = heap.Pop(l).(busyLane).lane
	}
	heap.Push(l, busyLane{until, lane})
	return lane
}

func (l lanes) Len() int           { return len(l) }
func (l lanes) Less(i, j int) bool { return l[i].until < l[j].until }
func (l lanes) Swap(i, j int)      { l[i], l[j] = l[j], l[i] }
func (l *lanes) Push(x any)        { *l = append(*l, x.(busyLane)) }
func (l *lanes) Pop() any {
	last := (*l)[len(*l)-1]
	*l = (*l)[:len(*l)-1]
	return last
}

// tracer writes events and keeps the first error.
type tracer struct {
	w   *bufio.Writer
	any bool
	err error
}

func (t *tracer) raw(s string) {
	if t.err == nil {
		_, t.err = t.w.WriteString(s)
	}
}

func (t *tracer) event(e traceEvent) {
	if t.any {
		t.raw(",\n")
	}
	t.any = true
	b, err := json.Marshal(e)
	t.err = cmp.Or(t.err, err)
	t.raw(string(b))
}

func (t *tracer) attempt(s *span, lane int) {
	args := map[string]any{"id": s.id, "stage": s.stage, "outcome": s.outcome, "completion_tokens": s.tokens}
	part := func(name string, from, to record.Stamp) {
		if from.Known() && to.Known() && to >= from {
			t.event(traceEvent{Name: name, Phase: "X", TS: float64(from) / 1000, Dur: float64(to-from) / 1000, PID: 1, TID: lane, Args: args})
		}
	}
	part("wait", s.scheduled, s.sent)
	if s.first.Known() {
		part("TTFT", s.sent, s.first)
		part("decode", s.first, s.last)
		return
	}
	part(s.outcome, s.sent, s.ended)
}
