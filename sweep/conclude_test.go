package sweep

import (
	"math"
	"strings"
	"testing"

	"github.com/assay-bench/assay/result"
)

// cappedRuns is a server with a cap of 16 on running requests, each level run
// three times, with a little noise.
func cappedRuns(stages []Stage) []Run {
	var out []Run
	for i, s := range stages {
		for repeat := range 3 {
			busy := min(s.Load, 16)
			tps := 128 * busy / (0.85 + 0.01*busy) * (1 + 0.002*float64(repeat-1))
			ttft := 20 + 1000*max(0, s.Load-16)/16
			out = append(out, done(i, repeat+1, run{tps: tps, half: 5, ttft: ttft, tpot: 7}))
		}
	}
	return out
}

func done(stage, repeat int, r run) Run {
	return Run{Cell: Cell{stage, repeat}, Result: result.SweepRun{State: result.CellDone}, Stage: r.stage()}
}

func climb(loads ...string) []Stage {
	p := Plan{Axes: []result.SweepAxis{{Key: ConcurrencyKey, Name: "concurrency", Values: loads}}}
	return p.Stages()
}

func TestConcludeFindsTheKnee(t *testing.T) {
	stages := climb("1", "2", "4", "8", "16", "32", "64")
	_, scalings := Conclude(stages, cappedRuns(stages), false, 1)
	if len(scalings) != 1 || len(scalings[0].Points) != 7 {
		t.Fatalf("%+v", scalings)
	}
	s := scalings[0]
	if s.Knee == nil || *s.Knee != 16 || s.KneeRange == nil || *s.KneeRange != (result.Interval{16, 16}) {
		t.Errorf("knee %v in %v: %s", s.Knee, s.KneeRange, s.KneeText)
	}
	if s.USL == nil || s.USL.LambdaCI == nil || s.USL.NMax == nil || s.USL.NMaxLo == nil {
		t.Fatalf("USL %+v: %s", s.USL, s.USLText)
	}
	if !strings.Contains(s.USLText, "does not describe") {
		t.Errorf("a corner is no curve of the law, but: %q", s.USLText)
	}
}

func TestConcludeOfOneStage(t *testing.T) {
	stages := climb("4")
	of := func(runs ...run) result.SweepStage {
		var list []Run
		for i, r := range runs {
			list = append(list, done(0, i+1, r))
		}
		out, _ := Conclude(stages, list, false, 1)
		return out[0]
	}
	st := of(run{tps: 1, ttft: 1}, run{tps: 4, ttft: 4}, run{tps: 2, ttft: 2})
	if s := st.OutputTPS; *s != (result.Spread{N: 3, Median: 2, MAD: 1, Min: 1, Max: 4}) {
		t.Errorf("spread of 1, 2 and 4 is %+v", *s)
	}
	if st.Excluded != "" || st.Load == nil || *st.Load != 4 || len(st.Runs) != 3 {
		t.Errorf("%+v", st)
	}
	if st := of(run{stability: result.Undecided}, run{}, run{}); st.Excluded != "" {
		t.Errorf("two of three are STABLE, and it is excluded: %s", st.Excluded)
	}
	if st := of(run{stability: result.Unstable}, run{invalid: true}, run{}); !strings.HasPrefix(st.Excluded, "2 of 3 runs") {
		t.Errorf("excluded: %q", st.Excluded)
	}
	if st := of(); st.Excluded != "it was not run" {
		t.Errorf("excluded: %q", st.Excluded)
	}
}

func TestConcludeQuick(t *testing.T) {
	stages := climb("1", "2", "4", "8")
	var runs []Run
	for i, tps := range []float64{10, 20, 38, 40} {
		runs = append(runs, done(i, 1, run{tps: tps, ttft: 1, tpot: 1, stability: result.Undecided}))
	}
	out, scalings := Conclude(stages, runs, true, 1)
	if out[0].TTFTp99 != nil {
		t.Error("a quick look has tails")
	}
	if k := scalings[0].Knee; k == nil || *k != 4 || scalings[0].KneeRange != nil {
		t.Errorf("knee %v, range %v of single runs", k, scalings[0].KneeRange)
	}
	if _, s := Conclude(stages, runs, false, 1); s[0].Knee != nil || len(s[0].Points) != 0 {
		t.Errorf("UNDECIDED runs made a curve: %+v", s[0])
	}
}

// TestConcludeOrder: the order in which runs are passed in changes nothing.
func TestConcludeOrder(t *testing.T) {
	stages := climb("1", "2", "4", "8", "16", "32")
	runs := cappedRuns(stages)
	_, a := Conclude(stages, runs, false, 1)
	for i := range runs {
		k := (i * 7) % len(runs)
		runs[i], runs[k] = runs[k], runs[i]
	}
	_, b := Conclude(stages, runs, false, 1)
	if math.Abs(a[0].USL.Sigma-b[0].USL.Sigma) > 1e-12 || *a[0].USL.LambdaCI != *b[0].USL.LambdaCI {
		t.Errorf("%+v and %+v", a[0].USL, b[0].USL)
	}
}
