package metric

import (
	"cmp"
	"maps"
	"slices"

	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/result"
)

func mergeLedger(into, from *record.Ledger) {
	if from.Attempts == 0 {
		return
	}
	if into.Attempts == 0 {
		*into = cloneLedger(from)
		return
	}
	into.Requests += from.Requests
	into.Attempts += from.Attempts
	into.Completed += from.Completed
	into.ZeroToken += from.ZeroToken
	into.OneToken += from.OneToken
	into.NoUsage += from.NoUsage
	into.NoText += from.NoText
	into.StoppedEarly += from.StoppedEarly
	into.Unterminated += from.Unterminated
	addCounts(into.Rows, from.Rows)
	addCounts(into.HTTPStatus, from.HTTPStatus)
	addCounts(into.FinishReasons, from.FinishReasons)
}

func addCounts[K comparable](into, from map[K]int) {
	for k, n := range from {
		into[k] += n
	}
}

// cloneLedger copies the maps too: a result must not change when more is added.
func cloneLedger(l *record.Ledger) record.Ledger {
	c := *l
	c.Rows, c.HTTPStatus, c.FinishReasons = maps.Clone(l.Rows), maps.Clone(l.HTTPStatus), maps.Clone(l.FinishReasons)
	return c
}

// errorKind is what makes two errors the same kind.
type errorKind struct {
	outcome record.Outcome
	status  int
}

type errorSample struct {
	count      int
	text, body string
	end        record.Stamp
	request    int64
	try        int
}

// isError reports whether the outcome tells of a failure; what we cut off
// ourselves does not.
func isError(o record.Outcome) bool {
	switch o {
	case record.Completed, record.Censored, record.Interrupted, record.Abandoned:
		return false
	}
	return true
}

func (s *Stage) addError(a *record.Attempt) {
	if !isError(a.Outcome) {
		return
	}
	s.mergeError(errorKind{a.Outcome, a.Status}, errorSample{
		count: 1, text: a.Error, body: a.ErrorBody, end: endOf(a), request: a.Request, try: a.Try,
	})
}

// mergeError keeps the first of a kind in time, but one with a body before one
// without: bodies are kept for the first of each kind only.
func (s *Stage) mergeError(kind errorKind, e errorSample) {
	old, ok := s.errors[kind]
	if !ok {
		s.errors[kind] = e
		return
	}
	total := old.count + e.count
	if e.before(old) {
		old = e
	}
	old.count = total
	s.errors[kind] = old
}

func (e errorSample) before(o errorSample) bool {
	if (e.body != "") != (o.body != "") {
		return e.body != ""
	}
	return cmp.Or(cmp.Compare(e.end, o.end), cmp.Compare(e.request, o.request), cmp.Compare(e.try, o.try)) < 0
}

// errorSamples lists the kinds, the most frequent first.
func (s *Stage) errorSamples() []result.ErrorSample {
	var list []result.ErrorSample
	for kind, e := range s.errors {
		list = append(list, result.ErrorSample{
			Outcome: kind.outcome, Status: kind.status, Count: e.count, Error: e.text, Body: e.body,
		})
	}
	slices.SortFunc(list, func(a, b result.ErrorSample) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Outcome, b.Outcome), cmp.Compare(a.Status, b.Status))
	})
	return list
}
