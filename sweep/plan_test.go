package sweep

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/assay-bench/assay/result"
)

func axis(key, name string, values ...string) result.SweepAxis {
	return result.SweepAxis{Key: key, Name: name, Values: values}
}

func TestStages(t *testing.T) {
	p := Plan{
		Axes:    []result.SweepAxis{axis("workload.prompt_tokens", "prompt tokens", "512", "128"), axis(RateKey, "rate", "4", "1", "2")},
		Repeats: 2, Seed: 7,
	}
	var names, series []string
	for _, s := range p.Stages() {
		names, series = append(names, s.Name), append(series, s.Series)
	}
	want := []string{
		"prompt tokens 512, rate 1/s", "prompt tokens 512, rate 2/s", "prompt tokens 512, rate 4/s",
		"prompt tokens 128, rate 1/s", "prompt tokens 128, rate 2/s", "prompt tokens 128, rate 4/s",
	}
	if d := cmp.Diff(want, names); d != "" {
		t.Error(d)
	}
	if series[0] != "prompt tokens 512" || series[5] != "prompt tokens 128" {
		t.Errorf("series %q", series)
	}
	if got := Above(p.Stages(), 1); !slices.Equal(got, []int{2}) {
		t.Errorf("above the second: %v, want its own series alone", got)
	}
}

func TestCheckPlan(t *testing.T) {
	load := axis(ConcurrencyKey, "concurrency", "1", "2")
	for _, c := range []struct {
		name, want string
		plan       Plan
	}{
		{"nothing", "nothing is swept", Plan{Repeats: 3}},
		{"no repeats", "want a count from 1", Plan{Axes: []result.SweepAxis{load}}},
		{"twice the key", "is swept twice", Plan{Axes: []result.SweepAxis{load, load}, Repeats: 1}},
		{"twice the value", "has the value 1 twice", Plan{Axes: []result.SweepAxis{axis(ConcurrencyKey, "", "1", "1")}, Repeats: 1}},
		{"no values", "no values", Plan{Axes: []result.SweepAxis{axis(ConcurrencyKey, "")}, Repeats: 1}},
		{"both loops", "sweep one of them", Plan{Axes: []result.SweepAxis{load, axis(RateKey, "", "1")}, Repeats: 1}},
		{"fine", "", Plan{Axes: []result.SweepAxis{load}, Repeats: 1}},
	} {
		err := c.plan.Check()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func drawPlan(t *rapid.T) Plan {
	values := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"1", "2", "4", "8", "16", "32"}), 1, 6, rapid.ID)
	p := Plan{Repeats: rapid.IntRange(1, 5).Draw(t, "repeats"), Seed: rapid.Uint64().Draw(t, "seed"), NoStop: rapid.Bool().Draw(t, "no stop")}
	if rapid.Bool().Draw(t, "load") {
		p.Axes = append(p.Axes, axis(ConcurrencyKey, "concurrency", values.Draw(t, "concurrency")...))
	}
	if len(p.Axes) == 0 || rapid.Bool().Draw(t, "lengths") {
		p.Axes = append(p.Axes, axis("workload.output_tokens", "output tokens", values.Draw(t, "lengths")...))
	}
	return p
}

// TestOrder: every stage is run once a round, the rounds follow each other, and the
// first climbs.
func TestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPlan(t)
		stages, cells := p.Stages(), p.Order()
		if len(cells) != len(stages)*p.Repeats {
			t.Fatalf("%d cells of %d stages and %d repeats", len(cells), len(stages), p.Repeats)
		}
		for r := range p.Repeats {
			seen := make(map[int]bool)
			last := make(map[string]float64)
			for _, c := range cells[r*len(stages) : (r+1)*len(stages)] {
				if c.Repeat != r+1 || seen[c.Stage] {
					t.Fatalf("round %d has %+v", r+1, c)
				}
				seen[c.Stage] = true
				s := stages[c.Stage]
				if r == 0 && !p.NoStop && s.Climbs && s.Load <= last[s.Series] {
					t.Fatalf("the climb of %q goes from %v to %v", s.Series, last[s.Series], s.Load)
				}
				last[s.Series] = s.Load
			}
		}
		if !slices.Equal(cells, p.Order()) {
			t.Fatal("the order is not that of the seed")
		}
	})
}

func TestOrderIsInterleaved(t *testing.T) {
	p := Plan{Axes: []result.SweepAxis{axis(ConcurrencyKey, "concurrency", "1", "2", "4", "8", "16", "32")}, Repeats: 3, Seed: 1}
	cells := p.Order()
	round := func(r int) []int {
		var out []int
		for _, c := range cells[6*r : 6*r+6] {
			out = append(out, c.Stage)
		}
		return out
	}
	if slices.IsSorted(round(1)) || slices.IsSorted(round(2)) || slices.Equal(round(1), round(2)) {
		t.Errorf("rounds 2 and 3 are %v and %v: not drawn", round(1), round(2))
	}
}

func TestRunSeeds(t *testing.T) {
	seen := make(map[uint64]bool)
	for seed := range uint64(100) {
		if RunSeed(seed, 1) != seed {
			t.Errorf("the first run of seed %d has %d", seed, RunSeed(seed, 1))
		}
		for repeat := 2; repeat <= 10; repeat++ {
			s := RunSeed(seed, repeat)
			if seen[s] || s < 100 || s >= 1<<48 {
				t.Errorf("seed %d, repeat %d: %d", seed, repeat, s)
			}
			seen[s] = true
		}
	}
}
