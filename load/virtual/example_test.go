package virtual_test

import (
	"context"
	"fmt"
	"time"

	"github.com/assay-bench/assay/engine"
	"github.com/assay-bench/assay/load/sched"
	"github.com/assay-bench/assay/load/virtual"
	"github.com/assay-bench/assay/record"
)

// tenSeconds is an Observer that counts, and stops the load after ten seconds.
type tenSeconds struct{ completed, tokens int }

func (o *tenSeconds) Due(record.Stamp) {}

func (o *tenSeconds) Ended(a *record.Attempt, _ []record.Event) {
	if a.Outcome == record.Completed {
		o.completed++
		o.tokens += a.Usage.CompletionTokens
	}
}

func (o *tenSeconds) Tick(now record.Stamp, _ int, _ record.Stamp) (stop, abandon bool) {
	return now >= record.Stamp(10*time.Second), false
}

// Eight requests at a time, of 512 prompt and 100 output tokens, on the default
// engine: Llama-3.1-8B on one H100.
func Example() {
	index := int64(0)
	r, err := virtual.New(virtual.Config{
		Engine: engine.DefaultConfig(),
		Load:   sched.Config{Concurrency: 8},
		Requests: sched.SourceFunc(func() (record.Request, bool) {
			index++
			return record.Request{Index: index - 1, PromptTokens: 512, MaxTokens: 100}, true
		}),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	var o tenSeconds
	if err := r.Run(context.Background(), &o); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("each completed request has 100 tokens:", o.completed > 0 && o.tokens == 100*o.completed)
	fmt.Println("the last ones ended after the stop:", r.Now() > record.Stamp(10*time.Second))
	// Output:
	// each completed request has 100 tokens: true
	// the last ones ended after the stop: true
}
