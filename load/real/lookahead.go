package real

import (
	"fmt"
	"sync"

	"github.com/assay-bench/assay/record"
)

// The look-ahead holds up to aheadMost built requests, and fewer where prompts
// are so long that their bodies would fill aheadBytes.
const (
	aheadMost  = 512
	aheadLeast = 16
	aheadBytes = 32 << 20
	// bytesPerToken of an encoded prompt, roughly, as text or as token ids.
	bytesPerToken = 6
)

// lookAhead builds requests and their bodies before they are due, so that the
// dispatch path does not wait for a prompt. It is the source of a scheduler.
type lookAhead struct {
	target   *Target
	requests func() (record.Request, bool)
	ready    chan built
	primed   chan struct{} // closed when ready is full, or holds all there is

	mu     sync.Mutex
	bodies map[int64][]byte // of requests that the scheduler drew and has not sent
	over   bool
	// promises of the bodies of later turns.
	promises map[int64]*promise
}

type built struct {
	r    record.Request
	body []byte
}

// newLookAhead makes a look-ahead for prompts of about promptTokens.
func newLookAhead(t *Target, promptTokens int, requests func() (record.Request, bool)) *lookAhead {
	size := min(aheadMost, max(aheadLeast, aheadBytes/(bytesPerToken*max(promptTokens, 1))))
	return &lookAhead{
		target: t, requests: requests, ready: make(chan built, size), primed: make(chan struct{}),
		bodies: make(map[int64][]byte),
	}
}

// build keeps the look-ahead full until there are no more requests or quit is
// closed.
func (l *lookAhead) build(quit <-chan struct{}) error {
	defer close(l.ready)
	prime := sync.OnceFunc(func() { close(l.primed) })
	defer prime()
	for {
		r, ok := l.requests()
		if !ok {
			return nil
		}
		body, err := l.target.Dialect.AppendRequest(nil, &r, &l.target.Options)
		if err != nil {
			return fmt.Errorf("encoding request %d: %w", r.Index, err)
		}
		r.Prompt = record.Prompt{} // in the body now
		select {
		case l.ready <- built{r, body}:
			continue
		default:
			prime()
		}
		select {
		case l.ready <- built{r, body}:
		case <-quit:
			return nil
		}
	}
}

// Next implements sched.Source.
func (l *lookAhead) Next() (record.Request, bool) {
	b, ok := <-l.ready
	if !ok {
		return record.Request{}, false
	}
	l.mu.Lock()
	if !l.over {
		l.bodies[b.r.Index] = b.body
	}
	l.mu.Unlock()
	return b.r, true
}

// end says that no request is sent any more: what is still drawn needs no body.
// An overload may have held back millions.
func (l *lookAhead) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	clear(l.bodies)
}

// promise keeps the promise of a body.
func (l *lookAhead) promise(p *promise) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.promises == nil {
		l.promises = make(map[int64]*promise)
	}
	l.promises[p.r.Index] = p
}

// take returns the body of a request that was drawn, once, or the promise of one
// that is not there yet.
func (l *lookAhead) take(index int64) ([]byte, *promise) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.promises[index]; p != nil {
		delete(l.promises, index)
		if p.built() && p.err == nil {
			return p.body, nil
		}
		return nil, p
	}
	b := l.bodies[index]
	delete(l.bodies, index)
	return b, nil
}
