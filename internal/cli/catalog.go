package cli

import (
	"maps"
	"slices"
	"strings"

	"github.com/assay-bench/assay/report"
	"github.com/assay-bench/assay/scrape"
)

type catalogCmd struct {
	Engine   *string `arg:"" optional:"" help:"Engine, such as vllm or llamacpp; none: all of them, by name."`
	Quantity string  `placeholder:"ttft" help:"Only this quantity, of the engine or of all: what each of them calls it, and means by it."`
	JSON     bool    `name:"json" help:"Print as JSON."`
}

// Help implements kong's detailed help.
func (catalogCmd) Help() string {
	return `For each metric: its name on the wire, type and unit, what one sample is, when it is
taken, the releases that have it, and what is known to be wrong with it. The same
lines stand beside the server's numbers in a report.

  assay catalog vllm
  assay catalog --quantity ttft`
}

// only keeps one quantity of a catalogue, and the engines that have it.
func only(all *scrape.Catalogue, q scrape.Quantity) error {
	known := make(map[string]bool)
	var kept []scrape.Engine
	for _, engine := range all.Engines {
		var entries []scrape.Entry
		for _, entry := range engine.Entries {
			known[string(entry.Quantity)] = true
			if entry.Quantity == q {
				entries = append(entries, entry)
			}
		}
		if engine.Entries = entries; len(entries) > 0 {
			kept = append(kept, engine)
		}
	}
	if len(kept) == 0 {
		return usagef("--quantity %q: there is %s", q, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
	}
	all.Engines = kept
	return nil
}

// Run implements the command.
func (c *catalogCmd) Run(e *env) error {
	all, err := scrape.LoadCatalogue()
	if err != nil {
		return err
	}
	if c.Engine != nil {
		engine, ok := all.Engine(strings.ToLower(*c.Engine))
		if !ok {
			var names []string
			for _, known := range all.Engines {
				names = append(names, known.Name)
			}
			return usagef("the catalogue does not know the engine %q: it has %s", *c.Engine, strings.Join(names, ", "))
		}
		all.Engines = []scrape.Engine{engine}
	}
	if c.Quantity != "" {
		if err := only(all, scrape.Quantity(c.Quantity)); err != nil {
			return err
		}
	}
	if c.JSON {
		return report.WriteJSON(e.stdout, all)
	}
	return report.Catalog(e.stdout, all, c.Engine != nil || c.Quantity != "", reportOptions(e.stdout))
}
