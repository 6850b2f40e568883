package experiment

import (
	"context"
	"time"

	"github.com/assay-bench/assay/record"
)

// Observer is told what happens in a stage. A runner calls Due from wherever it
// dispatches, and the other two from one goroutine at a time.
type Observer interface {
	// Due tells of a request at the moment that it is dispatched. scheduled may
	// lie before: in an open loop the send was late or held back.
	Due(scheduled record.Stamp)
	// Ended tells of an attempt that is over. Both values are valid only during
	// the call.
	Ended(a *record.Attempt, events []record.Event)
	// Tick is called about four times a second with the requests in flight, and
	// with the scheduled time of the oldest request that is not over: all that
	// were scheduled before it have ended. It is the largest Stamp if there is
	// none. stop means: send nothing new. abandon means: cut off what is running.
	Tick(now record.Stamp, inFlight int, oldest record.Stamp) (stop, abandon bool)
}

// Runner applies a load, in real or in virtual time, and tells the Observer of
// it. Run returns when the observer stopped it and nothing is in flight.
type Runner interface {
	Run(ctx context.Context, o Observer) error
}

// Recorder keeps every attempt and its events; neither may be kept by reference.
// Flush is called about once a second, and puts what came on disk.
type Recorder interface {
	Append(a *record.Attempt, events []record.Event) error
	Flush() error
}

// Rule that ends a warm-up.
type Rule string

// The warm-up rules of MEASUREMENT.md section 5.
const (
	// MSER5 ends the warm-up when the truncation point of TTFT, TPOT and
	// in-flight lies in the first third of each series.
	MSER5 Rule = "mser5"
	// MedianRule is the seed lesson's heuristic on TTFT and TPOT.
	MedianRule Rule = "median"
	// NoWarmup opens the window at once.
	NoWarmup Rule = "none"
)

// Plan of one stage.
type Plan struct {
	// Name of the stage, "concurrency 16".
	Name string
	// OpenLoop is set when arrivals do not wait for replies.
	OpenLoop bool
	// Concurrency of a closed loop, 0 for an open one.
	Concurrency int
	// Duration of the measured window. If it is 0, Requests decides alone.
	Duration time.Duration
	// Requests that may become due in the window, 0 for no limit. With both,
	// whichever comes first closes the window. Requests of the same scheduled
	// moment as the last one are in it too: a window is an interval of time.
	Requests int
	// UntilCI closes the window as soon as these intervals are narrow enough;
	// Duration and Requests are then the most it may last.
	UntilCI UntilCI
	// Warmup is the rule that ends the warm-up, WarmupMax its cap.
	Warmup    Rule
	WarmupMax time.Duration
	// CooldownMax bounds the wait for the window's last members; those still
	// running then are censored.
	CooldownMax time.Duration
}
