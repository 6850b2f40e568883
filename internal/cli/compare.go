package cli

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/assay-bench/assay/compare"
	"github.com/assay-bench/assay/report"
	"github.com/assay-bench/assay/result"
	"github.com/assay-bench/assay/rundir"
)

// comparisonFlags say how sides are compared, whoever made their runs.
type comparisonFlags struct {
	Metric   []string `placeholder:"ttft.p99" help:"Metrics of the family; default: ttft.p50, ttft.p99, tpot.mean, e2e.p50, e2e.p99, output_tps."`
	Alpha    float64  `default:"0.05" help:"Chance of any false alarm in the whole family."`
	Paired   bool     `help:"Compare runs of equal seeds pair by pair."`
	Gate     string   `placeholder:"ttft.p99<+5%,…" help:"By how much the others may be worse than the base; a gate that is not shown to hold makes the exit code 1."`
	Force    bool     `help:"Compare in spite of objections; they stay in the report."`
	JSON     bool     `name:"json" help:"Print as JSON." xor:"form"`
	Markdown bool     `help:"Print as Markdown." xor:"form"`
	JUnit    string   `name:"junit" placeholder:"FILE" help:"Also write the gates as JUnit XML; FILE must not exist."`
}

type compareCmd struct {
	Sides []string `arg:"" name:"side" help:"Run directories, or folders of them (a sweep too), the base first; as LABEL=PATH to name a side."`
	By    string   `placeholder:"LABEL" help:"Make the sides by the value of this label of the runs (assay run --label) instead of by path."`
	comparisonFlags
}

// Help implements kong's detailed help.
func (compareCmd) Help() string {
	return `The run is the unit: at least four runs a side are needed to show anything in one
metric, five in six of them, and the report says so. What must not be compared
(another workload, another window, an INVALID client, an UNSTABLE stage) is
refused with exit code 2; the target is what is compared, and never a reason.

  assay compare bf16=runs-a fp8=runs-b
  assay compare runs --by config --metric tpot.mean --gate "tpot.mean<+3%"`
}

// Run implements the command.
func (c *compareCmd) Run(e *env) error {
	o, err := c.options()
	if err != nil {
		return err
	}
	sides, err := c.sides(o.Metrics)
	if err != nil {
		return err
	}
	return c.compare(e, sides, o, func(*result.Comparison) error { return nil })
}

// options of the comparison; metrics that gates need are read too, but are no
// part of the family.
func (c *comparisonFlags) options() (o compare.Options, err error) {
	if !(c.Alpha > 0 && c.Alpha < 0.5) {
		return o, usagef("--alpha %g: want a chance between 0 and 0.5", c.Alpha)
	}
	if c.JUnit != "" {
		if _, err := os.Lstat(c.JUnit); err == nil {
			return o, usagef("--junit %s: the file exists, and nothing is overwritten", c.JUnit)
		}
	}
	names := c.Metric
	if len(names) == 0 {
		names = compare.DefaultMetrics()
	}
	if o.Metrics, err = compare.ParseMetrics(names); err != nil {
		return o, usagef("--metric: %w", err)
	}
	if o.Gates, err = compare.ParseGates(c.Gate); err != nil {
		return o, usagef("--gate: %w", err)
	}
	o.Alpha, o.Paired, o.Seed = c.Alpha, c.Paired, 1
	return o, nil
}

// compare holds sides against each other, keeps what came of it, and prints it.
func (c *comparisonFlags) compare(e *env, sides []compare.Side, o compare.Options, keep func(*result.Comparison) error) error {
	o.Objections, o.Notes = compare.Objections(sides)
	if len(o.Objections) > 0 && !c.Force {
		return usagef("not comparable: %s (--force compares all the same)", strings.Join(o.Objections, "; "))
	}
	out, err := compare.Compare(sides, o)
	if err != nil {
		return usageError{err}
	}
	if err := keep(out); err != nil {
		return fmt.Errorf("keeping the comparison: %w", err)
	}
	switch {
	case c.JSON:
		err = report.WriteJSON(e.stdout, out)
	case c.Markdown:
		err = report.ComparisonMarkdown(e.stdout, out)
	default:
		err = report.Comparison(e.stdout, out, reportOptions(e.stdout))
	}
	if err != nil {
		return err
	}
	if c.JUnit != "" {
		var b bytes.Buffer
		if err := report.ComparisonJUnit(&b, out); err != nil {
			return err
		}
		if err := writeNew(c.JUnit, b.Bytes()); err != nil {
			return err
		}
	}
	return gatesOf(out)
}

// writeNew writes a file that does not exist yet.
func writeNew(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return usageError{err}
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Close())
}

func gatesOf(c *result.Comparison) error {
	var missed []string
	for _, g := range c.Gates {
		if g.Verdict != result.Pass {
			missed = append(missed, fmt.Sprintf("%s (%s, %s): %s", g.Text, g.Stage, g.Side, g.Verdict))
		}
	}
	if len(missed) > 0 {
		return gateError{"gate: " + strings.Join(missed, "; ")}
	}
	return nil
}

// sides reads all runs that the arguments name.
func (c *compareCmd) sides(metrics []compare.Metric) ([]compare.Side, error) {
	var sides []compare.Side
	at := func(label string) *compare.Side {
		for i := range sides {
			if sides[i].Label == label {
				return &sides[i]
			}
		}
		sides = append(sides, compare.Side{Label: label})
		return &sides[len(sides)-1]
	}
	for _, arg := range c.Sides {
		label, path := sideName(arg)
		dirs, err := runDirs(path)
		if err != nil {
			return nil, err
		}
		if c.By == "" && slices.ContainsFunc(sides, func(s compare.Side) bool { return s.Label == label }) {
			return nil, usagef("two sides are called %s: name them, as in before=%s", label, path)
		}
		for _, dir := range dirs {
			runs, labels, err := readSide(dir, metrics)
			if err != nil {
				return nil, err
			}
			if c.By != "" {
				value, ok := labels[c.By]
				if !ok {
					return nil, usagef("--by %s: %s has no such label (assay run --label %s=VALUE)", c.By, dir, c.By)
				}
				label = value
			}
			side := at(label)
			side.Runs = append(side.Runs, runs...)
		}
	}
	if len(sides) < 2 {
		return nil, usagef("a comparison needs two sides, there is only %s", sides[0].Label)
	}
	return sides, nil
}

// sideName splits LABEL=PATH; the label of a bare path is its last element.
func sideName(arg string) (label, path string) {
	if label, path, ok := strings.Cut(arg, "="); ok && label != "" && !strings.ContainsRune(label, filepath.Separator) {
		return label, path
	}
	return filepath.Base(filepath.Clean(arg)), arg
}

// sideDepth is how far below a side's folder its runs may lie: a sweep keeps its
// runs in a folder of its own.
const sideDepth = 3

// runDirs are the run directories at or below a path, in the order of their names.
func runDirs(path string) ([]string, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, usageError{err}
	}
	var dirs []string
	root := filepath.Clean(path)
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !d.IsDir() {
			return nil
		}
		if _, err := os.Stat(filepath.Join(p, "run.json")); err == nil {
			dirs = append(dirs, p)
			return filepath.SkipDir
		}
		if rel, _ := filepath.Rel(root, p); rel != "." && strings.Count(rel, string(filepath.Separator)) >= sideDepth-1 {
			return filepath.SkipDir
		}
		return nil
	})
	if err != nil {
		return nil, usageError{err}
	}
	if len(dirs) == 0 {
		return nil, usagef("%s: no run directory (with a run.json) at or below it", path)
	}
	return dirs, nil
}

// readSide reads the stages of a run with the samples that a comparison needs.
func readSide(dir string, metrics []compare.Metric) ([]compare.Run, map[string]string, error) {
	d, err := rundir.Open(dir)
	if err != nil {
		return nil, nil, usageError{err}
	}
	out, err := conclude(d, &statFlags{})
	if err != nil {
		return nil, nil, err
	}
	identity, err := workloadIdentity(d.Meta.Config)
	if err != nil {
		return nil, nil, usagef("%s/run.json: config: %w", dir, err)
	}
	var runs []compare.Run
	for i := range out.Stages {
		info := d.Meta.Stages[i]
		info.Window = out.Stages[i].Window
		runs = append(runs, compare.Run{
			Result: out, Stage: &out.Stages[i], Dir: dir, Workload: identity,
			Samples: compare.Gather(&info, metrics, d.Records),
		})
		if err := d.Err(); err != nil {
			return nil, nil, usageError{err}
		}
	}
	return runs, d.Meta.Labels, nil
}

// workloadIdentity is a hash of the workload as resolved, without seeds: repeats
// of one workload have several. The object is written anew, with sorted keys.
func workloadIdentity(config json.RawMessage) (string, error) {
	var c struct {
		Workload any `json:"workload"`
	}
	if err := json.Unmarshal(config, &c); err != nil {
		return "", err
	}
	b, err := json.Marshal(c.Workload)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8]), nil
}
