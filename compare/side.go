package compare

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/assay-bench/assay/result"
)

// Run is one run as a comparison needs it.
type Run struct {
	// Result is its report, Dir where it is.
	Result *result.Run
	Dir    string
	// Workload identifies what was asked for, whatever the seed and the target.
	Workload string
	// Samples of single requests, by stage and name of the quantity, as [Gather]
	// gives them; may be nil: there is no shift function then.
	Samples map[string]map[string]*Samples
}

// Side is one configuration with its runs.
type Side struct {
	Label string
	Runs  []Run
}

// windowTolerance is how much longer one window may be than another: windows
// that are closed by a clock differ by a tick.
const windowTolerance = 0.02

// Objections are reasons not to compare the sides at all, and notes on what
// differs otherwise. The target is what is compared: it is never a reason. They
// are texts that can follow "not comparable:".
func Objections(sides []Side) (objections, notes []string) {
	o := &objector{seen: map[string]string{}}
	var first *Run
	for i := range sides {
		if len(sides[i].Runs) == 0 {
			o.object("%s has no runs", sides[i].Label)
		}
		for j := range sides[i].Runs {
			r := &sides[i].Runs[j]
			if first == nil {
				first = r
			}
			o.alone(sides[i].Label, r)
			o.against(sides[0].Label, first, sides[i].Label, r)
		}
	}
	return o.objections, o.notes
}

type objector struct {
	seen              map[string]string // run ids
	objections, notes []string
}

func add(to *[]string, format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(*to, text) {
		*to = append(*to, text)
	}
}

func (o *objector) object(format string, args ...any) { add(&o.objections, format, args...) }
func (o *objector) note(format string, args ...any)   { add(&o.notes, format, args...) }

// alone looks at one run.
func (o *objector) alone(side string, r *Run) {
	id := r.Result.ID
	if other, ok := o.seen[id]; ok && id != "" {
		o.object("run %s is in it twice (%s, %s)", id, other, side)
	}
	o.seen[id] = side
	if !r.Result.Complete {
		o.object("run %s (%s) is not complete: %s", id, side, r.Result.Ended)
	}
	if len(r.Result.Stages) == 0 {
		o.object("run %s (%s) has no stage", id, side)
	}
	for i := range r.Result.Stages {
		st := &r.Result.Stages[i]
		if st.Client.Verdict == result.Invalid {
			o.object("the client of run %s (%s, %s) was INVALID: %s", id, side, st.Name, st.Client.Cause)
		}
		switch st.Stability.Verdict {
		case result.Unstable:
			o.object("%s of run %s (%s) was UNSTABLE: %s", st.Name, id, side, st.Stability.Cause)
		case result.Undecided:
			o.note("%s: stability UNDECIDED in a run of %s: %s", st.Name, side, st.Stability.Cause)
		}
		if st.WindowClosed == "interrupted" {
			o.object("the window of run %s (%s) was interrupted", id, side)
		}
		if st.Warmup.Capped != "" {
			o.note("%s: the warm-up of a run of %s did not stabilise", st.Name, side)
		}
		if failed := st.Ledger.Attempts - st.Ledger.Completed; failed > 0 && float64(failed) > 0.01*float64(st.Ledger.Attempts) {
			o.note("%s: %.1f %% of the requests of run %s (%s) did not complete: its latencies are those of the others",
				st.Name, 100*float64(failed)/float64(st.Ledger.Attempts), id, side)
		}
	}
}

// against holds a run against the first of all.
func (o *objector) against(baseSide string, base *Run, side string, r *Run) {
	if base == r {
		return
	}
	a, b := base.Result, r.Result
	where := fmt.Sprintf("%s and %s", baseSide, side)
	if baseSide == side {
		where = "runs of " + side
	}
	if base.Workload != r.Workload {
		o.object("the workload differs between %s: %q and %q", where, a.WorkloadText, b.WorkloadText)
	}
	if a.Target.Virtual != b.Target.Virtual {
		o.object("the boundary differs between %s: virtual time has no network and no frontend", where)
	}
	if x, y := stages(a), stages(b); x != y {
		o.object("the stages differ between %s: %s and %s", where, x, y)
		return
	}
	for i := range a.Stages {
		x, y := &a.Stages[i], &b.Stages[i]
		lx, ly := x.Window.Length(), y.Window.Length()
		if math.Abs(float64(lx-ly)) > windowTolerance*float64(max(lx, ly)) {
			o.object("%s: the windows differ between %s: %v and %v", x.Name, where, lx.Round(time.Millisecond), ly.Round(time.Millisecond))
		}
		if x.Client.Stamps != y.Client.Stamps {
			o.note("stamps differ between %s: %s and %s", where, x.Client.Stamps, y.Client.Stamps)
		}
	}
	if a.ToolVersion != b.ToolVersion {
		o.note("the tool differs between %s: %s and %s", where, a.ToolVersion, b.ToolVersion)
	}
	if a.Transport != b.Transport {
		o.note("the transport differs between %s: %s and %s", where, a.Transport, b.Transport)
	}
	if x, y := host(a), host(b); x != y {
		o.note("the client machine differs between %s: %s and %s", where, x, y)
	}
	if x, y := a.Target.Model, b.Target.Model; x != y {
		o.note("the model's name differs between %s: %s and %s", where, x, y)
	}
}

func stages(r *result.Run) string {
	names := make([]string, len(r.Stages))
	for i := range r.Stages {
		names[i] = r.Stages[i].Name
	}
	return strings.Join(names, ", ")
}

// host of the client as far as the environment log names it.
func host(r *result.Run) string {
	if r.Environment == nil {
		return "not recorded"
	}
	c := r.Environment.Client
	return fmt.Sprintf("%s, %d cores, %s", c.CPU, c.Cores, c.Kernel)
}
