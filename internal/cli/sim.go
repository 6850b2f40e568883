package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/assay-bench/assay/engine"
	"github.com/assay-bench/assay/simserver"
)

// engineFlags choose the simulated engine. They are shared by assay sim and by
// assay run without a URL.
type engineFlags struct {
	GPU                 string  `name:"gpu" default:"h100" help:"GPU of the tables: a100, l40s, h100, h200, b200, rtx-4090, rtx-pro-6000."`
	SimModel            string  `name:"sim-model" default:"llama-3.1-8b" help:"Model of the tables, such as llama-3.1-8b or qwen3-32b."`
	TP                  int     `name:"tp" default:"1" help:"Tensor-parallel GPUs."`
	MaxNumSeqs          int     `name:"max-num-seqs" help:"Most running requests (default: vLLM's for the GPU)."`
	MaxNumBatchedTokens int     `name:"max-num-batched-tokens" help:"Token budget of a step (default: vLLM's for the GPU)."`
	KVBlocks            int     `name:"kv-blocks" help:"KV cache capacity in 16-token blocks (default: computed from the GPU's memory)."`
	NoiseCV             float64 `name:"noise-cv" help:"Coefficient of variation of the step time."`
	SimSeed             uint64  `name:"sim-seed" default:"1" help:"Seed of the engine's own draws."`
	TruthLog            string  `name:"truth-log" placeholder:"FILE" help:"Write what the engine did, and when it wrote each event, as JSON lines."`
	Fault               string  `name:"fault" placeholder:"SPEC" help:"Misbehave on purpose, see docs/engine.md."`
	FaultShare          float64 `name:"fault-share" default:"1" help:"Share of requests that the fault befalls, chosen by their ids."`
}

func (f *engineFlags) config() (simserver.Config, error) {
	t := engine.DefaultTables()
	gpu, err := t.GPU(f.GPU)
	if err != nil {
		return simserver.Config{}, usagef("--gpu: %w", err)
	}
	model, err := t.Model(f.SimModel)
	if err != nil {
		return simserver.Config{}, usagef("--sim-model: %w", err)
	}
	c := simserver.DefaultConfig()
	c.Engine = engine.ConfigFor(gpu, model, f.TP)
	c.ModelName = model.Name
	if f.MaxNumSeqs != 0 {
		c.Engine.MaxNumSeqs = f.MaxNumSeqs
	}
	if f.MaxNumBatchedTokens != 0 {
		c.Engine.MaxNumBatchedTokens = f.MaxNumBatchedTokens
	}
	c.Engine.KVBlocks, c.Engine.NoiseCV, c.Engine.Seed = f.KVBlocks, f.NoiseCV, f.SimSeed
	if !(f.FaultShare > 0 && f.FaultShare <= 1) {
		return simserver.Config{}, usagef("--fault-share is %v: want a share above 0 and up to 1", f.FaultShare)
	}
	c.Fault, c.FaultShare = f.Fault, f.FaultShare
	return c, nil
}

// check says what the engine would refuse, before a process is started for it.
func (f *engineFlags) check() error {
	c, err := f.config()
	if err != nil {
		return err
	}
	if _, err := simserver.New(c); err != nil {
		return usagef("built-in engine: %w", err)
	}
	return nil
}

// args are the flags again, for the child process.
func (f *engineFlags) args() []string {
	return []string{
		"--gpu=" + f.GPU, "--sim-model=" + f.SimModel, fmt.Sprintf("--tp=%d", f.TP),
		fmt.Sprintf("--max-num-seqs=%d", f.MaxNumSeqs), fmt.Sprintf("--max-num-batched-tokens=%d", f.MaxNumBatchedTokens),
		fmt.Sprintf("--kv-blocks=%d", f.KVBlocks), fmt.Sprintf("--noise-cv=%g", f.NoiseCV), fmt.Sprintf("--sim-seed=%d", f.SimSeed),
		"--truth-log=" + f.TruthLog, "--fault=" + f.Fault, fmt.Sprintf("--fault-share=%g", f.FaultShare),
	}
}

type simCmd struct {
	Listen string `default:"127.0.0.1:8000" help:"Address to serve on; port 0 picks a free one."`
	engineFlags

	UntilStdinCloses bool `hidden:"" help:"End when standard input closes."`
}

// Help implements kong's detailed help.
func (simCmd) Help() string {
	return `Serves a simulated vLLM: the OpenAI chat and completions API with streaming,
/v1/models, /tokenize, /health, /version and /metrics with vLLM's names. Its step
time is a model of the GPU; nothing is computed, no GPU is needed.`
}

// Run implements the command.
func (c *simCmd) Run(e *env) error {
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
