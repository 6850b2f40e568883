package experiment

import "github.com/assay-bench/assay/scrape"

// Busy returns how many requests run or wait on the engines whose pages these are,
// as their gauges tell. ok is false if one of them has no gauge of running requests
// that the catalogue knows. version is that of the engine, as far as it is known.
func Busy(pages []*scrape.Scrape, version string) (requests float64, ok bool) {
	c, err := scrape.LoadCatalogue()
	if err != nil {
		return 0, false
	}
	for _, p := range pages {
		engine, _ := c.DetectEngine(p)
		for _, q := range []scrape.Quantity{scrape.Running, scrape.Waiting} {
			e, known, _ := c.Lookup(engine, version, q, p)
			if !known || e.Type != "gauge" {
				if q == scrape.Running {
					return 0, false
				}
				continue
			}
			g, problem := p.Gauge(e.Name, e.Match)
			if problem.Voids() {
				return 0, false
			}
			requests += g.Sum
		}
	}
	return requests, len(pages) > 0
}
