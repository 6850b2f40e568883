package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/assay-bench/assay/result"
)

// quantity is one row of the latency table.
type quantity struct {
	label string // with its weighting
	name  string // in the lines below
	s     *result.Summary
}

// quantities of a stage in the order of the table. Those that were not looked
// for are absent; a nil summary is a quantity that does not exist here.
func quantities(m *result.Metrics) []quantity {
	list := []quantity{{"TTFT", "TTFT", m.TTFT}}
	if m.TTFTFromSchedule != nil {
		list = append(list, quantity{"TTFT from schedule", "TTFT from schedule", m.TTFTFromSchedule})
	}
	list = append(list, quantity{"TPOT, request-weighted", "TPOT", m.TPOT})
	if pairedDiffers(m) {
		list = append(list, quantity{"TPOT paired", "TPOT paired", m.TPOTPaired})
	}
	switch {
	case m.ITL != nil:
		list = append(list, quantity{"ITL, gap-weighted", "ITL", m.ITL})
	case m.ChunkGap != nil:
		list = append(list, quantity{"chunk gap, gap-weighted", "chunk gap", m.ChunkGap})
	}
	return append(list, quantity{"E2E", "E2E", m.E2E})
}

// pairedDiffers reports whether the paired form of TPOT is known and is another
// number than the seed's.
func pairedDiffers(m *result.Metrics) bool {
	a, b := m.TPOT, m.TPOTPaired
	if b == nil || b.Mean == nil {
		return false
	}
	return a == nil || a.Mean == nil || a.N != b.N || math.Abs(*a.Mean-*b.Mean) > 1e-6**a.Mean
}

// latency is the table of a stage. sample says in words what is in it.
func (sh *sheet) latency(st *result.Stage, sample string) {
	m := &st.Metrics
	sh.section("LATENCY", append([]string{"milliseconds", "client boundary", "sample: " + sample}, doubts(st)...)...)
	rows := quantities(m)
	header := []string{"", "n", "mean", "p50", "± MAD", "p95", "p99", "95 % interval of p99"}
	var cells [][]string
	for _, q := range rows {
		cells = append(cells, latencyCells(q))
	}
	sh.add(grid{header: header, rows: cells, narrow: intervalRow(rows)})
	sh.absent(m, rows)
	sh.intervals(rows)
	sh.further(rows)
	sh.policy(rows)
	for _, q := range rows {
		if q.s != nil && q.s.Note != "" {
			sh.row(shortLabel(q.name), q.s.Note)
		}
	}
	if pairedDiffers(m) {
		sh.row("TPOT forms", "TPOT is the seed's, over n - 1; paired is over the tokens that came after the first text")
	}
}

func shortLabel(name string) string {
	if len(name) < gutter {
		return name
	}
	return "note"
}

// latencyCells has the same decimals for all numbers of a row.
func latencyCells(q quantity) []string {
	if q.s == nil {
		return []string{q.label, none, none, none, none, none, none, none}
	}
	s := q.s
	d := rowDecimals(s)
	cell := func(x *float64) string {
		if x == nil {
			return none
		}
		return fixed(*x, d)
	}
	return []string{q.label, strconv.Itoa(s.N), cell(s.Mean), cell(s.P50), cell(s.MAD), cell(s.P95), cell(s.P99), intervalCell(s, d)}
}

func rowDecimals(s *result.Summary) int {
	for _, x := range []*float64{s.P50, s.Mean, s.Max} {
		if x != nil {
			return decimals(*x)
		}
	}
	return 0
}

// intervalCell prefers the interval from batches; the one for independent
// samples is marked.
func intervalCell(s *result.Summary, d int) string {
	switch {
	case s.P99CI != nil:
		return fmt.Sprintf("%s to %s", fixed(s.P99CI[0], d), fixed(s.P99CI[1], d))
	case s.P99CIIID != nil:
		return fmt.Sprintf("iid %s to %s", fixed(s.P99CIIID[0], d), fixed(s.P99CIIID[1], d))
	}
	return none
}

// absent says why cells of the table are empty.
func (sh *sheet) absent(m *result.Metrics, rows []quantity) {
	var items, beyond []string
	for _, q := range rows {
		switch {
		case q.s == nil, q.s.Mean == nil:
		case q.s.P99 == nil, q.s.P95 == nil, q.s.P50 == nil:
			beyond = append(beyond, q.name+" max "+optional(q.s.Max))
		}
	}
	if len(beyond) > 0 {
		items = append(items, "no percentile where n(1-p) < 1, only no more than the maximum: "+strings.Join(beyond, ", "))
	}
	items = append(items, missing(m, rows)...)
	sh.row(none, items...)
}

// missing names the quantities without any sample, and why as far as it shows.
func missing(m *result.Metrics, rows []quantity) []string {
	var g group
	for _, q := range rows {
		switch {
		case q.s == nil:
			g.add(absence(m), q.name)
		case q.s.Mean == nil && len(q.s.Excluded) > 0:
			g.add("all excluded ("+strings.Join(counts(q.s.Excluded, "no reason told"), ", ")+")", q.name)
		case q.s.Mean == nil && q.s.Note == "":
			g.add("no sample", q.name)
		}
	}
	var items []string
	for _, why := range g.keys {
		items = append(items, strings.Join(g.names[why], ", ")+": "+why)
	}
	return items
}

func absence(m *result.Metrics) string {
	switch {
	case m.E2E == nil:
		return "no request completed with what it needs"
	case strings.HasPrefix(m.E2E.Note, "not streamed"):
		return "does not exist, since replies were not streamed"
	}
	return "does not exist in this traffic"
}

// intervalRow has the intervals of a table that was too wide for them.
func intervalRow(rows []quantity) row {
	var items []string
	for _, q := range rows {
		if q.s != nil && intervalCell(q.s, 0) != none {
			items = append(items, q.name+" "+intervalCell(q.s, rowDecimals(q.s)))
		}
	}
	if len(items) > 0 {
		items[0] = "95 % of p99: " + items[0]
	}
	return row{"", items}
}

// intervals says how the intervals of p99 were made, with the effective sample
// sizes, and why some are missing.
func (sh *sheet) intervals(rows []quantity) {
	var made, refused group
	iid := false
	for _, q := range rows {
		if q.s == nil || q.s.Mean == nil || q.s.CIMethod == "" {
			continue
		}
		method := p99Method(q.s.CIMethod)
		if q.s.P99CI != nil {
			made.add(method, q.name)
			continue
		}
		iid = iid || q.s.P99CIIID != nil
		refused.add(strings.TrimPrefix(method, "none: "), q.name)
	}
	var items []string
	for _, how := range made.keys {
		items = append(items, strings.Join(made.names[how], ", ")+": "+how)
	}
	for _, why := range refused.keys {
		items = append(items, strings.Join(refused.names[why], ", ")+": none from batches ("+why+")")
	}
	if iid {
		items = append(items, "iid: as if requests were independent, too narrow in a queue")
	}
	sh.row("intervals", items...)
}

// p99Method takes the part on p99 from "p50 ...; p99 ...".
func p99Method(text string) string {
	if _, after, ok := strings.Cut(text, "; p99 "); ok {
		return after
	}
	return text
}

// further shows the percentiles that were asked for beyond the usual ones.
func (sh *sheet) further(rows []quantity) {
	var names []string
	for _, q := range rows {
		if q.s == nil {
			continue
		}
		for name := range q.s.Percentiles {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(percentOf(a), percentOf(b)) })
	for _, name := range names {
		var items []string
		for _, q := range rows {
			if q.s == nil || q.s.Percentiles == nil {
				continue
			}
			value := none
			if x := q.s.Percentiles[name]; x != nil {
				value = fixed(*x, rowDecimals(q.s))
			}
			items = append(items, q.name+" "+value)
		}
		sh.row(name, items...)
	}
}

func percentOf(name string) float64 {
	x, err := strconv.ParseFloat(strings.TrimPrefix(name, "p"), 64)
	if err != nil {
		return 0
	}
	return x
}

// policy says how percentiles are taken, and how many samples lie beyond them.
func (sh *sheet) policy(rows []quantity) {
	var g group
	kind := 0
	for _, q := range rows {
		if q.s == nil || q.s.Mean == nil {
			continue
		}
		kind = q.s.QuantileType
		g.add(strconv.Itoa(q.s.N), q.name)
	}
	if len(g.keys) == 0 {
		return
	}
	items := []string{fmt.Sprintf("Hyndman-Fan type %d over the pooled sample, one value a request (gaps: one a gap)", kind)}
	for _, n := range g.keys {
		size, _ := strconv.Atoi(n)
		items = append(items, fmt.Sprintf("n(1-p) at n %s: p95 %s, p99 %s", n, beyond(size, 0.05), beyond(size, 0.01)))
	}
	sh.row("percentiles", items...)
}

// beyond is n(1-p).
func beyond(n int, tail float64) string { x := float64(n) * tail; return short(x, decimals(x)) }

// connection shows what it took to open connections, which TTFT leaves out.
func (sh *sheet) connection(m *result.Metrics) {
	var items []string
	for _, q := range []quantity{{"", "DNS", m.DNS}, {"", "connect", m.Connect}, {"", "TLS", m.TLS}} {
		if q.s != nil && q.s.Mean != nil {
			median := ""
			if q.s.P50 != nil {
				median = " p50 " + number(*q.s.P50)
			}
			items = append(items, fmt.Sprintf("%s%s max %s (n %d)", q.name, median, optional(q.s.Max), q.s.N))
		}
	}
	if len(items) == 0 {
		sh.row("connection", "none was opened, or how long it took is not known")
		return
	}
	items = append(items, "before sent: not in TTFT")
	if m.Connect != nil && m.Connect.Note != "" {
		items = append(items, m.Connect.Note)
	}
	sh.row("connection", items...)
}

// beside has what else stands next to the table.
func (sh *sheet) beside(m *result.Metrics) {
	if s := m.Headers; s != nil && s.Mean != nil {
		where := " after sent: in E2E"
		if m.TTFT != nil {
			where = " after sent: in TTFT"
		}
		sh.row("headers", spread(s)+where)
	}
	if answerDiffers(m) {
		sh.row("answer", "time to first answer text "+spread(m.TTFAnswer)+fmt.Sprintf(" (n %d)", m.TTFAnswer.N))
	}
	if m.GapMean != nil {
		sh.row("mean ITL", number(*m.GapMean)+" ms, gap-weighted: Σ(E2E - TTFT) / Σ(n - 1) over n ≥ 2")
	}
	if s := m.UserTPS; s != nil && s.Mean != nil {
		sh.row("user TPS", fmt.Sprintf("mean %s p50 %s min %s max %s tokens/s", optional(s.Mean), optional(s.P50), optional(s.Min), optional(s.Max)),
			"(n - 1) / (E2E - TTFT) of each request")
	}
	sh.oneToken(m.OneToken)
	var lag []string
	if s := m.SendLag; s != nil && s.Mean != nil {
		lag = append(lag, "sends late by "+spread(s))
	}
	if s := m.ReadLag; s != nil && s.Mean != nil {
		lag = append(lag, "reads late by "+spread(s))
	}
	sh.row("own lag", lag...)
}

// spread is p50, p99 and the maximum in words.
func spread(s *result.Summary) string {
	return fmt.Sprintf("p50 %s p99 %s max %s", optional(s.P50), optional(s.P99), optional(s.Max))
}

func answerDiffers(m *result.Metrics) bool {
	a, b := m.TTFT, m.TTFAnswer
	if b == nil || b.Mean == nil {
		return false
	}
	return a == nil || a.Mean == nil || a.N != b.N || *a.Mean != *b.Mean
}

func (sh *sheet) oneToken(c result.OneTokenCheck) {
	if c.Checked == 0 {
		return
	}
	sh.row("gaps", fmt.Sprintf("one token an event: %s; of %d requests %d proven, %d inferred, %d failed",
		c.Verdict, c.Checked, c.Proven, c.Inferred, c.Failed))
}

// strata compares lengths, if there is more than one.
func (sh *sheet) strata(list []result.Stratum) {
	if len(list) < 2 {
		return
	}
	sh.section("BY LENGTH", "requests by the output tokens that came", "milliseconds", "TPOT request-weighted", "early: stopped before max_tokens")
	var rows [][]string
	for _, s := range list {
		bin := times(s.LoTokens, "token", "tokens")
		if s.HiTokens != s.LoTokens {
			bin = fmt.Sprintf("%d to %d tokens", s.LoTokens, s.HiTokens)
		}
		early := none
		if s.EarlyStopRate != nil {
			early = percent(*s.EarlyStopRate)
		}
		row := append([]string{bin, strconv.Itoa(s.N), early}, stratumCells(s.TPOT)...)
		rows = append(rows, append(row, stratumCells(s.E2E)...))
	}
	sh.add(grid{header: []string{"", "n", "early", "TPOT mean", "p50", "p95", "E2E mean", "p50", "p95"}, rows: rows})
}

func stratumCells(s *result.Summary) []string {
	if s == nil {
		return []string{none, none, none}
	}
	d := rowDecimals(s)
	cells := make([]string, 0, 3)
	for _, x := range []*float64{s.Mean, s.P50, s.P95} {
		if x == nil {
			cells = append(cells, none)
		} else {
			cells = append(cells, fixed(*x, d))
		}
	}
	return cells
}
