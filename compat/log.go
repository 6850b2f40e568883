package compat

import (
	"github.com/assay-bench/assay/metric"
	"github.com/assay-bench/assay/record"
)

// Log gathers what the definitions of other tools need of a run's attempts. It
// keeps about 150 bytes a request and 8 a gap. Make one with [NewLog].
type Log struct {
	window record.Window
	all    bool

	requests []request
	// Pooled gaps in ms: between events with choices, and those between texts
	// with a zero for each further token of an event.
	choiceGaps, zeroFilledGaps []float64
}

// request is what other tools would have seen of one attempt, in ms.
type request struct {
	success bool // by a completed reply
	// http200 is a reply that began with status 200 and no client-side exception.
	http200 bool
	// reached: something was sent.
	reached bool

	start, sent, end            float64 // since the epoch: dispatched, sent, end of body
	firstChoice, lastChoice     float64 // known is 0 for none
	lastFrame                   float64 // last event that is not the terminal marker
	firstContent, lastContent   float64 // answer or reasoning text
	firstText, lastText         float64 // any generated text
	firstAnswer, lastAnswer     float64
	frames, choices, textEvents int
	// n and prompt of usage; n is -1 if it was not told.
	n, prompt int
	streamed  bool
}

const nsPerMS = 1e6

// NewLog takes the requests scheduled in a window, or with all those of every
// phase, as tools without phases do.
func NewLog(w record.Window, all bool) *Log { return &Log{window: w, all: all} }

// Add enters an attempt with its events, of which neither is kept.
func (l *Log) Add(a *record.Attempt, events []record.Event) {
	if a.Phase == record.Prewarm || !l.all && !l.window.Contains(a.Scheduled) {
		return
	}
	ms := func(s record.Stamp) float64 { return float64(s) / nsPerMS }
	r := request{
		success: a.Outcome == record.Completed, reached: a.Sent.Known(), streamed: a.Streamed,
		start: ms(a.Dispatched), sent: ms(a.Sent), end: ms(max(a.EOF, a.Ended)),
		firstText: ms(a.FirstText), lastText: ms(a.LastText), firstAnswer: ms(a.FirstAnswer), n: -1,
	}
	switch a.Outcome {
	case record.Completed, record.Truncated, record.StreamError:
		r.http200 = a.Status == 200 || a.Status == 0
	}
	if n, ok := metric.Tokens(a); ok {
		r.n, r.prompt = n, a.Usage.PromptTokens
	}
	l.walk(&r, events)
	l.requests = append(l.requests, r)
}

// walk looks at the frames one by one.
func (l *Log) walk(r *request, events []record.Event) {
	var lastGapText float64
	for i := range events {
		e := &events[i]
		at := float64(e.At) / nsPerMS
		if e.Flags.Has(record.FlagDone) && !e.Flags.Has(record.FlagText|record.FlagUsage|record.FlagFinish) {
			continue
		}
		r.frames++
		r.lastFrame = at
		if hasChoices(e) {
			if r.choices == 0 {
				r.firstChoice = at
			} else if r.http200 {
				l.choiceGaps = append(l.choiceGaps, at-r.lastChoice)
			}
			r.lastChoice = at
			r.choices++
		}
		if e.Flags.Has(record.FlagAnswer | record.FlagReasoning) {
			if r.firstContent == 0 {
				r.firstContent = at
			}
			r.lastContent = at
		}
		if e.Flags.Has(record.FlagAnswer) {
			r.lastAnswer = at
			if r.success && r.n > 1 {
				l.fill(lastGapText, at, int(e.Tokens))
			}
			lastGapText = at
		}
		if e.Flags.Has(record.FlagText) {
			r.textEvents++
		}
	}
}

// fill enters the gap before a chunk and a zero for each token of it but one.
func (l *Log) fill(before, at float64, tokens int) {
	if before > 0 {
		l.zeroFilledGaps = append(l.zeroFilledGaps, at-before)
	}
	for range tokens - 1 {
		l.zeroFilledGaps = append(l.zeroFilledGaps, 0)
	}
}

// hasChoices reports whether an event has a list of choices that is not empty:
// all but usage frames, errors and what is not of the dialect.
func hasChoices(e *record.Event) bool {
	if e.Flags.Has(record.FlagError | record.FlagOther) {
		return false
	}
	usageOnly := e.Flags.Has(record.FlagUsage) && !e.Flags.Has(record.FlagText|record.FlagFinish|record.FlagRole)
	return !usageOnly
}
