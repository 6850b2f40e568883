package compare

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/assay-bench/assay/result"
	"github.com/assay-bench/assay/stat"
)

// gateForm is METRIC<+N% for what should be low, METRIC>-N% for what should be
// high.
var gateForm = regexp.MustCompile(`^([a-z0-9_.]+)\s*([<>])\s*([+-]?)\s*([0-9.]+)\s*%$`)

// ParseGates reads limits such as "ttft.p99<+5%,output_tps>-3%": by how much the
// other side may be worse than the base.
func ParseGates(text string) ([]Gate, error) {
	var out []Gate
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		g, err := parseGate(part)
		if err != nil {
			return nil, fmt.Errorf("gate %q: %w", part, err)
		}
		out = append(out, g)
	}
	return out, nil
}

// Gate is a limit on how much worse a side may be than the base.
type Gate struct {
	Text   string
	Metric Metric
	// Margin as a share of the base, 0.05 for 5 %; never negative.
	Margin float64
}

func parseGate(text string) (Gate, error) {
	f := gateForm.FindStringSubmatch(text)
	if f == nil {
		return Gate{}, fmt.Errorf("want METRIC<+N%% or, where higher is better, METRIC>-N%%, as in ttft.p99<+5%%")
	}
	m, err := ParseMetric(f[1])
	if err != nil {
		return Gate{}, err
	}
	margin, err := strconv.ParseFloat(f[4], 64)
	if err != nil || margin < 0 || margin > 1000 || (m.Higher && margin >= 100) {
		return Gate{}, fmt.Errorf("margin %s %%: want a share of the base", f[4])
	}
	want := "<+"
	if m.Higher {
		want = ">-"
	}
	sign := f[3]
	if margin == 0 || (sign == "" && !m.Higher) {
		sign = want[1:]
	}
	if f[2]+sign != want {
		return Gate{}, fmt.Errorf("%s is better when it is %s: write %s%s%g%%", m.Name, map[bool]string{true: "high", false: "low"}[m.Higher], m.Name, want, margin)
	}
	return Gate{Text: text, Metric: m, Margin: margin / 100}, nil
}

// gates judges them by one-sided tests against the margin (non-inferiority): a
// gate passes if the other side is shown to be within it, fails if it is shown
// to be beyond it, and is undecided else. Since all must pass, each is tested at
// alpha (Berger 1982, intersection-union tests).
func (c *comparer) gates() {
	for _, g := range c.o.Gates {
		for _, stage := range c.stages() {
			base, why := values(&c.sides[0], stage, &g.Metric)
			for j := 1; j < len(c.sides); j++ {
				other, whyNot := values(&c.sides[j], stage, &g.Metric)
				out := result.Gate{Text: g.Text, Metric: g.Metric.Name, Stage: stage, Side: c.sides[j].Label, Margin: 100 * g.Margin}
				if missing := why + whyNot; missing != "" {
					out.PWithin, out.PBeyond = 1, 1
					out.Verdict, out.Finding = result.GateUndecided, missing
				} else {
					c.judge(&out, &g, base, other)
				}
				c.out.Gates = append(c.out.Gates, out)
			}
		}
	}
}

func (c *comparer) judge(out *result.Gate, g *Gate, base, other []float64) {
	limit := 1 + g.Margin
	if g.Metric.Higher {
		limit = 1 - g.Margin
	}
	// What is compared with the other side is the base at the limit; worse is up.
	bound, seen := make([]float64, len(base)), make([]float64, len(other))
	sign := 1.
	if g.Metric.Higher {
		sign = -1
	}
	for i, x := range base {
		bound[i] = sign * x * limit
	}
	for i, y := range other {
		seen[i] = sign * y
	}
	var least float64
	if c.o.Paired {
		d := differences(bound, seen)
		out.PWithin, _ = stat.SignFlipBelow(d)
		out.PBeyond, _ = stat.SignFlipBelow(differences(seen, bound))
		least = math.Ldexp(1, -len(d))
	} else {
		out.PWithin, out.PBeyond = stat.MannWhitneyBelow(bound, seen), stat.MannWhitneyBelow(seen, bound)
		least = stat.MinExactOneSidedP(len(base), len(other))
	}
	change := "no change known"
	b, s := spread(base), spread(other)
	if p := percent(s.Median-b.Median, b.Median); p != nil {
		change = fmt.Sprintf("medians differ by %+.2f %%", *p)
	}
	switch {
	case out.PWithin <= c.o.Alpha:
		out.Verdict = result.Pass
		out.Finding = fmt.Sprintf("shown to be within the margin (one-sided p = %.3g); %s", out.PWithin, change)
	case out.PBeyond <= c.o.Alpha:
		out.Verdict = result.Fail
		out.Finding = fmt.Sprintf("shown to be beyond the margin (one-sided p = %.3g); %s", out.PBeyond, change)
	default:
		out.Verdict = result.GateUndecided
		out.Finding = fmt.Sprintf("neither shown to be within the margin (p = %.3g) nor beyond it (p = %.3g); %s", out.PWithin, out.PBeyond, change)
		if least > c.o.Alpha {
			out.Finding += fmt.Sprintf("; %s can show neither", against(c.o.Paired, len(base), len(other)))
		}
	}
}
