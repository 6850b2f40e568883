package cli

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/assay-bench/assay/experiment"
	"github.com/assay-bench/assay/report"
	"github.com/assay-bench/assay/scrape"
)

// between is our own connection to the target of a sweep: for the instrument
// check before it, and to leave every run a quiet server and an empty prefix cache.
type between struct {
	multi *multi
	run   *run
	// builtIn engines are fresh for every run: there is nothing to wait for.
	builtIn bool
	noted   map[string]bool
}

// connect finds the target and checks the instrument.
func (m *multi) connect(ctx context.Context, first config) (*between, error) {
	b := &between{multi: m, builtIn: first.Target.URL == "", noted: make(map[string]bool)}
	b.run = &run{cfg: first, env: m.env, cmd: &runCmd{Sim: m.sim, outputFlags: outputFlags{Quiet: m.quiet}}}
	if b.builtIn && m.options.NoCheck {
		b.run.info.BuiltIn = true
		return b, nil
	}
	features, err := b.run.connect(ctx)
	if err != nil {
		b.close()
		return nil, interruptedOr(ctx, err)
	}
	if m.options.NoCheck {
		return b, nil
	}
	b.run.checked, err = b.run.check(ctx, features)
	if err != nil {
		b.close()
		return nil, interruptedOr(ctx, err)
	}
	if gate := checkGate(b.run.checked); gate != nil {
		_ = report.Check(m.env.stderr, b.run.checked, reportOptions(m.env.stderr))
		if m.gates["check"] {
			b.close()
			return nil, gate
		}
		m.say("%v: going on, as asked", gate)
	} else {
		m.say("instrument check passed")
	}
	if b.builtIn {
		b.run.close()
	}
	return b, nil
}

func (b *between) close() { b.run.close() }

// note says something once.
func (b *between) note(text string) {
	if !b.noted[text] {
		b.noted[text] = true
		b.multi.say("note: %s", text)
		b.multi.warn("between-runs", text)
	}
}

// prepare waits until the server is quiet, and has it reset its prefix cache.
func (b *between) prepare(ctx context.Context) {
	if b.builtIn {
		return
	}
	b.settle(ctx)
	if !b.multi.options.NoReset && ctx.Err() == nil {
		b.reset(ctx)
	}
}

// settlePoll is the time between two looks at a server that is not quiet yet.
const settlePoll = 500 * time.Millisecond

// settle waits until nothing runs or waits on the server, as far as its metrics
// tell, and not for ever.
func (b *between) settle(ctx context.Context) {
	if len(b.run.sources) == 0 {
		b.note("the server's metrics are not read: whether it is quiet between runs is not known")
		return
	}
	until := b.run.clock.Now() + int64(b.multi.options.SettleMax)
	for ctx.Err() == nil {
		busy, why := b.busy(ctx)
		switch {
		case why != "":
			b.note("whether the server is quiet between runs is not known: " + why)
			return
		case busy == 0:
			return
		case b.run.clock.Now() >= until:
			b.note("the server still had requests when a run began, after " + b.multi.options.SettleMax.String() + ": others may use it")
			return
		}
		rest(ctx, settlePoll)
	}
}

// busy is the number of requests on the server, running or waiting.
func (b *between) busy(ctx context.Context) (n float64, why string) {
	var pages []*scrape.Scrape
	for _, s := range b.run.sources {
		p, err := s.Scrape(ctx)
		if err != nil {
			return 0, err.Error()
		}
		page, err := scrape.Parse(p.Body, p.Header.Get("Content-Type"))
		if err != nil {
			return 0, s.URL() + ": " + err.Error()
		}
		pages = append(pages, page)
	}
	n, ok := experiment.Busy(pages, b.run.info.EngineVersion)
	if !ok {
		return 0, "its metrics have no gauge of running requests that the catalogue knows"
	}
	return n, ""
}

// reset asks for an empty prefix cache, in the way of the engine.
func (b *between) reset(ctx context.Context) {
	path := "/reset_prefix_cache"
	if strings.Contains(strings.ToLower(b.run.info.Engine), "sglang") {
		path = "/flush_cache"
	}
	p, err := b.run.target.Post(ctx, path)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		b.note("the prefix cache was not reset between runs: " + err.Error())
	case p.Status == http.StatusOK && !strings.Contains(string(p.Body), `"success":false`):
	case p.Status == http.StatusOK:
		b.note("the server refused to reset its prefix cache before a run; prompts begin with a nonce of the run, so that no run is served from the cache of another")
	default:
		b.note("the server offers no reset of its prefix cache (vLLM does with VLLM_SERVER_DEV_MODE=1); prompts begin with a nonce of the run, so that no run is served from the cache of another")
	}
}
