package workload

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/assay-bench/assay/dataset"
)

// TraceFile is the trace of a workload, opened once to see what is in it.
type TraceFile struct {
	// Summary of the file as recorded: before dithering and scaling.
	Summary dataset.Summary
	// SHA256 of the file, in hexadecimal; empty for a directory.
	SHA256 string
	// FirstSkipped is what is wrong with the first of the malformed rows.
	FirstSkipped error

	trace  Trace
	o      dataset.Options
	seed   uint64
	dither time.Duration
	prompt bool // its lengths are used
	output bool
	time   bool
	timing string // of later turns of sessions
	blocks bool   // of prompts are replayed
}

// ErrBlockSize: rows have hash ids, and nothing says what they stand for.
var ErrBlockSize = errors.New("the file does not say how many tokens a hash id stands for")

// OpenTrace reads the trace of a workload through, and finds all that is wrong
// with it. The seed is that of dithering and scaling.
func OpenTrace(spec Spec, seed uint64) (*TraceFile, error) {
	spec = spec.Resolve()
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	if spec.Trace == nil {
		return nil, errors.New("the workload follows no trace")
	}
	f := &TraceFile{
		trace: *spec.Trace, seed: seed,
		prompt: spec.PromptTokens.Dist == FromTrace, output: spec.OutputTokens.Dist == FromTrace,
		time: spec.Arrival.Process == ByTrace,
	}
	if spec.Sessions != nil {
		f.timing = spec.Sessions.Timing
	}
	var err error
	if f.o, err = f.options(); err != nil {
		return nil, err
	}
	if f.SHA256, err = hashFile(f.trace.File, f.trace.SHA256); err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	if err = f.scan(); err != nil {
		return nil, err
	}
	if f.o.Require = f.partial(); f.o.Require != nil && f.trace.SkipBad && spec.Sessions == nil {
		// What is missing in some rows makes those malformed.
		if err = f.scan(); err != nil {
			return nil, err
		}
	} else {
		f.o.Require = nil // the first of them is told when its row is asked for
	}
	if f.Summary.Rows == 0 {
		return nil, fmt.Errorf("trace: %s: there are no rows in it", f.trace.File)
	}
	if f.Summary.Failed == f.Summary.Rows {
		return nil, fmt.Errorf("trace: %s: all of its rows failed when they were recorded: they have a status of 400 or more, or no tokens", f.trace.File)
	}
	return f, errors.Join(f.setBlocks(&spec), f.setDither())
}

// scan reads the file through.
func (f *TraceFile) scan() error {
	r, err := dataset.Open(f.trace.File, f.o)
	if err != nil {
		return fmt.Errorf("trace: %w", err)
	}
	defer r.Close()
	if f.Summary, err = dataset.Scan(r); err != nil {
		return fmt.Errorf("trace: %w%s", err, f.misfit(err))
	}
	_, f.FirstSkipped = r.Skipped()
	return nil
}

// partial are the fields that are asked for and that some rows have, but not all.
func (f *TraceFile) partial() []dataset.Field {
	var out []dataset.Field
	has := &f.Summary
	for _, x := range []struct {
		asked  bool
		n, all int64
		field  dataset.Field
	}{
		{f.time, has.Timed, has.Rows, dataset.FieldTime},
		{f.prompt, has.PromptTokens.N, has.Rows - has.Failed, dataset.FieldPromptTokens},
		{f.output, has.OutputTokens.N, has.Rows - has.Failed, dataset.FieldOutputTokens},
	} {
		if x.asked && x.n > 0 && x.n < x.all {
			out = append(out, x.field)
		}
	}
	return out
}

// setBlocks decides whether prompts are of the blocks of the trace.
func (f *TraceFile) setBlocks(spec *Spec) error {
	how, talks := f.trace.HashIDs, spec.Sessions
	switch has := f.Summary.Blocks > 0 && f.prompt; how {
	case "":
		f.blocks = has && talks == nil && !f.HasSessions()
	case ReplayBlocks:
		f.blocks = has && talks == nil
	case SessionBlocks:
		f.blocks = has && (talks == nil || talks.FollowTrace())
	}
	wanted := how == ReplayBlocks || how == SessionBlocks
	switch fits := f.Summary.Fits; {
	case f.blocks && fits.BlockSize == 0 && fits.Suggested > 0:
		return fmt.Errorf("trace.block_size_tokens: %w: %d would fit all rows; or trace.hash_ids: ignore", ErrBlockSize, fits.Suggested)
	case f.blocks && fits.BlockSize == 0:
		return fmt.Errorf("trace.block_size_tokens: %w; or trace.hash_ids: ignore", ErrBlockSize)
	}
	switch {
	case wanted && f.Summary.Blocks == 0:
		return errors.New("trace.hash_ids: no row has any")
	case wanted && !f.prompt:
		return errors.New("trace.hash_ids: prompts are of another length than the trace's")
	case how == ReplayBlocks && talks != nil:
		return errors.New("trace.hash_ids: replay is of single requests; turns of sessions have the recorded blocks with trace.hash_ids: sessions")
	case how == SessionBlocks && !f.blocks:
		return errors.New("trace.hash_ids: sessions is of the trace's own (sessions.turns: {dist: trace}); these share their histories")
	case how == SessionBlocks && !f.HasSessions():
		return errors.New("trace.hash_ids: no row is a later turn of a session: want replay")
	case f.blocks && talks != nil && (talks.SystemPromptTokens > 0 || talks.SharedPrefixTokens > 0 || talks.UserPrefixTokens != nil):
		return errors.New("sessions: the trace says by its hash_ids what prompts share: no prefix and no system prompt is put before them")
	case f.blocks && spec.Prefix != nil:
		return errors.New("prefix: the trace says by its hash_ids what prompts share; trace.hash_ids: ignore leaves that out")
	}
	return nil
}

// ReplaysBlocks reports whether prompts share the blocks that were recorded.
func (f *TraceFile) ReplaysBlocks() bool { return f.blocks }

// misfit says what may be done where blocks do not fit the lengths of prompts.
func (f *TraceFile) misfit(err error) string {
	if !errors.Is(err, dataset.ErrBlocks) {
		return ""
	}
	ways := "; trace.hash_ids: ignore leaves blocks out, trace.skip_bad such rows"
	o := f.o
	o.AnyBlocks = true
	r, err := dataset.Open(f.trace.File, o)
	if err != nil {
		return ways
	}
	defer r.Close()
	s, err := dataset.Scan(r)
	if err != nil {
		return ways
	}
	fits := s.Fits
	ways = fmt.Sprintf("; so it is with %d rows of %d%s", fits.Wrong, fits.Wrong+fits.Up+fits.Down+fits.Exact, ways)
	if fits.Suggested > 0 {
		ways += fmt.Sprintf("; trace.block_size_tokens: %d would fit all", fits.Suggested)
	}
	return ways
}

func (f *TraceFile) options() (dataset.Options, error) {
	o := dataset.Options{
		SkipBad: f.trace.SkipBad, Unit: dataset.Unit(f.trace.Unit), Seed: f.seed, BlockSize: f.trace.BlockSize,
		// What is not replayed need not fit.
		AnyBlocks: f.trace.HashIDs == IgnoreBlocks || !f.prompt,
	}
	if f.trace.AnySpan {
		o.MaxSpan = -1
	}
	named, err := datasetOptions(f.trace.Format, f.trace.Columns)
	o.Format, o.Columns = named.Format, named.Columns
	return o, err
}

// datasetOptions are a format and the columns of fields as a workload names them.
func datasetOptions(format string, columns map[string]string) (o dataset.Options, err error) {
	o.Format, err = dataset.ParseFormat(format)
	for field, column := range columns {
		if o.Columns == nil {
			o.Columns = make(map[dataset.Field]string)
		}
		o.Columns[dataset.Field(field)] = column
	}
	return o, err
}

// hashFile is the hash of a file, held against the one that was stated, if one was;
// empty for a directory.
func hashFile(path, want string) (string, error) {
	info, err := os.Stat(path)
	if err != nil || info.IsDir() {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is no regular file: it is read several times, which a pipe cannot be: write it into one", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	h := sha256.New()
	if _, err := io.Copy(h, file); err != nil {
		return "", err
	}
	got := hex.EncodeToString(h.Sum(nil))
	if want != "" && want != got {
		return "", fmt.Errorf("%s is not the file that was meant: its sha256 is %s, not %s", path, got, want)
	}
	return got, nil
}

func (f *TraceFile) setDither() error {
	switch f.trace.Dither {
	case "":
	case ditherQuantum:
		f.dither = f.Summary.Quantum
		if f.dither == 0 {
			return errors.New("trace.dither: the stamps have no quantum")
		}
	default:
		f.dither, _ = time.ParseDuration(f.trace.Dither) // it was checked
	}
	return nil
}

// Note says what is in the file and what is done to it, for the eyes of who
// starts the run.
func (f *TraceFile) Note() string {
	note := f.Summary.String()
	if n := f.Summary.Backwards; n > 0 && f.time {
		note += fmt.Sprintf("; %d rows stand behind one with a later stamp: replayed in the order of stamps", n)
	}
	if f.blocks {
		note += fmt.Sprintf("; prompts share its blocks of %d tokens, of which an infinite prefix cache has %.1f %%", f.Summary.Fits.BlockSize, 100*f.Summary.Hits)
	}
	if f.dither > 0 {
		note += fmt.Sprintf("; dithered by %v", f.dither)
	}
	if s := f.trace.Scale; s != nil {
		note += fmt.Sprintf("; %s: %.4g/s", s.By, f.Summary.Rate*s.Factor)
		if s.By == Compression {
			note += fmt.Sprintf(" over %v", time.Duration(float64(f.Summary.Span())/s.Factor).Round(time.Millisecond))
		}
	}
	return note
}

// Rows starts at the first row; see [NewTracePlan].
func (f *TraceFile) Rows() (Rows, error) {
	src, done, err := f.scaled(f.window())
	if err != nil {
		return nil, err
	}
	rows := traceFileRows{f: f, src: src, done: done}
	if f.blocks {
		return &traceFileBlocks{rows}, nil
	}
	return &rows, nil
}

// window is how many rows are held to put the file into the order of time; 0 if it is.
func (f *TraceFile) window() int {
	if f.time && f.Summary.Backwards > 0 {
		return dataset.SortWindow
	}
	return 0
}

// recorded is the file in the order of time, by a window of rows if that is not 0,
// with its stamps dithered.
func (f *TraceFile) recorded(window int) (dataset.Source, func(), error) {
	r, err := dataset.Open(f.trace.File, f.o)
	if err != nil {
		return nil, nil, err
	}
	src := dataset.Source(r)
	if window > 0 {
		src = dataset.Sort(src, f.trace.File, f.Summary.First, window)
	}
	if f.dither > 0 {
		src, err = dataset.Dither(src, f.dither, f.seed)
	}
	return src, r.Close, err
}

func (f *TraceFile) scaled(window int) (dataset.Source, func(), error) {
	s := f.trace.Scale
	if s == nil {
		return f.recorded(window)
	}
	if s.By == Superposition {
		copies := int(math.Ceil(s.Factor))
		open := func() (dataset.Source, func(), error) { return f.recorded(window / copies) }
		all, err := dataset.Superpose(open, copies, f.Summary.Span()+f.dither, f.seed)
		if err != nil {
			return nil, nil, err
		}
		src, err := dataset.Thin(all, s.Factor/float64(copies), f.seed)
		return src, all.Close, err
	}
	src, done, err := f.recorded(window)
	if err != nil {
		return nil, nil, err
	}
	if s.By == Thinning {
		src, err = dataset.Thin(src, s.Factor, f.seed)
	} else {
		src, err = dataset.Compress(src, s.Factor)
	}
	return src, done, err
}

// traceFileRows are the rows of a pass.
type traceFileRows struct {
	f    *TraceFile
	src  dataset.Source
	done func()
	row  *dataset.Row // the latest
}

// traceFileBlocks are rows with their blocks.
type traceFileBlocks struct{ traceFileRows }

// Blocks implements [blockRows].
func (r *traceFileBlocks) Blocks() ([]uint64, int) {
	return r.f.blocksOf(r.row)
}

// blocksOf are what the hash ids of a row stand for.
func (f *TraceFile) blocksOf(row *dataset.Row) (blocks []uint64, tokens int) {
	if len(row.HashIDs) == 0 {
		return nil, 0
	}
	blocks = make([]uint64, len(row.HashIDs))
	for i := range blocks {
		blocks[i] = row.BlockSeed(f.seed, i)
	}
	return blocks, row.BlockSize
}

// Next implements [Rows]. A failed row has no lengths.
func (r *traceFileRows) Next() (at time.Duration, prompt, output int, ok bool, err error) {
	row, err := r.src.Next()
	if err != nil {
		r.close()
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return 0, 0, 0, false, err
	}
	r.row = row
	if row.Failed {
		return row.At, 0, 0, true, nil
	}
	missing, others, instead := "", int64(0), ""
	switch has := &r.f.Summary; {
	case r.f.time && !row.Timed:
		missing, others, instead = "stamp", has.Timed, "give an arrival process, or a concurrency"
	case r.f.prompt && row.PromptTokens == dataset.Unknown:
		missing, others, instead = "number of prompt tokens", has.PromptTokens.N, "give prompt_tokens, or send its texts: prompts: {file: "+filepath.Base(r.f.trace.File)+", order: file}"
	case r.f.output && row.OutputTokens == dataset.Unknown:
		missing, others, instead = "number of output tokens", has.OutputTokens.N, "give output_tokens"
	}
	if missing != "" {
		r.close()
		if others == 0 {
			return 0, 0, 0, false, fmt.Errorf("%s:%d: no row has a %s: %s", r.f.trace.File, row.Line, missing, instead)
		}
		return 0, 0, 0, false, fmt.Errorf("%s:%d: the row has no %s (skip_bad leaves such rows out)", r.f.trace.File, row.Line, missing)
	}
	if !r.f.time {
		row.At = 0 // the order of time is not asked for
	}
	// A length that is not used may be missing.
	return row.At, max(row.PromptTokens, 1), max(row.OutputTokens, 1), true, nil
}

func (r *traceFileRows) close() {
	if r.done != nil {
		r.done()
		r.done = nil
	}
}
