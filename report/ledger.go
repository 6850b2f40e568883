package report

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/result"
)

func (sh *sheet) ledger(st *result.Stage) {
	l := &st.Ledger
	sh.section("LEDGER", times(l.Requests, "request due in the window", "requests due in the window"),
		times(l.Attempts, "attempt", "attempts"), balance(l))
	sh.row("ended", outcomes(l)...)
	sh.row("completed",
		fmt.Sprintf("zero-token %d", l.ZeroToken), fmt.Sprintf("one-token %d", l.OneToken),
		fmt.Sprintf("no usage %d", l.NoUsage), fmt.Sprintf("no text %d", l.NoText),
		fmt.Sprintf("stopped early %d", l.StoppedEarly), fmt.Sprintf("unterminated %d", l.Unterminated))
	sh.row("finish", counts(l.FinishReasons, "not told")...)
	sh.excluded(&st.Metrics)
	run := &st.LedgerRun
	sh.row("all phases", append([]string{times(run.Attempts, "attempt", "attempts"), balance(run)}, outcomes(run)...)...)
}

func balance(l *record.Ledger) string {
	if l.Balances() {
		return "balances"
	}
	return "DOES NOT BALANCE: rows sum to " + strconv.Itoa(sum(l.Rows))
}

func sum[K comparable](counts map[K]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

// outcomes lists the rows of the ledger that occurred, in its order.
func outcomes(l *record.Ledger) []string {
	known := record.Outcomes()
	rows := slices.SortedFunc(maps.Keys(l.Rows), func(a, b record.Outcome) int {
		return cmp.Or(cmp.Compare(place(known, a), place(known, b)), cmp.Compare(a, b))
	})
	var items []string
	for _, o := range rows {
		if n := l.Rows[o]; n != 0 {
			items = append(items, fmt.Sprintf("%s %d%s", inWords(o), n, statuses(l, o)))
		}
	}
	return items
}

// statuses splits the two rows that have an HTTP status by it.
func statuses(l *record.Ledger, o record.Outcome) string {
	if o != record.Rejected && o != record.HTTPError {
		return ""
	}
	var parts []string
	for _, status := range slices.Sorted(maps.Keys(l.HTTPStatus)) {
		rejection := status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable
		if rejection == (o == record.Rejected) {
			parts = append(parts, fmt.Sprintf("%d × %d", l.HTTPStatus[status], status))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

func place(known []record.Outcome, o record.Outcome) int {
	if i := slices.Index(known, o); i >= 0 {
		return i
	}
	return len(known)
}

// inWords is an outcome as people read it.
func inWords(o record.Outcome) string { return strings.ReplaceAll(string(o), "_", " ") }

// counts lists a map, the most frequent first.
func counts(m map[string]int, unnamed string) []string {
	names := slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		return cmp.Or(cmp.Compare(m[b], m[a]), cmp.Compare(a, b))
	})
	var items []string
	for _, name := range names {
		items = append(items, fmt.Sprintf("%s %d", cmp.Or(strings.ReplaceAll(name, "_", " "), unnamed), m[name]))
	}
	return items
}

// excluded says which completed requests are missing from which statistic.
func (sh *sheet) excluded(m *result.Metrics) {
	var g group
	for _, q := range []struct {
		name string
		s    *result.Summary
	}{
		{"TTFT", m.TTFT}, {"TTFT from schedule", m.TTFTFromSchedule}, {"first answer", m.TTFAnswer},
		{"TPOT", m.TPOT}, {"TPOT paired", m.TPOTPaired}, {"ITL", m.ITL}, {"chunk gap", m.ChunkGap},
		{"E2E", m.E2E}, {"User TPS", m.UserTPS},
	} {
		if q.s != nil && len(q.s.Excluded) > 0 {
			g.add(strings.Join(counts(q.s.Excluded, "for no reason told"), ", "), q.name)
		}
	}
	if len(g.keys) == 0 {
		sh.row("excluded", "none: every completed request is in every statistic")
		return
	}
	var items []string
	for _, why := range g.keys {
		items = append(items, "from "+strings.Join(g.names[why], ", ")+": "+why)
	}
	sh.row("excluded", items...)
}
