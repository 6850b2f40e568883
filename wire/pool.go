package wire

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/assay-bench/assay/record"
)

// link is what both transports know of a connection.
type link struct {
	client    *Client
	address   int // index into the route
	remote    string
	idleSince record.Stamp
	fit       bool // for reuse
	streamed  bool // the last reply was a stream
}

func (k *link) info() *link { return k }

func (k *link) expired(now record.Stamp) bool {
	return time.Duration(now-k.idleSince) >= k.client.maxIdle()
}

// afterStream notes whether the server kept the connection open after its last
// reply; only a streamed reply counts. Reuse is what shows it, so that the
// connection has been unused from idleSince until now.
func (k *link) afterStream(alive bool) {
	s := &k.client.stats
	switch {
	case !k.streamed:
	case alive:
		s.survived.Add(1)
	case time.Duration(k.client.now()-k.idleSince) < closedEarly:
		s.early.Add(1)
	}
}

// learn takes the server's Keep-Alive header, with a margin of a second (or
// half of a shorter time) against the race with its close.
func (k *link) learn(h http.Header) {
	for _, part := range strings.Split(h.Get("Keep-Alive"), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		secs, err := strconv.Atoi(strings.TrimSpace(value))
		if !strings.EqualFold(name, "timeout") || err != nil || secs <= 0 || secs > 1e6 {
			continue
		}
		d := time.Duration(secs) * time.Second
		k.client.learned.Store(int64(d - min(time.Second, d/2)))
	}
}

// pooled is a connection of either transport.
type pooled interface {
	info() *link
	// dead reports whether the peer has closed it, as far as can be known.
	dead() bool
	close()
}

// pool holds the unused connections of a transport. It is safe for use by many
// goroutines at once.
type pool[C pooled] struct {
	client *Client
	mu     sync.Mutex
	idle   map[int][]C // by address, last used last
	closed bool
}

func newPool[C pooled](c *Client) pool[C] {
	return pool[C]{client: c, idle: make(map[int][]C)}
}

// close closes the unused connections, and those that are put back later.
func (p *pool[C]) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, list := range p.idle {
		for _, cn := range list {
			p.discard(cn)
		}
	}
	clear(p.idle)
}

// take returns an unused connection that is fit; ok is false if there is none.
func (p *pool[C]) take(turn int64, fresh bool) (cn C, ok bool) {
	c := p.client
	if fresh || c.cfg.ConnMode == ConnPerRequest {
		return cn, false
	}
	key := 0
	if r := c.route.Load(); r != nil {
		key = int(turn % int64(len(r.addrs)))
	}
	for {
		cn, ok = p.pop(key)
		switch {
		case !ok:
			return cn, false
		case cn.info().expired(c.now()):
			p.discard(cn)
		case cn.dead():
			c.stats.stale.Add(1)
			cn.info().afterStream(false)
			p.discard(cn)
		default:
			return cn, true
		}
	}
}

// pop takes the unused connection of an address that was used last.
func (p *pool[C]) pop(key int) (cn C, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.idle[key]
	if len(list) == 0 {
		return cn, false
	}
	cn = list[len(list)-1]
	p.idle[key] = list[:len(list)-1]
	return cn, true
}

// settle takes a connection after its use: it is kept if it is fit.
func (p *pool[C]) settle(cn C) {
	c, k := p.client, cn.info()
	if !k.fit || c.cfg.ConnMode == ConnPerRequest || k.streamed && c.closesStreams() {
		p.discard(cn)
		return
	}
	p.put(cn)
}

// put makes a connection available, and drops those at the old end of the list
// that have expired: with the last used taken first, nobody else looks there.
func (p *pool[C]) put(cn C) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		p.discard(cn)
		return
	}
	k := cn.info()
	key := 0
	if p.client.cfg.ConnMode == ConnSpread {
		key = k.address
	}
	now := p.client.now()
	k.idleSince, k.fit = now, false
	list := p.idle[key]
	old := 0
	for old < len(list) && list[old].info().expired(now) {
		p.discard(list[old])
		old++
	}
	if old > 0 {
		list = append(list[:0], list[old:]...)
	}
	p.idle[key] = append(list, cn)
}

func (p *pool[C]) discard(cn C) {
	p.client.stats.closed.Add(1)
	cn.close()
}
