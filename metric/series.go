package metric

import (
	"math"
	"slices"

	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/stat"
)

// Second is what happened in one second of a stage.
type Second struct {
	// At is its begin in seconds from the window's start: below 0 in the warm-up.
	At    int
	Phase record.Phase
	// Due requests became due in it, Completed and Failed ended in it: those of any
	// phase, first tries and linked ones.
	Due, Completed, Failed int
	// InFlight is the time-weighted mean of the attempts between sent and ended.
	InFlight float64
	// OutputTokens of the events in it, by the time of the event. Where an event
	// does not tell its tokens it counts none.
	OutputTokens int64
	// TTFTMean and TTFTp50 in ms are of the completed requests that were due in it;
	// NaN if there are none.
	TTFTMean, TTFTp50 float64
}

// Series counts what happened in every second of a stage, of all phases. Seconds
// are laid from the window's start, so that none mixes warm-up and window.
// It keeps about 8 bytes a request.
type Series struct {
	window  record.Window
	seconds map[int]*second
}

type second struct {
	due, completed, failed int
	busy                   float64 // of attempts that began or ended in it, in seconds
	whole                  int     // change of the number in flight throughout from this second on
	tokens                 int64
	ttft                   []float64 // ms
}

// NewSeries makes an empty series of a stage with that window.
func NewSeries(w record.Window) *Series {
	return &Series{window: w, seconds: make(map[int]*second)}
}

// Add enters an attempt with its events. Neither is kept.
func (s *Series) Add(a *record.Attempt, ev []record.Event) {
	if a.Scheduled.Known() {
		due := s.at(s.secondOf(a.Scheduled))
		due.due++
		if ttft, why := TTFT(a); why == Defined && a.Outcome == record.Completed {
			due.ttft = append(due.ttft, ttft)
		}
	}
	if a.Ended.Known() {
		end := s.at(s.secondOf(a.Ended))
		if a.Outcome == record.Completed {
			end.completed++
		} else {
			end.failed++
		}
		if a.Sent.Known() {
			s.occupy(a.Sent, a.Ended)
		}
	}
	for _, e := range ev {
		if e.Tokens > 0 {
			s.at(s.secondOf(e.At)).tokens += int64(e.Tokens)
		}
	}
}

// occupy counts an attempt in flight from one stamp to another: parts of the first
// and the last second, and all between.
func (s *Series) occupy(from, to record.Stamp) {
	first, last := s.secondOf(from), s.secondOf(to)
	begin, end := s.offset(from), s.offset(to)
	if first == last {
		s.at(first).busy += end - begin
		return
	}
	s.at(first).busy += float64(first+1) - begin
	s.at(last).busy += end - float64(last)
	s.at(first+1).whole++
	s.at(last).whole--
}

func (s *Series) offset(t record.Stamp) float64 { return float64(t-s.window.Start) / 1e9 }

func (s *Series) secondOf(t record.Stamp) int { return int(math.Floor(s.offset(t))) }

func (s *Series) at(i int) *second {
	x := s.seconds[i]
	if x == nil {
		x = new(second)
		s.seconds[i] = x
	}
	return x
}

// Seconds are all from the first in which anything happened to the last, without
// a hole.
func (s *Series) Seconds() []Second {
	if len(s.seconds) == 0 {
		return nil
	}
	first, last := math.MaxInt, math.MinInt
	for i := range s.seconds {
		first, last = min(first, i), max(last, i)
	}
	out := make([]Second, 0, last-first+1)
	whole := 0
	for i := first; i <= last; i++ {
		x := s.seconds[i]
		if x == nil {
			x = new(second)
		}
		whole += x.whole
		slices.Sort(x.ttft)
		mean, median := math.NaN(), math.NaN()
		if len(x.ttft) > 0 {
			mean, median = stat.Mean(x.ttft), stat.Median(x.ttft)
		}
		out = append(out, Second{
			At: i, Phase: s.phase(i), Due: x.due, Completed: x.completed, Failed: x.failed,
			InFlight: float64(whole) + x.busy, OutputTokens: x.tokens, TTFTMean: mean, TTFTp50: median,
		})
	}
	return out
}

// phase of a second, by its begin.
func (s *Series) phase(i int) record.Phase {
	switch begin := s.window.Start + record.Stamp(i)*1e9; {
	case i < 0:
		return record.Warmup
	case begin < s.window.End:
		return record.Measured
	}
	return record.Cooldown
}
