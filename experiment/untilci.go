package experiment

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/assay-bench/assay/metric"
	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/result"
	"github.com/assay-bench/assay/stat"
)

// UntilCI is how narrow the 95 % intervals of some figures must be before the
// measured window closes. All of them must be. Empty: nothing is asked.
type UntilCI []result.Precision

// untilCILevel is that of the report's intervals.
const untilCILevel = 0.95

// untilCIFigures of a quantity; mean is no quantile.
var untilCIFigures = [...]struct {
	name string
	p    float64
}{{"mean", 0}, {"p50", 0.50}, {"p95", 0.95}, {"p99", 0.99}}

// untilCIQuantities by their index in [member.ms]. TPOT is that of the report's
// row: the seed form.
var untilCIQuantities = [...]struct {
	name     string
	of       func(*record.Attempt) (float64, metric.Reason)
	streamed bool // it does not exist without streaming
}{{"ttft", metric.TTFT, true}, {"tpot", metric.TPOT, true}, {"e2e", metric.E2E, false}}

// ParseUntilCI reads "ttft.p99=5%,tpot.mean=2%": of ttft, tpot or e2e the mean,
// p50, p95 or p99, and the most half-width of its interval in percent of the
// estimate. The empty text asks for nothing. What is unknown, repeated, or not a
// percentage above 0 and below 100 is an error.
func ParseUntilCI(text string) (UntilCI, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	var u UntilCI
	for part := range strings.SplitSeq(text, ",") {
		name, value, found := strings.Cut(part, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if _, _, known := untilCIOf(name); !known {
			return nil, fmt.Errorf("unknown figure %q: want ttft, tpot or e2e with .mean, .p50, .p95 or .p99, as in ttft.p99=5%%", name)
		}
		if slices.ContainsFunc(u, func(p result.Precision) bool { return p.Metric == name }) {
			return nil, fmt.Errorf("%s is given twice", name)
		}
		number, isPercent := strings.CutSuffix(value, "%")
		percent, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if !found || !isPercent || err != nil {
			return nil, fmt.Errorf("%s: %q is no percentage: want one, as in %s=5%%", name, value, name)
		}
		if !(percent > 0 && percent < 100) {
			return nil, fmt.Errorf("%s: %s is not above 0 %% and below 100 %%", name, value)
		}
		u = append(u, result.Precision{Metric: name, Asked: percent / 100})
	}
	return u, nil
}

// String is the form that [ParseUntilCI] reads.
func (u UntilCI) String() string {
	parts := make([]string, len(u))
	for i, p := range u {
		parts[i] = p.Metric + "=" + strconv.FormatFloat(p.Asked*100, 'g', 12, 64) + "%"
	}
	return strings.Join(parts, ",")
}

// progress says how far the one is that has farthest to go, for people.
func (u UntilCI) progress() string {
	farthest, text := -1.0, ""
	for _, p := range u {
		if p.Looked == nil {
			return p.Metric + " has no interval yet"
		}
		if far := *p.Looked / p.Asked; far > farthest {
			farthest, text = far, fmt.Sprintf("%s ±%s %% of ±%s %%", p.Metric, num(100**p.Looked), num(100*p.Asked))
		}
	}
	return text
}

// MarshalText implements [encoding.TextMarshaler].
func (u UntilCI) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (u *UntilCI) UnmarshalText(text []byte) error {
	read, err := ParseUntilCI(string(text))
	if err != nil {
		return fmt.Errorf("until_ci %q: %w", text, err)
	}
	*u = read
	return nil
}

// Streamed returns the first figure that only streamed replies have, "" if none.
func (u UntilCI) Streamed() string {
	for _, p := range u {
		if q, _, _ := untilCIOf(p.Metric); untilCIQuantities[q].streamed {
			return p.Metric
		}
	}
	return ""
}

// untilCIOf finds the quantity and the figure of "ttft.p99".
func untilCIOf(name string) (quantity int, p float64, known bool) {
	for q := range untilCIQuantities {
		for _, f := range untilCIFigures {
			if name == untilCIQuantities[q].name+"."+f.name {
				return q, f.p, true
			}
		}
	}
	return 0, 0, false
}

// member is a completed request of the open window.
type member struct {
	scheduled record.Stamp
	request   int64
	ms        [len(untilCIQuantities)]float64 // NaN where undefined
}

// lookout follows the intervals of an open window. A look sees the requests that
// were due before the oldest one still running, and so all of a span of time: of
// the others only the short ones have ended, and their figures would be too good.
//
// A look costs a few dozen passes over the series. There is none before the
// window can be judged stable, nor before a second has passed and the series has
// grown by a twentieth since the one before: all looks together cost no more than
// 21 times the last. It is not safe for concurrent use.
type lookout struct {
	targets   UntilCI
	least     float64 // mean residences that the window must last
	pending   []member
	series    [len(untilCIQuantities)]ordered
	members   int
	residence float64 // s, sum over the members
	next      int     // members that the next look waits for
	looked    record.Stamp
	narrow    bool // all intervals were narrow enough at the last look
}

const (
	lookEvery  = time.Second
	lookGrowth = 20 // a twentieth
)

// ordered is a series in the order of schedule, and the same sample ascending.
type ordered struct{ inTime, sorted, spare []float64 }

// add takes values that come later than all before.
func (o *ordered) add(fresh []float64) {
	o.inTime = append(o.inTime, fresh...)
	slices.Sort(fresh)
	old, out := o.sorted, o.spare[:0]
	for len(old) > 0 && len(fresh) > 0 {
		if old[0] <= fresh[0] {
			out, old = append(out, old[0]), old[1:]
		} else {
			out, fresh = append(out, fresh[0]), fresh[1:]
		}
	}
	out = append(append(out, old...), fresh...)
	o.sorted, o.spare = out, o.sorted
}

func newLookout(p *Plan) *lookout {
	if len(p.UntilCI) == 0 {
		return nil
	}
	l := &lookout{targets: slices.Clone(p.UntilCI), least: closedResidences, next: bins * leastInBin}
	if p.OpenLoop {
		l.least = openResidences
	}
	return l
}

// add takes a completed request of the window.
func (l *lookout) add(a *record.Attempt) {
	m := member{scheduled: a.Scheduled, request: a.Request}
	for q := range untilCIQuantities {
		v, why := untilCIQuantities[q].of(a)
		if m.ms[q] = v; why != metric.Defined {
			m.ms[q] = math.NaN()
		}
	}
	l.pending = append(l.pending, m)
	l.residence += time.Duration(a.Ended - a.Sent).Seconds()
}

// due reports whether it is time for a look.
func (l *lookout) due(now record.Stamp, w record.Window) bool {
	all := l.members + len(l.pending)
	return now >= l.looked.Add(lookEvery) && all >= l.next &&
		time.Duration(now-w.Start).Seconds()*float64(all) >= l.least*l.residence
}

// look reports whether all intervals are narrow enough, now and at the look before,
// of the requests that were due before oldest. One look alone may be narrow by luck,
// and would be believed just then. It keeps what it saw in the targets.
func (l *lookout) look(now, oldest record.Stamp) bool {
	l.looked = now
	l.settle(oldest)
	if l.members < l.next {
		return false
	}
	l.next = l.members + max(checkEvery, l.members/lookGrowth)
	narrow := true
	for i := range l.targets {
		t := &l.targets[i]
		q, p, _ := untilCIOf(t.Metric)
		t.Looked, t.LookedN = l.series[q].halfWidth(p), len(l.series[q].inTime)
		narrow = narrow && t.Looked != nil && *t.Looked <= t.Asked
	}
	before := l.narrow
	l.narrow = narrow
	return narrow && before
}

// settle moves what was due before oldest to the series.
func (l *lookout) settle(oldest record.Stamp) {
	moved := slices.DeleteFunc(slices.Clone(l.pending), func(m member) bool { return m.scheduled >= oldest })
	l.pending = slices.DeleteFunc(l.pending, func(m member) bool { return m.scheduled < oldest })
	slices.SortFunc(moved, func(a, b member) int {
		return cmp.Or(cmp.Compare(a.scheduled, b.scheduled), cmp.Compare(a.request, b.request))
	})
	l.members += len(moved)
	for q := range l.series {
		fresh := make([]float64, 0, len(moved))
		for i := range moved {
			if v := moved[i].ms[q]; !math.IsNaN(v) {
				fresh = append(fresh, v)
			}
		}
		l.series[q].add(fresh)
	}
}

// halfWidth is that of the interval for the mean (p 0) or a quantile, as a share
// of the estimate; nil if there is none.
func (o *ordered) halfWidth(p float64) *float64 {
	if p == 0 {
		v, ok := stat.MeanInterval(o.inTime, untilCILevel)
		return shareOf(&result.Interval{v.Lo, v.Hi}, stat.Mean(o.inTime), ok)
	}
	v, ok := stat.QuantileInterval(o.inTime, o.sorted, p, untilCILevel)
	return shareOf(&result.Interval{v.Lo, v.Hi}, stat.Quantile(o.sorted, p, stat.Type7), ok)
}

// shareOf is half the width of an interval over the estimate.
func shareOf(v *result.Interval, estimate float64, ok bool) *float64 {
	if !ok || !(estimate > 0) {
		return nil
	}
	return new((v[1] - v[0]) / 2 / estimate)
}

// errNoSummary: the figure has no interval at all.
var errNoSummary = errors.New("no request has it")

// reported is the half-width in the report, with why there is none.
func reported(m *result.Metrics, name string) (*float64, error) {
	quantity, figure, _ := strings.Cut(name, ".")
	s := map[string]*result.Summary{"ttft": m.TTFT, "tpot": m.TPOT, "e2e": m.E2E}[quantity]
	if s == nil || s.N == 0 {
		return nil, errNoSummary
	}
	estimate, v := s.Mean, s.MeanCI
	switch figure {
	case "p50":
		estimate, v = s.P50, s.P50CI
	case "p95":
		estimate, v = s.P95, s.P95CI
	case "p99":
		estimate, v = s.P99, s.P99CI
	}
	if estimate == nil || v == nil {
		return nil, fmt.Errorf("no interval of %d requests: %s", s.N, refusal(s.CIMethod, figure))
	}
	return shareOf(v, *estimate, true), nil
}

// refusal finds in a summary's account of its intervals why one is missing.
func refusal(method, figure string) string {
	for part := range strings.SplitSeq(method, "; ") {
		if why, ok := strings.CutPrefix(part, figure+" none: "); ok {
			return why
		}
	}
	if why, ok := strings.CutPrefix(method, "none: "); ok {
		return why
	}
	return "it was not made"
}

// concludeUntilCI says what became of the precision that was asked for, by the
// report's own intervals, with a warning if the window closed without it.
func concludeUntilCI(i *result.StageInfo, st *result.Stage) {
	var missed []string
	closed := i.WindowClosed == closedByUntilCI
	at := "when the window closed (" + i.WindowClosed + ")"
	if i.WindowClosed == closedByDuration || i.WindowClosed == closedByRequests {
		at = "at the cap (" + i.WindowClosed + ")"
	}
	for _, t := range i.UntilCI {
		half, err := reported(&st.Metrics, t.Metric)
		t.HalfWidth = half
		switch asked := fmt.Sprintf("asked ±%s %%", num(100*t.Asked)); {
		case half == nil && t.Looked != nil && closed:
			t.Text = fmt.Sprintf("%s: ±%s %% of the first %d requests (%s); of the whole window %v", figureText(t.Metric), num(100**t.Looked), t.LookedN, asked, err)
		case half == nil:
			t.Text = fmt.Sprintf("not reached %s: %s: %v (%s)", at, figureText(t.Metric), err, asked)
		case !closed && *half > t.Asked:
			t.Text = fmt.Sprintf("not reached: %s ±%s %% %s (%s)", figureText(t.Metric), num(100**half), at, asked)
		case closed && *half > t.Asked && t.Looked != nil:
			t.Text = fmt.Sprintf("%s ±%s %% (%s; ±%s %% when the window closed, of the %d requests that could be judged)",
				figureText(t.Metric), num(100**half), asked, num(100**t.Looked), t.LookedN)
		default:
			t.Text = fmt.Sprintf("%s ±%s %% (%s)", figureText(t.Metric), num(100**half), asked)
		}
		t.Reached = closed || half != nil && *half <= t.Asked
		if !t.Reached {
			missed = append(missed, t.Text)
		}
		st.UntilCI = append(st.UntilCI, t)
	}
	if len(missed) > 0 {
		st.Warnings = append(st.Warnings, result.Warning{Code: "until-ci", Text: "until-ci " + strings.Join(missed, "; ")})
	}
}

// figureText is "TTFT p99" for ttft.p99.
func figureText(name string) string {
	quantity, figure, _ := strings.Cut(name, ".")
	return strings.ToUpper(quantity) + " " + figure
}
