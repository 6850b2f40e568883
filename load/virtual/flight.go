package virtual

import (
	"net/http"
	"strconv"

	"github.com/assay-bench/assay/engine"
	"github.com/assay-bench/assay/load/sched"
	"github.com/assay-bench/assay/record"
)

// bytesPerToken is the size of the text that a simulated token stands for:
// about that of English.
const bytesPerToken = 4

// flight is one attempt while it happens. It is used again for later ones.
type flight struct {
	attempt record.Attempt
	events  []record.Event
	usage   record.Usage
	serve   engine.Request
	at      *replica // that serves it; nil if it was refused
	slot    int
}

// planned is the attempt of a request of which nothing happened yet.
func planned(a *sched.Action, cfg *Config) record.Attempt {
	return record.Attempt{
		ID:                cfg.IDPrefix + strconv.FormatInt(a.Request.Index, 10),
		Request:           a.Request.Index,
		Session:           a.Request.Session,
		Turn:              a.Request.Turn,
		Turns:             a.Request.Turns,
		PromptTokensAsked: a.Request.PromptTokens,
		MaxTokens:         a.Request.MaxTokens,
		Streamed:          true,
		Scheduled:         a.Scheduled,
	}
}

// begin sends a request.
func (f *flight) begin(a *sched.Action, now record.Stamp, cfg *Config) {
	f.attempt = planned(a, cfg)
	f.attempt.Dispatched, f.attempt.ConnReady = now, now
	f.attempt.Sent, f.attempt.SentLast = now, now
	f.attempt.ConnReused = true
	f.attempt.Model = cfg.Engine.Model.Name
	f.events = f.events[:0]
	f.slot, f.at = a.Slot, nil
	f.serve = engine.Request{
		ID:           uint64(a.Request.Index),
		PromptTokens: a.Request.PromptTokens,
		OutputTokens: a.Request.MaxTokens,
		Data:         f,
	}
	if cfg.Shape != nil {
		cfg.Shape(&a.Request, &f.serve)
	}
}

// output streams what a step yielded to the client.
func (f *flight) output(o *engine.Output, now record.Stamp) {
	if o.First {
		f.attempt.Headers, f.attempt.Status = now, http.StatusOK
	}
	e := record.Event{Tokens: int32(o.NewTokens)}
	written := o.NewTokens
	if o.Finished {
		e.Flags |= record.FlagFinish
		if o.FinishReason == engine.FinishStop {
			written-- // a stop token is counted and has no text
		}
	}
	if written > 0 {
		e.Flags |= record.FlagText | record.FlagAnswer
		e.TextBytes = int32(written * bytesPerToken)
		e.AnswerBytes = e.TextBytes
	}
	f.observe(e, now)
	if o.Finished {
		f.finish(o, now)
	}
}

// finish sends the usage and the terminal marker.
func (f *flight) finish(o *engine.Output, now record.Stamp) {
	f.usage = record.Usage{
		PromptTokens:     f.serve.PromptTokens,
		CompletionTokens: f.serve.Generated,
		CachedTokens:     f.serve.CachedTokens,
	}
	f.observe(record.Event{Flags: record.FlagUsage}, now)
	f.observe(record.Event{Flags: record.FlagDone}, now)
	a := &f.attempt
	a.Usage, a.FinishReason = &f.usage, o.FinishReason
	a.EOF, a.Ended, a.Outcome = now, now, record.Completed
}

func (f *flight) observe(e record.Event, now record.Stamp) {
	e.At, e.Read = now, now
	f.attempt.Observe(e)
	f.events = append(f.events, e)
}

// refused is the reply to a request that the engine would not take; why is in
// the attempt already.
func (f *flight) refused(now record.Stamp) {
	a := &f.attempt
	a.Headers, a.EOF, a.Ended = now, now, now
	a.Status, a.Outcome = http.StatusBadRequest, record.HTTPError
	a.Error = "HTTP 400: " + a.Error
}
