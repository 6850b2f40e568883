package scrape

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Historic is a page of metrics as a Prometheus server had stored it: the raw
// samples that it took of one target at one time.
type Historic struct {
	// Instance and Job are the labels by which it names the target.
	Instance, Job string
	// Time at which it began to scrape, on its own clock, and how long that took
	// if it stored that.
	Time time.Time
	Took time.Duration
	// Body is the page again, in text format 0.0.4. Types that it did not store
	// are told from the names: of histograms, by their buckets.
	Body []byte
}

// PrometheusQuery is an instant query for the raw samples of a while up to its
// moment: of the metrics of all engines of the catalogue, of the start of their
// processes, and of what the scrapes took. A range selector interpolates
// nothing, unlike increase and rate. Selector narrows it ("namespace=\"x\""), and
// may be empty.
func (c *Catalogue) PrometheusQuery(selector string, back time.Duration) string {
	var prefixes []string
	for _, e := range c.Engines {
		prefixes = append(prefixes, e.Prefixes...)
	}
	names := fmt.Sprintf(`__name__=~"(%s).+|%s|%s"`, strings.Join(prefixes, "|"), processStart, scrapeDuration)
	if selector = strings.Trim(selector, "{} ,"); selector != "" {
		names += "," + selector
	}
	return fmt.Sprintf("{%s}[%ds]", names, int(math.Ceil(back.Seconds())))
}

// scrapeDuration is a series that Prometheus itself writes for each target.
const scrapeDuration = "scrape_duration_seconds"

// apiReply is the answer of /api/v1/query to a range selector.
type apiReply struct {
	Status string `json:"status"`
	Error  string `json:"error"`
	Data   struct {
		ResultType string      `json:"resultType"`
		Result     []apiSeries `json:"result"`
	} `json:"data"`
}

type apiSeries struct {
	Metric     map[string]string `json:"metric"`
	Values     []apiSample       `json:"values"`
	Histograms []apiHistogram    `json:"histograms"`
}

// apiSample is [seconds, "value"].
type apiSample struct {
	at    int64 // ms
	value string
}

// UnmarshalJSON reads the array form.
func (s *apiSample) UnmarshalJSON(b []byte) error {
	var pair [2]json.RawMessage
	if err := json.Unmarshal(b, &pair); err != nil {
		return err
	}
	var seconds float64
	if err := json.Unmarshal(pair[0], &seconds); err != nil {
		return err
	}
	if err := json.Unmarshal(pair[1], &s.value); err != nil {
		return err
	}
	if !(math.Abs(seconds) < 1e12) {
		return fmt.Errorf("a sample at %g s", seconds)
	}
	s.at = int64(math.Round(seconds * 1e3))
	_, err := strconv.ParseFloat(s.value, 64)
	return err
}

// FromPrometheus makes pages of the reply to a [Catalogue.PrometheusQuery], in
// order of targets and times. Samples of one target and one time are one page: a
// Prometheus server stamps all samples of a scrape alike, unless the target sends
// stamps of its own. Native histograms become classic ones: see apiHistogram.
func FromPrometheus(body []byte) ([]Historic, error) {
	if len(body) > MaxBody {
		return nil, fmt.Errorf("reading a reply of Prometheus: %w (%d bytes)", ErrTooLarge, len(body))
	}
	var r apiReply
	switch err := json.Unmarshal(body, &r); {
	case err != nil:
		return nil, fmt.Errorf("reading a reply of Prometheus: %w", err)
	case r.Status != "success":
		return nil, fmt.Errorf("prometheus answers %q: %s", r.Status, r.Error)
	case r.Data.ResultType != "matrix":
		return nil, fmt.Errorf("prometheus answers with a %q, not with a matrix of samples", r.Data.ResultType)
	}
	pages := make(map[pageKey]*stored)
	histograms := make(map[string]bool)
	for _, s := range r.Data.Result {
		name := s.Metric["__name__"]
		if stem, part := cutPart(name); part == "_bucket" && s.Metric["le"] != "" {
			histograms[stem] = true
		}
		page := func(at int64) *stored {
			key := pageKey{s.Metric["instance"], s.Metric["job"], at}
			if pages[key] == nil {
				pages[key] = &stored{lines: make(map[string][]string)}
			}
			return pages[key]
		}
		for _, v := range s.Values {
			page(v.at).add(name, s.Metric, v.value)
		}
		if len(s.Histograms) > 0 {
			histograms[name] = true
			bounds := commonBounds(s.Histograms)
			for i := range s.Histograms {
				page(s.Histograms[i].at).addHistogram(name, s.Metric, &s.Histograms[i], bounds)
			}
		}
	}
	var out []Historic
	for _, key := range slices.SortedFunc(maps.Keys(pages), pageKey.compare) {
		p := pages[key]
		if len(p.lines) == 0 {
			continue // what Prometheus says of the scrape, and nothing of the target
		}
		out = append(out, Historic{Instance: key.instance, Job: key.job, Time: time.UnixMilli(key.at), Took: p.took, Body: p.text(histograms)})
	}
	return out, nil
}

type pageKey struct {
	instance, job string
	at            int64
}

func (k pageKey) compare(o pageKey) int {
	if c := strings.Compare(k.instance+"\x00"+k.job, o.instance+"\x00"+o.job); c != 0 {
		return c
	}
	return int(min(max(k.at-o.at, -1), 1))
}

// stored is a page while it is put together: lines by the names of families.
type stored struct {
	lines map[string][]string
	took  time.Duration
}

func (p *stored) add(name string, labels map[string]string, value string) {
	if name == scrapeDuration {
		if s, err := strconv.ParseFloat(value, 64); err == nil && s >= 0 && s < 3600 {
			p.took = time.Duration(s * float64(time.Second))
		}
		return
	}
	var pairs []string
	for _, l := range slices.Sorted(maps.Keys(labels)) {
		if l != "__name__" {
			pairs = append(pairs, l+`="`+labelEscapes.Replace(labels[l])+`"`)
		}
	}
	family := name
	if stem, part := cutPart(name); part != "" {
		family = stem
	}
	p.lines[family] = append(p.lines[family], name+"{"+strings.Join(pairs, ",")+"} "+value)
}

// labelEscapes are those of the text format, which has no others.
var labelEscapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

func (p *stored) text(histograms map[string]bool) []byte {
	var b strings.Builder
	for _, family := range slices.Sorted(maps.Keys(p.lines)) {
		if histograms[family] {
			b.WriteString("# TYPE " + family + " histogram\n")
		}
		for _, line := range p.lines[family] {
			b.WriteString(line + "\n")
		}
	}
	return []byte(b.String())
}
