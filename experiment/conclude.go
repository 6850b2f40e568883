package experiment

import (
	"iter"
	"time"

	"github.com/assay-bench/assay/metric"
	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/result"
)

// Records yields stored attempts with their events, in order of completion.
// Neither may be kept after the loop's step.
type Records iter.Seq2[*record.Attempt, []record.Event]

// Conclude computes everything that a stage's records allow. It is pure: the
// same records, info and options give the same stage, while the run is fresh
// and years later.
func Conclude(i result.StageInfo, t *result.Target, records Records, l result.ClientLimits, o metric.Options) result.Stage {
	st := result.Stage{
		Name: i.Name, Load: i.Load, Window: i.Window, WindowClosed: i.WindowClosed,
		Warmup: i.Warmup, CappedTime: i.CappedTime,
	}
	o.CoalescedLimit = l.Coalesced
	m := metric.NewStage(i.Window, o)
	stab := stability{info: i}
	client := clientSide{window: i.Window, capped: i.CappedTime}
	found := findings{info: i}
	var sums clientSums
	last := i.Window.End
	for a, ev := range records {
		if a.Stage != i.Name {
			continue
		}
		m.Add(a, ev)
		stab.add(a)
		client.add(a)
		found.add(a)
		sums.add(a)
		if a.Phase == record.Measured {
			last = max(last, a.Ended)
		}
	}
	m.Result(&st)
	st.Workload.PlannedSharing = i.PlannedSharing
	st.Cooldown = time.Duration(last - i.Window.End)
	st.Stability = stab.verdict()
	st.Client = client.verdict(i.Health, st.Metrics.ReadLag, l)
	concludeUntilCI(&i, &st)
	if text := ShortWindow(&i); text != "" && i.WindowClosed != closedByInterrupt && i.WindowClosed != closedByError && i.WindowClosed != closedByDeath {
		st.Warnings = append(st.Warnings, result.Warning{Code: "short-window", Text: text})
	}
	st.Warnings = append(st.Warnings, found.warnings(t)...)
	st.Warnings = append(st.Warnings, client.warnings(i.Health, st.Client.SendProof)...)
	st.Server, st.Truth = sums.compare(i.Server), i.Truth
	if t != nil && t.Virtual {
		st.Client.Stamps = "virtual"
	}
	return st
}
