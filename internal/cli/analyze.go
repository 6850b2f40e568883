package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/assay-bench/assay/metric"
	"github.com/assay-bench/assay/report"
	"github.com/assay-bench/assay/result"
	"github.com/assay-bench/assay/rundir"
)

// statFlags choose among the definitions of the statistics.
type statFlags struct {
	SLO          *string   `name:"slo" placeholder:"ttft=1s,tpot=150ms,e2e=5s" help:"Limits that one request must stay below, for goodput; or: seed." group:"Measurement"`
	TPOT         *string   `name:"tpot" enum:"seed,paired" help:"Form of TPOT behind SLOs and strata: seed (default) or paired." group:"Measurement"`
	QuantileType *int      `name:"quantile-type" placeholder:"7" help:"Hyndman-Fan type of percentiles, 1 to 9." group:"Measurement"`
	Percentiles  []float64 `name:"percentiles" placeholder:"90,99.9" help:"Percentiles beyond p50, p95 and p99." group:"Measurement"`
}

type analyzeCmd struct {
	File string `arg:"" help:"A CSV file; - is standard input."`
	statFlags
	JSON bool `name:"json" help:"Print as JSON."`
}

// Help implements kong's detailed help.
func (analyzeCmd) Help() string {
	return `By its header, the file is
  request_id,prompt_tokens,completion_tokens,TTFT_ms,E2E_ms   one request a row, or
  event,t_ms                                                  one token of one request a row,
where event is sent or token, and t_ms may also be t_s, t_us, t_ns or timestamp_*.
Everything that these columns allow is computed, and what they do not is said.`
}

// Run implements the command.
func (c *analyzeCmd) Run(e *env) error {
	in, name := e.stdin, "standard input"
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return usageError{err}
		}
		defer f.Close()
		in, name = f, filepath.Base(c.File)
	}
	o, err := c.options(metric.Options{})
	if err != nil {
		return err
	}
	r, err := rundir.NewCSVReader(in, name)
	if err != nil {
		return usageError{err}
	}
	if r.Kind() == rundir.TraceCSV {
		return c.trace(e, r)
	}
	return c.table(e, r, name, o)
}

func (c *analyzeCmd) trace(e *env, r *rundir.CSVReader) error {
	times, err := r.Trace()
	if err != nil {
		return usageError{err}
	}
	t, err := metric.NewTrace(times.Sent, times.Tokens)
	if err != nil {
		return usagef("%s: %w", c.File, err)
	}
	if times.SentAssumed {
		fmt.Fprintln(e.stderr, "assay: the file has no sent row: times are taken to count from the sending of the request")
	}
	if c.JSON {
		return report.WriteJSON(e.stdout, t)
	}
	return report.Trace(e.stdout, &t, reportOptions(e.stdout))
}

func (c *analyzeCmd) table(e *env, r *rundir.CSVReader, name string, o metric.Options) error {
	m := metric.NewTable(o)
	for n := 0; ; n++ {
		row, err := r.Request()
		if err == io.EOF && n == 0 {
			return usagef("%s: there is a header and no request", name)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return usageError{err}
		}
		err = m.AddRow(metric.Row{
			RequestID: row.ID, PromptTokens: row.PromptTokens, CompletionTokens: row.CompletionTokens,
			TTFT: row.TTFT, E2E: row.E2E,
		})
		if err != nil {
			return usagef("%s: %w", row.Place(r), err)
		}
	}
	st := result.Stage{Name: name}
	m.Result(&st)
	if c.JSON {
		return report.WriteJSON(e.stdout, st)
	}
	return report.Table(e.stdout, &st, reportOptions(e.stdout))
}

// options puts the flags that were given over those of a file or a run.
func (f *statFlags) options(o metric.Options) (metric.Options, error) {
	if f.SLO != nil {
		slo, err := metric.ParseSLO(*f.SLO)
		if err != nil {
			return o, usagef("--slo: %w", err)
		}
		o.SLO = slo
	}
	if f.TPOT != nil {
		o.TPOT = *f.TPOT
	}
	if f.QuantileType != nil {
		if o.QuantileType = *f.QuantileType; o.QuantileType == 0 {
			return o, usagef("--quantile-type is 0: Hyndman-Fan types are 1 to 9")
		}
	}
	if f.Percentiles != nil {
		o.Percentiles = f.Percentiles
	}
	if err := o.Validate(); err != nil {
		return o, usageError{err}
	}
	return o, nil
}
