package simserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/assay-bench/assay/engine"
	"github.com/assay-bench/assay/internal/clock"
)

// Version is what GET /version says: the vLLM release whose behaviour is followed.
const Version = "0.33.0"

// Config says what is served and how. Start from [DefaultConfig]: the zero value
// has no engine.
type Config struct {
	Engine engine.Config
	// Engines is the number of engines behind one server, as in vLLM's data
	// parallelism; 0 is 1. A request goes to the least loaded, or to that of its
	// X-data-parallel-rank header. Each has its own label and its own seed.
	Engines   int
	ModelName string // as served; "" is "meta-llama/Llama-3.1-8B-Instruct"
	// Aliases are further names that requests may use; metrics have the first.
	Aliases []string
	// PathPrefix stands before all paths, as behind a gateway: "/team-a".
	PathPrefix string

	// APIKey, if set, is asked for under /v1.
	APIKey string
	// MaxQueued refuses a request with 503 while so many wait; 0 is no limit.
	MaxQueued int
	// MeanOutput is the mean of the drawn output lengths, for requests without
	// ignore_eos; 0 is 200 tokens.
	MeanOutput float64
	// StreamInterval is the fewest tokens of an event but the first and the last
	// (vLLM's --stream-interval); 0 is 1.
	StreamInterval int
	// KeepAlive is how long an idle connection is kept; 0 is 5 s, as vLLM.
	KeepAlive time.Duration
	// PerRequestMetrics adds vLLM's "metrics" object to answers
	// (--enable-per-request-metrics), PromptTokensDetails the cached tokens to
	// usage, RequestIDHeaders the X-Request-Id header.
	PerRequestMetrics, PromptTokensDetails, RequestIDHeaders bool

	// Fault is the misbehaviour of requests that bring no header of their own,
	// in the form of [ParseFault]; FaultShare is the share of requests that it
	// befalls, chosen by their ids; 0 is all.
	Fault      string
	FaultShare float64

	// TruthLog gets JSON lines of [TruthLine]; TruthSteps adds one for each step.
	// The server does not close it.
	TruthLog   io.Writer
	TruthSteps bool

	// OTLPTraces is the URL of an OTLP/HTTP endpoint that gets vLLM's llm_request
	// span of every finished sequence (--otlp-traces-endpoint with the protocol
	// http/protobuf); "" is none. OTEL_SERVICE_NAME names the service.
	OTLPTraces string
}

// DefaultConfig serves the default engine.
func DefaultConfig() Config {
	return Config{Engine: engine.DefaultConfig(), ModelName: "meta-llama/Llama-3.1-8B-Instruct"}
}

// Server is one simulated vLLM server.
type Server struct {
	cfg         Config
	fault, well Fault // of Config.Fault, and none
	clk         *clock.Clock
	wallOffset  int64 // Unix ns of stamp 0
	mono        int64 // CLOCK_MONOTONIC ns of stamp 0
	maxModelLen int
	cores       []*core
	truth       *truthLog     // nil without a log
	spans       *spanExporter // nil without an endpoint
	turn        atomic.Uint64
	load        atomic.Int64 // requests in flight, for GET /load
	http        httpCounts

	mu      sync.Mutex
	conns   map[*conn]struct{}
	stop    context.CancelFunc // set while serving
	served  bool
	quit    chan struct{}  // closed when Serve begins to stop
	stopped chan struct{}  // closed when it has stopped
	wg      sync.WaitGroup // connections and their flushers
}

// New checks the configuration and makes a server that does not run yet.
func New(cfg Config) (*Server, error) {
	if cfg.ModelName == "" {
		cfg.ModelName = "meta-llama/Llama-3.1-8B-Instruct"
	}
	if cfg.Engines == 0 {
		cfg.Engines = 1
	}
	if cfg.MeanOutput == 0 {
		cfg.MeanOutput = 200
	}
	if cfg.KeepAlive == 0 {
		cfg.KeepAlive = 5 * time.Second
	}
	cfg.StreamInterval = max(cfg.StreamInterval, 1)
	if cfg.Engines < 0 || cfg.MeanOutput < 1 || cfg.KeepAlive < 0 || cfg.MaxQueued < 0 || !(cfg.FaultShare >= 0 && cfg.FaultShare <= 1) {
		return nil, fmt.Errorf("simserver: Engines %d, MeanOutput %g, KeepAlive %v, MaxQueued %d, FaultShare %g: one is out of range",
			cfg.Engines, cfg.MeanOutput, cfg.KeepAlive, cfg.MaxQueued, cfg.FaultShare)
	}
	well, _ := ParseFault("") // nothing is never wrong
	fault, err := ParseFault(cfg.Fault)
	if err != nil {
		return nil, fmt.Errorf("simserver: %w", err)
	}
	s := &Server{
		cfg: cfg, fault: fault, well: well, clk: clock.Start(),
		conns: make(map[*conn]struct{}), quit: make(chan struct{}), stopped: make(chan struct{}),
	}
	offset := s.clk.Offset()
	s.wallOffset = offset.Wall.UnixNano() - offset.Stamp
	s.mono, _ = s.clk.Monotonic() // 0 where there is none: compare wall times there
	for i := range cfg.Engines {
		ec := cfg.Engine
		ec.Seed += uint64(i)
		eng, err := engine.New(ec)
		if err != nil {
			return nil, fmt.Errorf("simserver: %w", err)
		}
		s.maxModelLen = eng.Config().MaxModelLen
		s.cores = append(s.cores, newCore(s, i, eng))
	}
	s.clearMetrics()
	if cfg.TruthLog != nil {
		s.truth = newTruthLog(cfg.TruthLog, cfg.TruthSteps)
	}
	if cfg.OTLPTraces != "" {
		if s.spans, err = newSpanExporter(cfg.OTLPTraces); err != nil {
			return nil, fmt.Errorf("simserver: %w", err)
		}
	}
	return s, nil
}

// clearMetrics sets all counters to zero and the start time to now.
func (s *Server) clearMetrics() {
	now := float64(s.unix(s.clk.Now())) / 1e9
	s.http.clear()
	for _, c := range s.cores {
		c.met.clear(s.maxModelLen, now)
	}
}

// unix is a stamp in nanoseconds since 1970.
func (s *Server) unix(stamp int64) int64 { return stamp + s.wallOffset }

// monotonic is a stamp on the clock of the truth log; "never" stays 0.
func (s *Server) monotonic(stamp int64) int64 {
	if stamp == 0 {
		return 0
	}
	return stamp + s.mono
}

// ErrServed says that Serve was called before: a server serves once.
var ErrServed = errors.New("simserver: serves once")

// Serve answers on ln until ctx ends or Close is called, then closes ln and all
// connections and returns when nothing of it runs any more: nil, or why it could
// not go on accepting or could not write the truth log.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.mu.Lock()
	if s.served {
		s.mu.Unlock()
		return ErrServed
	}
	s.served, s.stop = true, cancel
	s.mu.Unlock()
	defer close(s.stopped)

	if s.truth != nil {
		go s.truth.run()
		now := s.clk.Now()
		s.truth.add(TruthLine{Start: &TruthStart{
			Schema: TruthSchema, Monotonic: s.monotonic(now), Wall: s.unix(now), WallOffset: s.wallOffset - s.mono,
			Model: s.cfg.ModelName, Engines: len(s.cores),
		}})
	}
	if s.spans != nil {
		go s.spans.run()
	}
	var loops sync.WaitGroup
	for _, c := range s.cores {
		loops.Go(c.run)
	}
	unwatch := context.AfterFunc(ctx, func() { ln.Close() })
	err := s.accept(ln)
	unwatch()
	ln.Close()
	close(s.quit)
	if ctx.Err() != nil {
		err = nil // the listener was closed by us
	}
	// Engines first: what is still in flight is logged before its connection ends.
	for _, c := range s.cores {
		c.shut()
	}
	loops.Wait()
	s.closeConns()
	s.wg.Wait()
	if s.truth != nil {
		err = errors.Join(err, s.truth.close())
	}
	if s.spans != nil {
		err = errors.Join(err, s.spans.close())
	}
	return err
}

// Close ends Serve and waits for it; without Serve it does nothing.
func (s *Server) Close() error {
	s.mu.Lock()
	stop := s.stop
	s.mu.Unlock()
	if stop == nil {
		return nil
	}
	stop()
	<-s.stopped
	return nil
}

func (s *Server) accept(ln net.Listener) error {
	for {
		nc, err := ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return err
		}
		if err != nil {
			// Out of descriptors, or a peer gone before accept: go on, but not hot.
			s.clk.SleepUntil(s.clk.Now() + int64(5*time.Millisecond))
			continue
		}
		c := newConn(s, nc)
		s.mu.Lock()
		s.conns[c] = struct{}{}
		s.mu.Unlock()
		s.wg.Go(c.serve)
	}
}

func (s *Server) closeConns() {
	s.mu.Lock()
	conns := slices.Collect(maps.Keys(s.conns))
	s.mu.Unlock()
	for _, c := range conns {
		c.mu.Lock()
		c.shut()
		c.mu.Unlock()
	}
}

// Restart is what clients and scrapers see of a server that is killed and comes
// back: every connection is reset, what was in flight is gone without a trace in
// the counters, which begin at zero with a new start time.
func (s *Server) Restart() {
	s.mu.Lock()
	conns := slices.Collect(maps.Keys(s.conns))
	s.mu.Unlock()
	for _, c := range conns {
		c.mu.Lock()
		st := c.current
		c.mu.Unlock()
		if st != nil {
			st.leave()
		}
	}
	for _, c := range s.cores {
		c.resetPrefixCache() // after what was in flight has left
	}
	s.clearMetrics()
	for _, c := range conns {
		c.reset()
	}
}

// forget is called with c.mu held.
func (s *Server) forget(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// pick is the engine for the next request: the one asked for, or the least
// loaded, in turn among equals.
func (s *Server) pick(rank string) *core {
	if i, err := strconv.Atoi(rank); err == nil && i >= 0 && i < len(s.cores) {
		return s.cores[i]
	}
	first := int(s.turn.Add(1)-1) % len(s.cores)
	best := s.cores[first]
	for i := range s.cores {
		if c := s.cores[(first+i)%len(s.cores)]; c.inFlight.Load() < best.inFlight.Load() {
			best = c
		}
	}
	return best
}

// cacheConfig is the labels of vllm:cache_config_info.
func (s *Server) cacheConfig(i int) []label {
	c := s.cores[i].eng.Config() // never changes after New
	return []label{
		{"block_size", strconv.Itoa(c.BlockSize)},
		{"cache_dtype", "auto"},
		{"enable_prefix_caching", pythonBool(c.PrefixCaching)},
		{"engine", strconv.Itoa(i)},
		{"gpu_memory_utilization", strconv.FormatFloat(c.MemoryUtilization, 'g', -1, 64)},
		{"kv_cache_size_tokens", strconv.Itoa((c.KVBlocks - 1) * c.BlockSize)},
		{"num_gpu_blocks", strconv.Itoa(c.KVBlocks)},
		{"num_gpu_blocks_override", "None"},
		{"prefix_caching_hash_algo", "sha256"},
	}
}

func pythonBool(b bool) string {
	if b {
		return "True"
	}
	return "False"
}
