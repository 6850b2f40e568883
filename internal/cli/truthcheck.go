package cli

import (
	"fmt"
	"iter"
	"os"

	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/result"
	"github.com/assay-bench/assay/rundir"
	"github.com/assay-bench/assay/truth"
)

// keepTruth lets the built-in engine log what it does: to where the user wants
// it, else to a temporary file.
func (r *run) keepTruth(f simFlags) (simFlags, error) {
	if f.TruthLog == "" {
		file, err := os.CreateTemp("", "assay-truth-*.jsonl")
		if err != nil {
			return f, fmt.Errorf("making a file for the engine's log: %w", err)
		}
		f.TruthLog = file.Name()
		r.closers = append(r.closers, func() { _ = os.Remove(f.TruthLog) })
		if err := file.Close(); err != nil {
			return f, fmt.Errorf("making a file for the engine's log: %w", err)
		}
	}
	r.truthLog = f.TruthLog
	return f, nil
}

// checkTruth compares what we saw with what the built-in engine says it did. It
// runs after the load, and ends the engine, whose log is whole only then.
func (r *run) checkTruth() {
	if r.builtIn == nil {
		return
	}
	r.builtIn.stop()
	stages := r.writer.Meta().Stages
	for i := range stages {
		t, err := r.compareTruth(stages[i].Name)
		if err != nil {
			t = &result.Truth{Text: "no comparison: " + err.Error()}
		}
		stages[i].Truth = t
	}
}

func (r *run) compareTruth(stage string) (*result.Truth, error) {
	f, err := os.Open(r.truthLog)
	if err != nil {
		return nil, fmt.Errorf("opening the engine's log: %w", err)
	}
	defer f.Close()
	log, err := truth.Read(f)
	if err != nil {
		return nil, err
	}
	if err := r.writer.Flush(); err != nil {
		return nil, err
	}
	d, err := rundir.Open(r.writer.Dir())
	if err != nil {
		return nil, err
	}
	zero := r.writer.Meta().EpochMonotonic
	t := truth.Compare(log, truth.Clock{Zero: zero, Shared: zero != 0}, attemptsOf(d, stage))
	return t, d.Err()
}

// attemptsOf yields the attempts of one stage.
func attemptsOf(d *rundir.Run, stage string) iter.Seq[*record.Attempt] {
	return func(yield func(*record.Attempt) bool) {
		d.Records(func(a *record.Attempt, _ []record.Event) bool {
			return a.Stage != stage || yield(a)
		})
	}
}
