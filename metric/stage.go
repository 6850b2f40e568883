package metric

import (
	"fmt"
	"slices"

	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/result"
)

// Stage gathers the attempts of one steady load condition and computes what
// came of it. It keeps 200 bytes an attempt and about 2 an event (gap and read lag).
// Make one with [NewStage] or [NewTable]; it is not safe for concurrent use.
type Stage struct {
	window  record.Window
	options Options
	untimed bool // rows of a table: durations, but no moments

	outcomes  []record.Outcome
	rows      rowList
	opened    int // attempts that opened a connection
	inWindow  record.Ledger
	run       record.Ledger
	errors    map[errorKind]errorSample
	gaps      durations // of requests that the one-token check looks at
	otherGaps durations // of completed requests that it cannot: n unknown or below 2
	lags      durations // read lag of the window's events with a kernel stamp

	// Of the window's requests: events with a kernel stamp, all of them, text
	// events after a first one, and those that shared the stamp of the one before.
	kernelEvents, events, textGaps, coalesced int64
	eventTokens                               int64 // known deltas of events inside the window
	eventBins                                 windowBins
	deltaKnown, deltaUnknown                  int // attempts with text inside the window
}

// NewStage makes a stage whose sample is the requests scheduled in w. Options
// should have passed [Options.Validate].
func NewStage(w record.Window, o Options) *Stage {
	return &Stage{
		window: w, options: o.withDefaults(), outcomes: record.Outcomes(),
		errors: make(map[errorKind]errorSample),
	}
}

// Add enters an attempt of any phase and outcome, with its events in order of
// arrival, or nil where they were not kept: gap figures and exact output
// throughput need them. Neither is retained. Attempts may come in any order.
func (s *Stage) Add(a *record.Attempt, ev []record.Event) {
	due := s.untimed || s.window.Contains(a.Scheduled)
	r := s.rows.add(newRow(a, codeOf(s.outcomes, a.Outcome), due))
	if !a.ConnReused && (a.DNS > 0 || a.Connect > 0 || a.TLS > 0) {
		s.opened++
	}
	s.run.Add(a)
	if due {
		s.inWindow.Add(a)
		s.events += int64(a.Events)
		s.textGaps += int64(max(0, a.TextEvents-1))
		s.coalesced += int64(a.CoalescedText)
		s.kernelEvents += int64(a.KernelEvents)
	}
	s.addError(a)
	s.addTokens(a, ev)
	if due {
		s.addGaps(r, ev)
	}
}

// addTokens counts the tokens that arrived inside the window, whoever asked for
// them, and whether all of them are known.
func (s *Stage) addTokens(a *record.Attempt, ev []record.Event) {
	for i := range ev {
		if e := &ev[i]; e.Tokens > 0 && s.window.Contains(e.At) {
			s.eventTokens += int64(e.Tokens)
			s.eventBins.add(s.window, e.At, float64(e.Tokens))
		}
	}
	first, last := a.FirstText, a.LastText
	if !a.Streamed {
		first, last = a.EOF, a.EOF
	}
	if !first.Known() || last < s.window.Start || first >= s.window.End {
		return
	}
	if a.Streamed && len(ev) > 0 && a.DeltasUnknown == 0 && a.TokenEvents > 0 {
		s.deltaKnown++
	} else {
		s.deltaUnknown++
	}
}

func (s *Stage) addGaps(r *row, ev []record.Event) {
	for i := range ev {
		if ev[i].Flags.Has(record.FlagKernel) {
			s.lags.add(int64(ev[i].ReadLag()))
		}
	}
	switch {
	case !r.completed() || r.n == 0:
	case r.check == Unchecked:
		eachGap(ev, s.otherGaps.add)
	default:
		eachGap(ev, s.gaps.add)
	}
}

// Merge enters everything that was added to other, a stage of the same window
// and options. The result is the same as if one stage had seen it all.
func (s *Stage) Merge(other *Stage) error {
	if s.window != other.window || s.untimed != other.untimed {
		return fmt.Errorf("merge stages: windows %v and %v differ", s.window, other.window)
	}
	for _, r := range other.rows.pointers() {
		s.rows.add(*r)
	}
	s.opened += other.opened
	mergeLedger(&s.inWindow, &other.inWindow)
	mergeLedger(&s.run, &other.run)
	for kind, e := range other.errors {
		s.mergeError(kind, e)
	}
	s.gaps.addAll(&other.gaps)
	s.otherGaps.addAll(&other.otherGaps)
	s.lags.addAll(&other.lags)
	s.events += other.events
	s.textGaps += other.textGaps
	s.coalesced += other.coalesced
	s.kernelEvents += other.kernelEvents
	s.eventTokens += other.eventTokens
	s.eventBins.merge(&other.eventBins)
	s.deltaKnown += other.deltaKnown
	s.deltaUnknown += other.deltaUnknown
	return nil
}

// Result fills what the records say: window, both ledgers, metrics, workload,
// throughput, goodput and errors; it sets Client.GapsWithheld and appends
// warnings. Everything else in into is left alone. It may be called again after
// more attempts were added.
func (s *Stage) Result(into *result.Stage) {
	v := s.view()
	into.Window = s.window
	into.Ledger, into.LedgerRun = cloneLedger(&s.inWindow), cloneLedger(&s.run)
	into.Metrics = s.metrics(v)
	into.Workload = s.workload(v)
	var warnings []result.Warning
	into.Sessions, warnings = s.sessions(v)
	into.Warnings = append(into.Warnings, warnings...)
	into.Throughput = s.throughput(v)
	into.Goodput = s.goodput(v)
	into.Errors = s.errorSamples()
	into.Client.GapsWithheld = s.gapsWithheld()
	if s.untimed {
		s.stripTable(into)
	}
}

// view is the rows in time order, split as the aggregates need them.
type view struct {
	all     []*row  // every attempt
	due     []*row  // attempts scheduled in the window
	sample  []*row  // of those, the completed ones
	judged  []*row  // the last attempt of every due request, whenever that was
	arrived []int64 // when each of them was due, ns, ascending
}

func (s *Stage) view() view {
	v := view{
		all: s.rows.pointers(), due: make([]*row, 0, s.rows.n), sample: make([]*row, 0, s.rows.n),
		judged: make([]*row, 0, s.rows.n), arrived: make([]int64, 0, s.rows.n),
	}
	if !slices.IsSortedFunc(v.all, inTimeOrder) {
		slices.SortFunc(v.all, inTimeOrder)
	}
	retried := retriedRequests(v.all)
	seen := make(map[int64]bool) // of the retried ones: entered already
	for _, r := range v.all {
		if !r.due {
			continue
		}
		v.due = append(v.due, r)
		if r.completed() {
			v.sample = append(v.sample, r)
		}
		tries, several := retried[r.request]
		switch {
		case !several:
			v.judge(r, r)
		case tries.first.due && !seen[r.request]:
			seen[r.request] = true
			v.judge(tries.first, tries.last)
		}
	}
	return v
}

// judge enters a due request: when it was due, and how it ended.
func (v *view) judge(first, last *row) {
	v.judged = append(v.judged, last)
	v.arrived = append(v.arrived, int64(first.scheduled))
}

// tries are the first and the last attempt of one request.
type tries struct{ first, last *row }

// retriedRequests finds the requests that were tried again. They are few.
func retriedRequests(all []*row) map[int64]tries {
	retried := make(map[int64]tries)
	for _, r := range all {
		if r.try > 0 {
			retried[r.request] = tries{first: r, last: r}
		}
	}
	if len(retried) == 0 {
		return retried
	}
	for _, r := range all {
		t, ok := retried[r.request]
		if !ok {
			continue
		}
		if r.try < t.first.try {
			t.first = r
		}
		if r.try > t.last.try {
			t.last = r
		}
		retried[r.request] = t
	}
	return retried
}
