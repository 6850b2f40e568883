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
	catalogue, err := scrape.LoadCatalogue()
	if err != nil {
		out.Text = err.Error()
		return out
	}
	engine, _ := catalogue.DetectEngine(after)
	w := scrape.Between(a.before, after)
	for _, q := range []scrape.Quantity{scrape.TokensOut, scrape.TokensIn, scrape.TokensInComputed, scrape.RequestsFinished} {
		r := catalogue.Read(w, engine, a.run.info.EngineVersion, q, nil)
		if r.Problem.Voids() && r.Problem.Kind == scrape.Missing {
			continue
		}
		c := result.Counter{Quantity: string(q), Name: r.Entry.Name, Semantics: r.Entry.Semantics()}
		if r.Problem.Voids() {
			c.Text = r.Problem.String()
		} else {
			c.Delta, c.Resolution = &r.Total, r.Resolution
		}
		out.Counters = append(out.Counters, c)
	}
	if out.Counters == nil {
		out.Text = "no account: " + metricsPath + " has no counter that the catalogue knows"
	}
	return out
}
