package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/assay-bench/assay/environ"
	"github.com/assay-bench/assay/scrape"
)

// environmentFlags declare what only the operator of a server knows.
type environmentFlags struct {
	EnvFile []string `name:"env-file" placeholder:"FILE" help:"YAML file of facts about the server: gpu, driver, cuda, pytorch, python, precision, max_num_seqs, max_num_batched_tokens, kv_cache_dtype, kv_block_size, prefix_caching, or any other." group:"Environment"`
	Env     []string `name:"env" placeholder:"KEY=VALUE" sep:"none" help:"One such fact, as in --env gpu=H100; it wins over a file." group:"Environment"`
}

func (f *environmentFlags) put(c *config) error {
	set := func(key, value string) {
		if c.Environment == nil {
			c.Environment = make(map[string]string)
		}
		c.Environment[key] = value
	}
	for _, path := range f.EnvFile {
		b, err := os.ReadFile(path)
		if err != nil {
			return usagef("--env-file: %w", err)
		}
		var values map[string]string
		if err := yaml.UnmarshalWithOptions(b, &values, yaml.Strict()); err != nil {
			return usagef("--env-file %s: want lines of KEY: VALUE: %s", path, strings.Split(err.Error(), "\n")[0])
		}
		for k, v := range values {
			set(k, v)
		}
	}
	for _, pair := range f.Env {
		k, v, ok := strings.Cut(pair, "=")
		if !ok {
			return usagef("--env: want KEY=VALUE, as in --env gpu=H100")
		}
		set(strings.TrimSpace(k), v)
	}
	return nil
}

// logEnvironment stores the log before anything is sent.
func (r *run) logEnvironment(ctx context.Context, pages []*scrape.Scrape) error {
	l, err := r.environment(ctx, pages)
	if err != nil {
		return err
	}
	if p := l.Client.Path; p != nil && r.info.TLS == "" {
		r.info.TLS = p.TLS
	}
	r.writer.Meta().Environment, r.writer.Meta().Target = l, r.info
	return r.writer.SaveMeta()
}

// environment makes the log of everything that can be known before the load.
// Pages are those of the server's metrics.
func (r *run) environment(ctx context.Context, pages []*scrape.Scrape) (*environ.Log, error) {
	declared, err := environ.FromDeclared(r.cfg.Environment)
	if err != nil {
		return nil, usagef("environment (--env, --env-file): %w", err)
	}
	l := &environ.Log{Client: environ.ReadClient(os.DirFS("/"))}
	l.Client.Path = r.networkPath(ctx)
	add := func(name, value string, source environ.Source) {
		if value != "" {
			l.Facts = append(l.Facts, environ.Fact{Name: name, Value: value, Source: source})
		}
	}
	add("engine", r.info.Engine, "its endpoints")
	add("engine_version", r.info.EngineVersion, "its endpoints")
	add("model", r.info.Model, "/v1/models")
	l.Facts = append(l.Facts, r.tells(ctx)...)
	for _, p := range pages {
		l.Facts = append(l.Facts, infoMetrics(p)...)
	}
	local := r.isLocal()
	switch {
	case r.builtIn != nil:
		l.Notes = append(l.Notes, "the target is the built-in engine: GPU, driver and libraries are simulated or do not exist")
	case local:
		l.Facts = append(l.Facts, environ.FromGPUTools(ctx, runTool)...)
	}
	l.Facts = append(l.Facts, declared...)
	l.Settle()
	return l, nil
}

// tells reads the pages on which a server describes itself; one that it does not
// have is nothing.
func (r *run) tells(ctx context.Context) []environ.Fact {
	var facts []environ.Fact
	base := strings.TrimPrefix(r.target.Endpoint.Base, r.target.Endpoint.Root)
	for i, path := range []string{base + "/models", "/server_info?config_format=json", "/props"} {
		if ctx.Err() != nil {
			break
		}
		p, err := r.target.Get(ctx, path)
		if err != nil {
			continue
		}
		if i == 0 {
			facts = append(facts, environ.FromHeaders(p.Header)...)
		}
		name, _, _ := strings.Cut(path, "?")
		if p.Status == http.StatusOK {
			facts = append(facts, environ.FromServerInfo(p.Body, environ.Source(name))...)
		}
	}
	return facts
}

// infoMetrics takes the labels of families that are constant and carry
// configuration.
func infoMetrics(p *scrape.Scrape) []environ.Fact {
	var facts []environ.Fact
	for _, name := range []string{"vllm:cache_config_info", "sglang:cache_config_info", "cache_config_info"} {
		for _, m := range p.Families[name].GetMetric() {
			labels := make(map[string]string)
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			facts = append(facts, environ.FromLabels(labels, environ.Source(name))...)
		}
	}
	return facts
}

// pathConnects is how often the network path is timed.
const pathConnects = 7

// networkPath times the way to the target, or to the proxy before it.
func (r *run) networkPath(ctx context.Context) *environ.Path {
	if len(r.info.Addresses) == 0 {
		return nil
	}
	out := &environ.Path{Address: r.info.Addresses[0]}
	var secure *tls.Config
	if host := r.target.Endpoint.Host; r.target.Endpoint.Scheme == "https" {
		var err error
		if secure, err = tlsConfig(&r.cfg.Target); err != nil {
			return nil
		}
		secure.ServerName = orDefault(r.cfg.Target.Host, host)
		if name, _, err := net.SplitHostPort(secure.ServerName); err == nil {
			secure.ServerName = name
		}
	}
	if u, err := proxyFor(r.target.Endpoint.Scheme, r.target.Endpoint.Host); err == nil && u != nil {
		out.Proxy, secure = true, nil
	}
	p, err := r.target.TimePath(ctx, out.Address, secure, pathConnects)
	if err != nil {
		out.Error = err.Error()
	}
	if out.Connects = len(p.Connects); out.Connects > 0 {
		ms := func(d time.Duration) float64 { return float64(d) / 1e6 }
		out.MinMS, out.MedianMS, out.MaxMS = ms(p.Connects[0]), ms(p.Connects[len(p.Connects)/2]), ms(p.Connects[len(p.Connects)-1])
	}
	if s := p.State; s != nil {
		out.TLS = tls.VersionName(s.Version) + ", " + tls.CipherSuiteName(s.CipherSuite)
		if len(s.PeerCertificates) > 0 {
			c := s.PeerCertificates[0]
			out.Certificate = fmt.Sprintf("issued by %s, valid until %s", c.Issuer.CommonName, c.NotAfter.UTC().Format(time.DateOnly))
		}
	}
	return out
}

// isLocal reports whether the target runs on this machine: its address is one of
// ours, and no proxy stands between.
func (r *run) isLocal() bool {
	if p := r.target.Endpoint; len(r.info.Addresses) == 0 {
		return false
	} else if u, err := proxyFor(p.Scheme, p.Host); err != nil || u != nil {
		return false
	}
	host, _, err := net.SplitHostPort(r.info.Addresses[0])
	ip := net.ParseIP(host)
	if err != nil || ip == nil {
		return false
	}
	if ip.IsLoopback() {
		return true
	}
	ours, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	for _, a := range ours {
		if n, ok := a.(*net.IPNet); ok && n.IP.Equal(ip) {
			return true
		}
	}
	return false
}

// proxyFor is the proxy before a host; nil if there is none.
func proxyFor(scheme, host string) (*url.URL, error) {
	return proxyFromEnvironment(&url.URL{Scheme: scheme, Host: host})
}

// toolTimeout bounds a tool that describes GPUs.
const toolTimeout = 5 * time.Second

// runTool is an environ.Run.
func runTool(ctx context.Context, program string, args ...string) ([]byte, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return nil, fmt.Errorf("looking for %s: %w", program, err)
	}
	ctx, cancel := context.WithTimeout(ctx, toolTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, args...).Output()
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil, fmt.Errorf("%s took more than %s", program, toolTimeout)
	}
	return out, err
}
