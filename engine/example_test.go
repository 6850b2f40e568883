package engine_test

import (
	"fmt"
	"time"

	"github.com/assay-bench/assay/engine"
)

// Two requests on an idle H100, in virtual time.
func Example() {
	e, err := engine.New(engine.DefaultConfig())
	if err != nil {
		fmt.Println(err)
		return
	}
	for id := range uint64(2) {
		err := e.Add(0, &engine.Request{ID: id, PromptTokens: 1000, OutputTokens: 101})
		if err != nil {
			fmt.Println(err)
		}
	}
	now := int64(0)
	for e.HasWork() {
		step := e.Step(now)
		now = step.End
		for _, o := range step.Outputs {
			if !o.Finished {
				continue
			}
			r := o.Request
			ttft := time.Duration(r.FirstToken - r.Queued)
			tpot := time.Duration(r.LastToken-r.FirstToken) / time.Duration(r.Generated-1)
			fmt.Printf("request %d: TTFT %v, TPOT %v, %s\n",
				r.ID, ttft.Round(time.Millisecond), tpot.Round(100*time.Microsecond), o.FinishReason)
		}
	}
	// Output:
	// request 0: TTFT 45ms, TPOT 6.6ms, length
	// request 1: TTFT 45ms, TPOT 6.6ms, length
}

// A capacity question: how many tokens of context fit on two GPUs?
func ExampleTables_Model() {
	tables := engine.DefaultTables()
	gpu, _ := tables.GPU("h100")
	model, err := tables.Model("Qwen/Qwen3-32B")
	if err != nil {
		fmt.Println(err)
		return
	}
	cfg := engine.ConfigFor(gpu, model, 2)
	fmt.Printf("%d thousand tokens\n", cfg.KVCapacityTokens()/1000)
	// Output: 276 thousand tokens
}
