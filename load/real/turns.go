package real

import (
	"context"
	"fmt"

	"github.com/assay-bench/assay/load/sched"
	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/workload"
)

// promise is the body of a later turn. It is built from the reply to the turn
// before, while the session rests: nothing on the dispatch path waits for it unless
// the turn is due at once.
type promise struct {
	r     record.Request
	ready chan struct{} // closed when body or err is there
	body  []byte
	err   error
}

// built reports whether nothing waits any more.
func (p *promise) built() bool {
	select {
	case <-p.ready:
		return true
	default:
		return false
	}
}

// NewSessionRunner prepares a load of sessions on the target. Replies are kept while
// they come, as long as their session goes on.
func NewSessionRunner(t *Target, cfg sched.Config, promptTokens int, talks *workload.Conversations) (*Runner, error) {
	r := newRunner(t, cfg, promptTokens, talks.Next)
	r.talks = talks
	r.broken = make(chan error, 1)
	r.pool.New = func() any {
		x := t.newExchange()
		x.reader.Collect()
		return x
	}
	cfg.After = func(q *record.Request, first, ended record.Stamp) (record.Request, record.Stamp, bool) {
		next, at, ok := talks.After(q, first, ended)
		if ok {
			r.following = &promise{r: next, ready: make(chan struct{})}
			r.source.promise(r.following)
		}
		return next, at, ok
	}
	return r, r.schedule(cfg)
}

// endTurn is the scheduler's step at the end of a request of a session: what
// follows depends on whether it was answered. r.mu is held.
func (r *Runner) endTurn(now record.Stamp, d *due, x *exchange, out []sched.Action) []sched.Action {
	if !x.answered() {
		r.talks.Over(d.Request.Session)
		return r.sched.Abandoned(now, d.Slot, out)
	}
	r.talks.Replied(&d.Request, x.a.Usage)
	r.following = nil
	out = r.sched.Ended(now, d.Slot, out)
	if p := r.following; p != nil {
		r.streams.Add(1)
		go r.prepare(p, record.Message{Content: string(x.reader.Answer()), ToolCalls: x.reader.ToolCalls()})
	}
	return out
}

// prepare builds the body of a later turn.
func (r *Runner) prepare(p *promise, reply record.Message) {
	defer r.streams.Done()
	defer close(p.ready)
	r.talks.Fill(&p.r, reply)
	p.body, p.err = r.target.Dialect.AppendRequest(nil, &p.r, &r.target.Options)
	p.r.Prompt = record.Prompt{}
	if p.err == nil {
		return
	}
	select {
	case r.broken <- fmt.Errorf("encoding request %d: %w", p.r.Index, p.err):
	default: // another one ends the run already
	}
}

// await waits for the body. Without one the run is about to be cut off, and the
// attempt is never sent.
func (d *due) await(cut context.Context) {
	if d.promise == nil {
		return
	}
	<-d.promise.ready
	if d.body = d.promise.body; d.promise.err != nil {
		<-cut.Done()
	}
	d.promise = nil
}
