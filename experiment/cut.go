package experiment

import (
	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/result"
)

// closedByDeath is how the window of a run that was killed was closed.
const closedByDeath = "the run died"

// CutShort closes a window that its run did not live to close, at the last thing
// that the records tell of; a stage that died in its warm-up gets an empty window
// there.
func CutShort(i result.StageInfo, records Records) result.StageInfo {
	var last record.Stamp
	for a := range records {
		if a.Stage == i.Name {
			last = max(last, a.Ended)
		}
	}
	if i.Window.Start == 0 {
		i.Window.Start = max(last, 1)
		i.Warmup.Text = "cut off: the run ended during the warm-up"
	}
	if i.Window.End == 0 || last < i.Window.End {
		i.Window.End = max(last, i.Window.Start)
	}
	i.WindowClosed = closedByDeath
	return i
}
