package cli

import (
	"net/url"
	"time"

	"github.com/assay-bench/assay/load/real"
)

// metricsConfig says where the server's own metrics are read, and how often.
type metricsConfig struct {
	// URLs of pages of metrics, one for every engine behind the target; none
	// means /metrics of the target itself.
	URLs []string `yaml:"urls,omitempty"`
	// Headers as "Name: value"; the values may be secrets.
	Headers []string `yaml:"headers,omitempty"`
	// Interval between scrapes; 0 leaves it to the length of the window.
	Interval time.Duration `yaml:"interval"`
	// Labels select the series that are read; series without such a label are kept.
	Labels map[string]string `yaml:"labels,omitempty"`
	Off    bool              `yaml:"off,omitempty"`
	// Prometheus is a server that scrapes the engines; its stored samples are
	// taken in place of our own scrapes. Selector narrows them.
	Prometheus string `yaml:"prometheus,omitempty"`
	Selector   string `yaml:"prometheus_selector,omitempty"`
}

// metricsFlags are those of commands that read the server's metrics.
type metricsFlags struct {
	MetricsURL     []string          `name:"metrics-url" placeholder:"URL" sep:"none" help:"Page of metrics; repeat it for every engine or replica behind the target (default: /metrics of the target)." group:"Server metrics"`
	MetricsHeader  []string          `name:"metrics-header" placeholder:"NAME: VALUE" sep:"none" help:"Header for --metrics-url; other hosts than the target never see the target's headers." group:"Server metrics"`
	MetricsLabel   map[string]string `name:"metrics-label" placeholder:"NAME=VALUE" mapsep:"none" help:"Read only the series with this value of a label, as engine=0; those without the label are kept. The series of the model that is asked for are selected anyhow." group:"Server metrics"`
	Prometheus     *string           `placeholder:"URL" help:"Prometheus server that scrapes the engines: its raw samples are taken in place of our own scrapes." group:"Server metrics"`
	Selector       *string           `name:"prometheus-selector" placeholder:"LABELS" help:"Labels that select the engines there, as in 'namespace=\"x\",pod=~\"llm-.*\"'." group:"Server metrics"`
	ScrapeInterval *time.Duration    `name:"scrape-interval" placeholder:"2s" help:"Between scrapes (default: a tenth of the window, 1s to 5s); the window's edges are scraped anyhow." group:"Server metrics"`
	NoScrape       bool              `name:"no-scrape" help:"Do not read the server's metrics." group:"Server metrics"`
}

func (f *metricsFlags) put(c *config) error {
	m := &c.Metrics
	if len(f.MetricsURL) > 0 {
		m.URLs = f.MetricsURL
	}
	m.Headers = append(m.Headers, f.MetricsHeader...)
	for k, v := range f.MetricsLabel {
		if m.Labels == nil {
			m.Labels = make(map[string]string)
		}
		m.Labels[k] = v
	}
	put(&m.Prometheus, f.Prometheus)
	put(&m.Selector, f.Selector)
	put(&m.Interval, f.ScrapeInterval)
	m.Off = m.Off || f.NoScrape
	return nil
}

// leastInterval between scrapes: any faster, and the scrapes are the load.
const leastInterval = 10 * time.Millisecond

func (m *metricsConfig) validate() error {
	if m.Interval != 0 && (m.Interval < leastInterval || m.Interval > 24*time.Hour) {
		return usagef("metrics.interval (--scrape-interval) is %s: want %s to a day", m.Interval, leastInterval)
	}
	for _, raw := range m.URLs {
		if _, _, err := real.SplitPage(raw); err != nil {
			return usagef("metrics.urls (--metrics-url): %w", err)
		}
	}
	if m.Prometheus != "" {
		if _, _, err := real.SplitPage(m.Prometheus); err != nil {
			return usagef("metrics.prometheus (--prometheus): %w", err)
		}
	}
	switch {
	case m.Prometheus != "" && len(m.URLs) > 0:
		return usagef("--prometheus and --metrics-url are two sources of the same numbers: give one of them")
	case m.Selector != "" && m.Prometheus == "":
		return usagef("metrics.prometheus_selector (--prometheus-selector): it is for --prometheus")
	case len(m.Headers) > 0 && len(m.URLs) == 0 && m.Prometheus == "":
		return usagef("metrics.headers (--metrics-header): they are for --metrics-url; without one, the target's own headers are sent")
	}
	_, err := headers(&targetConfig{Headers: m.Headers})
	return err
}

// redacted has no header value, no credentials and no query.
func (m metricsConfig) redacted() metricsConfig {
	m.Headers = redactedHeaders(m.Headers)
	var urls []string
	for _, raw := range m.URLs {
		urls = append(urls, redactedURL(raw))
	}
	m.URLs = urls
	if m.Prometheus != "" {
		m.Prometheus = redactedURL(m.Prometheus)
	}
	return m
}

// redactedURL is a URL without credentials and query.
func redactedURL(raw string) string {
	u, err := url.Parse(real.WithScheme(raw))
	if err != nil {
		return redactedValue
	}
	u.User, u.RawQuery = nil, ""
	return u.String()
}
