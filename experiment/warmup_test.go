package experiment

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// TestCUSUMText: what is beside the median rule tells a step from none.
func TestCUSUMText(t *testing.T) {
	made := func(n int, level func(i int) float64) *warmup {
		w := &warmup{plan: &Plan{Warmup: MSER5}}
		rng := rand.New(rand.NewPCG(11, 1))
		for i := range n {
			w.add(level(i)+rng.NormFloat64(), 10+rng.NormFloat64(), 8)
		}
		return w
	}
	steady := func(int) float64 { return 50 }
	unstreamed := made(400, steady)
	unstreamed.whole, unstreamed.perToken = true, nil
	for name, c := range map[string]struct {
		w    *warmup
		want string
	}{
		"steady": {made(400, steady), "none in TTFT, TPOT, in flight"},
		"a step that MSER-5 does not cut": {made(400, func(i int) float64 {
			if i < 260 {
				return 50
			}
			return 53
		}), "a change of the mean in TTFT (after 26"},
		"too short": {made(12, steady), "no verdict on TTFT, TPOT, in flight: fewer than 20 batches"},
		"whole":     {unstreamed, "none in E2E, in flight"},
		"nothing":   {&warmup{plan: &Plan{}}, "no verdict: nothing completed"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.w.cusumText(); !strings.HasPrefix(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
