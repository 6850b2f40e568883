package cli

import (
	"context"
	"fmt"
	"net/http"

	"github.com/assay-bench/assay/load/real"
	"github.com/assay-bench/assay/result"
	"github.com/assay-bench/assay/scrape"
)

// account reads the server's own counters before a run and after it has
// drained: off the measuring path, and over every attempt, warm-up included.
type account struct {
	run    *run
	before *scrape.Scrape
	why    string // there is no account, if not empty
}

const metricsPath = "/metrics"

func (r *run) startAccount(ctx context.Context) *account {
	a := &account{run: r}
	a.before, a.why = a.scrape(ctx, "metrics-before.txt")
	return a
}

// scrape fetches, stores and parses the server's metrics.
func (a *account) scrape(ctx context.Context, name string) (*scrape.Scrape, string) {
	p, err := a.run.target.Get(ctx, metricsPath)
	if err != nil {
		return nil, fmt.Sprintf("%s could not be read: %v", metricsPath, err)
	}
	if p.Status != http.StatusOK {
		return nil, fmt.Sprintf("%s answers HTTP %d", metricsPath, p.Status)
	}
	if err := a.run.writer.WriteServer(name, p.Body); err != nil {
		return nil, err.Error()
	}
	return parsePage(p)
}

func parsePage(p real.Page) (*scrape.Scrape, string) {
	s, err := scrape.Parse(p.Body, p.Header.Get("Content-Type"))
	if err != nil {
		return nil, fmt.Sprintf("%s cannot be read: %v", metricsPath, err)
	}
	s.At = scrape.At{Before: int64(p.Before), After: int64(p.After)}
	s.ReadHeader(p.Header)
	return s, ""
}

// finish scrapes again and leaves the deltas; what the client counted is put
// beside them from the records.
func (a *account) finish(ctx context.Context) *result.ServerAccount {
	out := &result.ServerAccount{MetricsURL: a.run.target.Endpoint.Scheme + "://" + a.run.target.Endpoint.Host + a.run.target.Endpoint.Root + metricsPath}
	if a.why == "" && ctx.Err() != nil {
		a.why = "the run was interrupted"
	}
	var after *scrape.Scrape
	if a.why == "" {
		after, a.why = a.scrape(ctx, "metrics-after.txt")
	}
	if a.why != "" {
		out.Text = "no account: " + a.why
		return out
	}
	w := scrape.Between(a.before, after)
	for _, c := range counters() {
		if !a.before.Has(c.Name) {
			continue
		}
		delta, _, problem := w.Counter(c.Name, nil)
		if problem.Voids() {
			c.Text = problem.String()
		} else {
			c.Delta = &delta
		}
		out.Counters = append(out.Counters, c)
	}
	if out.Counters == nil {
		out.Text = "no account: " + metricsPath + " has no counter that the catalogue knows"
	}
	return out
}

// counters are the series that are compared, by engine.
func counters() []result.Counter {
	return []result.Counter{
		{Quantity: result.TokensOut, Name: "vllm:generation_tokens_total", Semantics: "tokens that the frontend handled, stop tokens included"},
		{Quantity: result.TokensIn, Name: "vllm:prompt_tokens_total", Semantics: "whole prompts, cached part included, at the first output"},
		{Quantity: result.RequestsFinished, Name: "vllm:request_success_total", Semantics: "finished requests of every reason"},
		{Quantity: result.TokensOut, Name: "llamacpp:tokens_predicted_total", Semantics: "tokens generated"},
		{Quantity: result.TokensIn, Name: "llamacpp:prompt_tokens_total", Semantics: "prompt tokens computed, without those from the cache"},
	}
}
