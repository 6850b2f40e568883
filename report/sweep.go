package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/assay-bench/assay/result"
)

// Sweep writes the report of a sweep for people.
func Sweep(w io.Writer, s *result.Sweep, o Options) error { return sweepSheet(s).text(w, o) }

// SweepMarkdown writes the content of a sweep's report.md.
func SweepMarkdown(w io.Writer, s *result.Sweep) error {
	return sweepSheet(s).markdown(w, "Assay sweep")
}

func sweepSheet(s *result.Sweep) *sheet {
	sh := new(sheet)
	sh.sweepHeader(s)
	sh.sweepLatency(s)
	sh.sweepThroughput(s)
	sh.sweepGoodput(s)
	sh.sweepValidity(s)
	for i := range s.Scaling {
		sh.scaling(&s.Scaling[i], s.Quick)
	}
	for _, stop := range s.Stops {
		skipped := ""
		if len(stop.Skipped) > 0 {
			skipped = "not run: " + strings.Join(stop.Skipped, "; ")
		}
		sh.section("STOPPED", prefixed("at ", stop.Stage), stop.Text+" ["+stop.Rule+"]", skipped)
	}
	for i := range s.Diagnosis {
		sh.sweepDiagnosis(&s.Diagnosis[i])
	}
	sh.warningList(s.Warnings)
	sh.sweepFiles(s.Dir, s.Complete, "sweep")
	sh.sweepBanner(s)
	return sh
}

func (sh *sheet) sweepHeader(s *result.Sweep) {
	sh.target(s.Target)
	began := ""
	if !s.Began.IsZero() {
		began = "began " + s.Began.UTC().Format("2006-01-02 15:04:05 UTC")
	}
	sh.row("sweep", s.ID, began, "assay "+cmp.Or(s.ToolVersion, "version not told"))
	var axes []string
	for _, a := range s.Axes {
		axes = append(axes, a.Name+" "+strings.Join(a.Values, ", "))
	}
	sh.row("over", axes...)
	process := "each a process of its own"
	if s.Target.Virtual {
		process = "virtual time: one process, no network, no frontend"
	}
	sh.row("runs", fmt.Sprintf("%d of every stage", s.Repeats), process, "order and seeds drawn from seed "+strconv.FormatUint(s.Seed, 10))
	if s.Duration > 0 {
		sh.row("window", seconds(s.Duration)+" a run, after its warm-up")
	}
	sh.row("workload", prefixed("of the first run: ", s.WorkloadText))
	sh.checkRow(s.Check)
	if s.Quick {
		sh.add(verdict{"QUICK", "a first look", "one short run a stage. No tails, no intervals, and UNDECIDED is taken for good enough: for a figure to quote, sweep without --quick."})
	}
	if !s.Complete {
		sh.add(verdict{"PARTIAL", notComplete, "the sweep ended early, " + strings.TrimRight(cmp.Or(s.Ended, "it is not known why"), ".") + "."})
	}
}

// checkRow says whether the instrument was checked before the runs.
func (sh *sheet) checkRow(c *result.InstrumentCheck) {
	switch failed := failedItems(c); {
	case c == nil:
		sh.row("check", "no instrument check was made")
	case failed != "":
		sh.row("check", "the instrument check failed: "+failed)
	default:
		sh.row("check", "the instrument check passed before the first run")
	}
}

// warningList is the warnings of several runs.
func (sh *sheet) warningList(warnings []result.Warning) {
	if len(warnings) == 0 {
		return
	}
	sh.section("WARNINGS", times(len(warnings), "finding that", "findings that")+" a reader of the numbers must know")
	var texts list
	for _, w := range warnings {
		texts = append(texts, coded(w))
	}
	sh.add(texts)
}

// sweepFiles says where everything is, and how to go on.
func (sh *sheet) sweepFiles(dir string, complete bool, command string) {
	if dir == "" {
		return
	}
	sh.add(verbatim{"FILES", dir})
	sh.row("", "sweep.json: plan and states", "one directory a run", "report.html: with pictures", "report.json", "report.md")
	sh.add(verbatim{"again", "assay report " + shellWord(dir)})
	if !complete {
		sh.add(verbatim{"go on", "assay " + command + " --resume " + shellWord(dir)})
	}
}

func failedItems(c *result.InstrumentCheck) string {
	if c == nil {
		return ""
	}
	return strings.Join(c.Failed(), ", ")
}

// overRuns is a median with its MAD.
func overRuns(s *result.Spread) string {
	switch {
	case s == nil:
		return none
	case s.N == 1:
		return number(s.Median)
	}
	return number(s.Median) + " ± " + number(s.MAD)
}

// wasSkipped reports whether the climb stopped below a stage.
func wasSkipped(st *result.SweepStage) bool {
	return !slices.ContainsFunc(st.Runs, func(r result.SweepRun) bool { return r.State != result.CellSkipped })
}

// between is the range of the runs.
func between(s *result.Spread) string {
	if s == nil || !(s.Max > s.Min) {
		return ""
	}
	return number(s.Min) + " to " + number(s.Max)
}

// spreads is a table of stages, each with its medians and, below, the ranges.
func (sh *sheet) spreads(s *result.Sweep, header []string, of func(*result.SweepStage) []*result.Spread) {
	g := grid{header: header, stack: true}
	for i := range s.Stages {
		st := &s.Stages[i]
		if wasSkipped(st) {
			continue
		}
		medians, ranges, any := []string{st.Name}, []string{"  min to max"}, false
		for _, v := range of(st) {
			medians, ranges = append(medians, overRuns(v)), append(ranges, between(v))
			any = any || v != nil && v.Max > v.Min
		}
		g.rows = append(g.rows, medians)
		if any {
			g.rows = append(g.rows, ranges)
		}
	}
	sh.add(g)
}

func (sh *sheet) sweepLatency(s *result.Sweep) {
	items := []string{"ms, client", "median ± MAD of the runs' own figures; the run is the unit"}
	if s.Repeats < 2 {
		items = []string{"ms, client", "one run a stage: nothing is known of how it varies"}
	}
	sh.section("LATENCY", items...)
	header := []string{"stage", "TTFT p50", "TTFT p99", "TPOT mean", "E2E p50"}
	if s.Quick {
		header = slices.Delete(header, 2, 3)
	}
	sh.spreads(s, header, func(st *result.SweepStage) []*result.Spread {
		out := []*result.Spread{st.TTFTp50, st.TTFTp99, st.TPOTMean, st.E2Ep50}
		if s.Quick {
			out = slices.Delete(out, 1, 2)
		}
		return out
	})
	sh.row("", "TPOT: the request-weighted mean of each run")
}

func (sh *sheet) sweepThroughput(s *result.Sweep) {
	sh.section("THROUGHPUT", "over the declared window of each run, warm-up and cooldown outside")
	sh.spreads(s, []string{"stage", "output tokens/s", "requests/s", "in flight"}, func(st *result.SweepStage) []*result.Spread {
		return []*result.Spread{st.OutputTPS, st.RPS, st.InFlight}
	})
}

// barCells is the width of a full bar.
const barCells = 20

func (sh *sheet) sweepGoodput(s *result.Sweep) {
	if !slices.ContainsFunc(s.Stages, func(st result.SweepStage) bool { return st.Goodput != nil }) {
		return
	}
	sh.section("GOODPUT", "due requests that met every limit", "goodput rate: such requests per second, another quantity")
	g := grid{header: []string{"stage", "% of due", "requests/s good", ""}, stack: true}
	for _, st := range s.Stages {
		if wasSkipped(&st) {
			continue
		}
		bar := ""
		if st.Goodput != nil {
			bar = strings.Repeat("#", int(st.Goodput.Median/100*barCells+0.5))
		}
		g.rows = append(g.rows, []string{st.Name, overRuns(st.Goodput), overRuns(st.GoodputRate), fmt.Sprintf("%-*s", barCells, bar)})
	}
	sh.add(g)
}

// sweepValidity says of every stage whether its figures are of a steady state.
func (sh *sheet) sweepValidity(s *result.Sweep) {
	sh.section("VALIDITY", "runs of each stage by verdict")
	g := grid{header: []string{"stage", "done", "client VALID", "STABLE", "UNDECIDED", "UNSTABLE", "not stabilised"}, stack: true}
	var notes list
	for _, st := range s.Stages {
		if wasSkipped(&st) {
			continue
		}
		n := make(map[string]int)
		for _, r := range st.Runs {
			n[r.State]++
			if r.State != result.CellDone {
				continue
			}
			n[r.Client]++
			n[r.Stability]++
			if r.Warmup != "" {
				n["capped"]++
			}
		}
		g.rows = append(g.rows, []string{
			st.Name, fmt.Sprintf("%d of %d", n[result.CellDone], len(st.Runs)), strconv.Itoa(n[result.Valid]), strconv.Itoa(n[result.Stable]),
			strconv.Itoa(n[result.Undecided]), strconv.Itoa(n[result.Unstable]), strconv.Itoa(n["capped"]),
		})
		if st.Excluded != "" && st.Load != nil {
			notes = append(notes, st.Name+" is no point of the curve: "+st.Excluded)
		}
		for _, r := range st.Runs {
			if r.State == result.CellFailed {
				notes = append(notes, fmt.Sprintf("%s, repeat %d failed: %s", st.Name, r.Repeat, r.Error))
			}
		}
	}
	sh.add(g)
	if len(notes) > 0 {
		sh.add(notes)
	}
}

// scalingWords says what a curve was made of.
func scalingWords(of string) string {
	switch of {
	case "output_tps":
		return "output tokens/s"
	case "rps":
		return "requests/s"
	case "e2e_p50_ms":
		return "E2E p50"
	}
	return of
}

func (sh *sheet) scaling(c *result.Scaling, quick bool) {
	of := "medians of the STABLE runs"
	if quick {
		of = "the runs that are not UNSTABLE"
	}
	sh.section("SCALING", prefixed("", c.Series), scalingWords(c.Of)+" over "+c.Over, times(len(c.Points), "point", "points")+", "+of)
	if c.Knee == nil {
		sh.row("knee", cmp.Or(c.KneeText, none))
	} else {
		text := c.Over + " " + short(*c.Knee, 3)
		if c.KneeRange != nil {
			text += " (95 % of resamples: " + short(c.KneeRange[0], 3) + " to " + short(c.KneeRange[1], 3) + ")"
		}
		sh.row("knee", text, "Kneedle, S = 1", c.KneeText)
	}
	u := c.USL
	if u == nil {
		sh.row("USL", cmp.Or(c.USLText, none))
		return
	}
	sh.row("USL", "X(N) = λN / (1 + σ(N-1) + κN(N-1))", "R² "+short(u.R2, 4), "off by at most "+percent(u.WorstOff))
	sh.row("", "λ "+number(u.Lambda)+ci(u.LambdaCI, number), "σ "+small(u.Sigma)+ci(u.SigmaCI, small), "κ "+small(u.Kappa)+ci(u.KappaCI, small))
	switch {
	case u.NMax != nil:
		sh.row("", "largest at N = "+number(*u.NMax)+" (95 % of resamples: "+optional(u.NMaxLo)+" to "+orUnbounded(u.NMaxHi)+")")
	case u.Limit != nil:
		sh.row("", "no maximum: it approaches "+number(*u.Limit)+" "+scalingWords(c.Of))
	default:
		sh.row("", "no maximum in the law: it grows with N")
	}
	sh.row("", c.USLText)
	if u.LambdaCI == nil {
		sh.row("", "no intervals: 3 runs of every point are needed")
	}
}

// small is a coefficient that may be far below 1.
func small(x float64) string {
	if x == 0 {
		return "0"
	}
	return strconv.FormatFloat(x, 'g', 3, 64)
}

func ci(v *result.Interval, form func(float64) string) string {
	if v == nil {
		return ""
	}
	return " (" + form(v[0]) + " to " + form(v[1]) + ")"
}

func orUnbounded(v *float64) string {
	if v == nil {
		return "no maximum"
	}
	return number(*v)
}

func (sh *sheet) sweepBanner(s *result.Sweep) {
	done, all, stable, invalid := 0, 0, 0, 0
	for _, st := range s.Stages {
		for _, r := range st.Runs {
			all++
			if r.State != result.CellDone {
				continue
			}
			done++
			if r.Stability == result.Stable {
				stable++
			}
			if r.Client == result.Invalid {
				invalid++
			}
		}
	}
	for _, c := range s.Scaling {
		b := banner{}
		if c.Series != "" {
			b = append(b, part{text: c.Series})
		}
		if c.Knee != nil {
			b = append(b, part{text: "knee at " + c.Over + " " + short(*c.Knee, 3)})
		} else {
			b = append(b, part{text: "no knee"})
		}
		if p := peak(&c); p != "" {
			b = append(b, part{text: p})
		}
		sh.add(b)
	}
	var b banner
	if !s.Complete {
		b = append(b, part{"PARTIAL", notComplete})
	}
	if s.Quick {
		b = append(b, part{"quick: a first look", result.Undecided})
	}
	client := part{"client VALID", result.Valid}
	if invalid > 0 {
		client = part{fmt.Sprintf("client INVALID in %d", invalid), result.Invalid}
	}
	b = append(b, part{text: fmt.Sprintf("%d of %d runs done", done, all)}, client, part{text: fmt.Sprintf("%d STABLE", stable)})
	if len(s.Stops) > 0 {
		b = append(b, part{text: "stopped at " + s.Stops[0].Stage})
	}
	sh.add(b)
}

// peak is the largest throughput of a curve that is made of it.
func peak(c *result.Scaling) string {
	if c.Of == "e2e_p50_ms" || len(c.Points) == 0 {
		return ""
	}
	best := c.Points[0]
	for _, p := range c.Points {
		if p.Value > best.Value {
			best = p
		}
	}
	return "most " + scalingWords(c.Of) + ": " + number(best.Value) + " at " + best.Stage
}
