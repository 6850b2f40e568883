package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"

	"github.com/assay-bench/assay/result"
)

// CSV writes one line a stage, for spreadsheets and plots. A cell is empty where
// there is no number. Columns end in their unit.
func CSV(w io.Writer, r *result.Run) error {
	out := csv.NewWriter(w)
	header := []string{
		"run_id", "stage", "load", "window_s", "window_closed", "attempts", "completed", "client_verdict", "stability", "warmup_detected",
		"output_tps", "prompt_tps", "rps", "goodput_percent", "goodput_rate",
	}
	for _, d := range csvDistributions() {
		for _, statistic := range []string{"n", "mean", "p50", "p95", "p99", "mad", "max"} {
			header = append(header, d.name+"_"+statistic)
		}
	}
	if err := out.Write(header); err != nil {
		return fmt.Errorf("writing CSV: %w", err)
	}
	for i := range r.Stages {
		if err := out.Write(csvRow(r, &r.Stages[i])); err != nil {
			return fmt.Errorf("writing CSV: %w", err)
		}
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return fmt.Errorf("writing CSV: %w", err)
	}
	return nil
}

// csvDistributions are the summaries that have columns, by their name in JSON.
func csvDistributions() []struct {
	name string
	of   func(*result.Metrics) *result.Summary
} {
	type m = result.Metrics
	return []struct {
		name string
		of   func(*m) *result.Summary
	}{
		{"ttft_ms", func(x *m) *result.Summary { return x.TTFT }},
		{"ttft_from_schedule_ms", func(x *m) *result.Summary { return x.TTFTFromSchedule }},
		{"tpot_ms", func(x *m) *result.Summary { return x.TPOT }},
		{"itl_ms", func(x *m) *result.Summary { return x.ITL }},
		{"chunk_gap_ms", func(x *m) *result.Summary { return x.ChunkGap }},
		{"e2e_ms", func(x *m) *result.Summary { return x.E2E }},
		{"user_tps", func(x *m) *result.Summary { return x.UserTPS }},
		{"send_lateness_ms", func(x *m) *result.Summary { return x.SendLag }},
	}
}

func csvRow(r *result.Run, st *result.Stage) []string {
	rate := func(name string) *float64 {
		for i := range st.Throughput {
			if st.Throughput[i].Name == name {
				return &st.Throughput[i].Value
			}
		}
		return nil
	}
	row := []string{
		r.ID, st.Name, st.Load, csvNumber(new(st.Window.Length().Seconds())), st.WindowClosed,
		strconv.Itoa(st.Ledger.Attempts), strconv.Itoa(st.Ledger.Completed), st.Client.Verdict, st.Stability.Verdict,
		strconv.FormatBool(st.Warmup.Detected), csvNumber(rate("output_tps")), csvNumber(rate("prompt_tps")), csvNumber(rate("rps")),
	}
	if g := st.Goodput; g != nil {
		row = append(row, csvNumber(&g.Percent), csvNumber(g.Rate))
	} else {
		row = append(row, "", "")
	}
	for _, d := range csvDistributions() {
		s := d.of(&st.Metrics)
		if s == nil {
			row = append(row, "", "", "", "", "", "", "")
			continue
		}
		row = append(row, strconv.Itoa(s.N), csvNumber(s.Mean), csvNumber(s.P50), csvNumber(s.P95), csvNumber(s.P99), csvNumber(s.MAD), csvNumber(s.Max))
	}
	return row
}

func csvNumber(x *float64) string {
	if x == nil {
		return ""
	}
	return strconv.FormatFloat(*x, 'g', -1, 64)
}
