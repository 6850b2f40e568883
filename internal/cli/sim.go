package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"reflect"
	"syscall"

	"github.com/assay-bench/assay/simserver"
)

type simCmd struct {
	Serve    serveCmd    `cmd:"" default:"withargs" help:"Serve it, or run a workload on it in virtual time (--virtual)."`
	Validate validateCmd `cmd:"" help:"Replay recorded requests of a real server and compare."`
}

type serveCmd struct {
	Listen  string `default:"127.0.0.1:8000" help:"Address to serve on; port 0 picks a free one."`
	Virtual bool   `help:"Serve nothing: run the workload of the flags, or of -f, in virtual time."`
	Model   string `placeholder:"llama-3.1-8b" help:"The same as --sim-model."`
	simFlags
	loadFlags
	gateFlags
	outputFlags

	UntilStdinCloses bool `hidden:"" help:"End when standard input closes."`
}

// Help implements kong's detailed help.
func (simCmd) Help() string { return serveCmd{}.Help() + "\n\nFor the flags: assay sim serve --help." }

// Help implements kong's detailed help.
func (serveCmd) Help() string {
	return `Serves a simulated vLLM: the OpenAI chat and completions API with streaming,
/v1/models, /tokenize, /health, /version and /metrics with vLLM's names. Its step
time is a model of the GPU; nothing is computed, no GPU is needed.

With --virtual there is no server and no waiting: the workload runs through the
same engine and the same report in virtual time, and gives the same bytes for the
same seed. There is no network and no frontend in it.

  assay sim --gpu h100 --model llama-3.1-8b --max-num-seqs 256
  assay sim --virtual -f bench.yaml
  assay sim --virtual --rate 8 --duration 10m
  assay sim validate requests.jsonl --gpu rtx-4090 --kv-blocks 2588`
}

// Run implements the command.
func (c *serveCmd) Run(e *env) error {
	c.SimModel = orDefault(c.Model, c.SimModel)
	if c.Virtual {
		return c.runVirtual(e)
	}
	if !reflect.DeepEqual(c.loadFlags, loadFlags{}) {
		return usagef("a workload is for assay sim --virtual; a server gets its load from its clients")
	}
	cfg, err := c.config()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if c.UntilStdinCloses {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		go func() {
			_, _ = io.Copy(io.Discard, e.stdin)
			cancel()
		}()
	}
	closeTruth := func() error { return nil }
	if c.TruthLog != "" {
		f, err := os.Create(c.TruthLog)
		if err != nil {
			return usagef("--truth-log: %w", err)
		}
		cfg.TruthLog, closeTruth = f, f.Close
	}
	s, err := simserver.New(cfg)
	if err != nil {
		return usageError{err}
	}
	ln, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return usagef("--listen: %w", err)
	}
	fmt.Fprintf(e.stdout, "%shttp://%s\n", listening, ln.Addr())
	err = s.Serve(ctx, ln)
	return errors.Join(err, closeTruth())
}
