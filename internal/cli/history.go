package cli

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/assay-bench/assay/load/real"
	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/result"
	"github.com/assay-bench/assay/rundir"
	"github.com/assay-bench/assay/scrape"
)

// history reads the server's metrics from a Prometheus server that scrapes it
// anyhow, for users who cannot reach the engines themselves.
type history struct {
	run     *run
	target  *real.Target
	prefix  string // of the API's paths
	catalog *scrape.Catalogue
	log     *rundir.ScrapeWriter
	began   record.Stamp // the load
	// ahead is how far the clock of the Prometheus server is ahead of ours, no less
	// than lo and no more than hi; known once a reply had a Date.
	ahead clockSkew

	first []scrape.Historic // newest page of each instance before the load
}

// historyBefore is how far back a sample from before the load is looked for: the
// longest of usual scrape intervals.
const historyBefore = time.Minute

func (r *run) openHistory() (*history, error) {
	m := &r.cfg.Metrics
	host, path, err := real.SplitPage(m.Prometheus)
	if err != nil {
		return nil, usagef("metrics.prometheus (--prometheus): %w", err)
	}
	t := r.cfg.Target
	t.Headers, t.APIKeyEnv, t.Host = m.Headers, "", ""
	h := &history{run: r}
	if h.catalog, err = scrape.LoadCatalogue(); err != nil {
		return nil, err
	}
	var closeTarget func()
	if h.target, closeTarget, err = openTarget(&t, host, r.clock); err != nil {
		return nil, err
	}
	r.closers = append(r.closers, closeTarget)
	if path, _, _ = strings.Cut(path, "?"); path != metricsPath { // what SplitPage gives for no path
		h.prefix = strings.TrimRight(path, "/")
	}
	return h, nil
}

// start asks once, before the load, so that what is wrong shows now.
func (h *history) start(ctx context.Context) error {
	pages, err := h.pages(ctx)
	if err == nil && len(pages) > 0 {
		// Requests that settled the dialect and the lengths came after the last
		// sample, perhaps, and are none of the load.
		pages, err = h.await(ctx, record.Stamp(h.run.clock.Now()))
	}
	switch {
	case err != nil:
		return &real.TargetError{Text: "--prometheus: " + err.Error()}
	case len(pages) == 0:
		return &real.TargetError{Text: "--prometheus: it has no samples of a known engine of the last minute; see --prometheus-selector"}
	}
	for i := range pages {
		if i+1 == len(pages) || pages[i+1].Instance != pages[i].Instance {
			h.first = append(h.first, pages[i])
		}
	}
	if h.log, err = h.run.writer.Scrapes(); err != nil {
		return err
	}
	h.began = record.Stamp(h.run.clock.Now())
	return nil
}

// pages asks for all samples since a little before the load.
func (h *history) pages(ctx context.Context) ([]scrape.Historic, error) {
	back := historyBefore
	if h.began != 0 {
		back += time.Duration(record.Stamp(h.run.clock.Now()) - h.began)
	}
	q := url.Values{"query": {h.catalog.PrometheusQuery(h.run.cfg.Metrics.Selector, back)}}
	p, err := real.NewSource(h.target, h.prefix+"/api/v1/query?"+q.Encode()).Scrape(ctx)
	if err != nil {
		return nil, err
	}
	h.ahead.narrow(&p, h.run.clock.Epoch())
	pages, err := scrape.FromPrometheus(p.Body)
	if err != nil && p.Status != http.StatusOK {
		return nil, fmt.Errorf("HTTP %d: %w", p.Status, err)
	}
	return pages, err
}

// finish waits for a sample from after the load, and stores all pages as if we had scraped them ourselves.
func (h *history) finish(ctx context.Context) *result.ServerAccount {
	out := &result.ServerAccount{MetricsURL: redactedURL(h.run.cfg.Metrics.Prometheus)}
	drained := record.Stamp(h.run.clock.Now())
	pages, err := h.await(ctx, drained)
	if err != nil {
		out.Text = "no account: " + err.Error()
	}
	where := redactedURL(h.run.cfg.Metrics.Prometheus)
	if by := h.ahead.correction(); by != 0 {
		h.run.writer.Meta().Warnings = append(h.run.writer.Meta().Warnings, result.Warning{Code: "prometheus-clock", Text: fmt.Sprintf(
			"the clock of the Prometheus server is ahead of ours by %.1f to %.1f s: the times of its samples were moved by %.1f s",
			h.ahead.lo.Seconds(), h.ahead.hi.Seconds(), by.Seconds())})
	}
	for _, s := range rounds(pages, where, h.run.clock.Epoch().Add(h.ahead.correction()), h.began, drained) {
		if err := h.log.Append(s.Scrape, s.body); err != nil {
			out.Text = "the account is not whole: " + err.Error()
			break
		}
	}
	if err := h.log.Close(); err != nil && out.Text == "" {
		out.Text = "the account is not whole: " + err.Error()
	}
	return out
}

// await asks again until every instance has a sample from after a moment, for at
// most two scrape intervals.
func (h *history) await(ctx context.Context, after record.Stamp) ([]scrape.Historic, error) {
	for told := false; ; told = true {
		pages, err := h.pages(ctx)
		if err != nil || ctx.Err() != nil {
			return pages, err
		}
		gap := interval(pages)
		waited := time.Duration(record.Stamp(h.run.clock.Now()) - after)
		if h.all(pages, after) || waited > min(2*gap, historyBefore)+time.Second {
			return pages, nil
		}
		if !told {
			h.run.say("waiting for the next scrape of Prometheus, one every %s", gap)
		}
		rest(ctx, max(min(gap/4, 5*time.Second), 100*time.Millisecond))
	}
}

// stamp is a time of the Prometheus server on the clock of the run.
func (h *history) stamp(t time.Time) record.Stamp {
	return record.Stamp(t.Sub(h.run.clock.Epoch()) - h.ahead.correction())
}

// clockSkew bounds how far another clock is ahead, by the Date of its replies,
// which is cut to the second.
type clockSkew struct {
	lo, hi time.Duration
	known  bool
}

// narrow takes one more reply.
func (c *clockSkew) narrow(p *real.Page, epoch time.Time) {
	var page scrape.Scrape
	page.ReadHeader(p.Header)
	lo, hi, ok := page.Skew(epoch.Add(time.Duration(p.Before)), epoch.Add(time.Duration(p.After)))
	switch {
	case !ok:
	case !c.known:
		c.lo, c.hi, c.known = lo, hi, true
	default:
		c.lo, c.hi = max(c.lo, lo), min(c.hi, hi)
	}
}

// correction is the middle of the bounds, if they say for sure that the clocks
// differ; else 0.
func (c *clockSkew) correction() time.Duration {
	if !c.known || c.lo > c.hi || c.lo <= 0 && c.hi >= 0 {
		return 0
	}
	return c.lo + (c.hi-c.lo)/2
}

// all reports whether every instance has a page from after a moment.
func (h *history) all(pages []scrape.Historic, after record.Stamp) bool {
	late := make(map[string]bool)
	for _, p := range pages {
		late[p.Instance] = late[p.Instance] || h.stamp(p.Time) >= after
	}
	for _, ok := range late {
		if !ok {
			return false
		}
	}
	return len(late) > 0
}

// interval between the pages of one instance: the median.
func interval(pages []scrape.Historic) time.Duration {
	var gaps []time.Duration
	for i := 1; i < len(pages); i++ {
		if pages[i].Instance == pages[i-1].Instance && pages[i].Job == pages[i-1].Job {
			gaps = append(gaps, pages[i].Time.Sub(pages[i-1].Time))
		}
	}
	if len(gaps) == 0 {
		return 15 * time.Second
	}
	slices.Sort(gaps)
	return gaps[len(gaps)/2]
}

// storedPage is a page to be stored.
type storedPage struct {
	rundir.Scrape
	body []byte
}

// rounds makes rounds of pages: Prometheus scrapes each instance at its own
// phase, and the k-th scrapes of all of them in an interval are one round. Of the
// rounds before the load and after it, the nearest is kept.
func rounds(pages []scrape.Historic, where string, epoch time.Time, began, drained record.Stamp) []storedPage {
	gap := max(interval(pages), time.Millisecond)
	var out []storedPage
	var origin time.Time
	for _, p := range pages {
		if origin.IsZero() || p.Time.Before(origin) {
			origin = p.Time
		}
	}
	when := make(map[int]rundir.When)
	var phase time.Time
	base := 0
	for i, p := range pages {
		if i == 0 || p.Instance != pages[i-1].Instance || p.Job != pages[i-1].Job {
			phase, base = p.Time, int(p.Time.Sub(origin)/gap)
		}
		at := record.Stamp(p.Time.Sub(epoch))
		s := storedPage{body: p.Body, Scrape: rundir.Scrape{
			URL: fmt.Sprintf("%s (%s %s)", where, p.Job, p.Instance), Round: base + int((p.Time.Sub(phase)+gap/2)/gap),
			Before: at, After: at.Add(p.Took), Status: http.StatusOK, ContentType: "text/plain; version=0.0.4",
		}}
		is := rundir.DuringLoad
		switch {
		case s.After <= began:
			is = rundir.BeforeLoad
		case s.Before >= drained:
			is = rundir.AfterLoad
		}
		if was, ok := when[s.Round]; ok && was != is {
			is = rundir.DuringLoad
		}
		when[s.Round] = is
		out = append(out, s)
	}
	last, first := -1, -1 // the last round before the load, the first after it
	for n, w := range when {
		if w == rundir.BeforeLoad {
			last = max(last, n)
		}
		if w == rundir.AfterLoad && (first < 0 || n < first) {
			first = n
		}
	}
	out = slices.DeleteFunc(out, func(s storedPage) bool { return s.Round < last || first >= 0 && s.Round > first })
	for i := range out {
		out[i].When = when[out[i].Round]
	}
	return out
}
