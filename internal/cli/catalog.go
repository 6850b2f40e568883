package cli

import (
	"strings"

	"github.com/assay-bench/assay/report"
	"github.com/assay-bench/assay/scrape"
)

type catalogCmd struct {
	Engine *string `arg:"" optional:"" help:"Engine, such as vllm or llamacpp; none: all of them, by name."`
	JSON   bool    `name:"json" help:"Print as JSON."`
}

// Help implements kong's detailed help.
func (catalogCmd) Help() string {
	return `For each metric: its name on the wire, type and unit, what one sample is, when it is
taken, the releases that have it, and what is known to be wrong with it. The same
lines stand beside the server's numbers in a report.

  assay catalog vllm`
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
	if c.JSON {
		return report.WriteJSON(e.stdout, all)
	}
	return report.Catalog(e.stdout, all, c.Engine != nil, reportOptions(e.stdout))
}
