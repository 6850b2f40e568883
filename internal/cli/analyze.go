package cli

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

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
	File string `arg:"" help:"A CSV, or the result file of another tool; - is standard input."`
	statFlags
	JSON bool `name:"json" help:"Print as JSON."`
}

// Help implements kong's detailed help.
func (analyzeCmd) Help() string {
	return `By its header, a CSV is
  request_id,prompt_tokens,completion_tokens,TTFT_ms,E2E_ms   one request a row, or
  event,t_ms                                                  one token of one request a row,
where event is sent or token, and t_ms may also be t_s, t_us, t_ns or timestamp_*.
Result files of other tools are known by their keys: vllm bench serve
--save-detailed, AIPerf profile_export.jsonl, GuideLLM benchmarks.json,
inference-perf per_request_lifecycle_metrics.json, llmperf individual responses.
Everything that a file allows is computed by our definitions, and what it does not
is said, with the known faults that show in it.`
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
	buffered := bufio.NewReader(in)
	if head, _ := buffered.Peek(64); rundir.IsPeer(head) {
		return c.peer(e, buffered, name, o)
	}
	r, err := rundir.NewCSVReader(buffered, name)
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

// peer analyses the result file of another tool, one part after the other.
func (c *analyzeCmd) peer(e *env, in io.Reader, name string, o metric.Options) error {
	files, err := rundir.ReadPeer(in, name)
	if err != nil {
		return usageError{err}
	}
	var all []result.Stage
	for i := range files {
		f := &files[i]
		st, err := peerStage(f, o)
		if err != nil {
			return usagef("%s: %w", name, err)
		}
		st.Name = strings.TrimSpace(name + " " + f.Part)
		all = append(all, st)
		if c.JSON {
			continue
		}
		if i > 0 {
			fmt.Fprintln(e.stdout)
		}
		if err := report.Imported(e.stdout, &st, f.Tool, reportOptions(e.stdout)); err != nil {
			return err
		}
	}
	if c.JSON {
		return report.WriteJSON(e.stdout, all)
	}
	return nil
}

// peerStage computes what the rows of another tool allow.
func peerStage(f *rundir.PeerFile, o metric.Options) (st result.Stage, err error) {
	m := metric.NewTable(o)
	first, last, tokens := time.Duration(math.MaxInt64), time.Duration(0), 0
	for _, r := range f.Rows {
		err := m.AddRow(metric.Row{RequestID: r.ID, PromptTokens: r.PromptTokens, CompletionTokens: r.CompletionTokens, TTFT: r.TTFT, E2E: r.E2E})
		if err != nil {
			return st, err
		}
		first, last = min(first, r.Start), max(last, r.Start+r.E2E)
		tokens += r.CompletionTokens
	}
	m.Result(&st)
	st.Warnings = nil
	for _, text := range f.Notes {
		st.Warnings = append(st.Warnings, result.Warning{Code: "imported", Text: text})
	}
	if f.Failed > 0 {
		text := fmt.Sprintf("%d requests failed: they are in no latency", f.Failed)
		if g := st.Goodput; g != nil {
			g.Due += f.Failed
			g.Percent = 100 * float64(g.Good) / float64(g.Due)
			g.Misses = maps.Clone(g.Misses)
			if g.Misses == nil {
				g.Misses = make(map[string]int)
			}
			g.Misses["failed"] += f.Failed
			g.PercentCI, g.NEff = nil, nil
			text += ", and are misses of the goodput"
		}
		st.Warnings = append(st.Warnings, result.Warning{Code: "failed", Text: text})
	}
	if seconds := (last - first).Seconds(); first > 0 && seconds > 0 {
		st.Throughput = []result.Throughput{{
			Name: "output_tps_span", Value: float64(tokens) / seconds, Unit: "tokens/s", Numerator: "output tokens of the completed requests",
			Denominator: fmt.Sprintf("T_last - T_first = %.4g s, from the first start to the last end", seconds), Phases: "ramp and drain inside: the file has no phases",
		}}
	}
	return st, nil
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
