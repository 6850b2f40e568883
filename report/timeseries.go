package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/assay-bench/assay/metric"
	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/result"
)

// TimeSeries writes the content of timeseries.csv: a line for every second of
// every stage, of all phases, as [metric.Second] defines them. A quantity that does
// not exist in a second is an empty cell.
func TimeSeries(w io.Writer, stages []result.Stage, records func(yield func(*record.Attempt, []record.Event) bool)) error {
	series := make(map[string]*metric.Series, len(stages))
	for i := range stages {
		series[stages[i].Name] = metric.NewSeries(stages[i].Window)
	}
	for a, events := range records {
		if s := series[a.Stage]; s != nil {
			s.Add(a, events)
		}
	}
	c := csv.NewWriter(w)
	lines := [][]string{{
		"stage", "second", "phase", "due_requests", "completed_requests", "failed_attempts", "in_flight_mean",
		"output_tokens", "ttft_mean_ms", "ttft_p50_ms",
	}}
	for i := range stages {
		for _, s := range series[stages[i].Name].Seconds() {
			lines = append(lines, []string{
				stages[i].Name, strconv.Itoa(s.At), string(s.Phase), strconv.Itoa(s.Due), strconv.Itoa(s.Completed), strconv.Itoa(s.Failed),
				cell(s.InFlight), strconv.FormatInt(s.OutputTokens, 10), cell(s.TTFTMean), cell(s.TTFTp50),
			})
		}
	}
	if err := c.WriteAll(lines); err != nil {
		return fmt.Errorf("writing the time series: %w", err)
	}
	return nil
}

// cell is a number to three decimals, or nothing.
func cell(x float64) string {
	if math.IsNaN(x) {
		return ""
	}
	return strconv.FormatFloat(x, 'f', 3, 64)
}
