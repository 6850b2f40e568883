package compare

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/assay-bench/assay/result"
)

// Run is one stage of one run, as a comparison needs it.
type Run struct {
	// Result is the run's report, Stage the one of its stages that this is, Dir
	// where it is.
	Result *result.Run
	Stage  *result.Stage
	Dir    string
	// Workload identifies what was asked for, whatever the seed and the target.
	Workload string
	// Samples of single requests, by name of the quantity, as [Gather] gives them;
	// may be nil: there is no shift function then.
	Samples map[string]*Samples
}

// Side is one configuration with its runs, of one stage or of several.
type Side struct {
	Label string
	Runs  []Run
}

// windowTolerance is how much longer one window may be than another: windows
// that are closed by a clock differ by a tick.
const windowTolerance = 0.02

// failureShare of requests from which survivors' latencies are noted as such.
const failureShare = 0.01

// Objections are reasons not to compare the sides at all, and notes on what
// differs otherwise. The target is what is compared: it is never a reason. They
// are texts that can follow "not comparable:".
func Objections(sides []Side) (objections, notes []string) {
	o := &objector{seen: map[string]string{}}
	type place struct {
		side string
		run  *Run
	}
	first := map[string]place{} // by stage
	for i := range sides {
		side := &sides[i]
		if len(side.Runs) == 0 {
			o.object("%s has no runs", side.Label)
			continue
		}
		if x, y := stages(&sides[0]), stages(side); len(sides[0].Runs) > 0 && !slices.Equal(x, y) {
			o.object("the stages differ between %s and %s: %s, and %s", sides[0].Label, side.Label, strings.Join(x, ", "), strings.Join(y, ", "))
		}
		for j := range side.Runs {
			r := &side.Runs[j]
			o.alone(side.Label, r)
			f, ok := first[r.Stage.Name]
			if !ok {
				first[r.Stage.Name] = place{side.Label, r}
				continue
			}
			o.against(f.side, f.run, side.Label, r)
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
	id, st := r.Result.ID, r.Stage
	key := id + "/" + st.Name
	if other, ok := o.seen[key]; ok && id != "" {
		o.object("run %s is in it twice (%s, %s)", id, other, side)
	}
	o.seen[key] = side
	if !r.Result.Complete {
		o.object("run %s (%s) is not complete: %s", id, side, r.Result.Ended)
	}
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
	if failed := st.Ledger.Attempts - st.Ledger.Completed; float64(failed) > failureShare*float64(st.Ledger.Attempts) {
		o.note("%s: %.1f %% of the requests of run %s (%s) did not complete: its latencies are those of the others",
			st.Name, 100*float64(failed)/float64(st.Ledger.Attempts), id, side)
	}
}

// against holds a run against the first of its stage.
func (o *objector) against(baseSide string, base *Run, side string, r *Run) {
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
	x, y := base.Stage.Window.Length(), r.Stage.Window.Length()
	if math.Abs(float64(x-y)) > windowTolerance*float64(max(x, y)) {
		o.object("%s: the windows differ between %s: %v and %v", r.Stage.Name, where, x.Round(time.Millisecond), y.Round(time.Millisecond))
	}
	for _, d := range []struct{ what, a, b string }{
		{"stamps", base.Stage.Client.Stamps, r.Stage.Client.Stamps},
		{"the version of the tool", a.ToolVersion, b.ToolVersion},
		{"the transport", a.Transport, b.Transport},
		{"the client machine", host(a), host(b)},
		{"the name of the model", a.Target.Model, b.Target.Model},
	} {
		if d.a != d.b {
			o.note("%s differs between %s: %s and %s", d.what, where, d.a, d.b)
		}
	}
}

// stages of a side, each once, in alphabetical order.
func stages(s *Side) []string {
	var names []string
	for i := range s.Runs {
		names = append(names, s.Runs[i].Stage.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// host of the client as far as the environment log names it.
func host(r *result.Run) string {
	if r.Environment == nil {
		return "not recorded"
	}
	c := r.Environment.Client
	return fmt.Sprintf("%s, %d cores, %s", c.CPU, c.Cores, c.Kernel)
}
