package cli

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/assay-bench/assay/dataset"
	"github.com/assay-bench/assay/workload"
)

// tracedFile is a trace or a file of prompts that is looked at: by all that all its
// rows have.
type tracedFile struct {
	path string
	seed uint64
	spec workload.Spec
	file *workload.TraceFile  // nil if it has neither times nor lengths
	own  *workload.PromptFile // nil if it has no texts, or says how long they are
}

// open reads a file through.
func (f *traceFlags) open(path string, seed uint64) (*tracedFile, error) {
	t := &tracedFile{path: path, seed: seed, spec: workload.Default()}
	byTrace := workload.Length{Dist: workload.FromTrace}
	s := &t.spec
	s.PromptTokens, s.OutputTokens, s.Arrival = byTrace, byTrace, workload.Arrival{Process: workload.ByTrace}
	s.Trace = &workload.Trace{File: path, Format: f.Format, Unit: f.Unit, Columns: f.Column, SkipBad: f.SkipBad, AnySpan: f.AnySpan}
	if s.Trace.Format == "" && workload.IsText(path) {
		s.Trace.Format = string(dataset.Text)
	}
	file, err := workload.OpenTrace(*s, seed)
	if errors.Is(err, dataset.ErrBlocks) || errors.Is(err, workload.ErrBlockSize) {
		// It can be looked at, though not be replayed.
		s.Trace.HashIDs = workload.IgnoreBlocks
		file, err = workload.OpenTrace(*s, seed)
	}
	if err != nil {
		return nil, usageError{hinted(err, "--unit", "--column", "--any-span")}
	}
	s.Trace.SHA256 = file.SHA256
	has := file.Summary
	// What some rows have all must have, or those without are left out; a session may
	// have texts in place of counts.
	timed, prompts, outputs := has.Timed > 0, has.PromptTokens.N > 0, has.OutputTokens.N > 0
	if file.HasSessions() {
		prompts, outputs = has.PromptTokens.N == has.Rows-has.Failed, has.OutputTokens.N == has.Rows-has.Failed
	}
	if timed && prompts && outputs {
		t.file = file
		return t, nil
	}
	if !timed {
		s.Arrival = workload.Arrival{}
	}
	switch {
	case !prompts && file.HasSessions():
		// Texts: their lengths are estimated, and those of recorded replies.
		s.Sessions = &workload.Sessions{Turns: byTrace}
		return t, t.openSessions()
	case !prompts:
		s.PromptTokens = workload.FixedLength(1)
		if err := t.openTexts(f); err != nil {
			return nil, err
		}
		outputs = outputs || t.own != nil && t.own.Outputs == t.own.Prompts && !timed
	}
	if !outputs {
		s.OutputTokens = workload.FixedLength(1)
	}
	if t.own != nil && !timed {
		// Nothing but texts: what they say of replies is theirs.
		s.Trace = nil
		return t, nil
	}
	if !s.NeedsTrace() {
		return nil, usagef("%s: no field is in all of its rows: neither a time, nor a number of prompt or of output tokens, nor a text", filepath.Base(path))
	}
	t.file, err = workload.OpenTrace(*s, seed)
	if err != nil {
		return nil, usageError{err}
	}
	return t, nil
}

// openSessions opens a trace of conversations, with their starts and the lengths of
// their replies if all have them.
func (t *tracedFile) openSessions() error {
	var first error
	for _, arrivals := range []workload.Arrival{t.spec.Arrival, {}} {
		for _, output := range []workload.Length{{Dist: workload.FromTrace}, workload.FixedLength(1)} {
			t.spec.Arrival, t.spec.OutputTokens = arrivals, output
			file, err := workload.OpenTrace(t.spec, t.seed)
			if err != nil {
				return usageError{err}
			}
			t.file = file
			if _, err = t.plan(); err == nil {
				return nil
			}
			if first == nil {
				first = err
			}
		}
	}
	return usageError{first}
}

// openTexts takes the texts of a file for its prompts, if it has them.
func (t *tracedFile) openTexts(f *traceFlags) error {
	s := workload.Default()
	s.Prompts = &workload.Prompts{File: t.path, Format: f.Format, Columns: f.Column, SkipBad: f.SkipBad, Order: workload.FileOrder}
	own, err := workload.OpenPrompts(s)
	if errors.Is(err, workload.ErrNoText) {
		return nil
	}
	if err != nil {
		return usageError{err}
	}
	own.SHA256, s.Prompts.SHA256 = t.spec.Trace.SHA256, t.spec.Trace.SHA256
	t.own, t.spec.Prompts = own, s.Prompts
	return nil
}

// plan follows the file in all that it can.
func (t *tracedFile) plan() (*workload.Plan, error) {
	switch {
	case t.file == nil:
		p, err := workload.NewPlan(t.spec, t.seed)
		if err == nil {
			p.UsePrompts(t.own)
		}
		return p, err
	case t.spec.Sessions.FollowTrace():
		return workload.NewSessionPlan(t.spec, t.seed, t.file)
	}
	p, err := workload.NewTracePlan(t.spec, t.seed, t.file.Rows)
	if err == nil && t.own != nil {
		p.UsePrompts(t.own)
	}
	return p, err
}

// sample is what the file has of its first n requests.
func (t *tracedFile) sample(n int) (workload.Sample, error) {
	p, err := t.plan()
	if err != nil {
		return workload.Sample{}, usageError{err}
	}
	if t.own != nil {
		n = min(n, int(t.own.Prompts)) // they would go round
	}
	sample, err := p.Sample(n)
	if err != nil {
		return sample, usageError{err}
	}
	if t.spec.PromptTokens.Dist != workload.FromTrace && t.own == nil {
		sample.Prompts = nil
	}
	if t.spec.OutputTokens.Dist != workload.FromTrace {
		sample.Outputs = nil
	}
	return sample, nil
}

// repeated is the share of the stamps that are those of the row before from which on
// they are taken for cut to their quantum, if that matters beside the mean gap.
const repeated = 0.01

// fits are the simple forms of a sample. Gaps between stamps that are cut are not those
// that were: the stamps are spread within their quantum first, which note says.
func (t *tracedFile) fits(sample workload.Sample, n int) (f *workload.Fits, note string, err error) {
	if t.file == nil || t.spec.Arrival.Process != workload.ByTrace || t.spec.Sessions != nil {
		return sample.Fit(), "", nil
	}
	has := &t.file.Summary
	if has.Quantum.Seconds()*has.Rate < 0.02 || float64(has.Timed-has.Stamps) < repeated*float64(has.Timed) {
		return sample.Fit(), "", nil
	}
	spread, trace := *t, *t.spec.Trace
	trace.Dither = "quantum"
	spread.spec.Trace = &trace
	if spread.file, err = workload.OpenTrace(spread.spec, t.seed); err != nil {
		return nil, "", usageError{err}
	}
	if sample, err = spread.sample(n); err != nil {
		return nil, "", err
	}
	return sample.Fit(), fmt.Sprintf("stamps in steps of %v: spread within them for the fit of arrivals, as trace.dither: quantum does", has.Quantum), nil
}

// unfitted are notes on what a trace has and its fit has not.
func (t *tracedFile) unfitted() (notes []string) {
	if t.file != nil && t.file.HasSessions() {
		notes = append(notes, "rows are turns of sessions, and are single requests here: how many turns there are, what is between them and the history that prompts share are not fitted (assay run --trace replays them)")
	}
	if t.file != nil && t.file.Summary.Blocks > 0 {
		notes = append(notes, fmt.Sprintf("rows have hash_ids: what prompts share (%.1f %% of their blocks) is not fitted; workload.prefix makes shared prefixes", 100*t.file.Summary.Hits))
	}
	return notes
}

// note says what is in the file.
func (t *tracedFile) note() string {
	if t.file != nil {
		return t.file.Note()
	}
	return t.own.Note()
}

// say tells what is not as it should be.
func (t *tracedFile) say(say func(format string, args ...any)) {
	if t.own != nil {
		say(estimated)
	} else if t.spec.Sessions.FollowTrace() {
		say("note: lengths of texts are estimates: 4 bytes a token")
	}
	if t.file != nil {
		sayLeftOut(t.file.Summary.Skipped, t.file.FirstSkipped, say)
	} else {
		sayLeftOut(t.own.Skipped, t.own.FirstSkipped, say)
	}
}

// replay makes a workload that of a run with --trace, or with --prompts where the file
// has texts and no conversations.
func (t *tracedFile) replay(w *workload.Spec) {
	if t.own != nil {
		w.Prompts = t.spec.Prompts
		if t.own.Outputs == t.own.Prompts {
			w.OutputTokens = workload.Length{Dist: workload.FromTrace}
		}
		return
	}
	w.Trace, w.Arrival, w.PromptTokens, w.Sessions = t.spec.Trace, t.spec.Arrival, t.spec.PromptTokens, t.spec.Sessions
	if t.spec.OutputTokens.Dist == workload.FromTrace {
		w.OutputTokens = t.spec.OutputTokens
	}
	if w.Arrival.Process == workload.ByTrace {
		w.Concurrency = 0
	}
}
