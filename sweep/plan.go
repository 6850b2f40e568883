package sweep

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/assay-bench/assay/result"
)

// The keys of the load: the axes that a sweep climbs on.
const (
	ConcurrencyKey = "workload.concurrency"
	RateKey        = "workload.arrival.rate"
)

// Plan of a sweep.
type Plan struct {
	// Axes whose values are combined, each with each.
	Axes []result.SweepAxis
	// Repeats of every stage.
	Repeats int
	// Seed of the order, and of the runs by [RunSeed].
	Seed uint64
	// NoStop runs all stages, whatever they show: then the first round is drawn as
	// well.
	NoStop bool
}

// Stage is one combination of values.
type Stage struct {
	Name string
	// Settings in the order of the axes.
	Settings []Setting
	// Series names what the stage has in common with those that differ in load
	// alone: "" if the load is the only axis.
	Series string
	// Load is the value of the axis that is climbed on; Climbs is false without one.
	Load   float64
	Climbs bool
}

// Setting is one key and its value, as YAML.
type Setting struct{ Key, Name, Value string }

// Cell is one run: a stage of [Plan.Stages] by its index, and a repeat from 1.
type Cell struct{ Stage, Repeat int }

// Check says what is wrong with the axes.
func (p *Plan) Check() error {
	if len(p.Axes) == 0 {
		return fmt.Errorf("nothing is swept: give values, as in --concurrency 1,2,4,8 or --over workload.arrival.cv=1,2")
	}
	if p.Repeats < 1 {
		return fmt.Errorf("repeats (--repeats) is %d: want a count from 1", p.Repeats)
	}
	seen := make(map[string]bool)
	for _, a := range p.Axes {
		if seen[a.Key] {
			return fmt.Errorf("%s is swept twice", a.Key)
		}
		seen[a.Key] = true
		if len(a.Values) == 0 {
			return fmt.Errorf("%s has no values to sweep", a.Key)
		}
		for i, v := range a.Values {
			if slices.Contains(a.Values[:i], v) {
				return fmt.Errorf("%s has the value %s twice", a.Key, v)
			}
		}
	}
	if seen[ConcurrencyKey] && seen[RateKey] {
		return fmt.Errorf("concurrency makes a closed loop and a rate an open one: sweep one of them")
	}
	return nil
}

// Stages are all combinations, the load ascending within each series.
func (p *Plan) Stages() []Stage {
	stages := []Stage{{}}
	for _, a := range p.Axes {
		var next []Stage
		for _, s := range stages {
			for _, v := range a.Values {
				next = append(next, s.with(Setting{a.Key, a.Name, v}))
			}
		}
		stages = next
	}
	// Series in the order of their first stage, each ascending.
	order := make(map[string]int)
	for _, s := range stages {
		if _, ok := order[s.Series]; !ok {
			order[s.Series] = len(order)
		}
	}
	slices.SortStableFunc(stages, func(a, b Stage) int {
		return cmp.Or(cmp.Compare(order[a.Series], order[b.Series]), cmp.Compare(a.Load, b.Load))
	})
	return stages
}

func (s Stage) with(v Setting) Stage {
	s.Settings = append(slices.Clip(s.Settings), v)
	text := strings.TrimSpace(v.Name + " " + v.Value)
	load, err := strconv.ParseFloat(v.Value, 64)
	switch {
	case v.Key == RateKey && err == nil:
		s.Load, s.Climbs, text = load, true, text+"/s"
	case v.Key == ConcurrencyKey && err == nil:
		s.Load, s.Climbs = load, true
	default:
		s.Series = join(s.Series, text)
	}
	s.Name = join(s.Name, text)
	return s
}

func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + ", " + b
}

// Order is all cells in the order in which they are to be run.
func (p *Plan) Order() []Cell {
	stages := p.Stages()
	cells := make([]Cell, 0, len(stages)*p.Repeats)
	for repeat := 1; repeat <= p.Repeats; repeat++ {
		round := make([]int, len(stages))
		for i := range round {
			round[i] = i
		}
		if repeat > 1 || p.NoStop || !stages[0].Climbs {
			r := rand.New(rand.NewPCG(p.Seed, uint64(repeat)))
			r.Shuffle(len(round), func(i, k int) { round[i], round[k] = round[k], round[i] })
		}
		for _, i := range round {
			cells = append(cells, Cell{i, repeat})
		}
	}
	return cells
}

// Above are the stages of the series of one that have a higher load.
func Above(stages []Stage, i int) []int {
	var out []int
	for k, s := range stages {
		if stages[i].Climbs && s.Series == stages[i].Series && s.Load > stages[i].Load {
			out = append(out, k)
		}
	}
	return out
}

// RunSeed is the seed of the runs of a round. The first has the sweep's own, so
// that it is what one run with that seed would be; the others are drawn from it.
// They are below 2^48, which any reader of JSON keeps.
func RunSeed(seed uint64, repeat int) uint64 {
	if repeat <= 1 {
		return seed
	}
	return rand.New(rand.NewPCG(seed, 0x5eed<<32|uint64(repeat))).Uint64() >> 16
}
