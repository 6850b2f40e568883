package scrape

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	dto "github.com/prometheus/client_model/go"
)

// catalogueYAML is the catalogue as written by hand.
//
//go:embed catalogue.yaml
var catalogueYAML []byte

// Quantity is what a metric measures, by one name for all engines. Two metrics
// that differ in what one sample is have different quantities, so that they are
// never compared by accident: see the catalogue for those of single engines.
type Quantity string

// Quantities that several engines have.
const (
	TTFT               Quantity = "ttft"         // time to first token, one sample a request
	ITLStep            Quantity = "itl_step"     // gap between engine steps, one sample a step and request
	TPOTRequest        Quantity = "tpot_request" // decode time / (n - 1), one sample a request
	Queue              Quantity = "queue"
	Prefill            Quantity = "prefill"
	Decode             Quantity = "decode"
	E2E                Quantity = "e2e"
	TokensOut          Quantity = "tokens_out"
	TokensIn           Quantity = "tokens_in"
	TokensInCached     Quantity = "tokens_in_cached"
	TokensInComputed   Quantity = "tokens_in_computed" // without those from a cache
	RequestsFinished   Quantity = "requests_finished"  // for whatever reason
	RequestsFailed     Quantity = "requests_failed"
	OutputLength       Quantity = "output_length"
	PromptLength       Quantity = "prompt_length"
	TokensPerStep      Quantity = "tokens_per_step"
	Running            Quantity = "running"
	Waiting            Quantity = "waiting"
	KVUsage            Quantity = "kv_usage" // 0 to 1
	PrefixQueries      Quantity = "prefix_queries"
	PrefixHits         Quantity = "prefix_hits"
	Preemptions        Quantity = "preemptions"
	SpecDrafts         Quantity = "spec_drafts"
	SpecDraftTokens    Quantity = "spec_draft_tokens"
	SpecAcceptedTokens Quantity = "spec_accepted_tokens"
)

// Catalogue says what the metrics of serving engines mean.
type Catalogue struct {
	// Engines in order of preference: where one page has the series of a serving
	// engine and of what stands before it, the engine comes first.
	Engines []Engine `json:"engines"`
}

// Engine is a serving engine and its metrics.
type Engine struct {
	Name     string   `yaml:"engine" json:"engine"`
	Title    string   `yaml:"title" json:"title"`
	Prefixes []string `yaml:"prefixes" json:"prefixes"` // of the names of its metrics
	Endpoint string   `yaml:"endpoint" json:"endpoint"` // where the metrics are, and what turns them on
	Source   string   `yaml:"source" json:"source"`     // where the meaning was read
	// Checked is the newest release that was looked at; empty if none was pinned.
	Checked string   `yaml:"checked" json:"checked,omitempty"`
	Notes   []string `yaml:"notes" json:"notes,omitempty"`
	// Digits is how many significant digits the values on the wire have; 0 is all.
	Digits  int     `yaml:"digits,omitempty" json:"digits,omitempty"`
	Entries []Entry `yaml:"entries" json:"entries"`
}

// Entry is the meaning of one metric of one engine.
type Entry struct {
	Engine   string   `yaml:"-" json:"engine"`
	Quantity Quantity `yaml:"quantity" json:"quantity"`
	Name     string   `yaml:"name" json:"name"`                               // of the family, as on the wire
	Since    string   `yaml:"since" json:"since,omitempty"`                   // first release that has it
	Until    string   `yaml:"until" json:"until,omitempty"`                   // first release that has it no more
	Type     string   `yaml:"type" json:"type"`                               // counter, gauge or histogram: how to read it
	WireType string   `yaml:"wire_type,omitempty" json:"wire_type,omitempty"` // its declared type, if that is another
	Unit     string   `yaml:"unit" json:"unit"`
	Sample   string   `yaml:"sample" json:"sample"` // what one sample, or one unit of a counter, is
	When     string   `yaml:"when" json:"when"`     // when it is taken
	// Live counters move while a request runs. Of others, a window counts the
	// requests that ended in it: they are compared over drained windows only.
	Live bool `yaml:"live,omitempty" json:"live,omitempty"`
	// Read is "sum" where the sum of a histogram is the total that is meant.
	Read    string   `yaml:"read,omitempty" json:"read,omitempty"`
	Match   Match    `yaml:"match,omitempty" json:"match,omitempty"`
	Defects []string `yaml:"defects,omitempty" json:"defects,omitempty"`
	// Zeros is set if sequences of no or one token are observed as 0.
	Zeros *Zeros `yaml:"zeros,omitempty" json:"zeros,omitempty"`
	// Spoils are quantities whose windows these events make worthless.
	Spoils []Quantity `yaml:"spoils,omitempty" json:"spoils,omitempty"`
}

// Zeros says how to find out whether a histogram holds made-up zeros.
type Zeros struct {
	// Lengths is the histogram of output lengths, whose lowest buckets tell.
	Lengths string `yaml:"lengths" json:"lengths"`
}

// Semantics is the line that stands beside a number of this entry.
func (e Entry) Semantics() string {
	return fmt.Sprintf("%s (%s): %s; taken %s", e.Name, e.Unit, e.Sample, e.When)
}

// LoadCatalogue reads the built-in catalogue. An error is a bug of this package.
func LoadCatalogue() (*Catalogue, error) {
	c := new(Catalogue)
	if err := yaml.UnmarshalWithOptions(catalogueYAML, &c.Engines, yaml.Strict()); err != nil {
		return nil, fmt.Errorf("reading the catalogue of metrics: %w", err)
	}
	for i := range c.Engines {
		for j := range c.Engines[i].Entries {
			c.Engines[i].Entries[j].Engine = c.Engines[i].Name
		}
	}
	return c, nil
}

// Engine finds an engine by its name.
func (c *Catalogue) Engine(name string) (Engine, bool) {
	i := slices.IndexFunc(c.Engines, func(e Engine) bool { return e.Name == name })
	if i < 0 {
		return Engine{}, false
	}
	return c.Engines[i], true
}

// DetectEngine tells from the names of the metrics which engine exposes them,
// and on what evidence. The engine is "" if none is known.
func (c *Catalogue) DetectEngine(s *Scrape) (engine, evidence string) {
	var found []string
	for _, e := range c.Engines {
		names := e.named(s)
		if len(names) == 0 {
			continue
		}
		if engine == "" {
			engine = e.Name
		}
		found = append(found, fmt.Sprintf("%d families of %s, such as %s", len(names), e.Title, names[0]))
	}
	if engine == "" {
		return "", "no family bears the prefix of a known engine"
	}
	return engine, strings.Join(found, "; ")
}

// named lists the families that bear a prefix of the engine.
func (e Engine) named(s *Scrape) []string {
	var names []string
	for name := range s.Families {
		if slices.ContainsFunc(e.Prefixes, func(p string) bool { return strings.HasPrefix(name, p) }) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Lookup finds the metric of an engine that measures a quantity. A release that
// the catalogue knows decides by its number; where it is unknown, or what it
// should have is not there, what is on the wire decides, and the note says so. A
// nil scrape leaves the wire out. ok is false if there is no such metric; the
// note then says why.
func (c *Catalogue) Lookup(engine, version string, q Quantity, s *Scrape) (e Entry, ok bool, note string) {
	eng, known := c.Engine(engine)
	if !known {
		return Entry{}, false, fmt.Sprintf("the catalogue does not know the engine %q", engine)
	}
	var candidates, present []Entry
	var tried []string
	for _, e := range eng.Entries {
		if e.Quantity != q {
			continue
		}
		candidates = append(candidates, e)
		if why := e.absence(s); why == "" {
			present = append(present, e)
		} else {
			tried = append(tried, why)
		}
	}
	switch {
	case len(candidates) == 0:
		return Entry{}, false, fmt.Sprintf("%s has no metric of %s", eng.Title, q)
	case len(present) == 0:
		return Entry{}, false, strings.Join(tried, "; ")
	}
	release, understood := parseVersion(version)
	if !understood || eng.isNews(release) {
		return present[0], true, unknownRelease(eng, version, present[0], s)
	}
	for _, e := range present {
		if e.covers(release) {
			return e, true, ""
		}
	}
	if s == nil {
		return Entry{}, false, fmt.Sprintf("release %s of %s has no metric of %s", version, eng.Title, q)
	}
	return present[0], true, fmt.Sprintf("release %s should not have %s, but it is on the wire and was taken", version, present[0].Name)
}

// unknownRelease is the note on an entry that no release number vouches for;
// none is due where the catalogue has no release numbers for it at all.
func unknownRelease(eng Engine, version string, e Entry, s *Scrape) string {
	if eng.Checked == "" && e.Since == "" && e.Until == "" && version == "" {
		return ""
	}
	basis := "taken because it is on the wire"
	if s == nil {
		basis = "the newest known name was taken, unseen"
	}
	what := fmt.Sprintf("the release %q is not in the catalogue", version)
	if version == "" {
		what = "the release is unknown"
	}
	if eng.Checked != "" {
		what += " (checked up to " + eng.Checked + ")"
	}
	return fmt.Sprintf("%s: %s %s", what, e.Name, basis)
}

// absence says why an entry is not on the wire; "" if it is.
func (e Entry) absence(s *Scrape) string {
	if s == nil {
		return ""
	}
	family := s.Families[e.Name]
	if family == nil {
		return e.Name + " is not on the wire"
	}
	want := e.Type
	if e.WireType != "" {
		want = e.WireType
	}
	got := strings.ToLower(family.GetType().String())
	if got != want && got != e.Type && (family.GetType() != dto.MetricType_UNTYPED || e.Type == "histogram") {
		return fmt.Sprintf("%s is a %s on the wire, not a %s", e.Name, got, want)
	}
	return ""
}
