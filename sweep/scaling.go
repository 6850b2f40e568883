package sweep

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/assay-bench/assay/result"
	"github.com/assay-bench/assay/stat"
)

const (
	// resamples of the runs for the intervals of knee and law.
	resamples = 1000
	// leastRuns of a stage for an interval to say anything.
	leastRuns = 3
	level     = 0.95
	// farOff is the distance from the points at which the law does not describe
	// them.
	farOff = 0.10
)

// scalings of all series that have a load.
func scalings(stages []Stage, points []point, seed uint64) []result.Scaling {
	var out []result.Scaling
	var names []string
	for _, s := range stages {
		if s.Climbs && !slices.Contains(names, s.Series) {
			names = append(names, s.Series)
		}
	}
	for _, name := range names {
		c := curve{series: name}
		for i, s := range stages {
			if s.Series == name && s.Climbs {
				c.open = hasKey(s, RateKey)
				c.add(s, points[i])
			}
		}
		out = append(out, c.scaling(seed))
	}
	return out
}

func hasKey(s Stage, key string) bool {
	return slices.ContainsFunc(s.Settings, func(v Setting) bool { return v.Key == key })
}

// curve is the points of one series, the load ascending.
type curve struct {
	series string
	open   bool
	names  []string
	load   []float64
	runs   [][]*result.Stage
}

func (c *curve) add(s Stage, p point) {
	if len(p.runs) > 0 {
		c.names, c.load, c.runs = append(c.names, s.Name), append(c.load, s.Load), append(c.runs, p.runs)
	}
}

// looked says what of the runs the curve is made of. In a closed loop it is
// throughput; in an open one throughput is the rate, and latency tells.
func (c *curve) looked() (name string, f figure, shape stat.Curve) {
	if c.open {
		return "e2e_p50_ms", E2Ep50, stat.Convex
	}
	for _, runs := range c.runs {
		for _, r := range runs {
			if t := throughput(r); t == nil || t.Name != "output_tps" {
				return "rps", perSecond("rps"), stat.Concave
			}
		}
	}
	return "output_tps", perSecond("output_tps"), stat.Concave
}

func (c *curve) scaling(seed uint64) result.Scaling {
	name, f, shape := c.looked()
	out := result.Scaling{Series: c.series, Over: "concurrency", Of: name, Points: []result.ScalingPoint{}}
	if c.open {
		out.Over = "rate"
	}
	sample := make([][]float64, 0, len(c.load))
	load := make([]float64, 0, len(c.load))
	for i, runs := range c.runs {
		v := values(runs, f)
		if len(v) == 0 {
			continue
		}
		slices.Sort(v)
		out.Points = append(out.Points, result.ScalingPoint{Stage: c.names[i], Load: c.load[i], Value: stat.Median(v), Runs: len(v)})
		sample, load = append(sample, v), append(load, c.load[i])
	}
	knee(&out, load, sample, shape, seed)
	if c.open {
		out.USLText = "the law is one of users at a time: it is fitted to closed loops"
		return out
	}
	law(&out, load, sample, seed)
	return out
}

// enough reports whether every point has the runs that an interval needs.
func enough(sample [][]float64) bool {
	return !slices.ContainsFunc(sample, func(v []float64) bool { return len(v) < leastRuns })
}

// medians of the runs of every point, or of a resample of them.
func medians(sample [][]float64, r *rand.Rand) []float64 {
	out := make([]float64, len(sample))
	for i, v := range sample {
		if r != nil {
			drawn := make([]float64, len(v))
			for k := range drawn {
				drawn[k] = v[r.IntN(len(v))]
			}
			slices.Sort(drawn)
			v = drawn
		}
		out[i] = stat.Median(v)
	}
	return out
}

func knee(out *result.Scaling, load []float64, sample [][]float64, shape stat.Curve, seed uint64) {
	const leastPoints = 4
	if len(load) < leastPoints {
		out.KneeText = fmt.Sprintf("no knee is looked for: it needs %d points that may be taken for a steady state, and there are %d", leastPoints, len(load))
		return
	}
	at, ok := stat.Kneedle(load, medians(sample, nil), shape, stat.KneedleSensitivity)
	switch {
	case !ok && out.Over == "rate":
		out.KneeText = "no knee among the STABLE points: latency takes off where a load is no longer stable. assay capacity searches for the rate that an objective allows"
		return
	case !ok:
		out.KneeText = "no knee in this range: the curve does not bend enough. Sweep higher loads"
		return
	}
	out.Knee = &load[at]
	if !enough(sample) {
		out.KneeText = fmt.Sprintf("no interval: %d runs of every point are needed", leastRuns)
		return
	}
	r := rand.New(rand.NewPCG(seed, 1))
	var found []float64
	for range resamples {
		if at, ok := stat.Kneedle(load, medians(sample, r), shape, stat.KneedleSensitivity); ok {
			found = append(found, load[at])
		}
	}
	out.KneeRange = percentiles(found)
	out.KneeText = fmt.Sprintf("in %.1f %% of %d resamples of the runs there is a knee", 100*float64(len(found))/resamples, resamples)
}

// percentiles at both ends of the level; nil without values.
func percentiles(v []float64) *result.Interval {
	if len(v) == 0 {
		return nil
	}
	slices.Sort(v)
	tail := (1 - level) / 2
	return &result.Interval{stat.Quantile(v, tail, stat.Type1), stat.Quantile(v, 1-tail, stat.Type1)}
}

func law(out *result.Scaling, load []float64, sample [][]float64, seed uint64) {
	u, ok := stat.FitUSL(load, medians(sample, nil))
	if !ok {
		out.USLText = fmt.Sprintf("not fitted: it has three parameters, and needs 4 points that may be taken for a steady state; there are %d", len(load))
		return
	}
	fit := &result.USL{Lambda: u.Lambda, Sigma: u.Sigma, Kappa: u.Kappa, R2: u.R2, WorstOff: u.WorstOff, NMax: finite(u.NMax())}
	out.USL = fit
	if u.Kappa == 0 && u.Sigma > 0 {
		fit.Limit = finite(u.Lambda / u.Sigma)
	}
	switch {
	case u.WorstOff > farOff:
		out.USLText = fmt.Sprintf("it does not describe these points: it is off by up to %.0f %%. A hard limit, such as a cap on running requests, makes a corner that the law does not have; trust the knee", 100*u.WorstOff)
	case fit.NMax != nil && *fit.NMax > load[len(load)-1]:
		out.USLText = "its maximum lies beyond the loads that were run: an extrapolation"
	}
	if !enough(sample) {
		return
	}
	r := rand.New(rand.NewPCG(seed, 2))
	var lambda, sigma, kappa, peak []float64
	for range resamples {
		if u, ok := stat.FitUSL(load, medians(sample, r)); ok {
			lambda, sigma, kappa, peak = append(lambda, u.Lambda), append(sigma, u.Sigma), append(kappa, u.Kappa), append(peak, u.NMax())
		}
	}
	fit.LambdaCI, fit.SigmaCI, fit.KappaCI = percentiles(lambda), percentiles(sigma), percentiles(kappa)
	if p := percentiles(peak); p != nil {
		fit.NMaxLo, fit.NMaxHi = finite(p[0]), finite(p[1])
	}
}

func finite(x float64) *float64 {
	if math.IsInf(x, 0) || math.IsNaN(x) {
		return nil
	}
	return &x
}
