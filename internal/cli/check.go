package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/assay-bench/assay/experiment"
	"github.com/assay-bench/assay/load/real"
	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/report"
	"github.com/assay-bench/assay/result"
	"github.com/assay-bench/assay/scrape"
)

type checkCmd struct {
	URL  *string  `arg:"" optional:"" help:"Endpoint, as for assay run; none: the built-in engine."`
	File []string `short:"f" name:"file" placeholder:"bench.yaml" help:"Configuration file; later ones win."`
	Set  []string `name:"set" placeholder:"KEY=VALUE" sep:"none" help:"Set any key of the configuration."`

	targetFlags
	metricsFlags

	JSON  bool `name:"json" help:"Print the check as JSON."`
	Quiet bool `short:"q" help:"No progress on standard error."`

	Sim simFlags `embed:"" group:"Built-in engine"`
}

// Help implements kong's detailed help.
func (checkCmd) Help() string {
	return `Sends 20 requests of 32 tokens, one after the other, in a quiet window, and asks:
do the server's counters agree with what the client counts, does anybody else use
the server, does each event carry one token, are streams held back, do connections
live on, and what does a request cost that generates nothing. The exit code is 1 if
one of them fails.

  assay check http://localhost:8000
  assay run http://localhost:8000 --require-check`
}

// Run implements the command.
func (c *checkCmd) Run(e *env) error {
	l := loadFlags{baseFlags: baseFlags{File: c.File, Set: c.Set}}
	cfg, err := l.resolve(e.stdin, &outputFlags{}, &c.targetFlags, c.URL)
	if err == nil {
		err = c.metricsFlags.put(&cfg)
	}
	if err == nil {
		err = cfg.validate()
	}
	if err != nil {
		return err
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	r := &run{cfg: cfg, env: e, cmd: &runCmd{Sim: c.Sim, outputFlags: outputFlags{Quiet: c.Quiet}}}
	defer r.close()
	features, err := r.connect(ctx)
	if err != nil {
		return interruptedOr(ctx, err)
	}
	out, err := r.check(ctx, features)
	if err != nil {
		return interruptedOr(ctx, err)
	}
	if c.JSON {
		err = report.WriteJSON(e.stdout, out)
	} else {
		err = report.Check(e.stdout, out, reportOptions(e.stdout))
	}
	if err != nil {
		return err
	}
	return checkGate(out)
}

// checkGate is the error of a check with a failed item.
func checkGate(c *result.InstrumentCheck) error {
	if failed := c.Failed(); len(failed) > 0 {
		return gateError{"check failed: " + strings.Join(failed, ", ")}
	}
	return nil
}

// requireCheck makes the instrument check a gate before a run.
func (r *run) requireCheck(ctx context.Context, f real.Features) error {
	out, err := r.check(ctx, f)
	if err != nil {
		return err
	}
	r.checked = out
	gate := checkGate(out)
	if gate == nil {
		r.say("instrument check passed")
		return nil
	}
	_ = report.Check(r.env.stderr, out, reportOptions(r.env.stderr))
	// What the check found is kept, in a run that says it was not made.
	if err := r.create("not known: no prompt was made", f); err != nil {
		return errors.Join(gate, err)
	}
	if err := r.writer.Close(false, gate.Error()); err != nil {
		return errors.Join(gate, err)
	}
	r.say("stored in %s", r.writer.Dir())
	return gate
}

// check makes the instrument check of a target that was connected to.
func (r *run) check(ctx context.Context, f real.Features) (*result.InstrumentCheck, error) {
	began := r.clock.Now()
	in := &experiment.CheckInput{MaxTokens: experiment.CheckMaxTokens, ExactOutput: f.ExactOutput, EngineVersion: r.info.EngineVersion, Model: r.info.Model}
	out := &result.InstrumentCheck{Target: r.info, MaxTokens: in.MaxTokens, MetricsURL: r.metricsURL(), Warnings: f.Warnings}
	r.say("checking %s, model %s: %d requests of %d tokens", r.info.URL, r.info.Model, experiment.CheckRequests, in.MaxTokens)
	if in.NoPages = r.page(ctx, in, 0); in.NoPages == "" {
		rest(ctx, experiment.CheckQuiet)
		in.NoPages = r.page(ctx, in, 1)
	}
	for i := range experiment.CheckRequests {
		a, err := r.target.Try(ctx, r.checkRequest(i, f.ExactOutput), &r.target.Options)
		if err != nil {
			return nil, err
		}
		if ctx.Err() != nil {
			return nil, errInterrupted
		}
		in.Attempts = append(in.Attempts, a)
	}
	if in.NoPages == "" {
		rest(ctx, experiment.CheckQuiet/4) // counters may be a step behind
		if in.NoPages = r.page(ctx, in, 2); in.NoPages == "" {
			rest(ctx, experiment.CheckQuiet)
			in.NoPages = r.page(ctx, in, 3)
		}
	}
	r.controlRequests(ctx, in)
	if ctx.Err() != nil {
		return nil, errInterrupted
	}
	out.Requests, out.Took = len(in.Attempts), time.Duration(r.clock.Now()-began)
	out.Items = experiment.CheckInstrument(in)
	return out, nil
}

// checkRequest has a prompt that no cache has seen.
func (r *run) checkRequest(i int, exact bool) *record.Request {
	text := fmt.Sprintf("%s %d: tell a story about the number %d, and do not end it.", r.target.RunID(), i, i)
	q := &record.Request{Index: int64(-100 - i), MaxTokens: experiment.CheckMaxTokens, ExactOutput: exact, Prompt: record.Prompt{Text: text}}
	if r.target.IsChat() {
		q.Prompt = record.Prompt{Messages: []record.Message{{Role: "user", Content: text}}}
	}
	return q
}

// page scrapes every source for the k-th time; it says why it could not.
func (r *run) page(ctx context.Context, in *experiment.CheckInput, k int) (why string) {
	if len(r.sources) == 0 {
		return "they were not asked for"
	}
	for _, s := range r.sources {
		p, err := s.Scrape(ctx)
		one := real.Scraped{URL: s.URL(), Page: p, Err: err}
		if why := refusal(&one); why != "" {
			return why
		}
		page, err := scrape.Parse(p.Body, p.Header.Get("Content-Type"))
		if err != nil {
			return err.Error()
		}
		page.At = scrape.At{Before: int64(p.Before), After: int64(p.After)}
		page.ReadHeader(p.Header)
		in.Pages[k] = append(in.Pages[k], page)
	}
	return ""
}

func (r *run) metricsURL() string {
	var urls []string
	for _, s := range r.sources {
		urls = append(urls, s.URL())
	}
	return strings.Join(urls, " ")
}

// controlRequests times an endpoint that generates nothing, over the same
// connections as requests.
func (r *run) controlRequests(ctx context.Context, in *experiment.CheckInput) {
	for _, path := range []string{"/health", "/version"} {
		for range experiment.CheckRequests {
			p, err := r.target.Get(ctx, path)
			if err != nil || p.Status != http.StatusOK {
				break
			}
			in.Control, in.ControlPath = append(in.Control, time.Duration(p.After-p.Before)), path
			in.KeepAlive = keepAliveText(p.Header)
		}
		if len(in.Control) > 0 {
			return
		}
	}
}

// keepAliveText is what a server says of its connections.
func keepAliveText(h http.Header) string {
	var said []string
	for _, name := range []string{"Connection", "Keep-Alive"} {
		if v := h.Get(name); v != "" {
			said = append(said, name+": "+v)
		}
	}
	if said == nil {
		return ""
	}
	return "it says " + strings.Join(said, ", ")
}

// rest waits for d, or for the end of ctx.
func rest(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
