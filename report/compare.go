package report

import (
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/assay-bench/assay/result"
)

// Comparison writes what a comparison found, for people: a line a metric, as
// benchstat does, with ~ where no difference was shown.
func Comparison(w io.Writer, c *result.Comparison, o Options) error {
	return compareSheet(c).text(w, o)
}

// ComparisonMarkdown writes the same for pages and merge requests.
func ComparisonMarkdown(w io.Writer, c *result.Comparison) error {
	return compareSheet(c).markdown(w, "Assay comparison")
}

func compareSheet(c *result.Comparison) *sheet {
	sh := new(sheet)
	var sides []string
	for i, s := range c.Sides {
		text := fmt.Sprintf("%s: %s", s.Label, times(len(s.Runs), "run", "runs"))
		if i == 0 {
			text += " (the base)"
		}
		sides = append(sides, text)
	}
	sh.section("COMPARISON", sides...)
	sh.row("test", c.Test, "the run is the unit",
		fmt.Sprintf("%s, with a chance of at most %g %% of any false alarm in all of them (Holm)", times(c.Hypotheses, "hypothesis", "hypotheses"), 100*c.Alpha))
	sh.row("verdicts", sideVerdicts(c)...)
	if len(c.Objections) > 0 {
		sh.add(verdict{"OBJECTIONS", "FORCED", "the sides are not comparable, and were compared all the same:"})
		sh.add(list(c.Objections))
	}
	for _, stage := range comparedStages(c) {
		sh.differences(c, stage)
	}
	sh.shiftFunctions(c)
	sh.pairedRequests(c)
	if len(c.Untested) > 0 {
		sh.section("NOT TESTED")
		sh.add(list(c.Untested))
	}
	if len(c.Notes) > 0 {
		sh.section("NOTES")
		sh.add(list(c.Notes))
	}
	sh.gates(c)
	sh.compareBanner(c)
	return sh
}

// sideVerdicts says how many runs of each side have which verdicts.
func sideVerdicts(c *result.Comparison) []string {
	var out []string
	for _, s := range c.Sides {
		var kinds group
		for _, r := range s.Runs {
			kinds.add(fmt.Sprintf("client %s, %s", r.Client, r.Stability), r.ID)
		}
		for _, k := range kinds.keys {
			out = append(out, fmt.Sprintf("%s: %d of %d %s", s.Label, len(kinds.names[k]), len(s.Runs), k))
		}
	}
	return out
}

func comparedStages(c *result.Comparison) []string {
	var out []string
	for i := range c.Findings {
		if s := c.Findings[i].Stage; !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// differences is the table of a stage, one for each side beside the base.
func (sh *sheet) differences(c *result.Comparison, stage string) {
	for _, side := range c.Sides[1:] {
		g := grid{header: []string{"metric", c.Base, side.Label, "unit", "change", "p", "p Holm", "finding"}}
		var texts list
		for i := range c.Findings {
			d := &c.Findings[i]
			if d.Stage != stage || d.Side != side.Label {
				continue
			}
			g.rows = append(g.rows, []string{
				d.Metric, plusMinus(d.Base), plusMinus(d.Other), d.Unit, change(d), probability(d.P), probability(d.PHolm), d.Finding,
			})
			texts = append(texts, shiftText(c, d))
		}
		if len(g.rows) == 0 {
			continue
		}
		sh.section("STAGE", stage, side.Label+" against "+c.Base, "medians ± MAD over runs; change is that of the medians, ~ where no difference was shown")
		sh.add(g)
		sh.section("SHIFT", fmt.Sprintf("Hodges-Lehmann over runs, with its exact interval at %g %% (of each metric alone)", 100*(1-c.Alpha)))
		sh.add(texts)
	}
}

func plusMinus(s result.RunValues) string { return number(s.Median) + " ± " + number(s.MAD) }

// change in percent, or ~ as benchstat has it.
func change(d *result.Difference) string {
	if d.Finding == result.NoDifference || d.Finding == result.NotEnoughRuns {
		return "~"
	}
	if d.Percent == nil {
		return none
	}
	return fmt.Sprintf("%+.2f %%", *d.Percent)
}

func probability(p float64) string {
	if p < 0.0005 {
		return "<0.001"
	}
	return fmt.Sprintf("%.3f", p)
}

func shiftText(c *result.Comparison, d *result.Difference) string {
	text := d.Metric + ": " + signed(d.Shift) + " " + d.Unit
	if d.ShiftCI != nil {
		text += fmt.Sprintf(" [%s, %s]", signed(d.ShiftCI[0]), signed(d.ShiftCI[1]))
	} else {
		text += " (too few runs for an interval)"
	}
	if d.Delta != nil {
		text += fmt.Sprintf(", Cliff's delta %+.2f", *d.Delta)
	}
	if d.Percent != nil {
		text += fmt.Sprintf(", medians differ by %+.2f %%", *d.Percent)
	}
	switch {
	case d.Text != "":
		text += "; " + d.Text
	case d.Detectable != nil:
		text += fmt.Sprintf("; minimum detectable effect about %.2g %%", *d.Detectable)
	}
	return text
}

// shiftFunctions are those of the quantities that have one.
func (sh *sheet) shiftFunctions(c *result.Comparison) {
	few := false
	for i := range c.Findings {
		d := &c.Findings[i]
		if len(d.Quantiles) == 0 {
			continue
		}
		name, _, _ := strings.Cut(d.Metric, ".")
		sh.section("QUANTILES", strings.ToUpper(name)+" over requests, "+d.Unit, d.Stage, d.Side+" against "+c.Base,
			fmt.Sprintf("medians over runs of each run's quantile; %g %% by a two-level bootstrap (runs, then blocks of requests)", 100*(1-c.Alpha)))
		g := grid{header: []string{"quantile", c.Base, d.Side, "shift", "interval"}}
		for _, q := range d.Quantiles {
			interval := none
			if q.CI != nil {
				interval = fmt.Sprintf("[%s, %s]", signed(q.CI[0]), signed(q.CI[1]))
			}
			g.rows = append(g.rows, []string{quantileName(q.P), number(q.Base), number(q.Other), signed(q.Shift), interval})
		}
		sh.add(g)
		few = few || min(d.Base.N, d.Other.N) < 4
	}
	if few {
		sh.row(none, "with fewer than four runs a side these intervals are too narrow: they hardly see the scatter between runs")
	}
}

func quantileName(p float64) string { return "p" + short(100*p, 3) }

func (sh *sheet) pairedRequests(c *result.Comparison) {
	var texts list
	for i := range c.Findings {
		d := &c.Findings[i]
		if p := d.Requests; p != nil {
			name, _, _ := strings.Cut(d.Metric, ".")
			texts = append(texts, fmt.Sprintf("%s, %s, %s: median difference %s %s over n = %d requests, %s of them higher than in the base",
				d.Stage, d.Side, strings.ToUpper(name), signed(p.Median), d.Unit, p.N, percent(p.Above)))
		}
	}
	if len(texts) > 0 {
		sh.section("REQUESTS", "the same request in both runs of a pair; no test: requests of a run depend on each other")
		sh.add(texts)
	}
}

func (sh *sheet) gates(c *result.Comparison) {
	for i, g := range c.Gates {
		heading := ""
		if i == 0 {
			heading = "GATES"
		}
		sh.add(verdict{heading, g.Verdict, fmt.Sprintf("%s, %s, %s: %s", g.Text, g.Stage, g.Side, g.Finding)})
	}
}

func (sh *sheet) compareBanner(c *result.Comparison) {
	var kinds group
	for i := range c.Findings {
		d := &c.Findings[i]
		kinds.add(d.Finding, d.Metric)
	}
	var parts banner
	for _, k := range []string{result.Regression, result.Improvement, result.NoDifference, result.NotEnoughRuns} {
		names := kinds.names[k]
		if len(names) == 0 {
			continue
		}
		text := fmt.Sprintf("%s: %s", k, strings.Join(names, ", "))
		if k == result.NotEnoughRuns {
			text += fmt.Sprintf(" (%s %s)", times(c.Hypotheses, "hypothesis needs", "hypotheses need"), runsNeeded(c))
		}
		parts = append(parts, part{text, k})
	}
	if len(c.Gates) > 0 {
		word := result.Pass
		for _, g := range c.Gates {
			if g.Verdict != result.Pass {
				word = result.Fail
			}
		}
		parts = append(parts, part{"gates: " + word, word})
	}
	if len(parts) == 0 {
		parts = banner{{"nothing could be tested", result.NotEnoughRuns}}
	}
	sh.add(parts)
}

func runsNeeded(c *result.Comparison) string {
	if c.Paired {
		return fmt.Sprintf("%d pairs", c.NeedRuns)
	}
	return fmt.Sprintf("%d v %d runs", c.NeedRuns, c.NeedRuns)
}

type (
	junitSuites struct {
		XMLName xml.Name     `xml:"testsuites"`
		Suites  []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Name    string        `xml:"name,attr"`
		Class   string        `xml:"classname,attr"`
		Failure *junitFailure `xml:"failure,omitempty"`
		Output  string        `xml:"system-out,omitempty"`
	}
	junitFailure struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// ComparisonJUnit writes the gates as test cases, in the XML that CI systems
// read; without gates, each metric is one, and a regression a failure.
func ComparisonJUnit(w io.Writer, c *result.Comparison) error {
	suite := junitSuite{Name: "assay compare " + c.Base}
	put := func(name, class, text string, failed bool) {
		k := junitCase{Name: xmlText(name), Class: xmlText(class), Output: xmlText(text)}
		if failed {
			suite.Failures++
			k.Failure = &junitFailure{Message: xmlText(text), Text: xmlText(text)}
		}
		suite.Cases = append(suite.Cases, k)
	}
	for _, g := range c.Gates {
		put(g.Text, g.Side+": "+g.Stage, g.Verdict+": "+g.Finding, g.Verdict != result.Pass)
	}
	for i := range c.Findings {
		d := &c.Findings[i]
		if len(c.Gates) == 0 {
			put(d.Metric, d.Side+": "+d.Stage, d.Finding+": "+shiftText(c, d), d.Finding == result.Regression)
		}
	}
	suite.Tests = len(suite.Cases)
	out, err := xml.MarshalIndent(junitSuites{Suites: []junitSuite{suite}}, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding JUnit: %w", err)
	}
	if _, err := fmt.Fprintf(w, "%s%s\n", xml.Header, out); err != nil {
		return fmt.Errorf("writing JUnit: %w", err)
	}
	return nil
}

// xmlText is foreign text made safe for a terminal and for XML alike.
func xmlText(s string) string { return escape(s) }
