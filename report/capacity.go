package report

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/assay-bench/assay/result"
)

// Capacity writes the report of a search for people.
func Capacity(w io.Writer, c *result.Capacity, o Options) error { return capacitySheet(c).text(w, o) }

// CapacityMarkdown writes the content of a search's report.md.
func CapacityMarkdown(w io.Writer, c *result.Capacity) error {
	return capacitySheet(c).markdown(w, "Assay capacity")
}

func capacitySheet(c *result.Capacity) *sheet {
	sh := new(sheet)
	sh.target(c.Target)
	began := ""
	if !c.Began.IsZero() {
		began = "began " + c.Began.UTC().Format("2006-01-02 15:04:05 UTC")
	}
	sh.row("search", c.ID, began, "assay "+cmp.Or(c.ToolVersion, "version not told"))
	sh.row("over", c.Over, times(c.Runs, "run", "runs")+", "+seconds(c.Measured)+" measured", "seed "+strconv.FormatUint(c.Seed, 10))
	sh.row("workload", prefixed("of the first run: ", c.WorkloadText))
	sh.row("objective", append(limits(c.SLO), "met by at least "+percent(c.Attainment)+" of due requests, and stable")...)
	sh.checkRow(c.Check)
	if !c.Complete {
		sh.add(verdict{"PARTIAL", notComplete, "the search ended early, " + strings.TrimRight(cmp.Or(c.Ended, "it is not known why"), ".") + "."})
	}
	sh.looked(c)
	sh.levels(c)
	sh.warningList(c.Warnings)
	sh.sweepFiles(c.Dir, c.Complete, "capacity")
	sh.section("CAPACITY", c.Text)
	return sh
}

func (sh *sheet) looked(c *result.Capacity) {
	if len(c.Looked) == 0 {
		return
	}
	sh.section("LOOKED", "runs that found the place, in their order", "point estimates, which decide nothing")
	g := grid{header: []string{c.Over, "% of due", "stability"}, stack: true}
	for _, l := range c.Looked {
		g.rows = append(g.rows, []string{short(l.Load, 6), optional(l.Percent), cmp.Or(l.Stability, "failed: "+l.Error)})
	}
	sh.add(g)
}

func (sh *sheet) levels(c *result.Capacity) {
	sh.section("LEVELS", "verdicts, each of several runs with seeds of their own")
	g := grid{header: []string{c.Over, "verdict", "% of due", "interval", "due", "n_eff", "runs", "measured", "STABLE", "UNSTABLE"}, stack: true}
	var causes list
	for _, l := range c.Levels {
		interval := none
		if l.PercentCI != nil {
			interval = fixed(l.PercentCI[0], 2) + " to " + fixed(l.PercentCI[1], 2)
		}
		g.rows = append(g.rows, []string{
			short(l.Load, 6), cmp.Or(strings.ToUpper(l.Verdict), "open"), fixed(l.Percent, 2), interval, strconv.Itoa(l.Due), fixed(l.NEff, 0),
			strconv.Itoa(l.Runs), seconds(l.Window), strconv.Itoa(l.Stable), strconv.Itoa(l.Unstable),
		})
		if l.Cause != "" {
			causes = append(causes, fmt.Sprintf("%s %s: %s", c.Over, short(l.Load, 6), l.Cause))
		}
	}
	sh.add(g)
	if len(causes) > 0 {
		sh.add(causes)
	}
	if len(c.Levels) > 0 {
		sh.row("", "interval: Clopper-Pearson at the effective sample, at "+percent(c.Levels[0].Confidence)+", so that all looks at a level together have 95 %")
	}
}
