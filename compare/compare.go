package compare

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/assay-bench/assay/result"
	"github.com/assay-bench/assay/stat"
)

// Options of a comparison.
type Options struct {
	// Metrics are the family, DefaultMetrics if there are none.
	Metrics []Metric
	// Alpha is the chance of any false alarm in the family; 0 is 0.05.
	Alpha float64
	// Paired: run i of each side has the seed of run i of the base.
	Paired bool
	// Gates to judge, each on its own: all must hold, so that none needs a
	// correction for the others.
	Gates []Gate
	// Seed of the bootstrap.
	Seed uint64
	// Objections that were overruled and notes, from [Objections].
	Objections, Notes []string
}

// power at which the minimum detectable effect is stated.
const power = 0.8

// maxPairs that the sign-flip test enumerates.
const maxPairs = 20

// efficiency of the rank test against the t test for normal values, 3/pi.
const efficiency = 3 / math.Pi

// shiftQuantiles of the shift function.
func shiftQuantiles() []float64 { return []float64{0.5, 0.9, 0.95, 0.99} }

// Compare holds every side against the first. The error says why the sides
// cannot be compared in the way that was asked for.
func Compare(sides []Side, o Options) (*result.Comparison, error) {
	if len(sides) < 2 {
		return nil, fmt.Errorf("a comparison needs two sides, there is %d", len(sides))
	}
	for _, s := range sides {
		if len(s.Runs) == 0 {
			return nil, fmt.Errorf("%s has no runs", s.Label)
		}
	}
	o.Alpha = cmp.Or(o.Alpha, 0.05)
	if len(o.Metrics) == 0 {
		o.Metrics, _ = ParseMetrics(DefaultMetrics())
	}
	if o.Paired {
		var err error
		if sides, err = pairUp(sides); err != nil {
			return nil, err
		}
	}
	c := &comparer{o: o, sides: sides, out: &result.Comparison{
		SchemaVersion: result.SchemaVersion, Base: sides[0].Label, Paired: o.Paired, Alpha: o.Alpha,
		Objections: o.Objections, Notes: slices.Clone(o.Notes),
	}}
	c.describe()
	for _, name := range c.stages() {
		c.stage(name)
	}
	c.adjust()
	c.gates()
	return c.out, nil
}

// pairUp orders every side by stage and seed, and holds it against the base.
func pairUp(sides []Side) ([]Side, error) {
	out := slices.Clone(sides)
	for i := range out {
		out[i].Runs = slices.Clone(out[i].Runs)
		slices.SortStableFunc(out[i].Runs, func(a, b Run) int {
			return cmp.Or(cmp.Compare(a.Stage.Name, b.Stage.Name), cmp.Compare(a.Result.Seed, b.Result.Seed))
		})
		for _, stage := range stages(&out[0]) {
			x, y := seeds(runsOf(&out[0], stage)), seeds(runsOf(&out[i], stage))
			switch {
			case !slices.Equal(x, y):
				return nil, fmt.Errorf("paired: the seeds of %s differ: %s has %v, %s has %v", stage, out[0].Label, x, out[i].Label, y)
			case len(slices.Compact(slices.Clone(x))) < len(x):
				return nil, fmt.Errorf("paired: several runs of %s have one seed: %v", stage, x)
			case len(x) > maxPairs:
				return nil, fmt.Errorf("paired: %s has %d pairs; signs are enumerated for up to %d", stage, len(x), maxPairs)
			}
		}
	}
	return out, nil
}

// runsOf a stage.
func runsOf(s *Side, stage string) []Run {
	var runs []Run
	for _, r := range s.Runs {
		if r.Stage.Name == stage {
			runs = append(runs, r)
		}
	}
	return runs
}

func seeds(runs []Run) []uint64 {
	out := make([]uint64, len(runs))
	for i := range runs {
		out[i] = runs[i].Result.Seed
	}
	return out
}

type comparer struct {
	o     Options
	sides []Side
	out   *result.Comparison
}

func (c *comparer) describe() {
	for _, s := range c.sides {
		side := result.ComparedSide{Label: s.Label}
		for _, r := range s.Runs {
			side.Runs = append(side.Runs, result.ComparedRun{
				ID: r.Result.ID, Dir: r.Dir, Seed: r.Result.Seed, Stage: r.Stage.Name,
				Client: r.Stage.Client.Verdict, Stability: r.Stage.Stability.Verdict,
			})
		}
		c.out.Sides = append(c.out.Sides, side)
	}
	c.out.Test = "exact rank test over runs (Mann-Whitney)"
	if c.o.Paired {
		c.out.Test = "exact sign-flip test over paired runs of equal seeds"
	} else if _, err := pairUp(c.sides); err == nil && len(c.sides[0].Runs) > len(c.stages()) {
		c.out.Notes = append(c.out.Notes, "the sides have the same seeds: a paired comparison, which takes the scatter of the workload out, is possible")
	}
}

// stages of the base, in the order of its runs.
func (c *comparer) stages() []string {
	var names []string
	for i := range c.sides[0].Runs {
		if name := c.sides[0].Runs[i].Stage.Name; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// values of a metric over the runs of a side; why says what is missing.
func values(s *Side, stage string, m *Metric) (v []float64, why string) {
	runs := runsOf(s, stage)
	if len(runs) == 0 {
		return nil, fmt.Sprintf("%s has no such stage", s.Label)
	}
	for _, r := range runs {
		x, missing := m.of(r.Stage)
		if x == nil {
			return nil, fmt.Sprintf("not in every run: run %s of %s: %s", r.Result.ID, s.Label, missing)
		}
		v = append(v, *x)
	}
	return v, ""
}

func (c *comparer) stage(name string) {
	for i := range c.o.Metrics {
		m := &c.o.Metrics[i]
		base, why := values(&c.sides[0], name, m)
		for j := 1; j < len(c.sides); j++ {
			side := &c.sides[j]
			other, whyNot := values(side, name, m)
			if why = cmp.Or(why, whyNot); why != "" {
				add(&c.out.Untested, "%s, %s: %s", name, m.Name, why)
				continue
			}
			c.out.Findings = append(c.out.Findings, c.difference(name, m, side, base, other))
		}
	}
}

func (c *comparer) difference(stage string, m *Metric, side *Side, base, other []float64) result.Difference {
	d := result.Difference{
		Stage: stage, Metric: m.Name, Unit: m.Unit, Higher: m.Higher, Side: side.Label,
		Base: spread(base), Other: spread(other),
	}
	d.Medians = d.Other.Median - d.Base.Median
	d.Percent = percent(d.Medians, d.Base.Median)
	level := 1 - c.o.Alpha
	var lo, hi float64
	var ok bool
	if c.o.Paired {
		diff := differences(base, other)
		d.P, _ = stat.SignFlip(diff)
		d.Shift = stat.PairedShift(diff)
		lo, hi, ok = stat.PairedShiftInterval(diff, level)
	} else {
		test := stat.MannWhitney(base, other)
		d.P, d.Delta = test.P, &test.Delta
		d.Shift = stat.HodgesLehmann(base, other)
		lo, hi, ok = stat.HodgesLehmannInterval(base, other, level)
	}
	if ok {
		d.ShiftCI = &result.Interval{lo, hi}
	}
	if m.perRequest() && c.firstOf(stage, m, side.Label) {
		d.Quantiles = c.shiftFunction(stage, m, side)
		if c.o.Paired {
			d.Requests = pairedRequests(&c.sides[0], side, stage, m)
		}
	}
	return d
}

// firstOf reports whether no finding of this quantity has a shift function yet.
func (c *comparer) firstOf(stage string, m *Metric, side string) bool {
	return !slices.ContainsFunc(c.out.Findings, func(d result.Difference) bool {
		name, _, _ := strings.Cut(d.Metric, ".")
		return d.Stage == stage && d.Side == side && name == m.quantity.name
	})
}

func spread(v []float64) result.RunValues {
	sorted := slices.Sorted(slices.Values(v))
	return result.RunValues{
		Spread: result.Spread{N: len(v), Median: stat.Median(sorted), MAD: stat.MAD(sorted), Min: stat.Min(v), Max: stat.Max(v)},
		Values: v,
	}
}

func percent(x, of float64) *float64 {
	if of == 0 {
		return nil
	}
	p := 100 * x / math.Abs(of)
	return &p
}

func differences(base, other []float64) []float64 {
	d := make([]float64, len(base))
	for i := range d {
		d[i] = other[i] - base[i]
	}
	return d
}

func (c *comparer) shiftFunction(stage string, m *Metric, side *Side) []result.QuantileShift {
	of := func(s *Side) (runs [][]float64) {
		for _, r := range runsOf(s, stage) {
			if samples := r.Samples[m.quantity.name]; samples != nil {
				runs = append(runs, samples.Value)
			}
		}
		return runs
	}
	x, y := of(&c.sides[0]), of(side)
	if len(x) == 0 || len(y) == 0 {
		return nil
	}
	var out []result.QuantileShift
	for _, q := range stat.TwoLevelShift(x, y, shiftQuantiles(), 1-c.o.Alpha, c.o.Seed) {
		shift := result.QuantileShift{P: q.P, Base: q.X, Other: q.Y, Shift: q.Y - q.X}
		if !math.IsNaN(q.Lo) {
			shift.CI = &result.Interval{q.Lo, q.Hi}
		}
		if describable(x, q.P) && describable(y, q.P) {
			out = append(out, shift)
		}
	}
	return out
}

// describable reports whether every run has values beyond its p-quantile.
func describable(runs [][]float64, p float64) bool {
	return !slices.ContainsFunc(runs, func(r []float64) bool { return !stat.Describable(len(r), p) })
}

// pairedRequests matches the requests of paired runs by their place in the plan.
func pairedRequests(base, other *Side, stage string, m *Metric) *result.PairedRequests {
	var diffs []float64
	others := runsOf(other, stage)
	for i, r := range runsOf(base, stage) {
		x, y := r.Samples[m.quantity.name], others[i].Samples[m.quantity.name]
		if x == nil || y == nil {
			continue
		}
		in := make(map[int64]float64, len(x.Value))
		for j, request := range x.Request {
			in[request] = x.Value[j]
		}
		for j, request := range y.Request {
			if v, ok := in[request]; ok {
				diffs = append(diffs, y.Value[j]-v)
			}
		}
	}
	if len(diffs) == 0 {
		return nil
	}
	slices.Sort(diffs)
	above := 0
	for _, d := range diffs {
		if d > 0 {
			above++
		}
	}
	return &result.PairedRequests{N: len(diffs), Median: stat.Median(diffs), Above: float64(above) / float64(len(diffs))}
}

// adjust fills in what the whole family decides: adjusted p, and the words.
func (c *comparer) adjust() {
	family := len(c.out.Findings)
	c.out.Hypotheses = family
	if family == 0 {
		return
	}
	c.out.NeedRuns = c.need(family)
	p := make([]float64, family)
	for i := range c.out.Findings {
		p[i] = c.out.Findings[i].P
		if math.IsNaN(p[i]) {
			p[i] = 1
		}
	}
	holm := stat.Holm(p)
	for i := range c.out.Findings {
		d := &c.out.Findings[i]
		d.P, d.PHolm = p[i], holm[i]
		c.word(d)
	}
}

// leastP that the design can give.
func (c *comparer) leastP(n, m int) float64 {
	if c.o.Paired {
		return stat.MinSignFlipP(n)
	}
	return stat.MinExactP(n, m)
}

// need is how many runs a side can carry a family.
func (c *comparer) need(family int) int {
	n := 1
	for stat.HolmCapacity(c.o.Alpha, c.leastP(n, n)) < family {
		n++
	}
	return n
}

func (c *comparer) word(d *result.Difference) {
	family := len(c.out.Findings)
	n, m := d.Base.N, d.Other.N
	if stat.HolmCapacity(c.o.Alpha, c.leastP(n, m)) < family {
		d.Finding = result.NotEnoughRuns
		d.Text = fmt.Sprintf("%s cannot carry %s at %g %%: it needs %s", against(c.o.Paired, n, m), hypotheses(family), 100*c.o.Alpha,
			against(c.o.Paired, c.out.NeedRuns, c.out.NeedRuns))
		return
	}
	d.Detectable = c.detectable(d, family)
	switch {
	case d.PHolm > c.o.Alpha:
		d.Finding = result.NoDifference
		if d.Detectable != nil {
			d.Text = fmt.Sprintf("a difference of about %.2g %% would have been shown in %.0f %% of cases", *d.Detectable, 100*power)
		}
	case (d.Shift > 0) == d.Higher:
		d.Finding = result.Improvement
	default:
		d.Finding = result.Regression
	}
}

func against(paired bool, n, m int) string {
	if paired {
		return fmt.Sprintf("%d pairs", n)
	}
	return fmt.Sprintf("%d v %d", n, m)
}

func hypotheses(n int) string {
	if n == 1 {
		return "one hypothesis"
	}
	return fmt.Sprintf("a family of %d hypotheses", n)
}

// detectable estimates the smallest difference that this design shows with the
// stated power, at the level of Holm's first step, in percent of the base.
func (c *comparer) detectable(d *result.Difference, family int) *float64 {
	n, m := float64(d.Base.N), float64(d.Other.N)
	var sd, dof float64
	if c.o.Paired {
		if n < 2 {
			return nil
		}
		sd, dof = stat.StdDev(differences(d.Base.Values, d.Other.Values))/math.Sqrt(n), n-1
	} else {
		if n < 2 || m < 2 {
			return nil
		}
		dof = n + m - 2
		pooled := ((n-1)*stat.Variance(d.Base.Values) + (m-1)*stat.Variance(d.Other.Values)) / dof
		sd = math.Sqrt(pooled * (1/n + 1/m) / efficiency)
	}
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: dof}
	effect := (t.Quantile(1-c.o.Alpha/float64(family)/2) + t.Quantile(power)) * sd
	return percent(effect, d.Base.Median)
}
