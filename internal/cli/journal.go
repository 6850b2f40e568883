package cli

import (
	"github.com/assay-bench/assay/experiment"
	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/result"
)

// journal is a stage that tells what it has decided as soon as it has, so that a
// run that is killed can be concluded as far as it came.
type journal struct {
	*experiment.Stage
	// save is called from the goroutine that also appends records.
	save func(result.StageInfo) error
	// storeClock, if not nil, is called from there, too, several times a second.
	storeClock func() error

	saved bool
	last  result.StageInfo
}

// Tick implements the observer of a runner.
func (j *journal) Tick(now record.Stamp, inFlight int, oldest record.Stamp) (stop, abandon bool) {
	stop, abandon = j.Stage.Tick(now, inFlight, oldest)
	if j.storeClock != nil {
		if err := j.storeClock(); err != nil {
			j.Stage.Halt("error") // see below
			return true, abandon
		}
	}
	i := j.Stage.Info(0) // an end that is not declared yet stays open
	if j.saved && i.Window.Start == j.last.Window.Start && i.WindowClosed == j.last.WindowClosed {
		return stop, abandon
	}
	j.saved, j.last = true, i
	if err := j.save(i); err != nil {
		// A disk that takes no run.json takes no records either, and those are
		// what ends a run: this one ends in order.
		j.Stage.Halt("error")
		stop = true
	}
	return stop, abandon
}
