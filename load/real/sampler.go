package real

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/assay-bench/assay/internal/clock"
	"github.com/assay-bench/assay/record"
)

// scrapeTimeout bounds one scrape: Prometheus gives a target 10 s by default, and
// a page that takes half of that is of no use for a window's edge.
const scrapeTimeout = 5 * time.Second

// Source is one page of metrics. It has connections of its own, so that a scrape
// neither takes one from a measured request nor is counted among them.
type Source struct {
	target *Target
	path   string // with the query
}

// NewSource reads the page at path, which may have a query, of the target's host.
func NewSource(t *Target, path string) *Source { return &Source{target: t, path: path} }

// URL of the page, for people and files: without credentials and query.
func (s *Source) URL() string {
	path, _, _ := strings.Cut(s.path, "?")
	return s.target.Endpoint.Scheme + "://" + s.target.Endpoint.Host + path
}

// SplitPage takes the URL of a page of metrics apart: the URL of its host, with
// credentials if it has any, and the path on it with the query. A URL without a
// path means /metrics. Errors never repeat credentials.
func SplitPage(raw string) (host, path string, err error) {
	u, err := url.Parse(WithScheme(raw))
	if err != nil {
		return "", "", errors.New("the URL cannot be parsed: want http://HOST:PORT/metrics")
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return "", "", errors.New("want http://HOST:PORT/metrics, or https")
	}
	path = u.EscapedPath()
	if strings.Trim(path, "/") == "" {
		path = "/metrics"
	}
	if u.RawQuery != "" {
		path += "?" + u.RawQuery
	}
	h := url.URL{Scheme: u.Scheme, Host: u.Host, User: u.User, RawQuery: u.RawQuery}
	return h.String(), path, nil
}

// exposition is what is asked for of a page of metrics, as Prometheus does:
// protobuf where the target offers it, since only that has native histograms, else
// text.
const exposition = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.7," +
	"text/plain;version=0.0.4;q=0.5,*/*;q=0.1"

// Scrape fetches the page once.
func (s *Source) Scrape(ctx context.Context) (Page, error) {
	ctx, cancel := context.WithTimeout(ctx, scrapeTimeout)
	defer cancel()
	p, err := s.target.get(ctx, s.path, exposition)
	if errors.Is(err, context.DeadlineExceeded) {
		return p, fmt.Errorf("no reply within %s", scrapeTimeout)
	}
	if err != nil {
		return p, errors.New(s.target.secrets.redact(err.Error()))
	}
	return p, nil
}

// Scraped is what became of one scrape.
type Scraped struct {
	URL   string
	Round int
	// Page is empty but for its stamps if Err is set.
	Page Page
	Err  error
}

// Sampler scrapes sources again and again while a load runs, in a goroutine of
// its own. It only fetches and hands on: bodies are parsed when the run is over.
type Sampler struct {
	sources  []*Source
	clock    *clock.Clock
	interval time.Duration
	store    func(Scraped)

	round int
	poke  chan struct{}
	stop  context.CancelFunc
	done  sync.WaitGroup

	mu      sync.Mutex
	window  record.Window // the measured one; its ends are 0 while not declared
	aimed   bool          // the scrape just before the end was made
	slowest time.Duration
}

// NewSampler prepares to scrape every interval. Store is called from several
// goroutines at once, and must not keep them long.
func NewSampler(sources []*Source, k *clock.Clock, interval time.Duration, store func(Scraped)) *Sampler {
	return &Sampler{sources: sources, clock: k, interval: interval, store: store, poke: make(chan struct{}, 1), stop: func() {}}
}

// Round scrapes all sources once, at the same time, and returns when all have
// answered or failed. It is not for use while the sampler runs.
func (s *Sampler) Round(ctx context.Context) {
	var all sync.WaitGroup
	for _, src := range s.sources {
		all.Go(func() {
			out := Scraped{URL: src.URL(), Round: s.round}
			before := record.Stamp(s.clock.Now())
			out.Page, out.Err = src.Scrape(ctx)
			if out.Err != nil {
				out.Page = Page{Before: before, After: record.Stamp(s.clock.Now())}
			}
			s.mu.Lock()
			if out.Err == nil {
				s.slowest = max(s.slowest, time.Duration(out.Page.After-out.Page.Before))
			}
			s.mu.Unlock()
			s.store(out)
		})
	}
	all.Wait()
	s.round++
}

// Start begins to scrape; [Sampler.Stop] ends it.
func (s *Sampler) Start(ctx context.Context) {
	ctx, s.stop = context.WithCancel(ctx)
	s.done.Go(func() { s.run(ctx) })
}

// Stop cuts off a scrape that is under way and waits for the goroutine.
func (s *Sampler) Stop() {
	s.stop()
	s.done.Wait()
}

// Aim tells of the measured window as soon as it has begun: one scrape is made
// at once, just inside its start, and one just before its end, if that is
// declared. The server's window is as long as the client's then, whatever the
// interval is. Calls before it has begun do nothing.
func (s *Sampler) Aim(w record.Window) {
	s.mu.Lock()
	begins := s.window.Start == 0 && w.Start != 0
	s.window = w
	s.mu.Unlock()
	if !begins {
		return
	}
	select {
	case s.poke <- struct{}{}:
	default:
	}
}

func (s *Sampler) run(ctx context.Context) {
	timer := time.NewTimer(s.interval)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-s.poke:
		}
		s.Round(ctx)
		timer.Reset(s.wait())
	}
}

// wait is how long to rest before the next round.
func (s *Sampler) wait() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.window.End == 0 || s.aimed {
		return s.interval
	}
	// A scrape counts only if its reply is there before the window's end.
	lead := 2*s.slowest + 20*time.Millisecond
	left := time.Duration(s.window.End-record.Stamp(s.clock.Now())) - lead
	if left > s.interval {
		return s.interval
	}
	s.aimed = true
	return max(left, 0)
}
