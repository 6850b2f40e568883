package cli

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/assay-bench/assay/engine"
	"github.com/assay-bench/assay/replay"
	"github.com/assay-bench/assay/report"
)

type validateCmd struct {
	File string            `arg:"" help:"Recorded requests, as JSON lines or CSV; - is standard input."`
	Map  map[string]string `name:"map" mapsep:"," placeholder:"FIELD=COLUMN,..." help:"Columns that have another name: input=prompt_tokens,queued=arrival_ms."`
	engineFlags
	JSON bool `name:"json" help:"Print as JSON."`
}

// Help implements kong's detailed help.
func (validateCmd) Help() string {
	return `Serves recorded requests again, in virtual time, at their recorded arrivals, and
compares TTFT, TPOT and E2E of the simulation with those of the recording.

Columns: input_toks, output_toks, queued_ts, and, to compare with, scheduled_ts,
first_token_ts, last_token_ts. Times are seconds on any clock, or in the unit that
ends a mapped column's name (_ms, _us, _ns). A file NAME.meta.json beside
NAME.requests.jsonl tells the engine's limits, unless flags do.

  assay sim validate run.requests.jsonl --gpu rtx-4090 --max-num-seqs 256 --kv-blocks 2588
  assay sim validate log.csv --map input=prompt,output=completion,queued=arrival_ms`
}

// Run implements the command.
func (c *validateCmd) Run(e *env) error {
	columns := make(replay.Columns)
	for _, name := range slices.Sorted(maps.Keys(c.Map)) {
		f, err := replay.ParseField(name)
		if err != nil {
			return usagef("--map: %w", err)
		}
		if _, twice := columns[f]; twice {
			return usagef("--map: %s is mapped twice", f)
		}
		columns[f] = c.Map[name]
	}
	in, name := e.stdin, "standard input"
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return usageError{err}
		}
		defer f.Close()
		in, name = f, filepath.Base(c.File)
	}
	if err := c.readMeta(); err != nil {
		return err
	}
	return c.validate(e, in, name, columns)
}

func (c *validateCmd) validate(e *env, in io.Reader, name string, columns replay.Columns) error {
	cfg, err := c.engine()
	if err != nil {
		return err
	}
	rows, err := replay.Read(in, name, columns)
	if err != nil {
		return usageError{err}
	}
	r, err := replay.Run(cfg, rows)
	if err != nil {
		return usagef("%s: %w", name, err)
	}
	r.File, r.Engine = name, describeEngine(cfg)
	if c.JSON {
		return report.WriteJSON(e.stdout, r)
	}
	return report.Replay(e.stdout, r, reportOptions(e.stdout))
}

// recordedMeta is what a recording's .meta.json tells of its engine.
type recordedMeta struct {
	Model  string `json:"model"`
	Kwargs struct {
		TP          *int `json:"tensor_parallel_size"`
		MaxNumSeqs  *int `json:"max_num_seqs"`
		MaxTokens   *int `json:"max_num_batched_tokens"`
		MaxModelLen *int `json:"max_model_len"`
	} `json:"engine_kwargs"`
	KV struct {
		Blocks *int `json:"num_gpu_blocks"`
	} `json:"kv_cache"`
	Hardware struct {
		Device string `json:"device_name"`
	} `json:"hardware"`
}

// readMeta fills in what no flag says from the file beside the recording, if
// there is one.
func (c *validateCmd) readMeta() error {
	if c.File == "-" {
		return nil
	}
	base := strings.TrimSuffix(c.File, ".gz")
	base = strings.TrimSuffix(base, filepath.Ext(base))
	path := strings.TrimSuffix(base, ".requests") + ".meta.json"
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return usageError{err}
	}
	var m recordedMeta
	if err := json.Unmarshal(b, &m); err != nil {
		return usagef("%s: %w", filepath.Base(path), err)
	}
	fill := func(to **int, from *int) {
		if *to == nil {
			*to = from
		}
	}
	fill(&c.TP, m.Kwargs.TP)
	fill(&c.MaxNumSeqs, m.Kwargs.MaxNumSeqs)
	fill(&c.MaxNumBatchedTokens, m.Kwargs.MaxTokens)
	fill(&c.MaxModelLen, m.Kwargs.MaxModelLen)
	fill(&c.KVBlocks, m.KV.Blocks)
	t, err := c.tables()
	if err != nil {
		return err
	}
	// Names that the tables do not have are left to the flags.
	if _, err := t.Model(m.Model); err == nil && c.SimModel == "" {
		c.SimModel = m.Model
	}
	if m.Hardware.Device == "" || c.GPU != "" {
		return nil
	}
	var known bool
	if c.GPU, known = deviceName(t, m.Hardware.Device); !known {
		return usagef("%s: the tables have no %q: name a GPU with --gpu, or add it with --sim-tables", filepath.Base(path), m.Hardware.Device)
	}
	return nil
}

// deviceName finds a driver's name for a GPU in the tables: "NVIDIA GeForce RTX
// 4090" is rtx-4090, "NVIDIA H100 80GB HBM3" is h100-80gb.
func deviceName(t engine.Tables, s string) (name string, ok bool) {
	words := slices.DeleteFunc(strings.Fields(strings.ToLower(s)), func(w string) bool { return w == "nvidia" || w == "geforce" })
	for n := len(words); n > 0; n-- {
		name = strings.Join(words[:n], "-")
		if _, err := t.GPU(name); err == nil {
			return name, true
		}
	}
	return "", false
}
