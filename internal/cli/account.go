package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/assay-bench/assay/load/real"
	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/result"
	"github.com/assay-bench/assay/rundir"
	"github.com/assay-bench/assay/scrape"
)

// metricsPath is where a server's metrics are looked for without being told.
const metricsPath = "/metrics"

// openSources makes the sources of the server's metrics: those asked for, or
// /metrics below the root of the target. Nothing is dialled yet.
func (r *run) openSources(url string) error {
	m := &r.cfg.Metrics
	switch {
	case m.Off:
		return nil
	case m.Prometheus != "":
		var err error
		r.history, err = r.openHistory()
		return err
	}
	if len(m.URLs) == 0 {
		own := r.cfg.Target
		own.VerifySend = false
		t, closeTarget, err := openTarget(&own, url, r.clock)
		if err != nil {
			return err
		}
		r.closers = append(r.closers, closeTarget)
		r.sources = []*real.Source{real.NewSource(t, t.Endpoint.Root+metricsPath)}
		return nil
	}
	for _, raw := range m.URLs {
		s, err := r.openSource(raw)
		if err != nil {
			return usagef("metrics.urls (--metrics-url): %w", err)
		}
		r.sources = append(r.sources, s)
	}
	return nil
}

// openSource makes one source. A host other than the target's never sees the
// target's headers or key.
func (r *run) openSource(raw string) (*real.Source, error) {
	host, path, err := real.SplitPage(raw)
	if err != nil {
		return nil, err
	}
	t := r.cfg.Target
	same, err := real.ParseEndpoint(host)
	if err != nil {
		return nil, err
	}
	if same.Host != r.target.Endpoint.Host || same.Scheme != r.target.Endpoint.Scheme {
		t.Headers, t.APIKeyEnv, t.Host = nil, "", ""
	}
	t.VerifySend = false
	t.Headers = append(t.Headers[:len(t.Headers):len(t.Headers)], r.cfg.Metrics.Headers...)
	target, closeTarget, err := openTarget(&t, host, r.clock)
	if err != nil {
		return nil, err
	}
	r.closers = append(r.closers, closeTarget)
	return real.NewSource(target, path), nil
}

// account reads the server's own metrics before a run, during it, and after it
// has drained, off the measuring path. What they say is concluded from the
// stored scrapes.
type account struct {
	run     *run
	sampler *real.Sampler
	why     string // there is no account, if not empty

	mu    sync.Mutex
	log   *rundir.ScrapeWriter
	when  rundir.When
	early []real.Scraped // those of before the load, until it is known that they are of use
	err   error          // of storing
}

// startAccount scrapes for the first time. An error is one of a source that was
// asked for; without one, a server that tells nothing is no mistake.
func (r *run) startAccount(ctx context.Context) (*account, error) {
	a := &account{run: r, when: rundir.BeforeLoad}
	if r.history != nil {
		return a, r.history.start(ctx)
	}
	if len(r.sources) == 0 {
		a.why = "it was not asked for"
		return a, nil
	}
	a.sampler = real.NewSampler(r.sources, r.clock, r.cfg.scrapeInterval(), a.store)
	a.sampler.Round(ctx)
	for i := range a.early {
		if a.why = refusal(&a.early[i]); a.why != "" {
			break
		}
	}
	switch {
	case a.why != "" && len(r.cfg.Metrics.URLs) > 0 && ctx.Err() == nil:
		return nil, &real.TargetError{Text: "--metrics-url: " + a.why}
	case a.why != "":
		return a, nil
	}
	var err error
	if a.log, err = r.writer.Scrapes(); err != nil {
		return nil, err
	}
	for i := range a.early {
		a.append(&a.early[i])
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.when = rundir.DuringLoad
	return a, nil
}

// pages are those of before the load, of the sources that answered.
func (a *account) pages() []*scrape.Scrape {
	var out []*scrape.Scrape
	if h := a.run.history; h != nil {
		for _, p := range h.first {
			if page, err := scrape.Parse(p.Body, ""); err == nil {
				out = append(out, page)
			}
		}
	}
	for _, s := range a.early {
		if s.Err == nil {
			if page, err := scrape.Parse(s.Page.Body, s.Page.Header.Get("Content-Type")); err == nil {
				out = append(out, page)
			}
		}
	}
	return out
}

// refusal says why a page cannot be used; "" if it can.
func refusal(s *real.Scraped) string {
	switch {
	case s.Err != nil:
		return fmt.Sprintf("%s could not be read: %v", s.URL, s.Err)
	case s.Page.Status != http.StatusOK:
		return fmt.Sprintf("%s answers HTTP %d", s.URL, s.Page.Status)
	}
	if _, err := scrape.Parse(s.Page.Body, s.Page.Header.Get("Content-Type")); err != nil {
		return fmt.Sprintf("%s: %v", s.URL, err)
	}
	return ""
}

// store takes a scrape; it is called from several goroutines at once.
func (a *account) store(s real.Scraped) {
	a.mu.Lock()
	before := a.when == rundir.BeforeLoad
	if before {
		a.early = append(a.early, s)
	}
	a.mu.Unlock()
	if !before {
		a.append(&s)
	}
}

func (a *account) append(s *real.Scraped) {
	a.mu.Lock()
	defer a.mu.Unlock()
	one := rundir.Scrape{
		URL: s.URL, Round: s.Round, When: a.when, Before: s.Page.Before, After: s.Page.After, Status: s.Page.Status,
		ContentType: s.Page.Header.Get("Content-Type"), Date: s.Page.Header.Get("Date"), Process: s.Page.Header.Get("Process-Start-Time-Unix"),
	}
	body := s.Page.Body
	switch {
	case s.Err != nil:
		one.Error, body = s.Err.Error(), nil
	case s.Page.Status != http.StatusOK:
		one.Error, body = fmt.Sprintf("HTTP %d", s.Page.Status), nil
	}
	if err := a.log.Append(one, body); err != nil && a.err == nil {
		a.err = err
	}
}

// start scrapes again and again until [account.finish].
func (a *account) start(ctx context.Context) {
	if a.log != nil {
		a.sampler.Start(ctx)
	}
}

// aim tells of the measured window.
func (a *account) aim(w record.Window) {
	if a.log != nil {
		a.sampler.Aim(w)
	}
}

// finish scrapes for the last time, when nothing is in flight any more, and says
// where the account is from. What it says is made from the stored scrapes.
func (a *account) finish(ctx context.Context) *result.ServerAccount {
	if a.run.history != nil {
		return a.run.history.finish(ctx)
	}
	out := new(result.ServerAccount)
	var urls []string
	for _, s := range a.run.sources {
		urls = append(urls, s.URL())
	}
	out.MetricsURL = strings.Join(urls, " ")
	if a.log == nil {
		out.Text = "no account: " + a.why
		return out
	}
	a.sampler.Stop()
	if ctx.Err() == nil {
		a.mu.Lock()
		a.when = rundir.AfterLoad
		a.mu.Unlock()
		a.sampler.Round(ctx)
	}
	if err := errors.Join(a.err, a.log.Close()); err != nil {
		out.Text = "the account is not whole: " + strings.Split(err.Error(), "\n")[0]
	}
	return out
}

// The interval between scrapes, unless one was asked for, is a tenth of the
// window, between these bounds. A scrape costs vLLM some 10 ms of its API process
// and delays one gap of every stream: at 5 s that is far less than one gap in a
// hundred, which leaves even p99 alone. The window's edges are aimed at apart.
const (
	shortestInterval = time.Second
	longestInterval  = 5 * time.Second
)

func (c *config) scrapeInterval() time.Duration {
	if c.Metrics.Interval > 0 {
		return c.Metrics.Interval
	}
	if c.Stage.Duration == 0 {
		return shortestInterval
	}
	return min(max(c.Stage.Duration/10, shortestInterval), longestInterval)
}
